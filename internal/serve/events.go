package serve

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/sleep"
)

const (
	// idlePause is the wait after a round that found nothing: how long an event may wait before anybody looks.
	idlePause = 200 * time.Millisecond
	// standbyPause is the wait before a process looks again whether the relay that worked has stopped.
	standbyPause = time.Second
)

// Relay publishes events.
type Relay interface {
	Round(ctx context.Context) (events.Round, error)
}

// EventsConfig is what the task events needs. Every field is required.
type EventsConfig struct {
	Relay     Relay
	Shortfall func(ctx context.Context) (events.Shortfall, error)
	Now       func() time.Time
	Logger    *zap.Logger
}

// Events is the task that publishes events.
type Events struct {
	EventsConfig
	published prometheus.Counter
	again     prometheus.Counter
	rounds    *prometheus.CounterVec
}

// Results of a round.
const (
	roundPublished = "published"
	roundIdle      = "idle"
	roundStandby   = "standby"
	roundFailed    = "failed"
)

func NewEvents(c EventsConfig) *Events {
	t := &Events{EventsConfig: c,
		published: prometheus.NewCounter(prometheus.CounterOpts{Name: "jajeong_events_published_total",
			Help: "Events that the sink has acknowledged, repetitions included."}),
		again: prometheus.NewCounter(prometheus.CounterOpts{Name: "jajeong_events_marked_again_total",
			Help: "Settlements and changes whose events are published again, because the sink may have lost them."}),
		rounds: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "jajeong_events_rounds_total",
			Help: "Rounds of the relay in this process, by result."}, []string{"result"}),
	}
	for _, result := range []string{roundPublished, roundIdle, roundStandby, roundFailed} {
		t.rounds.WithLabelValues(result)
	}
	return t
}

// Run publishes until ctx ends.
func (t *Events) Run(ctx context.Context) error {
	var failure failure
	for ctx.Err() == nil {
		round, err := t.Relay.Round(ctx)
		t.published.Add(float64(round.Published))
		t.again.Add(float64(round.Again))
		t.rounds.WithLabelValues(resultOf(round, err)).Inc()
		if round.Again > 0 {
			t.Logger.Warn("the sink may have lost events; those of the last ten minutes are published again",
				zap.Int("marked", round.Again))
		}
		if gap := round.MayLack; gap != nil {
			t.Logger.Error(
				"the sink may lack older events; a replay with the EVENT_… settings of this process publishes them "+
					"again", zap.Time("from", gap.From), zap.Time("to", gap.To),
				zap.String("replay", gap.Replay))
		}
		var wait time.Duration
		switch {
		case err != nil:
			var log bool
			if wait, log = failure.next(t.Now()); log {
				t.Logger.Error(unpublished(err), zap.Error(err))
			}
		case round.Standby:
			failure.end()
			wait = jittered(standbyPause)
		default:
			if failure.end() {
				t.Logger.Info("events published again")
			}
			if !round.More {
				wait = jittered(idlePause)
			}
		}
		if wait > 0 {
			_ = sleep.For(ctx, wait)
		}
	}
	return nil
}

func resultOf(round events.Round, err error) string {
	switch {
	case err != nil:
		return roundFailed
	case round.Standby:
		return roundStandby
	case round.Published > 0:
		return roundPublished
	default:
		return roundIdle
	}
}

// unpublished says what an error of a round means.
func unpublished(err error) string {
	if errors.Is(err, events.ErrFull) {
		return "events wait in MySQL, because the sink's memory is needed for applications"
	}
	return "events not published; they wait in MySQL"
}

var (
	eventsLagDesc = prometheus.NewDesc("jajeong_events_lag_seconds",
		"How long the oldest event that is not published is due; 0: all are published.", nil, nil)
	eventsMayLackDesc = prometheus.NewDesc("jajeong_events_may_be_lost",
		"1 while the sink may lack events that it had acknowledged, until a replay has run; else 0.", nil, nil)
)

func (t *Events) Describe(to chan<- *prometheus.Desc) {
	t.published.Describe(to)
	t.again.Describe(to)
	t.rounds.Describe(to)
	to <- eventsLagDesc
	to <- eventsMayLackDesc
}

// Collect reads MySQL. If MySQL does not answer, lag and loss are missing.
func (t *Events) Collect(to chan<- prometheus.Metric) {
	t.published.Collect(to)
	t.again.Collect(to)
	t.rounds.Collect(to)
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	if shortfall, err := t.Shortfall(ctx); err == nil {
		to <- prometheus.MustNewConstMetric(eventsLagDesc, prometheus.GaugeValue, shortfall.Delay.Seconds())
		mayLack := 0.0
		if shortfall.MayLack {
			mayLack = 1
		}
		to <- prometheus.MustNewConstMetric(eventsMayLackDesc, prometheus.GaugeValue, mayLack)
	}
}
