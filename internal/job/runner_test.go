package job_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/job"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

func TestRunner_RecordsHowJobsEnd(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	ctx, stop := context.WithCancel(t.Context())
	runner := job.NewRunner(ctx, mysqltx.New(d.DB), zap.NewNop())
	t.Cleanup(runner.Wait)
	t.Cleanup(stop)
	start := func(id string, do func() job.Job) (*job.Handle, error) {
		return runner.Start(t.Context(), job.Work{Job: job.Job{ID: id, Caller: "lee", Verb: "coupon close"},
			Printed: func() int { return 3 },
			Before: func(ctx context.Context, tx *sql.Tx, id string) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO idempotency VALUES ('lee', ?, '', ?, NOW(6))", id, id)
				return err
			},
			Do: func(_ context.Context, tell func(done, of int)) job.Job {
				if id == "LIST" {
					tell(7, 9)
				}
				return do()
			}})
	}
	for id, do := range map[string]func() job.Job{
		"DONE":   func() job.Job { return job.Job{State: job.Done} },
		"LIST":   func() job.Job { return job.Job{State: job.Done} },
		"PANICS": func() job.Job { panic("a bug") },
		"WRONG":  func() job.Job { return job.Job{} }, // because of its values
	} {
		begun, err := start(id, do)
		require.NoError(t, err)
		testenv.Receive(t, id, begun.Done())
	}
	require.Equal(t, []string{"DONE DONE 3 0", "LIST DONE 7 9", "PANICS FAILED 3 0"}, jajeongtest.Column[string](d,
		"SELECT CONCAT_WS(' ', id, state, done, `of`) FROM job ORDER BY id"))
	require.Equal(t, []string{"DONE", "LIST", "PANICS"}, jajeongtest.Column[string](d,
		"SELECT job_id FROM idempotency ORDER BY job_id"), "the key is free again")

	_, err := runner.Start(t.Context(), job.Work{Job: job.Job{ID: "DONE", Caller: "kim"}})
	require.ErrorIs(t, err, job.ErrKnown)
}

func TestRunner_BoundsWhatRuns(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	ctx, stop := context.WithCancel(t.Context())
	runner := job.NewRunner(ctx, mysqltx.New(d.DB), zap.NewNop())
	t.Cleanup(runner.Wait)
	t.Cleanup(stop)
	hang := make(chan struct{})
	work := func(n int) job.Work {
		return job.Work{Job: job.Job{ID: string(rune('A' + n))}, Printed: func() int { return 0 },
			Do: func(context.Context, func(done, of int)) job.Job { <-hang; return job.Job{State: job.Done} }}
	}
	var last *job.Handle
	for n := range 8 {
		begun, err := runner.Start(t.Context(), work(n))
		require.NoError(t, err)
		last = begun
	}
	_, err := runner.Start(t.Context(), work(8))
	require.ErrorIs(t, err, job.ErrBusy)
	close(hang)
	testenv.Receive(t, "a job ends", last.Done())
	_, err = runner.Start(t.Context(), work(9))
	require.NoError(t, err)
}
