package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/audit"
	record "github.com/jajeong/jajeong/internal/job"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
)

// endWithin bounds the time to record the end of a job.
const endWithin = 10 * time.Second

// stateOf is how a job with an exit code has ended.
func stateOf(exit int) record.State {
	switch exit {
	case 0:
		return record.Done
	case 2, 3:
		return record.Refused
	default:
		return record.Failed
	}
}

// recorded runs the verb of a job, and records the job for others: the management API lists it. What is not recorded
// runs nevertheless.
func (c *Console) recorded(ctx context.Context, j *job, v *verb.Verb, digest string, run func() (exit int)) (exit int) {
	is := record.Job{ID: j.ID, Caller: j.Person.Name, Verb: v.Path, Digest: digest}
	if err := record.Begin(ctx, c.DB, is); err != nil {
		c.Logger.Warn("job not recorded", zap.String("job", j.ID), zap.Error(err))
		return run()
	}
	progress := func() (done, of int64) { return j.progress.Of(j.Out.Count() + j.Notes.Count()) }
	beating, stop := context.WithCancel(ctx)
	var beats sync.WaitGroup
	beats.Go(func() { record.Beat(beating, c.DB, j.ID, progress, c.Logger) })
	exit = run()
	stop()
	beats.Wait()
	is.State = stateOf(exit)
	is.Done, is.Of = progress()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	if err := record.End(ending, c.DB, is); err != nil {
		c.Logger.Warn("end of a job not recorded", zap.String("job", j.ID), zap.Error(err))
	}
	return exit
}

// ofKeys are links to the last jobs of the management API, for who may see lists.
func (c *Console) ofKeys(ctx context.Context, p *page, locale output.Locale) (links []link, err error) {
	if !p.Person.May(signin.SeeLists) {
		return nil, nil
	}
	all, err := record.List(ctx, c.DB, record.Filter{Keys: true, Limit: maxShownJobs})
	for _, j := range all {
		m := text.ConsoleJobEnded
		if j.State == record.Running {
			m = text.ConsoleJobRuns
		}
		links = append(links, link{Text: p.say(m, output.Printable(fmt.Sprint(j.Caller, ", ", j.Verb)),
			locale.Instant(j.BeganAt)), Href: "/jobs/" + j.ID})
	}
	return links, err
}

// recordPage shows a job of a key to who may see lists. What a person does is that person's.
func (c *Console) recordPage(w http.ResponseWriter, r *http.Request) {
	var j *record.Job
	var err error
	if signin.From(r.Context()).May(signin.SeeLists) {
		j, err = record.Read(r.Context(), c.DB, r.PathValue("id"))
	}
	locale, unknown := c.locale(r.Context(), language(r))
	switch {
	case err != nil || unknown != nil:
		c.failed(w, r, errors.Join(err, unknown))
		return
	case j == nil || !audit.NamesKey(j.Caller):
		c.refused(w, r, http.StatusNotFound, text.ConsoleNoJob)
		return
	}
	p := c.page(r, "settle "+j.Verb)
	p.Refresh = j.State == record.Running
	p.Lead, p.Bad = []string{p.say(text.ConsoleJobStates[string(j.State)])},
		j.State != record.Running && j.State != record.Done
	p.Links = []link{{Text: p.say(text.ConsoleBack), Href: "/"}}
	p.Blocks = []block{{Table: &tableOf{Plain: true, Rows: [][]cell{
		p.cells([]any{p.say(text.ColumnActor), j.Caller}), p.cells([]any{p.say(text.ColumnStatus), string(j.State)}),
		p.cells([]any{p.say(text.ColumnStartedAt), locale.Instant(j.BeganAt)}),
		p.cells([]any{p.say(text.ConsoleLastSign), locale.Instant(j.At)}),
		p.cells([]any{p.say(text.ConsoleWorked), j.Done}),
		p.cells([]any{p.say(text.ConsoleDigest), j.Digest})}}}}
	c.show(w, http.StatusOK, p)
}
