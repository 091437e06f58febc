package job

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/mysqltx"
)

const (
	// maxRunning bounds how many jobs of a process run: each takes connections.
	maxRunning = 8
	// Quickly is how long a request waits for its job, so that a short one shows its result at once.
	Quickly = 2 * time.Second
	// endWithin bounds the time to record the end of a job.
	endWithin = 10 * time.Second
)

// Runner carries out the jobs of a process, and records them. They end with its context.
type Runner struct {
	ctx     context.Context
	db      *mysqltx.DB
	logger  *zap.Logger
	places  Places
	running sync.WaitGroup
}

func NewRunner(ctx context.Context, db *mysqltx.DB, logger *zap.Logger) *Runner {
	return &Runner{ctx: ctx, db: db, logger: logger, places: make(Places, maxRunning)}
}

// Wait waits until the jobs have ended, after the end of their context.
func (r *Runner) Wait() { r.running.Wait() }

// Work is a job that is to be carried out.
type Work struct {
	Job     Job
	Printed func() int // how much it has printed

	// Before runs in the transaction that records the job, and may return ErrKnown. nil: it does nothing.
	Before func(ctx context.Context, tx *sql.Tx, id string) error
	// Do returns how the job has ended. One without a state was refused because of its values, and is forgotten.
	Do func(ctx context.Context, tell func(done, of int)) Job
}

// Handle is a job of this process.
type Handle struct {
	ID string
	Progress
	done chan struct{}
}

// Done is closed when the job has ended.
func (j *Handle) Done() <-chan struct{} { return j.done }

// Await waits a short time for the end, and reports whether the job has ended.
func (j *Handle) Await(ctx context.Context, quickly time.Duration) bool {
	timer := time.NewTimer(quickly)
	defer timer.Stop()
	select {
	case <-j.done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

var (
	ErrBusy  = errors.New("too many jobs run")
	ErrKnown = errors.New("the job was begun before")
)

// Start records a job, and carries it out. It returns ErrBusy, and ErrKnown if there is a job with its id.
func (r *Runner) Start(ctx context.Context, w Work) (*Handle, error) {
	free := r.places.Take(ctx)
	if free == nil {
		return nil, ErrBusy
	}
	recorded := false // by an earlier attempt, whose COMMIT had no reply
	err := r.db.Do(r.ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		if w.Before != nil {
			if err := w.Before(ctx, tx, w.Job.ID); err != nil {
				return err
			}
		}
		err := begin(ctx, tx, w.Job)
		switch {
		case mysqltx.IsDuplicate(err) && recorded:
			return nil
		case mysqltx.IsDuplicate(err):
			return ErrKnown
		}
		recorded = err == nil
		return err
	})
	if err != nil {
		free()
		return nil, mysqltx.Wrap(err, "begin job %s", w.Job.ID)
	}
	j := &Handle{ID: w.Job.ID, done: make(chan struct{})}
	r.running.Go(func() {
		defer free()
		defer close(j.done)
		r.carryOut(w, &j.Progress)
	})
	return j, nil
}

// carryOut does the work, gives signs of life meanwhile, and records the end.
func (r *Runner) carryOut(w Work, told *Progress) {
	progress := func() (done, of int64) { return told.Of(w.Printed()) }
	var beats sync.WaitGroup
	beating, stop := context.WithCancel(r.ctx)
	beats.Go(func() { beat(beating, r.db.Pool(), w.Job.ID, progress, r.logger) })
	ended := r.do(w, told)
	stop()
	beats.Wait()
	ended.ID = w.Job.ID
	ended.Done, ended.Of = progress()
	record := end
	if ended.State == "" {
		record = forget
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), endWithin)
	defer cancel()
	err := r.db.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) error { return record(ctx, q, ended) })
	if err != nil { // it will be seen as interrupted
		r.logger.Error("end of a job not recorded", zap.String("job", w.Job.ID), zap.Error(err))
	}
}

// do does not let a panic end the process.
func (r *Runner) do(w Work, told *Progress) (ended Job) {
	defer func() {
		if p := recover(); p != nil {
			r.logger.Error("job panicked", zap.String("verb", w.Job.Verb), zap.Any("panic", p), zap.Stack("stack"))
			ended = Job{State: Failed}
		}
	}()
	return w.Do(r.ctx, told.Tell)
}

// Places are for what may happen at the same time.
type Places chan struct{}

// patience is how long Take waits.
const patience = 2 * time.Second

// Take waits a while for a place. free gives it back; nil: there was none.
func (p Places) Take(ctx context.Context) (free func()) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case p <- struct{}{}:
		return func() { <-p }
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}
