package serve

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/jajeong/jajeong/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.WithServers{M: m}) }

func TestRunner_RepeatsFailedTasks(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"error":   func() error { return errAway },
		"panic":   func() error { panic("nil map") },
		"nothing": func() error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				core, logs := observer.New(zapcore.ErrorLevel)
				ctx, stop := context.WithCancel(t.Context())
				var began []run
				other := 0
				failing := Task{"failing", func(context.Context) error {
					began = append(began, run{at: time.Now()})
					return fail()
				}}
				working := Task{"working", func(ctx context.Context) error {
					other++
					<-ctx.Done()
					return ctx.Err()
				}}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					Runner{time.Now, zap.New(core)}.Run(ctx, failing, working)
				}()
				pass(time.Minute)
				stop()
				<-ended
				requirePauses(t, began, maxPause)
				require.Equal(t, 1, other)
				entry := logs.FilterMessage("task failed").All()[0].ContextMap()
				require.Equal(t, "failing", entry["task"])
				if name == "panic" {
					require.True(t, strings.Contains(entry["error"].(string), "serve_test.go"), "the stack")
				}
			})
		})
	}
}

func TestRunner_TaskThatWorkedHasRecovered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var pauses []time.Duration
		var ended time.Time
		Runner{time.Now, zap.NewNop()}.Run(ctx, Task{"task", func(context.Context) error {
			if len(pauses) == 20 {
				stop()
			}
			pauses = append(pauses, time.Since(ended))
			if len(pauses) > 10 {
				<-time.After(recoveredAfter)
			}
			ended = time.Now()
			return errAway
		}})
		require.Greater(t, pauses[9], maxPause/2)
		require.Less(t, pauses[12], 2*firstPause)
	})
}
