package kafkasink

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/text"
)

func TestPublish_StoresMessagesInOrder(t *testing.T) {
	t.Parallel()
	const partitions = 3
	h := testenv.KafkaFor(t, partitions)
	s := newSink(t, connect.KafkaSettings{KafkaBrokers: h.Brokers, KafkaTopic: h.Topic})
	look, err := s.Look(t.Context(), events.Place{})
	require.NoError(t, err)
	require.Equal(t, events.Look{Place: place}, look)
	all := messages(0, 6_000)
	first := 0
	for _, count := range []int{0, 1, 2, 5_997} { // more than the records and the bytes of a wave
		delivered, err := deliver(t.Context(), s, all[first:first+count])
		require.NoError(t, err)
		require.Equal(t, count, delivered)
		first += count
	}
	require.Zero(t, requireFirstInOrder(t, all, read(t, h.Brokers, h.Topic, partitions), partitions))

	delivered, _, err := s.Publish(t.Context(), events.Place{Server: "another"}, all)
	require.ErrorIs(t, err, events.ErrMayHaveLost)
	require.Zero(t, delivered)
}

// The broker dies while messages are published, again and again, and comes back with its data.
func TestPublish_KilledBroker(t *testing.T) {
	t.Parallel()
	const partitions = 4
	kills := testenv.Rounds(1, 3)
	count := 7_000 * (kills + 1)
	broker := testenv.PrivateKafka(t, testenv.KafkaOptions{Topics: map[string]int32{topic: partitions}})
	s := newSink(t, connect.KafkaSettings{KafkaBrokers: []string{broker.Addr()}, KafkaTopic: topic})
	all := messages(0, count)
	progress := make(chan int, 1)
	var killer sync.WaitGroup
	killer.Go(func() {
		next := count / (kills + 1)
		for published := range progress {
			if published < next {
				continue
			}
			if err := broker.Restart(t.Context()); err != nil { // SIGKILL first
				t.Error(err)
			}
			next += count / (kills + 1)
		}
	})
	failures := publishAll(t, s, all, func(published int, err error) {
		if err != nil {
			require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(err), "%v", err)
		}
		select { // a progress that the killer does not see yet is replaced
		case <-progress:
		default:
		}
		progress <- published
	})
	close(progress)
	killer.Wait()
	duplicates := requireFirstInOrder(t, all, read(t, []string{broker.Addr()}, topic, partitions), partitions)
	t.Logf("%d failures, %d duplicates", failures, duplicates)
}

// publishAll publishes as the relay does: up to 5,000 messages, and half as many after a failure.
func publishAll(t *testing.T, s *Sink, all []events.Message, note func(published int, err error)) (failures int) {
	t.Helper()
	const most = 5_000
	room, patient := most, testenv.Patient(t)
	for published := 0; published < len(all); {
		require.NoError(t, patient.Err(), "%d of %d are published", published, len(all))
		ctx, cancel := context.WithTimeout(patient, events.PublishTimeout)
		delivered, err := deliver(ctx, s, all[published:min(len(all), published+room)])
		cancel()
		published += delivered
		room = min(most, 2*room)
		if err != nil {
			failures++
			room = max(1, room/4)
		}
		note(published, err)
	}
	return failures
}

// A broker that hangs answers nothing. Publish ends with its context, and nothing of it is sent afterwards in a wrong
// order.
func TestPublish_HungBroker(t *testing.T) {
	t.Parallel()
	const partitions = 3
	broker := testenv.PrivateKafka(t, testenv.KafkaOptions{Topics: map[string]int32{topic: partitions}})
	s := newSink(t, connect.KafkaSettings{KafkaBrokers: []string{broker.Addr()}, KafkaTopic: topic})
	all := messages(0, 2_000)
	delivered, err := deliver(t.Context(), s, all[:100])
	require.NoError(t, err)
	require.Equal(t, 100, delivered)

	require.NoError(t, broker.Freeze())
	for range 2 { // with the connected client, and with a new one
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		delivered, err = deliver(ctx, s, all[100:1_500])
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotContains(t, err.Error(), "i/o timeout", "the time of the client's own requests is longer")
		require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(err))
		require.Zero(t, delivered)
		require.Nil(t, s.client, "nothing is left to send")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = s.Look(ctx, events.Place{})
	require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(err), "%v", err)
	require.NotContains(t, err.Error(), "i/o timeout")
	require.NoError(t, broker.Thaw())
	delivered, err = deliver(t.Context(), s, all[100:])
	require.NoError(t, err)
	require.Equal(t, len(all)-100, delivered)
	requireFirstInOrder(t, all, read(t, []string{broker.Addr()}, topic, partitions), partitions)
}

func requireSetup(t *testing.T, s *Sink, want text.Message) {
	t.Helper()
	_, err := s.Look(testenv.Patient(t), events.Place{})
	requireClass(t, err, want)
	delivered, err := deliver(testenv.Patient(t), s, messages(0, 10))
	requireClass(t, err, want)
	require.Zero(t, delivered)
}

func requireClass(t *testing.T, err error, want text.Message) {
	t.Helper()
	require.Error(t, err)
	require.True(t, text.Is(err, want), "%v", err)
	require.Equal(t, coupon.Setup, mysqltx.ClassOf(err))
	require.NotContains(t, err.Error(), "secret")
}

func TestErrorsOfSetup(t *testing.T) {
	t.Parallel()
	t.Run("missing topic", func(t *testing.T) {
		t.Parallel()
		broker := testenv.PrivateKafka(t, testenv.KafkaOptions{Topics: map[string]int32{topic: 1}})
		s := newSink(t, connect.KafkaSettings{KafkaBrokers: []string{broker.Addr()}, KafkaTopic: "coupon-event"})
		requireSetup(t, s, text.KafkaTopicMissing)
	})
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			broker := testenv.PrivateKafka(t, testenv.KafkaOptions{Topics: map[string]int32{topic: 1}, TLS: true,
				Mechanism: mechanism, Username: "settle", Password: "secret"})
			settings := connect.KafkaSettings{KafkaBrokers: []string{broker.Addr()}, KafkaTopic: topic, KafkaTLS: true,
				KafkaTLSCAFile:     broker.CAFile(),
				KafkaSASLMechanism: mechanism, KafkaSASLUsername: "settle",
				KafkaSASLPasswordFile: testenv.SecretFile(t, "secret")}
			require.NoError(t, settings.Validate())
			s := newSink(t, settings)
			all := messages(0, 100)
			delivered, err := deliver(t.Context(), s, all)
			require.NoError(t, err)
			require.Equal(t, len(all), delivered)
			// Kcat cannot log in to this broker.
			last, err := kadm.NewClient(s.client).ListEndOffsets(t.Context(), topic)
			require.NoError(t, err)
			require.EqualValues(t, len(all), last[topic][0].Offset)
		})
	}
}

func TestPublish_TLS(t *testing.T) {
	t.Parallel()
	broker := testenv.PrivateKafka(t, testenv.KafkaOptions{Topics: map[string]int32{topic: 1}, TLS: true})
	settings := connect.KafkaSettings{KafkaBrokers: []string{broker.Addr()}, KafkaTopic: topic, KafkaTLS: true,
		KafkaTLSCAFile: broker.CAFile()}
	all := messages(0, 100)
	_, err := deliver(t.Context(), newSink(t, settings), all)
	require.NoError(t, err)
	requireFirstInOrder(t, all, read(t, settings.KafkaBrokers, topic, 1, "security.protocol=ssl",
		"ssl.ca.location="+broker.CAFile()), 1)

	settings.KafkaTLSCAFile = testenv.PrivateKafka(t, testenv.KafkaOptions{TLS: true}).CAFile()
	requireSetup(t, newSink(t, settings), text.KafkaCertificateRefused)
}

func TestLags(t *testing.T) {
	t.Parallel()
	const partitions = 2
	h := testenv.KafkaFor(t, partitions)
	s := newSink(t, connect.KafkaSettings{KafkaBrokers: h.Brokers, KafkaTopic: h.Topic})
	_, err := s.Lags(t.Context())
	require.NoError(t, err)

	_, err = deliver(t.Context(), s, messages(0, 1_000))
	require.NoError(t, err)
	var offsets kadm.Offsets
	offsets.AddOffset(h.Topic, 0, 10, -1)
	group := "shop-" + h.Topic
	require.NoError(t, kadm.NewClient(s.client).CommitAllOffsets(t.Context(), group, offsets))
	lags, err := s.Lags(t.Context())
	require.NoError(t, err)
	require.Contains(t, lags, events.Lag{Group: group, Unread: 990, Pending: -1}, fmt.Sprint(lags))
}
