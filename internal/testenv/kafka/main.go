// Command kafka is a Kafka broker for tests. It keeps its data in a folder and acknowledges records when they are on
// disk, so that a killed broker loses none.
package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

// settings are those of testenv.KafkaOptions.
type settings struct {
	Topics                        map[string]int32 // partitions by topic
	Mechanism, Username, Password string           // without a mechanism: no login
	Certificate, PrivateKey       string           // PEM; empty: no TLS
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: kafka FOLDER PORT")
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// run reads settings.json in the folder and writes its process id to the file ready when the broker listens.
func run(dir, port string) error {
	var s settings
	content, err := os.ReadFile(filepath.Join(dir, "settings.json"))
	if err == nil {
		err = json.Unmarshal(content, &s)
	}
	if err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	options, err := s.options()
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	cluster, err := kfake.NewCluster(append(options, kfake.Ports(number), kfake.DataDir(filepath.Join(dir, "data")))...)
	if err != nil {
		return err
	}
	defer cluster.Close()
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt, syscall.SIGTERM)
	if err := os.WriteFile(filepath.Join(dir, "ready"), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	<-end
	return nil
}

func (s *settings) options() ([]kfake.Opt, error) {
	options := []kfake.Opt{kfake.NumBrokers(1), kfake.SyncWrites(),
		kfake.WithLogger(kfake.BasicLogger(os.Stderr, kfake.LogLevelWarn))}
	for topic, partitions := range s.Topics {
		options = append(options, kfake.SeedTopics(partitions, topic))
	}
	if s.Mechanism != "" {
		options = append(options, kfake.EnableSASL(), kfake.Superuser(s.Mechanism, s.Username, s.Password))
	}
	if s.Certificate != "" {
		pair, err := tls.X509KeyPair([]byte(s.Certificate), []byte(s.PrivateKey))
		if err != nil {
			return nil, err
		}
		options = append(options, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}))
	}
	return options, nil
}
