package serve

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/jajeong/jajeong/internal/events"
)

// rounds answers each round in turn; the last answer is repeated.
type rounds struct {
	answers []answer
	began   []time.Time
}

type answer struct {
	round events.Round
	err   error
}

func (r *rounds) Round(context.Context) (events.Round, error) {
	next := r.answers[min(len(r.began), len(r.answers)-1)]
	r.began = append(r.began, time.Now())
	return next.round, next.err
}

// publishing runs the task for a time of a synctest bubble.
func publishing(t *testing.T, r *rounds, d time.Duration) (*Events, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	task := NewEvents(EventsConfig{Relay: r, Shortfall: func(context.Context) (events.Shortfall, error) {
		return events.Shortfall{Delay: 3 * time.Second, MayLack: true}, nil
	},
		Now: time.Now, Logger: zap.New(core)})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		require.NoError(t, task.Run(ctx))
	}()
	pass(d)
	stop()
	<-ended
	return task, logs
}

func TestEvents_GoesOnAtOnceWhileThereIsMore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := &rounds{answers: []answer{{round: events.Round{Published: 5, More: true}},
			{round: events.Round{Published: 2, More: true}}, {}}}
		task, _ := publishing(t, r, 10*idlePause)
		require.Equal(t, r.began[0], r.began[2])
		require.InDelta(t, 11, len(r.began)-2, 3)
		require.EqualValues(t, 7, testutil.ToFloat64(task.published))
		require.EqualValues(t, 2, testutil.ToFloat64(task.rounds.WithLabelValues(roundPublished)))
	})
}

func TestEvents_StandsBy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := &rounds{answers: []answer{{round: events.Round{Standby: true}}}}
		publishing(t, r, 10*standbyPause)
		require.InDelta(t, 11, len(r.began), 2)
	})
}

func TestEvents_LogsALastingFailureOnceAMinute(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		full := fmt.Errorf("publish: %w", events.ErrFull)
		r := &rounds{answers: []answer{{err: errAway}}}
		for range 50 {
			r.answers = append(r.answers, answer{err: full})
		}
		r.answers = append(r.answers, answer{round: events.Round{Published: 1}})
		task, logs := publishing(t, r, 10*time.Minute)
		require.Equal(t, 1, logs.FilterMessage("events not published; they wait in MySQL").Len())
		require.InDelta(t, 4, logs.FilterMessageSnippet("memory is needed").Len(), 1)
		require.Equal(t, 1, logs.FilterMessage("events published again").Len())
		require.EqualValues(t, 51, testutil.ToFloat64(task.rounds.WithLabelValues(roundFailed)))
		for i := range 40 {
			require.LessOrEqual(t, r.began[i+1].Sub(r.began[i]), maxPause+maxPause/10)
		}
	})
}

func TestEvents_LogsOnceWhatTheSinkMayLack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gap := &events.Gap{From: time.Unix(0, 0), To: time.Unix(60, 0), Replay: "settle events replay"}
		_, logs :=
			publishing(t, &rounds{answers: []answer{{round: events.Round{Again: 4, More: true, MayLack: gap}}, {}}},
				time.Minute)
		found := logs.FilterLevelExact(zapcore.ErrorLevel).All()
		require.Len(t, found, 1)
		require.Equal(t, map[string]any{"from": gap.From, "to": gap.To, "replay": gap.Replay}, found[0].ContextMap())
	})
}

func TestEvents_Metrics(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := &rounds{answers: []answer{{round: events.Round{Again: 4, More: true}}, {}}}
		task, logs := publishing(t, r, time.Second)
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(task)
		problems, err := testutil.GatherAndLint(registry)
		require.NoError(t, err)
		require.Empty(t, problems)
		require.EqualValues(t, 4, testutil.ToFloat64(task.again))
		require.Equal(t, 1, logs.FilterMessageSnippet("may have lost events").Len())
		require.Equal(t, 1, testutil.CollectAndCount(task, "jajeong_events_lag_seconds"))
		require.NoError(t, testutil.CollectAndCompare(task, strings.NewReader(`
# HELP jajeong_events_may_be_lost 1 while the sink may lack events that it had acknowledged, until a replay has run; else 0.
# TYPE jajeong_events_may_be_lost gauge
jajeong_events_may_be_lost 1
`), "jajeong_events_may_be_lost"))
	})
}
