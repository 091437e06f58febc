package adminapi

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/job"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/verb"
)

const (
	// maxRunning bounds how many jobs of this process run: each takes connections.
	maxRunning = 8
	// endWithin bounds the time to record the end of a job.
	endWithin = 10 * time.Second
)

// order is a change that is to be carried out.
type order struct {
	call verb.Call
	key  string // Idempotency-Key; empty: the change is safe to repeat by itself

	again bool // an earlier job of the key failed or was interrupted: it may have made the change
}

// work is a job of this process.
type work struct {
	id     string
	done   chan struct{}
	answer answer // read only after done
}

// await returns the answer of a job that ends soon, and otherwise its address.
func (j *work) await(r *http.Request, quickly time.Duration) answer {
	timer := time.NewTimer(quickly)
	defer timer.Stop()
	select {
	case <-j.done:
		return j.answer
	case <-timer.C:
	case <-r.Context().Done():
	}
	return answer{status: http.StatusAccepted, location: addressOf(j.id),
		body: httpapi.Marshal(accepted{Job: j.id, State: job.Running})}
}

// accepted is the body of 202.
type accepted struct {
	Job   string    `json:"job"`
	State job.State `json:"state"`
}

// jobs carries out changes, and records them.
type jobs struct {
	rows
	ctx     context.Context
	run     func(ctx context.Context, c verb.Call) verb.Answer
	logger  *zap.Logger
	places  places
	running sync.WaitGroup
}

func newJobs(ctx context.Context, db *mysqltx.DB, run func(ctx context.Context, c verb.Call) verb.Answer,
	logger *zap.Logger) *jobs {
	return &jobs{rows: rows{db}, ctx: ctx, run: run, logger: logger, places: make(places, maxRunning)}
}

// start begins a job. If the caller has sent the order before, start returns the answer to that instead. It returns
// neither if too many jobs run.
func (s *jobs) start(ctx context.Context, o order) (started *work, repeated *answer, err error) {
	free := s.places.take(ctx)
	if free == nil {
		return nil, nil, nil
	}
	j := &work{id: rand.Text(), done: make(chan struct{})}
	if repeated, err = s.begin(s.ctx, j.id, &o); err != nil || repeated != nil {
		free()
		return nil, repeated, err
	}
	s.running.Go(func() {
		defer free()
		defer close(j.done)
		j.answer = s.carryOut(j.id, o)
	})
	return j, nil, nil
}

// carryOut runs the verb of a job, and records its answer.
func (s *jobs) carryOut(id string, o order) (a answer) {
	var out printed
	var notes output.Document
	var told job.Progress
	progress := func() (done, of int64) { return told.Of(notes.Count()) }
	beating, stop := context.WithCancel(s.ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		job.Beat(beating, s.db.Pool(), id, progress, s.logger)
	}()
	c := o.call
	c.Stdout, c.Stderr, c.Progress = &out, &notes, told.Tell
	answered, panicked := s.runVerb(c)
	stop()
	<-stopped
	if a = answerOf(answered, &out, &notes, c.Language); panicked {
		a = refuse(internal)
	}
	if o.again && (a.result == previewChanged || a.result == approvalWrong) {
		a = refuse(mayBeDone)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), endWithin)
	defer cancel()
	var err error
	if a.result == invalidValues { // nothing was changed: the same key may come with other values
		err = s.forget(ctx, id)
	} else {
		done, of := progress()
		err = s.end(ctx, job.Job{ID: id, Done: done, Of: of}, a, o.call.Language)
	}
	if err != nil { // it will be seen as interrupted
		s.logger.Error("end of a job not recorded", zap.String("job", id), zap.Error(err))
	}
	return a
}

func (s *jobs) runVerb(c verb.Call) (answered verb.Answer, panicked bool) {
	defer func() {
		if p := recover(); p != nil {
			s.logger.Error("job panicked", zap.String("verb", c.Verb.Path), zap.Any("panic", p), zap.Stack("stack"))
			panicked = true
		}
	}()
	return s.run(s.ctx, c), false
}

// maxListed bounds a list of jobs.
const maxListed = 100

// ofCaller is the caller whose jobs a caller may see; empty: all.
func ofCaller(caller signin.Person) string {
	if caller.May(signin.SeeLists) {
		return ""
	}
	return caller.Name
}

func (a *API) listJobs(_ http.ResponseWriter, r *http.Request, caller signin.Person) answer {
	all, err := job.List(r.Context(), a.DB.Pool(), job.Filter{Caller: ofCaller(caller), Limit: maxListed})
	if err != nil {
		a.Logger.Warn("jobs not read", httpapi.LogRequest(r), zap.Error(err))
		return refuse(unavailable)
	}
	return succeed(httpapi.Marshal(struct {
		Jobs []job.Job `json:"jobs"`
	}{all}))
}

func (a *API) showJob(_ http.ResponseWriter, r *http.Request, caller signin.Person) answer {
	shown, err := job.Read(r.Context(), a.DB.Pool(), r.PathValue("job"))
	switch {
	case err != nil:
		a.Logger.Warn("job not read", httpapi.LogRequest(r), zap.Error(err))
		return refuse(unavailable)
	case shown == nil || ofCaller(caller) != "" && shown.Caller != caller.Name:
		return refuse(doesNotExist)
	}
	return succeed(httpapi.Marshal(shown))
}
