package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/events/kafkasink"
)

const (
	partitions = 3
	readWithin = time.Minute // all events of a topic
)

// topics are the topics of Kafka for the relay and for the bare program.
type topics struct {
	options []kgo.Opt
	admin   *kadm.Client
	names   [2]string // of the relay, and of the bare program
}

func (s *stage) newTopics(ctx context.Context) (*topics, error) {
	options, err := (&connect.KafkaSettings{KafkaBrokers: s.brokers}).Options(zap.NewNop())
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	s.topics++
	t := &topics{options: options, admin: kadm.NewClient(client)}
	for i, of := range []string{"relay", "bare"} {
		t.names[i] = fmt.Sprintf("jajeong-bench-%d-%d-%s", os.Getpid(), s.topics, of)
		if _, err := t.admin.CreateTopic(ctx, partitions, -1, nil, t.names[i]); err != nil {
			t.admin.Close()
			return nil, fmt.Errorf("create topic %s: %w", t.names[i], err)
		}
	}
	return t, nil
}

func (t *topics) remove(ctx context.Context) error {
	defer t.admin.Close()
	_, err := t.admin.DeleteTopics(ctx, t.names[:]...)
	return err
}

func (t *topics) sink() (events.Sink, error) { return kafkasink.New(t.names[0], t.options...) }

// bare writes by a producer with its defaults (all in-sync replicas acknowledge), everything at once.
func (t *topics) bare(ctx context.Context, messages []events.Message) error {
	client, err := kgo.NewClient(append(t.options[:len(t.options):len(t.options)], kgo.DefaultProduceTopic(t.names[1]))...)
	if err != nil {
		return err
	}
	defer client.Close()
	failed := make(chan error, 1)
	for i := range messages {
		client.Produce(ctx, &kgo.Record{Key: []byte(messages[i].Key), Value: messages[i].Body}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func (t *topics) bared(ctx context.Context) (int64, error) { return t.records(ctx, t.names[1]) }

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
	client, err := kgo.NewClient(append(t.options[:len(t.options):len(t.options)], kgo.ConsumeTopics(t.names[0]), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
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
