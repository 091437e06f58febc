package adminapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/verb"
)

const (
	// maxRunning bounds how many jobs of this process run: each takes connections.
	maxRunning = 8
	// beat is the time between two signs of life of a job.
	beat = 5 * time.Second
	// endWithin bounds the time to record the end of a job.
	endWithin = 10 * time.Second
)

// order is a change that is to be carried out.
type order struct {
	call verb.Call
	key  string // Idempotency-Key; empty: the change is safe to repeat by itself
}

// job is a change that this process carries out.
type job struct {
	id     string
	done   chan struct{}
	answer answer // read only after done
}

// await returns the answer of a job that ends soon, and otherwise its address.
func (j *job) await(r *http.Request, quickly time.Duration) answer {
	timer := time.NewTimer(quickly)
	defer timer.Stop()
	select {
	case <-j.done:
		return j.answer
	case <-timer.C:
	case <-r.Context().Done():
	}
	return answer{status: http.StatusAccepted, location: addressOf(j.id),
		body: httpapi.Marshal(accepted{Job: j.id, State: running})}
}

// accepted is the body of 202.
type accepted struct {
	Job   string `json:"job"`
	State state  `json:"state"`
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
func (s *jobs) start(ctx context.Context, o order) (started *job, repeated *answer, err error) {
	free := s.places.take(ctx)
	if free == nil || s.ctx.Err() != nil {
		return nil, nil, nil
	}
	j := &job{id: rand.Text(), done: make(chan struct{})}
	if repeated, err = s.begin(s.ctx, j.id, o); err != nil || repeated != nil {
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
	beating, stop := context.WithCancel(s.ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.beat(beating, id, &notes)
	}()
	c := o.call
	c.Stdout, c.Stderr = &out, &notes
	answered, panicked := s.runVerb(c)
	stop()
	<-stopped
	if a = answerOf(answered, &out, &notes, c.Language); panicked {
		a = refuse(internal)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), endWithin)
	defer cancel()
	var err error
	if answered.Invalid { // nothing ran: the same key may come with other values
		err = s.forget(ctx, id)
	} else {
		err = s.end(ctx, id, notes.Count(), a, o.call.Language)
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

// beat records signs of life until ctx ends.
func (s *jobs) beat(ctx context.Context, id string, notes *output.Document) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := s.alive(ctx, id, notes.Count()); err != nil && ctx.Err() == nil {
				s.logger.Warn("sign of life of a job not recorded", zap.String("job", id), zap.Error(err))
			}
		case <-ctx.Done():
			return
		}
	}
}

// cleanEvery is how often old rows are deleted.
const cleanEvery = 10 * time.Minute

// clean deletes old rows until ctx ends.
func (s *jobs) clean(ctx context.Context) {
	tick := time.NewTicker(cleanEvery)
	defer tick.Stop()
	for {
		if err := s.deleteOld(ctx); err != nil && ctx.Err() == nil {
			s.logger.Warn("old jobs not deleted", zap.Error(err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
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
	all, err := a.jobs.list(r.Context(), ofCaller(caller))
	if err != nil {
		a.Logger.Warn("jobs not read", httpapi.LogRequest(r), zap.Error(err))
		return refuse(unavailable)
	}
	return succeed(httpapi.Marshal(struct {
		Jobs []Job `json:"jobs"`
	}{all}))
}

func (a *API) showJob(_ http.ResponseWriter, r *http.Request, caller signin.Person) answer {
	shown, err := a.jobs.read(r.Context(), r.PathValue("job"))
	switch {
	case err != nil:
		a.Logger.Warn("job not read", httpapi.LogRequest(r), zap.Error(err))
		return refuse(unavailable)
	case shown == nil || ofCaller(caller) != "" && shown.Caller != caller.Name:
		return refuse(doesNotExist)
	}
	return succeed(httpapi.Marshal(shown))
}

// stateOf is how a job with an answer has ended.
func stateOf(status int) state {
	switch {
	case status < http.StatusBadRequest:
		return done
	case status < http.StatusInternalServerError:
		return refusedState
	default:
		return failed
	}
}

// problemBody is a problem as a job keeps it: without the name of its request.
func problemBody(a answer, english bool) (status int, body json.RawMessage) {
	p := problems.Of(a.result)
	if a.detail != "" {
		p = p.WithDetails(a.detail, a.detail)
	}
	said := p.Korean
	if english {
		said = p.English
	}
	return p.Status, httpapi.Marshal(problem{p.Document(said), a.errors, a.printed})
}
