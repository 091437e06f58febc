package adminapi

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/job"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/verb"
)

// order is a change that is to be carried out.
type order struct {
	call verb.Call
	key  string // Idempotency-Key; empty: the change is safe to repeat by itself

	again bool // an earlier job of the key failed or was interrupted: it may have made the change
}

// accepted is the body of 202.
type accepted struct {
	Job   string    `json:"job"`
	State job.State `json:"state"`
}

// carryOut makes a change in a job, and returns its answer: that of an earlier job, if the caller has sent the order
// before, or the address of the job, if that does not end soon.
func (a *API) carryOut(r *http.Request, o order, list *httpapi.Pass) answer {
	var repeated *answer
	var out printed
	var notes output.Document
	made := refuse(internal) // after a panic
	c := o.call
	list.Share()
	begun, err := a.Jobs.Start(r.Context(), job.Work{
		Job: job.Job{ID: rand.Text(), Caller: c.By.Name, Verb: c.Verb.Asked(c.Values),
			Digest: c.Values["expect-digest"]},
		Before: func(ctx context.Context, tx *sql.Tx, id string) (err error) {
			if o.key != "" {
				repeated, o.again, err = takeKey(ctx, tx, id, o)
			}
			return err
		},
		Printed: notes.Count,
		Do: func(ctx context.Context, tell func(done, of int)) job.Job {
			defer list.Leave()
			c.Stdout, c.Stderr, c.Progress = &out, &notes, tell
			made = answerOf(a.Run(ctx, c), &out, &notes, c.Language)
			if o.again && (made.result == previewChanged || made.result == approvalWrong) {
				made = refuse(mayBeDone)
			}
			return made.ofJob(o)
		},
	})
	switch {
	case err == nil && begun.Await(r.Context(), a.Quickly):
		return made
	case err == nil:
		return answer{status: http.StatusAccepted, location: addressOf(begun.ID),
			body: httpapi.Marshal(accepted{Job: begun.ID, State: job.Running})}
	}
	list.Leave()
	switch {
	case repeated != nil:
		return *repeated
	case errors.Is(err, job.ErrBusy):
		a.metrics.refused.WithLabelValues(busy).Inc()
	default:
		a.Logger.Warn("job not started", httpapi.LogRequest(r), zap.Error(err))
	}
	return refuse(unavailable)
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
	all, err := job.List(r.Context(), a.DB, job.Filter{Caller: ofCaller(caller), Limit: maxListed})
	if err != nil {
		a.Logger.Warn("jobs not read", httpapi.LogRequest(r), zap.Error(err))
		return refuse(unavailable)
	}
	return succeed(httpapi.Marshal(struct {
		Jobs []job.Job `json:"jobs"`
	}{all}))
}

func (a *API) showJob(_ http.ResponseWriter, r *http.Request, caller signin.Person) answer {
	shown, err := job.Read(r.Context(), a.DB, r.PathValue("job"))
	switch {
	case err != nil:
		a.Logger.Warn("job not read", httpapi.LogRequest(r), zap.Error(err))
		return refuse(unavailable)
	case shown == nil || ofCaller(caller) != "" && shown.Caller != caller.Name:
		return refuse(doesNotExist)
	}
	return succeed(httpapi.Marshal(shown))
}
