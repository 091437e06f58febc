package console

import (
	"context"
	"slices"
	"sync"
	"time"

	record "github.com/jajeong/jajeong/internal/job"

	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
)

const (
	// maxJobs bounds how many jobs are remembered, and maxRunning how many run: each takes connections.
	maxJobs    = 500
	maxRunning = 8
	// quickly is how long a form waits for its job, so that a short one shows its result at once.
	quickly = 2 * time.Second
)

// job is one run of a verb that changes something.
type job struct {
	ID      string
	Person  signin.Person
	Title   string // in the language of the person
	Back    string // path of what was changed
	Command string
	Began   time.Time

	Out, Notes output.Document
	progress   record.Progress
	done       chan struct{}
	exit       int // read only after done
}

func (j *job) ended() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// jobs runs and remembers jobs.
type jobs struct {
	ctx     context.Context
	now     func() time.Time
	running sync.WaitGroup
	metrics metrics

	mu  sync.Mutex
	all []*job // oldest first
}

func newJobs(ctx context.Context, now func() time.Time, m metrics) *jobs {
	return &jobs{ctx: ctx, now: now, metrics: m}
}

func (s *jobs) find(id string) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.all {
		if j.ID == id {
			return j
		}
	}
	return nil
}

// mine returns the person's jobs that run, and those that ended, the newest first.
func (s *jobs) mine(person signin.Person) (all []*job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range slices.Backward(s.all) {
		if j.Person.SignIn == person.SignIn {
			all = append(all, j)
		}
	}
	return all
}

// start runs a job, unless one with its id exists: that one is returned. It returns nil if too many jobs run.
func (s *jobs) start(j *job, run func(ctx context.Context, j *job) (exit int)) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	running := 0
	for _, other := range s.all {
		if other.ID == j.ID {
			return other
		}
		if !other.ended() {
			running++
		}
	}
	if running >= maxRunning || s.ctx.Err() != nil {
		return nil
	}
	if at := slices.IndexFunc(s.all, (*job).ended); len(s.all) >= maxJobs && at >= 0 {
		s.all = slices.Delete(s.all, at, at+1)
	}
	j.Began, j.done = s.now(), make(chan struct{})
	s.all = append(s.all, j)
	s.metrics.running.Inc()
	s.running.Go(func() {
		defer close(j.done)
		j.exit = run(s.ctx, j)
		s.metrics.running.Dec()
		s.metrics.ended.WithLabelValues(resultOf(j.exit)).Inc()
	})
	return j
}
