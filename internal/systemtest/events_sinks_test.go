package systemtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jajeong/jajeong/internal/testenv"
)

// streamSink is a stream in a private Redis.
type streamSink struct {
	server *testenv.Redis
	client *redis.Client
	stream string // of the deployment
	chance *rand.Rand
	loses  bool // at a kill, the end of what it has acknowledged
	kills  int
	safe   int64 // size of the append-only file before which nothing gets lost
}

func newStreamSink(t testing.TB, server *testenv.Redis, loses bool) *streamSink {
	t.Helper()
	return &streamSink{server: server, chance: testenv.Random(t), loses: loses,
		client: testenv.RedisClient(t, server.Addr())}
}

func (s *streamSink) name() string { return "redis" }

func (s *streamSink) flags() []string {
	return []string{"--event-sink=redis", "--event-redis-addrs=" + s.server.Addr()}
}

// mayLose is about two thousand events.
const mayLose = 1 << 20

// kill also cuts off the end of the append-only file, every other time, in the middle of a command or of a transaction.
func (s *streamSink) kill() error {
	err := s.server.Kill()
	if s.kills++; err != nil || !s.loses || s.kills%2 == 0 {
		return err
	}
	path, size, err := s.file()
	if err != nil {
		return err
	}
	return os.Truncate(path, max(s.safe, size-s.chance.Int64N(mayLose)))
}

// file is the append-only file.
func (s *streamSink) file() (path string, size int64, err error) {
	found, err := filepath.Glob(filepath.Join(s.server.Dir(), "appendonlydir", "*.incr.aof"))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("append-only files: %v", found)
	}
	if err != nil {
		return "", 0, err
	}
	info, err := os.Stat(found[0])
	if err != nil {
		return "", 0, err
	}
	return found[0], info.Size(), nil
}

func (s *streamSink) restart(ctx context.Context) error { return s.server.Restart(ctx) }

func (s *streamSink) consume(over context.Context, heard *heard) {
	for last := "0"; over.Err() == nil; {
		streams, err := s.client.XRead(over, &redis.XReadArgs{Streams: []string{s.stream, last}, Count: 1_000,
			Block: 100 * time.Millisecond}).Result()
		if err != nil {
			if err != redis.Nil {
				pause(over, 10*time.Millisecond)
			}
			continue
		}
		last = heard.addEntries(streams[0].Messages)
	}
}

// addEntries returns the id of the last entry.
func (h *heard) addEntries(entries []redis.XMessage) (last string) {
	for _, entry := range entries {
		body, ok := entry.Values["event"].(string)
		if !ok || len(entry.Values) != 1 {
			h.wrong = append(h.wrong, fmt.Sprint(entry))
		}
		h.add(0, body)
		last = entry.ID
	}
	return last
}

func (s *streamSink) contents(ctx context.Context) (*heard, error) {
	h := newHeard()
	for from := "-"; ; {
		entries, err := s.client.XRangeN(ctx, s.stream, from, "+", 1_000).Result()
		if err != nil || len(entries) == 0 {
			return h, err
		}
		from = "(" + h.addEntries(entries)
	}
}

// age makes publications an hour old. After the next kill, the relay publishes again only what came later, and the file
// may be cut behind its size of now. A kill that the relay has not noticed yet leaves everything as it is.
func (s *streamSink) age(m *mall) {
	m.T.Helper()
	ctx := m.T.Context()
	info, err := s.client.InfoMap(ctx, "server").Result()
	require.NoError(m.T, err)
	tx, err := m.DB.BeginTx(ctx, nil)
	require.NoError(m.T, err)
	defer func() { _ = tx.Rollback() }()
	var server string
	require.NoError(m.T, tx.QueryRow("SELECT server FROM event_relay WHERE sink = ? FOR UPDATE",
		s.name()).Scan(&server))
	if !strings.HasPrefix(server, info["Server"]["run_id"]) {
		return
	}
	_, size, err := s.file()
	require.NoError(m.T, err)
	for _, table := range []string{"settlement", "coupon_log"} {
		_, err = tx.Exec("UPDATE " + table + ` SET published_at = published_at - INTERVAL 1 HOUR
			WHERE published_at > UTC_TIMESTAMP(6) - INTERVAL 30 MINUTE`)
		require.NoError(m.T, err)
	}
	require.NoError(m.T, tx.Commit())
	s.safe = size
}

// topicSink is a topic of a private Kafka broker, which keeps everything that it has acknowledged.
type topicSink struct {
	t      testing.TB
	broker *testenv.Kafka
}

const (
	mallTopic      = "coupon-events"
	mallPartitions = 4
)

func newTopicSink(t testing.TB) *topicSink {
	t.Helper()
	return &topicSink{t, testenv.PrivateKafka(t,
		testenv.KafkaOptions{Topics: map[string]int32{mallTopic: mallPartitions}})}
}

func (s *topicSink) name() string { return "kafka" }

func (s *topicSink) flags() []string {
	return []string{"--event-sink=kafka", "--kafka-brokers=" + s.broker.Addr(), "--kafka-topic=" + mallTopic}
}

func (s *topicSink) kill() error                       { return s.broker.Kill() }
func (s *topicSink) restart(ctx context.Context) error { return s.broker.Restart(ctx) }
func (s *topicSink) age(*mall)                         {}

func (s *topicSink) open() (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(s.broker.Addr()), kgo.ConsumeTopics(mallTopic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
}

func (s *topicSink) consume(over context.Context, heard *heard) {
	client, err := s.open()
	if err != nil {
		s.t.Error(err)
		return
	}
	defer client.Close()
	for over.Err() == nil {
		client.PollFetches(over).EachRecord(heard.addRecord)
	}
}

func (h *heard) addRecord(r *kgo.Record) {
	f, err := parseFact(r.Value)
	if err != nil || string(r.Key) != f.Subject {
		h.wrong = append(h.wrong, fmt.Sprintf("%s: %s", r.Key, r.Value))
	}
	h.add(r.Partition, string(r.Value))
}

func (s *topicSink) contents(ctx context.Context) (*heard, error) {
	client, err := s.open()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, mallTopic)
	if err != nil {
		return nil, err
	}
	var all int64
	ends.Each(func(o kadm.ListedOffset) { all += o.Offset })
	h := newHeard()
	for h.all.Load() < all && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(h.addRecord)
	}
	return h, ctx.Err()
}
