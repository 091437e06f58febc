package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/jajeong/jajeong/internal/audit"
	record "github.com/jajeong/jajeong/internal/job"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
)

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

// lastJobs are links to the person's last jobs, and to those of the management API for who may see lists.
func (c *Console) lastJobs(ctx context.Context, p *page, locale output.Locale) (links []link, err error) {
	all, err := record.List(ctx, c.DB, record.Filter{Caller: p.Person.Name, Limit: maxShownJobs})
	if err == nil && p.Person.May(signin.SeeLists) {
		var ofKeys []record.Job
		ofKeys, err = record.List(ctx, c.DB, record.Filter{Keys: true, Limit: maxShownJobs})
		all = append(all, ofKeys...)
	}
	for _, j := range all {
		title := output.Printable(fmt.Sprint(j.Caller, ", ", j.Verb))
		if j.Caller == p.Person.Name {
			title = c.titleOf(p, j.Verb)
		}
		state := p.say(text.ConsoleJobStates[string(j.State)])
		links = append(links, link{Href: "/jobs/" + j.ID,
			Text: p.say(text.ConsoleJob, title, locale.Instant(j.BeganAt), state)})
	}
	return links, err
}

// titleOf is that of a verb as a job records it: what was asked for was not done.
func (c *Console) titleOf(p *page, recorded string) string {
	path, asked := strings.CutSuffix(recorded, verb.Asks)
	one := c.Verbs.At(path)
	switch {
	case one == nil || one.Title == text.Message{}:
		return "settle " + output.Printable(recorded)
	case asked:
		return p.say(text.ConsoleAsk, p.say(one.Title))
	default:
		return p.say(one.Title)
	}
}

// recordPage shows what is recorded of a job: to the person whose it is, and of a key's to who may see lists.
func (c *Console) recordPage(w http.ResponseWriter, r *http.Request) {
	person := signin.From(r.Context())
	j, err := record.Read(r.Context(), c.DB, r.PathValue("id"))
	locale, unknown := c.locale(r.Context(), language(r))
	switch {
	case err != nil || unknown != nil:
		c.failed(w, r, errors.Join(err, unknown))
		return
	case j == nil || j.Caller != person.Name && !(audit.NamesKey(j.Caller) && person.May(signin.SeeLists)):
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
