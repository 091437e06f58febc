package kafkasink

import (
	"context"
	"encoding/binary"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/process"
)

const topic = "coupon-events"

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.WithServers{M: m}) }

func newSink(t *testing.T, settings connect.KafkaSettings, more ...kgo.Opt) *Sink {
	t.Helper()
	options, err := settings.Options(zaptest.NewLogger(t))
	require.NoError(t, err)
	s, err := New(settings.KafkaTopic, append(options, more...)...)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

var place = events.Place{Server: server}

func deliver(ctx context.Context, s *Sink, messages []events.Message) (delivered int, err error) {
	delivered, _, err = s.Publish(ctx, place, messages)
	return delivered, err
}

// messages have their number, counted from first, as body. Keys repeat.
func messages(first, count int) []events.Message {
	all := make([]events.Message, count)
	for i := range all {
		all[i] = events.Message{Key: strconv.Itoa((first + i) % 97),
			Body: fmt.Appendf(nil, `{"n":%d,"padding":%q}`, first+i, strings.Repeat("가", 100))}
	}
	return all
}

// stored is a record as kcat prints it.
type stored struct {
	partition        int32
	key, body, heads string
}

// read reads every record of a topic with a client that is not ours, each partition in order.
func read(t *testing.T, brokers []string, topic string, partitions int32, settings ...string) (all []stored) {
	t.Helper()
	kcat, err := process.Find("kcat")
	require.NoError(t, err, "to install it: make setup")
	for p := range partitions {
		args := []string{"-C", "-b", strings.Join(brokers, ","), "-t", topic, "-p", fmt.Sprint(p), "-o", "beginning",
			"-e", "-q", "-f", "%p\t%k\t%h\t%s\n"}
		for _, setting := range settings {
			args = append(args, "-X", setting)
		}
		output, err := exec.CommandContext(testenv.Patient(t), kcat, args...).CombinedOutput()
		require.NoError(t, err, "%s", output)
		for line := range strings.Lines(string(output)) {
			fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 4)
			require.Len(t, fields, 4, line)
			number, err := strconv.ParseInt(fields[0], 10, 32)
			require.NoError(t, err)
			all = append(all, stored{partition: int32(number), key: fields[1], heads: fields[2], body: fields[3]})
		}
	}
	return all
}

// partitionOf is how Java's producers choose a partition: https://github.com/apache/kafka Utils.murmur2.
func partitionOf(key string, partitions int32) int32 {
	const m = 0x5bd1e995
	data := []byte(key)
	h := uint32(0x9747b28c) ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := binary.LittleEndian.Uint32(data) * m
		h = h*m ^ (k^k>>24)*m
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(data[0])) * m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return int32(h&0x7fffffff) % partitions
}

// requireFirstInOrder requires that every message is stored, unchanged, and for the first time behind all earlier
// messages of its partition. It returns the number of duplicates.
func requireFirstInOrder(t *testing.T, want []events.Message, all []stored, partitions int32) (duplicates int) {
	t.Helper()
	expected := map[int32][]events.Message{}
	for _, m := range want {
		p := partitionOf(m.Key, partitions)
		expected[p] = append(expected[p], m)
	}
	seen := map[string]bool{}
	for _, got := range all {
		if seen[got.body] {
			duplicates++
			continue
		}
		seen[got.body] = true
		require.NotEmpty(t, expected[got.partition], "an unknown message %s", got.body)
		next := expected[got.partition][0]
		require.Equal(t, stored{got.partition, next.Key, string(next.Body), "content-type=" + contentType}, got)
		expected[got.partition] = expected[got.partition][1:]
	}
	for p, missing := range expected {
		require.Empty(t, missing, "partition %d", p)
	}
	return duplicates
}
