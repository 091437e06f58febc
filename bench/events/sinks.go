package events

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/events/kafkasink"
	"github.com/jajeong/jajeong/internal/events/redissink"
)

const (
	stream, bareStream = "coupon:events", "bare"
	pipelined          = 200 // XADDs of one pipeline
	partitions         = 3
	readWithin         = time.Minute // all events of a topic
)

// streams are the streams of Redis for the relay and for the bare program.
type streams struct{ *stage.Redis }

func (s streams) close() {}

func (s streams) sink() (events.Sink, error) {
	rdb, err := (&connect.RedisSettings{RedisAddrs: []string{s.Addr()}}).Open()
	if err != nil {
		return nil, err
	}
	return redissink.New(rdb, redissink.Options{Stream: stream, Retention: time.Hour})
}

// bare writes by pipelines of XADD on one connection.
func (s streams) bare(ctx context.Context, messages []events.Message) (int, time.Duration, error) {
	began := time.Now()
	for some := range slices.Chunk(messages, pipelined) {
		_, err := s.RDB.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, m := range some {
				pipe.XAdd(ctx, &redis.XAddArgs{Stream: bareStream, Values: []any{"event", m.Body}})
			}
			return nil
		})
		if err != nil {
			return 0, 0, err
		}
	}
	took := time.Since(began)
	n, err := s.RDB.XLen(ctx, bareStream).Result()
	return int(n), took, err
}

func (s streams) read(ctx context.Context) ([][][]byte, error) {
	entries, err := s.RDB.XRange(ctx, stream, "-", "+").Result()
	all := make([][]byte, len(entries))
	for i, entry := range entries {
		body, _ := entry.Values["event"].(string)
		all[i] = []byte(body)
	}
	return [][][]byte{all}, err
}

// scriptTime returns how long a script has held Redis on average.
func scriptTime(ctx context.Context, rdb *redis.Client) (time.Duration, error) {
	info, err := rdb.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	_, line, _ := strings.Cut(info, "cmdstat_evalsha:")
	var calls, micros int64
	if _, err := fmt.Sscanf(line, "calls=%d,usec=%d", &calls, &micros); err != nil || calls == 0 {
		return 0, fmt.Errorf("read the time of scripts: %q: %w", line, err)
	}
	return time.Duration(micros) * time.Microsecond / time.Duration(calls), nil
}

// topics are the topics of Kafka for the relay and for the bare program.
type topics struct {
	options []kgo.Opt
	admin   *kadm.Client
	names   [2]string // of the relay, and of the bare program
}

func (m *measurement) newTopics(ctx context.Context) (*topics, error) {
	options, err := (&connect.KafkaSettings{KafkaBrokers: m.brokers}).Options(zap.NewNop())
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	m.topics++
	t := &topics{options: slices.Clip(options), admin: kadm.NewClient(client)}
	for i, of := range []string{"relay", "bare"} {
		t.names[i] = fmt.Sprintf("jajeong-bench-%d-%d-%s", os.Getpid(), m.topics, of)
		if _, err := t.admin.CreateTopic(ctx, partitions, -1, nil, t.names[i]); err != nil {
			t.close()
			return nil, fmt.Errorf("create topic %s: %w", t.names[i], err)
		}
	}
	return t, nil
}

func (t *topics) close() {
	_, _ = t.admin.DeleteTopics(context.Background(), t.names[:]...)
	t.admin.Close()
}

func (t *topics) sink() (events.Sink, error) { return kafkasink.New(t.names[0], t.options...) }

// bare writes by a producer with its defaults (all in-sync replicas acknowledge), everything at once.
func (t *topics) bare(ctx context.Context, messages []events.Message) (int, time.Duration, error) {
	client, err := kgo.NewClient(append(t.options, kgo.DefaultProduceTopic(t.names[1]))...)
	if err != nil {
		return 0, 0, err
	}
	defer client.Close()
	var once sync.Once
	var failure error
	began := time.Now()
	for i := range messages {
		record := &kgo.Record{Key: []byte(messages[i].Key), Value: messages[i].Body}
		client.Produce(ctx, record, func(_ *kgo.Record, err error) {
			if err != nil {
				once.Do(func() { failure = err })
			}
		})
	}
	err = client.Flush(ctx) // waits for the callbacks
	took := time.Since(began)
	if err == nil {
		err = failure
	}
	if err != nil {
		return 0, 0, err
	}
	n, err := t.records(ctx, t.names[1])
	return int(n), took, err
}

// records returns how many records a topic has.
func (t *topics) records(ctx context.Context, name string) (n int64, err error) {
	ends, err := t.admin.ListEndOffsets(ctx, name)
	if err == nil {
		err = ends.Error()
	}
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n, err
}

func (t *topics) read(ctx context.Context) ([][][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	records, err := t.records(ctx, t.names[0])
	if err != nil {
		return nil, err
	}
	from := kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())
	client, err := kgo.NewClient(append(t.options, kgo.ConsumeTopics(t.names[0]), from)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	all := make([][][]byte, partitions)
	for records > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			all[r.Partition] = append(all[r.Partition], r.Value)
			records--
		})
	}
	return all, nil
}
