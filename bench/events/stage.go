package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/bench/database"
	"github.com/jajeong/jajeong/bench/process"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
)

const toRedis, toKafka = "redis", "kafka"

var sinks = []string{toRedis, toKafka}

// target is where both the relay and the bare program publish.
type target interface {
	sink() (events.Sink, error)
	// bare writes the messages without the relay, elsewhere on the same server. bared is how many arrived.
	bare(ctx context.Context, messages []events.Message) error
	bared(ctx context.Context) (int64, error)
	// read returns what the relay has published, by partition.
	read(ctx context.Context) (partitions [][][]byte, err error)
	// remove removes everything.
	remove(ctx context.Context) error
}

// stage has the servers of all measurements.
type stage struct {
	mysql   *database.Server
	redis   *testenv.Redis
	kafka   *testenv.Kafka // nil with KAFKA_BROKERS
	brokers []string
	topics  int // that were made

	folder       string
	redisVersion string
}

func openStage(ctx context.Context) (*stage, error) {
	s := &stage{}
	if err := s.open(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stage) open(ctx context.Context) (err error) {
	if s.folder, err = os.MkdirTemp("", "bench-events-"); err != nil {
		return err
	}
	if s.mysql, err = database.Start(ctx); err != nil {
		return err
	}
	if s.redis, err = testenv.StartRedis(ctx, testenv.RedisOptions{AppendOnly: true}); err != nil {
		return err
	}
	if given := os.Getenv("KAFKA_BROKERS"); given != "" {
		s.brokers = strings.Split(given, ",")
	} else if err := s.startKafka(ctx); err != nil {
		return err
	}
	rdb, err := s.client()
	if err != nil {
		return err
	}
	defer rdb.Close()
	info, err := rdb.Info(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("read the version of Redis: %w", err)
	}
	_, version, _ := strings.Cut(info, "redis_version:")
	s.redisVersion, _, _ = strings.Cut(version, "\r")
	return nil
}

func (s *stage) startKafka(ctx context.Context) error {
	program, err := testenv.BuildBinary(ctx, s.folder, "./internal/testenv/kafka")
	if err != nil {
		return err
	}
	if s.kafka, err = testenv.StartKafka(ctx, program, testenv.KafkaOptions{}); err != nil {
		return err
	}
	s.brokers = []string{s.kafka.Addr()}
	return nil
}

func (s *stage) kafkaVersion() string {
	if s.kafka == nil {
		return "Kafka of KAFKA_BROKERS"
	}
	return "a test broker of Kafka (kfake)"
}

func (s *stage) close() {
	if s.kafka != nil {
		_ = s.kafka.Stop()
	}
	if s.redis != nil {
		_ = s.redis.Stop()
	}
	if s.mysql != nil {
		s.mysql.Close()
	}
	_ = os.RemoveAll(s.folder)
}

// watchOthers returns how many cores programs other than those of the bench have used since.
func (s *stage) watchOthers() func() float64 {
	pids := []int{os.Getpid(), s.redis.Pid(), s.mysql.Pid()}
	if s.kafka != nil {
		pids = append(pids, s.kafka.Pid())
	}
	others := func() time.Duration {
		busy := process.Busy()
		for _, pid := range pids {
			busy -= process.CPUTime(pid)
		}
		return busy
	}
	began, before := time.Now(), others()
	return func() float64 { return max(0, (others()-before).Seconds()/time.Since(began).Seconds()) }
}

func (s *stage) client() (redis.UniversalClient, error) {
	return (&connect.RedisSettings{RedisAddrs: []string{s.redis.Addr()}}).Open()
}

func (s *stage) target(ctx context.Context, name string) (target, error) {
	if name == toRedis {
		return &streams{s}, nil
	}
	return s.newTopics(ctx)
}

// kept is a sink that keeps what it published, and measures how long that took.
type kept struct {
	events.Sink
	messages []events.Message
	spent    time.Duration
}

func (k *kept) Publish(ctx context.Context, at events.Place, messages []events.Message) (int, string, error) {
	began := time.Now()
	n, last, err := k.Sink.Publish(ctx, at, messages)
	k.spent += time.Since(began)
	k.messages = append(k.messages, messages[:n]...)
	return n, last, err
}

// measure publishes once by the relay, and once the same bytes without it.
func (s *stage) measure(ctx context.Context, sc scene, name string, n int) (r result, err error) {
	_, database, drop, err := s.mysql.Fresh(ctx, 1, n)
	if err != nil {
		return r, err
	}
	defer drop()
	db, err := (&connect.MySQLSettings{MySQLDSN: s.mysql.DSN(database)}).Open(connect.Patient, zap.NewNop())
	if err != nil {
		return r, err
	}
	defer db.Close()
	to, err := s.target(ctx, name)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, to.remove(context.WithoutCancel(ctx))) }()
	sink, err := to.sink()
	if err != nil {
		return r, err
	}
	defer sink.Close()
	through := &kept{Sink: sink, messages: make([]events.Message, 0, n)}
	relay := events.NewRelay(events.Config{Name: name, Sink: through, Locks: mysqltx.NewBrief(db), Rows: db, Now: time.Now})
	if _, err := publish(ctx, relay); err != nil { // turns events on
		return r, err
	}
	if err := sc.write(ctx, db, n); err != nil {
		return r, err
	}
	if err := s.forgetScripts(ctx); err != nil {
		return r, err
	}
	runtime.GC()
	began := time.Now()
	r.events, err = publish(ctx, relay)
	if r.relay, r.inSink = time.Since(began), through.spent; err != nil {
		return r, err
	}
	if r.events != n {
		return r, fmt.Errorf("the relay published %d events of %d", r.events, n)
	}
	if name == toRedis {
		if r.page, err = s.scriptTime(ctx); err != nil {
			return r, err
		}
	}
	for i := range through.messages {
		r.bytes += len(through.messages[i].Body)
	}
	runtime.GC()
	began = time.Now()
	if err := to.bare(ctx, through.messages); err != nil {
		return r, err
	}
	r.bare = time.Since(began)
	if arrived, err := to.bared(ctx); err != nil || arrived != int64(n) {
		return r, fmt.Errorf("%d events of the bare program arrived, want %d: %w", arrived, n, err)
	}
	want, err := sc.wanted(ctx, db)
	if err != nil {
		return r, err
	}
	found, err := to.read(ctx)
	if err != nil {
		return r, err
	}
	r.fault, err = judge(want, found)
	return r, err
}

func publish(ctx context.Context, relay *events.Relay) (published int, err error) {
	for round := (events.Round{More: true}); round.More && err == nil; {
		round, err = relay.Round(ctx)
		published += round.Published
	}
	return published, err
}
