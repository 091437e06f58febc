package kafkasink

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/text"
)

// readSince returns the bodies that came at since or later, and since when the topic has everything.
func readSince(t *testing.T, s *Sink, since time.Time) (bodies []string, from time.Time) {
	t.Helper()
	from, err := s.Read(testenv.Patient(t), since, func(page [][]byte) error {
		require.LessOrEqual(t, len(page), readRecords)
		for _, body := range page {
			bodies = append(bodies, string(body))
		}
		return nil
	})
	require.NoError(t, err)
	return bodies, from
}

func bodiesOf(all []events.Message) (bodies []string) {
	for _, m := range all {
		bodies = append(bodies, string(m.Body))
	}
	return bodies
}

// aged appends a record that came at a time to a partition.
func aged(t *testing.T, h testenv.KafkaHandle, partition int32, at time.Time, body string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(h.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer client.Close()
	record := &kgo.Record{Topic: h.Topic, Partition: partition, Timestamp: at, Value: []byte(body)}
	require.NoError(t, client.ProduceSync(testenv.Patient(t), record).FirstErr())
}

// trim deletes the records of a partition before an offset.
func trim(t *testing.T, s *Sink, topic string, partition int32, before int64) {
	t.Helper()
	var offsets kadm.Offsets
	offsets.AddOffset(topic, partition, before, -1)
	client, err := s.open()
	require.NoError(t, err)
	deleted, err := kadm.NewClient(client).DeleteRecords(testenv.Patient(t), offsets)
	require.NoError(t, err)
	require.NoError(t, deleted.Error())
}

func TestRead_PassesWhatTheTopicHas(t *testing.T) {
	t.Parallel()
	const partitions = 3
	h := testenv.KafkaFor(t, partitions)
	s := newSink(t, connect.KafkaSettings{KafkaBrokers: h.Brokers, KafkaTopic: h.Topic})
	bodies, from := readSince(t, s, time.Time{})
	require.Empty(t, bodies, "nothing was published yet")
	require.Zero(t, from)

	now := time.Now().Truncate(time.Millisecond)
	aged(t, h, 0, now.Add(-3*time.Hour), "old")
	aged(t, h, 1, now.Add(-2*time.Hour), "younger")
	all := messages(0, 2_000)
	_, err := deliver(t.Context(), s, all)
	require.NoError(t, err)
	bodies, from = readSince(t, s, now.Add(-time.Hour))
	require.ElementsMatch(t, bodiesOf(all), bodies)
	require.True(t, now.Add(-3*time.Hour).Equal(from), "the topic never lost a record: %s", from)
	bodies, _ = readSince(t, s, now.Add(-150*time.Minute))
	require.ElementsMatch(t, append(bodiesOf(all), "younger"), bodies)
	bodies, _ = readSince(t, s, time.Time{})
	require.Len(t, bodies, len(all)+2)

	aged(t, h, 0, now.Add(-90*time.Minute), "late")
	client, err := s.open()
	require.NoError(t, err)
	ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), h.Topic)
	require.NoError(t, err)
	trim(t, s, h.Topic, 0, ends[h.Topic][0].Offset-1)
	bodies, from = readSince(t, s, time.Time{})
	require.Contains(t, bodies, "younger")
	require.NotContains(t, bodies, "old")
	require.True(t, now.Add(-90*time.Minute).Equal(from), "the partition that lost records counts: %s", from)
	trim(t, s, h.Topic, 0, ends[h.Topic][0].Offset)
	bodies, from = readSince(t, s, time.Time{})
	require.NotContains(t, bodies, "late")
	require.Zero(t, from, "a partition has lost everything")
}

// manyMessages are more than a client fetches ahead, also compressed.
func manyMessages() []events.Message {
	all, random := messages(0, 20_000), rand.NewChaCha8([32]byte{})
	for i := range all {
		noise := make([]byte, 400)
		_, _ = random.Read(noise)
		all[i].Body = append(strconv.AppendInt(nil, int64(i), 10), noise...)
	}
	return all
}

// The reading ends although a relay publishes meanwhile.
func TestRead_EndsAtTheLastRecordOfTheCall(t *testing.T) {
	t.Parallel()
	h := testenv.KafkaFor(t, 2)
	settings := connect.KafkaSettings{KafkaBrokers: h.Brokers, KafkaTopic: h.Topic}
	s, relay := newSink(t, settings), newSink(t, settings)
	all := manyMessages()
	_, err := deliver(t.Context(), relay, all)
	require.NoError(t, err)
	var bodies []string
	_, err = s.Read(testenv.Patient(t), time.Time{}, func(page [][]byte) error {
		for _, body := range page {
			bodies = append(bodies, string(body))
		}
		_, err := deliver(t.Context(), relay, messages(len(all)+len(bodies), 100))
		return err
	})
	require.NoError(t, err)
	require.ElementsMatch(t, bodiesOf(all), bodies)
}

func TestRead_ReturnsErrors(t *testing.T) {
	t.Parallel()
	broker := testenv.PrivateKafka(t, testenv.KafkaOptions{Topics: map[string]int32{topic: 1}})
	s := newSink(t, connect.KafkaSettings{KafkaBrokers: []string{broker.Addr()}, KafkaTopic: topic})
	_, err := deliver(t.Context(), s, manyMessages())
	require.NoError(t, err)
	wrong, pages := errors.New("wrong"), 0
	_, err = s.Read(testenv.Patient(t), time.Time{}, func([][]byte) error { pages++; return wrong })
	require.ErrorIs(t, err, wrong)
	require.Equal(t, 1, pages)

	other := newSink(t, connect.KafkaSettings{KafkaBrokers: []string{broker.Addr()}, KafkaTopic: "coupon-event"})
	_, err = other.Read(testenv.Patient(t), time.Time{}, func([][]byte) error { return nil })
	requireClass(t, err, text.KafkaTopicMissing)

	pages = 0
	patient := testenv.Patient(t)
	_, err = s.Read(patient, time.Time{}, func([][]byte) error {
		if pages++; pages > 1 {
			return nil
		}
		defer testenv.Eventually(t, "the broker is frozen", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err := other.Look(ctx, events.Place{})
			return errors.Is(err, context.DeadlineExceeded)
		})
		return broker.Freeze()
	})
	require.NoError(t, patient.Err(), "it gives up by itself")
	require.ErrorContains(t, err, "read topic "+topic+":")
	require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(err), "%v", err)
}
