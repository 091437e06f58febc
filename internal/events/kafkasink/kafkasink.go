// Package kafkasink delivers events to a topic of Kafka.
//
// A record has the user as key, the event as value, and the header of structured CloudEvents. All in-sync replicas
// acknowledge a record, and the producer is idempotent: a request that the client repeats is stored once.
//
// # Order
//
// Messages are sent in waves. The records of a wave are one batch for each partition at most, and the next wave is sent
// when every batch is acknowledged. Kafka stores a batch as a whole or not at all. So no record is stored for the first
// time after a later one of its partition, whatever fails.
//
// After an error the client is closed, which drops its records, and the next call makes a new one. A broker may still
// store a batch of the closed client: that is a duplicate, because the next publication repeats it.
package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/jajeong/jajeong/internal/events"
)

const (
	// maxBatchBytes bounds a batch before it is compressed. It is the default of Kafka's producers, a little below the
	// default of the brokers (message.max.bytes).
	maxBatchBytes = 1_000_000
	// waveBytes bounds the records of a wave for each partition, so that those of a partition fit into one batch. Keys
	// spread evenly over partitions.
	waveBytes = 900_000
	// recordBytes is more than what a record has besides key and value: the header, lengths and offsets.
	recordBytes = 128
	// waveRecords bounds the records of a wave.
	waveRecords = 5_000
)

// server is the name of every cluster: Kafka loses no record that all in-sync replicas have acknowledged.
const server = "kafka"

const contentType = "application/cloudevents+json; charset=UTF-8"

// Sink produces to a topic. Calls may be parallel; they run one after the other.
type Sink struct {
	topic   string
	options []kgo.Opt
	turn    chan struct{} // has an element while a call runs
	client  *kgo.Client   // nil: the next call makes one
	warm    bool          // the client has produced

	partitions int // partitions of the topic at the last look
}

var _ events.Sink = (*Sink)(nil)

// New does not connect. The options say how to reach Kafka.
func New(topic string, options ...kgo.Opt) (*Sink, error) {
	if topic == "" {
		return nil, errors.New("kafkasink: the topic is missing")
	}
	s := &Sink{topic: topic, turn: make(chan struct{}, 1)}
	s.options = append(append(s.options, options...),
		kgo.DefaultProduceTopic(topic),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), // murmur2, as Java's
		kgo.MaxBufferedRecords(waveRecords),
		kgo.ProducerBatchMaxBytes(maxBatchBytes),
		kgo.ManualFlushing(), // a batch is sent when it has all records of its wave
		kgo.ProducerLinger(0),
	)
	client, err := s.open()
	if err != nil {
		return nil, err
	}
	client.Close()
	s.client = nil
	return s, nil
}

// open returns the client.
func (s *Sink) open() (*kgo.Client, error) {
	if s.client != nil {
		return s.client, nil
	}
	client, err := kgo.NewClient(s.options...)
	if err != nil {
		return nil, fmt.Errorf("make a Kafka client: %w", err)
	}
	s.client, s.warm = client, false
	return client, nil
}

func (s *Sink) lock(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &Error{context.Cause(ctx)}
	}
}

func (s *Sink) unlock() { <-s.turn }

// discard closes the client with everything that it would still send.
func (s *Sink) discard() {
	if s.client != nil {
		s.client.Close()
		s.client = nil
	}
}

func (s *Sink) Close() {
	s.turn <- struct{}{}
	defer s.unlock()
	s.discard()
}

// Look returns a constant place if the topic is reachable. A topic that somebody has deleted, or whose records somebody
// has deleted, is not noticed: what Kafka has acknowledged is Kafka's to keep.
func (s *Sink) Look(ctx context.Context, _ events.Place) (events.Look, error) {
	if err := s.lock(ctx); err != nil {
		return events.Look{}, err
	}
	defer s.unlock()
	if err := s.bounded(ctx, s.look); err != nil {
		s.discard()
		return events.Look{}, fmt.Errorf("look at topic %s: %w", s.topic, s.classify(err))
	}
	return events.Look{Place: events.Place{Server: server}}, nil
}

// bounded makes a request and ends with ctx at the latest. A client waits for a new connection longer than that, unless
// it is closed.
func (s *Sink) bounded(ctx context.Context, request func(context.Context, *kgo.Client) error) error {
	client, err := s.open()
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = request(ctx, client)
	}()
	select {
	case <-ended:
		return err
	case <-ctx.Done():
		s.discard()
		<-ended // at once, because the client is closed
		return context.Cause(ctx)
	}
}

// look asks a broker for the topic.
func (s *Sink) look(ctx context.Context, client *kgo.Client) error {
	request, topic := kmsg.NewPtrMetadataRequest(), kmsg.NewMetadataRequestTopic()
	topic.Topic = &s.topic
	request.Topics = append(request.Topics, topic)
	reply, err := request.RequestWith(ctx, client)
	switch {
	case err != nil:
		return err
	case len(reply.Topics) != 1:
		return fmt.Errorf("a broker replied %d topics", len(reply.Topics))
	default:
		s.partitions = len(reply.Topics[0].Partitions)
		return kerr.ErrorForCode(reply.Topics[0].ErrorCode)
	}
}

// Publish delivers the messages wave by wave. It stops at the first wave that is not acknowledged as a whole; any of
// its messages may have been delivered.
func (s *Sink) Publish(ctx context.Context, at events.Place,
	messages []events.Message) (delivered int, last string, err error) {
	if at.Server != server {
		return 0, "", fmt.Errorf("publish to topic %s: %w: its name is %s, not %q", s.topic, events.ErrMayHaveLost,
			server, at.Server)
	}
	if err := s.lock(ctx); err != nil {
		return 0, "", err
	}
	defer s.unlock()
	if (s.client == nil || !s.warm) && len(messages) > 0 {
		err = s.bounded(ctx, s.look) // producing would repeat a refused login until the end of the time
	}
	for err == nil && delivered < len(messages) {
		var acknowledged int
		acknowledged, err = s.send(ctx, s.wave(messages[delivered:]))
		delivered += acknowledged
	}
	if err != nil {
		s.discard()
		return delivered, "", fmt.Errorf("publish to topic %s: %w", s.topic, s.classify(err))
	}
	return delivered, "", nil
}

// wave returns the messages to send next. The first wave of a client is one message: the client does not know the
// partitions yet, and would send the records of a partition in several batches.
func (s *Sink) wave(messages []events.Message) []events.Message {
	limit := waveRecords
	if !s.warm {
		limit = 1
	}
	n, size := 0, 0
	for n < min(limit, len(messages)) {
		size += len(messages[n].Key) + len(messages[n].Body) + recordBytes
		if n > 0 && size > waveBytes*max(1, s.partitions) {
			break
		}
		n++
	}
	return messages[:n]
}

// send sends a wave and returns how many of its first messages are acknowledged.
func (s *Sink) send(ctx context.Context, wave []events.Message) (acknowledged int, err error) {
	client, err := s.open()
	if err != nil {
		return 0, err
	}
	replies := newReplies(len(wave))
	for i := range wave {
		client.Produce(ctx, record(&wave[i]), func(_ *kgo.Record, err error) { replies.set(i, err) })
	}
	if err := client.Flush(ctx); err == nil {
		replies.wait(ctx)
	}
	s.warm = true
	return replies.prefix(ctx)
}

func record(m *events.Message) *kgo.Record {
	return &kgo.Record{Key: []byte(m.Key), Value: m.Body,
		Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte(contentType)}}}
}

// replies has what became of the messages of a wave. The client calls set, also after nobody waits any more.
type replies struct {
	mu   sync.Mutex
	errs []error // errUnanswered, nil if acknowledged, or why not
	left int
	done chan struct{} // closed when every message is answered
}

var errUnanswered = errors.New("no acknowledgement from Kafka in time")

func newReplies(count int) *replies {
	r := &replies{errs: make([]error, count), left: count, done: make(chan struct{})}
	for i := range r.errs {
		r.errs[i] = errUnanswered
	}
	return r
}

func (r *replies) set(i int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs[i] = err
	if r.left--; r.left == 0 {
		close(r.done)
	}
}

func (r *replies) wait(ctx context.Context) {
	select {
	case <-r.done:
	case <-ctx.Done():
	}
}

// prefix returns the number of messages before the first one that is not acknowledged, and why it is not.
func (r *replies) prefix(ctx context.Context) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, err := range r.errs {
		if errors.Is(err, errUnanswered) {
			return i, errors.Join(err, context.Cause(ctx))
		}
		if err != nil {
			return i, err
		}
	}
	return len(r.errs), nil
}
