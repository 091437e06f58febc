package kafkasink

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/text"
)

const (
	produceKey      = 0
	authenticateKey = 36
)

// cluster has a broker for each partition, so that a produce request has records of one partition.
func cluster(t *testing.T, options ...kfake.Opt) (*kfake.Cluster, connect.KafkaSettings) {
	t.Helper()
	c, err := kfake.NewCluster(append(options, kfake.NumBrokers(3), kfake.SeedTopics(3, topic))...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for partition := range int32(3) {
		require.NoError(t, c.MoveTopicPartition(topic, partition, partition))
	}
	return c, connect.KafkaSettings{KafkaBrokers: c.ListenAddrs(), KafkaTopic: topic}
}

// onProduce answers produce requests: nil: as usual; a *kerr.Error: with its code; another error: by closing the
// connection.
func onProduce(c *kfake.Cluster, answer func(partition int32) error) {
	c.ControlKey(produceKey, func(request kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		r := request.(*kmsg.ProduceRequest)
		fault := answer(r.Topics[0].Partitions[0].Partition)
		if fault == nil {
			return nil, nil, false
		}
		code, ok := errors.AsType[*kerr.Error](fault)
		if !ok {
			return nil, fault, true
		}
		reply := r.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range r.Topics {
			of := kmsg.NewProduceResponseTopic()
			of.Topic, of.TopicID = topic.Topic, topic.TopicID
			for _, partition := range topic.Partitions {
				one := kmsg.NewProduceResponseTopicPartition()
				one.Partition, one.ErrorCode = partition.Partition, code.Code
				of.Partitions = append(of.Partitions, one)
			}
			reply.Topics = append(reply.Topics, of)
		}
		return reply, nil, true
	})
}

// Messages of other partitions are acknowledged behind the first one that is not.
func TestPublish_ReturnsAcknowledgedPrefix(t *testing.T) {
	t.Parallel()
	c, settings := cluster(t)
	var broken atomic.Bool
	onProduce(c, func(partition int32) error {
		if broken.Load() && partition == 1 {
			return kerr.InvalidRecord
		}
		return nil
	})
	s := newSink(t, settings)
	all := messages(0, 1_000)
	first := 10
	for partitionOf(all[first].Key, 3) == 1 {
		first++
	}
	delivered, err := deliver(t.Context(), s, all[:first])
	require.NoError(t, err)
	require.Equal(t, first, delivered)
	broken.Store(true)
	want := 1
	for partitionOf(all[first+want].Key, 3) != 1 {
		want++
	}
	delivered, err = deliver(t.Context(), s, all[first:])
	requireClass(t, err, text.KafkaTopicRefuses)
	require.Equal(t, want, delivered)
	require.Nil(t, s.client, "nothing is left to send")

	broken.Store(false)
	delivered, err = deliver(t.Context(), s, all[first+want:])
	require.NoError(t, err)
	require.Equal(t, len(all)-first-want, delivered)
	require.Positive(t, requireFirstInOrder(t, all, read(t, settings.KafkaBrokers, topic, 3), 3))
}

// Every kind of answer, each at least once and in any order: errors that the client repeats, errors that end a batch,
// and lost connections.
func TestPublish_KeepsOrderAfterErrors(t *testing.T) {
	t.Parallel()
	faults := []error{kerr.NotLeaderForPartition, kerr.RequestTimedOut, kerr.NotEnoughReplicas, kerr.InvalidRecord,
		kerr.MessageTooLarge,
		kerr.TopicAuthorizationFailed, kerr.UnknownServerError, kerr.UnknownProducerID, errors.New("hang up")}
	c, settings := cluster(t)
	random := testenv.Random(t)
	random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	first := slices.Clone(faults)
	onProduce(c, func(int32) (fault error) { // in one goroutine of the cluster
		if len(first) > 0 {
			fault, first = first[0], first[1:]
			return fault
		}
		if n := random.IntN(4 * len(faults)); n < len(faults) {
			return faults[n]
		}
		return nil
	})
	s := newSink(t, settings, kgo.MetadataMinAge(10*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 2 * time.Millisecond }))
	all := messages(0, testenv.Rounds(3_000, 10_000))
	failures := publishAll(t, s, all, func(_ int, err error) {
		if err != nil {
			require.Contains(t, []coupon.Class{coupon.Infrastructure, coupon.Setup}, mysqltx.ClassOf(err), "%v", err)
		}
	})
	require.Positive(t, failures)
	requireFirstInOrder(t, all, read(t, settings.KafkaBrokers, topic, 3), 3)
}

func TestErrorsOfSetup_Rights(t *testing.T) {
	t.Parallel()
	c, settings := cluster(t)
	onProduce(c, func(int32) error { return kerr.TopicAuthorizationFailed })
	delivered, err := deliver(t.Context(), newSink(t, settings), messages(0, 10))
	requireClass(t, err, text.KafkaRightsMissing)
	require.Zero(t, delivered)
}

// A real broker answers a wrong password with a code.
func TestErrorsOfSetup_LoginRefused(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			c, settings := cluster(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "settle", "other"))
			c.ControlKey(authenticateKey, func(request kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				reply := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
				reply.ErrorCode = kerr.SaslAuthenticationFailed.Code
				return reply, nil, true
			})
			settings.KafkaSASLMechanism, settings.KafkaSASLUsername, settings.KafkaSASLPasswordFile = mechanism,
				"settle", testenv.SecretFile(t, "secret")
			requireSetup(t, newSink(t, settings), text.KafkaLoginRefused)
		})
	}
}
