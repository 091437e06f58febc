package testenv

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/jajeong/jajeong/internal/testenv/process"
)

// KafkaOptions are the settings of a private Kafka broker.
type KafkaOptions struct {
	Topics                        map[string]int32 // partitions of the topics that exist from the start
	Mechanism, Username, Password string           // of SASL; without a mechanism, no login is needed
	TLS                           bool             // with a certificate for 127.0.0.1 that signs itself: see CAFile
}

// Kafka is a private broker that keeps acknowledged records over Kill and Restart. Its methods may be called in
// parallel.
type Kafka struct{ *process.Server }

// CAFile returns the path of the certificate of a broker with TLS.
func (k *Kafka) CAFile() string { return filepath.Join(k.Dir(), "ca.pem") }

// PrivateKafka starts a broker for this test alone, which may kill and freeze it.
func PrivateKafka(t testing.TB, opts KafkaOptions) *Kafka {
	t.Helper()
	NeedsServers(t)
	program := Build(t, "./internal/testenv/kafka")
	return private(t, func(ctx context.Context, opts KafkaOptions) (*Kafka,
		error) {
		return StartKafka(ctx, program, opts)
	}, opts)
}

// StartKafka starts a broker, for programs without tests. program is the built internal/testenv/kafka.
func StartKafka(ctx context.Context, program string, opts KafkaOptions) (*Kafka, error) {
	settings := struct {
		KafkaOptions
		Certificate, PrivateKey string
	}{KafkaOptions: opts}
	files := map[string][]byte{}
	if opts.TLS {
		certificate, key, err := selfSigned()
		if err != nil {
			return nil, fmt.Errorf("make a certificate: %w", err)
		}
		settings.Certificate, settings.PrivateKey, files["ca.pem"] = string(certificate), string(key), certificate
	}
	var err error
	if files["settings.json"], err = json.Marshal(settings); err != nil {
		return nil, err
	}
	s, err := process.Start(ctx, process.Program{
		Name:  "kafka",
		Path:  program,
		Files: files,
		Args:  func(dir string, port int) []string { return []string{dir, strconv.Itoa(port)} },
		Ready: kafkaReady,
	})
	if err != nil {
		return nil, err
	}
	return &Kafka{s}, nil
}

// kafkaReady reports whether this process of a broker, not one before it, listens.
func kafkaReady(_ context.Context, s process.Instance) error {
	pid, err := os.ReadFile(filepath.Join(s.Dir, "ready"))
	if err == nil && string(pid) != strconv.Itoa(s.Pid) {
		return errors.New("it does not listen yet")
	}
	return err
}

func selfSigned() (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kafka"},
		NotAfter:    time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), err
}

// KafkaHandle is a test's share of a Kafka cluster.
type KafkaHandle struct {
	Brokers []string
	Topic   string // no other test has it
}

// KafkaFor returns an empty topic on the cluster in TEST_KAFKA_BROKERS, or on a private broker. It is removed at the
// end of the test.
func KafkaFor(t testing.TB, partitions int32) KafkaHandle {
	t.Helper()
	h := KafkaHandle{Topic: "jajeong-test-" + randomName()}
	if addrs := os.Getenv("TEST_KAFKA_BROKERS"); addrs != "" {
		NeedsServers(t)
		h.Brokers = strings.Split(strings.ReplaceAll(addrs, " ", ""), ",")
		if err := h.create(Patient(t), partitions); err != nil {
			t.Fatalf("testenv: create topic at TEST_KAFKA_BROKERS=%s: %v", addrs, err)
		}
		t.Cleanup(func() {
			if err := h.remove(process.PatientCleanUp(t)); err != nil {
				t.Errorf("testenv: delete topic %s: %v", h.Topic, err)
			}
		})
		return h
	}
	h.Brokers = []string{PrivateKafka(t, KafkaOptions{Topics: map[string]int32{h.Topic: partitions}}).Addr()}
	return h
}

// create leaves the number of replicas to the cluster.
func (h KafkaHandle) create(ctx context.Context, partitions int32) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(h.Brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	request, topic := kmsg.NewPtrCreateTopicsRequest(), kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = h.Topic, partitions, -1
	request.Topics = append(request.Topics, topic)
	reply, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(reply.Topics[0].ErrorCode)
}

func (h KafkaHandle) remove(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(h.Brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	request, topic := kmsg.NewPtrDeleteTopicsRequest(), kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = &h.Topic
	request.Topics, request.TopicNames = append(request.Topics, topic), []string{h.Topic}
	reply, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(reply.Topics[0].ErrorCode)
}
