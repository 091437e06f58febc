// Package events compares the relay of events with programs that only write the same bytes: a pipelined XADD, and a
// bare producer of Kafka.
package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/jajeong/jajeong/bench/report"
	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
)

// target is where both the relay and the bare program publish.
type target interface {
	sink() (events.Sink, error)
	// bare writes the messages without the relay, elsewhere on the same server, and returns how many arrived and in
	// which time.
	bare(ctx context.Context, messages []events.Message) (arrived int, took time.Duration, err error)
	// read returns what the relay has published, by partition.
	read(ctx context.Context) (partitions [][][]byte, err error)
	close()
}

type measurement struct {
	*stage.Stage
	events, rounds *int
	brokers        []string
	topics         int // that were made
}

// New registers the flags.
func New(o *stage.Options) func(ctx context.Context, s *stage.Stage) (string, error) {
	m := &measurement{rounds: o.Rounds(5),
		events: o.Int("events", 200_000, 100, 5_000_000, "events of a measurement; a quarter of them in the scene of "+
			"changes")}
	return m.run
}

func (m *measurement) run(ctx context.Context, s *stage.Stage) (string, error) {
	m.Stage = s
	broker, stop, err := m.startKafka(ctx)
	if err != nil {
		return "", err
	}
	defer stop()
	var ways []report.Way[result]
	for _, sc := range scenes {
		for _, sink := range []string{"redis", "kafka"} {
			ways = append(ways, report.Way[result]{Name: sc.name + " | " + sink, Measure: func() (result, error) {
				return m.measure(ctx, sc, sink == "kafka", *m.events/sc.part)
			}})
		}
	}
	table, err := report.Measured("published | sink", *m.rounds, ways, columns...)
	return fmt.Sprintf("Kafka is %s. %d rounds:\n\n", broker, *m.rounds) + table, err
}

// startKafka starts a test broker, unless KAFKA_BROKERS has others.
func (m *measurement) startKafka(ctx context.Context) (name string, stop func(), err error) {
	if given := os.Getenv("KAFKA_BROKERS"); given != "" {
		m.brokers = strings.Split(given, ",")
		return "that of KAFKA_BROKERS", func() {}, nil
	}
	program, err := m.Build(ctx, "./internal/testenv/kafka")
	if err != nil {
		return "", nil, err
	}
	broker, err := testenv.StartKafka(ctx, program, testenv.KafkaOptions{})
	if err != nil {
		return "", nil, err
	}
	m.brokers = []string{broker.Addr()}
	return "a test broker (kfake)", func() { _ = broker.Stop() }, nil
}

// result is what one measurement found.
type result struct {
	events, bytes       int
	relay, inSink, bare time.Duration
	page                time.Duration // of Redis for a script; 0 with Kafka
	fault
}

var columns = []report.Column[result]{
	report.Count("events", func(r result) int { return r.events }),
	report.Median("bytes an event", report.Whole,
		func(r result) float64 { return float64(r.bytes) / float64(r.events) }),
	report.Median("relay, events/s", report.Whole,
		func(r result) float64 { return float64(r.events) / r.relay.Seconds() }),
	report.Median("of it in the sink", report.Share,
		func(r result) float64 { return r.inSink.Seconds() / r.relay.Seconds() }),
	report.Median("bare, events/s", report.Whole,
		func(r result) float64 { return float64(r.events) / r.bare.Seconds() }),
	report.Within("ratio", func(r result) float64 { return r.bare.Seconds() },
		func(r result) float64 { return r.relay.Seconds() }),
	report.CPUTime("Redis, a page of 200", func(r result) time.Duration { return r.page }),
	report.Sum("missing", func(r result) int { return r.missing }),
	report.Sum("twice", func(r result) int { return r.twice }),
	report.Sum("out of order", func(r result) int { return r.inversions }),
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
func (m *measurement) measure(ctx context.Context, sc scene, kafka bool, n int) (r result, err error) {
	p, err := m.OpenShop(ctx, 1, n)
	if err != nil {
		return r, err
	}
	defer p.Close()
	var to target = streams{p.Redis}
	if kafka {
		if to, err = m.newTopics(ctx); err != nil {
			return r, err
		}
	}
	defer to.close()
	sink, err := to.sink()
	if err != nil {
		return r, err
	}
	defer sink.Close()
	through := &kept{Sink: sink, messages: make([]events.Message, 0, n)}
	db := p.Servers.MySQL
	relay := events.NewRelay(events.Config{Name: "bench", Sink: through, DB: mysqltx.NewBrief(db),
		Now: time.Now})
	if _, err := publish(ctx, relay); err != nil { // turns events on
		return r, err
	}
	if err := sc.write(ctx, p, n); err != nil {
		return r, err
	}
	if err := p.RDB.ConfigResetStat(ctx).Err(); err != nil {
		return r, err
	}
	runtime.GC()
	began := time.Now()
	if r.events, err = publish(ctx, relay); err == nil && r.events != n {
		err = fmt.Errorf("the relay published %d events of %d", r.events, n)
	}
	if r.relay, r.inSink = time.Since(began), through.spent; err != nil {
		return r, err
	}
	if !kafka {
		if r.page, err = scriptTime(ctx, p.RDB); err != nil {
			return r, err
		}
	}
	for i := range through.messages {
		r.bytes += len(through.messages[i].Body)
	}
	runtime.GC()
	var arrived int
	if arrived, r.bare, err = to.bare(ctx, through.messages); err != nil || arrived != n {
		return r, fmt.Errorf("%d events of the bare program arrived, want %d: %w", arrived, n, err)
	}
	want, err := stage.Column[string](ctx, p.DB, sc.ids)
	found, failed := to.read(ctx)
	if err := errors.Join(err, failed); err != nil {
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

// fault counts what a consumer should not see.
type fault struct{ missing, twice, inversions int }

// judge compares the events that consumers read, in their order for each partition, with the ids that were to be
// published.
func judge(want []string, partitions [][][]byte) (f fault, err error) {
	place := make(map[string]int, len(want))
	for i, id := range want {
		place[id] = i
	}
	seen := map[int]bool{}
	for _, bodies := range partitions {
		last := -1
		for _, body := range bodies {
			var event struct{ ID string }
			if err := json.Unmarshal(body, &event); err != nil {
				return f, err
			}
			at, known := place[event.ID]
			switch {
			case !known:
				return f, fmt.Errorf("no row has the event %s", body)
			case seen[at]:
				f.twice++
				continue
			case at < last:
				f.inversions++
			}
			seen[at], last = true, max(last, at)
		}
	}
	f.missing = len(want) - len(seen)
	return f, nil
}
