package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/jajeong/jajeong/internal/coupon"
	record "github.com/jajeong/jajeong/internal/job"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
)

// field is an input of a form.
type field struct {
	Name, Kind, Label, Value, Hint string
	Required, Either               bool
	Options                        []option
	Wrong                          string // what is wrong with the value
}

type option struct{ Value, Text string }

// form asks for values.
type form struct {
	Action, Method, Button string
	Fields                 []field
	Upload                 bool // the form has a file
}

// do executes what a preview shows.
type do struct {
	Action, Button string
	Hidden         []option
	Ask            bool   // another person must approve it first
	File           *field // is sent again; nil: there is none
}

// checked is the value of a checkbox that is on.
const checked = "true"

// grouped is a number as people write it, such as 10,000.
var grouped = regexp.MustCompile(`^[0-9]{1,3}(,[0-9]{3})+$`)

// valuesOf reads the fields of a form. complete reports whether every required one is there.
func valuesOf(one *verb.Verb, given url.Values) (v verb.Values, complete bool) {
	v, complete = verb.Values{}, true
	var anything, choice, chosen bool
	for _, f := range one.Fields {
		v[f.Name] = strings.TrimSpace(given.Get(f.Name))
		if f.Kind == verb.Number && grouped.MatchString(v[f.Name]) {
			v[f.Name] = strings.ReplaceAll(v[f.Name], ",", "")
		}
		complete = complete && (v[f.Name] != "" || !f.Required)
		anything = anything || v[f.Name] != ""
		choice, chosen = choice || f.Either, chosen || f.Either && v[f.Name] != ""
	}
	return v, complete && anything && choice == chosen
}

// fieldsOf are the inputs of a form, with what is wrong beside them.
func fieldsOf(l text.Language, one *verb.Verb, v verb.Values, wrong map[string]string) (fields []field) {
	for _, of := range one.Fields {
		f := field{Name: of.Name, Kind: string(of.Kind), Label: of.Label.In(l), Hint: of.Hint.In(l),
			Value: cmp.Or(v[of.Name], of.Default), Required: of.Required, Either: of.Either,
			Wrong: wrong[of.Name]}
		for _, choice := range of.Choices {
			f.Options = append(f.Options, option{choice, choiceWord(l, choice)})
		}
		fields = append(fields, f)
	}
	return fields
}

// choiceWord is a value that a select takes, in words. People also read the codes, which have capitals, elsewhere.
func choiceWord(l text.Language, choice string) string {
	word := cmp.Or(text.Word(l, choice), text.Word(l, strings.ToUpper(choice)))
	switch {
	case choice == "":
		return l.Sprintf(text.ConsoleAll)
	case choice == strings.ToUpper(choice):
		return strings.TrimSpace(choice + " " + word)
	default:
		return word
	}
}

// open returns the verb of a path and its values, if the person may use it.
func (c *Console) open(w http.ResponseWriter, r *http.Request,
	given url.Values) (one *verb.Verb, v verb.Values, complete bool) {
	if one = c.Verbs.Named(r.PathValue("change")); one == nil {
		c.refused(w, r, http.StatusNotFound, text.ConsoleNoPage)
		return nil, nil, false
	}
	v, complete = valuesOf(one, given)
	if !c.may(w, r, one.RightFor(v)) {
		return nil, nil, false
	}
	return one, v, complete
}

// back is the page of what a verb changes.
func back(one *verb.Verb, v verb.Values) string {
	switch {
	case one.On == verb.Holder && isID(v["user"]) && isID(v["coupon"]):
		return "/people/" + v["user"] + "/coupons/" + v["coupon"]
	case isID(v["coupon"]):
		return "/coupons/" + v["coupon"]
	default:
		return lists[one.Name()]
	}
}

// lists are the pages of verbs that concern no coupon that there is.
var lists = map[string]string{"create": "/coupons", "run": "/runs", "policy": "/policy", "honour": "/"}

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// with returns values and more of them, in pairs.
func with(v verb.Values, pairs ...string) verb.Values {
	v = maps.Clone(v)
	for i := 0; i+1 < len(pairs); i += 2 {
		v[pairs[i]] = pairs[i+1]
	}
	return v
}

// form shows the fields of a change and, when they are filled in, its preview and the button that makes it.
func (c *Console) form(w http.ResponseWriter, r *http.Request) {
	c.preview(w, r, upload{values: r.URL.Query()})
}

func (c *Console) preview(w http.ResponseWriter, r *http.Request, sent upload) {
	one, v, complete := c.open(w, r, sent.values)
	if one == nil {
		return
	}
	p := c.page(r, language(r).Sprintf(one.Title))
	p.Form = &form{Action: "/do/" + one.Name(), Method: "get", Button: p.say(text.ConsolePreview),
		Fields: fieldsOf(p.Language, one, v, nil)}
	p.Form.Fields = slices.DeleteFunc(p.Form.Fields, func(f field) bool { // one way of two, for which there is no right
		return f.Either && !p.Person.May(one.RightFor(verb.Values{f.Name: "1"}))
	})
	if file := fileField(p.Form.Fields); file != nil {
		p.Form.Method, p.Form.Upload = "post", true
		if r.Method == http.MethodPost && !complete {
			file.Wrong = p.say(text.ConsoleNoFile)
		}
	}
	p.Links = []link{{Text: p.say(text.ConsoleBack), Href: back(one, v)}}
	if !complete {
		p.Command = shell(one.Command(v))
		c.show(w, http.StatusOK, p)
		return
	}
	each := one.Path == "run" && v["coupon"] == "" // a run of each coupon has its own digest
	if each {
		p.leads = func(value any) string {
			if id, is := value.(coupon.CouponID); is {
				return query("/do/run", "coupon", id.String(), "date", v["date"])
			}
			return ""
		}
		p.Lead = append(p.Lead, p.say(text.ConsoleOneByOne))
	}
	within := pageTimeout
	if sent.file != nil {
		within = fileTimeout
	}
	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()
	stdin, file := sent.stdin(), sent.file != nil && one.TakesFile()
	sent.file = nil // the verb reads it at once
	seen := c.read(ctx, p, verb.Call{Verb: one, Values: with(v, "dry-run", checked), Stdin: stdin})
	for i := range p.Form.Fields {
		p.Form.Fields[i].Wrong = seen.Wrong[p.Form.Fields[i].Name]
	}
	policy, err := c.policy(r.Context())
	if err != nil {
		c.failed(w, r, err)
		return
	}
	asks := policy.Names(one.ActionOf(v), p.costWon)
	p.Command = shell(one.Command(with(execution(one, v, asks, p.digest), "operator", p.Person.Name, "reason", "…")))
	if p.digest != "" && !each { // without one, nothing would change
		p.Do = &do{Action: "/do/" + one.Name(), Button: p.say(one.Title), Ask: asks,
			Hidden: []option{{"job", rand.Text()}, {"digest", p.digest}}}
		if asks {
			p.Do.Hidden = append(p.Do.Hidden, option{"ask", checked})
		}
		for _, f := range one.Fields {
			if f.Kind != verb.File {
				p.Do.Hidden = append(p.Do.Hidden, option{f.Name, v[f.Name]})
			}
		}
		if of := fileField(p.Form.Fields); file && of != nil {
			again := *of
			again.Hint, again.Required = p.say(text.ConsoleSameFile), true
			p.Do.File = &again
		}
	}
	c.show(w, p.status(), p)
}

// execution has the values that make a change as its preview showed it, or ask for its approval.
func execution(one *verb.Verb, v verb.Values, ask bool, digest string) verb.Values {
	v = with(v, "expect-digest", digest)
	switch {
	case ask:
		v["ask"] = checked
	case one.Has("yes"):
		v["yes"] = checked
	}
	return v
}

// post makes a change in a job, or asks for its approval. A form with a file is first sent for its preview.
func (c *Console) post(w http.ResponseWriter, r *http.Request) {
	if !c.may(w, r, signin.Act) {
		return
	}
	if one := c.Verbs.Named(r.PathValue("change")); isUpload(r) && one != nil && // before a list arrives
		!c.may(w, r, one.RightFor(verb.Values{"file": "1"})) {
		return
	}
	sent, err := c.received(w, r)
	defer sent.pass.Leave()
	if err != nil {
		c.refused(w, r, http.StatusBadRequest, text.ConsoleWrong, text.In(language(r), err))
		return
	}
	if isUpload(r) && !sent.values.Has("digest") {
		c.preview(w, r, sent)
		return
	}
	one, v, complete := c.open(w, r, sent.values)
	if one == nil {
		return
	}
	person := signin.From(r.Context())
	reason, jobID, digest := strings.TrimSpace(sent.values.Get("reason")), sent.values.Get("job"),
		sent.values.Get("digest")
	if !complete || reason == "" || len(jobID) < 20 || len(jobID) > 40 {
		c.refused(w, r, http.StatusBadRequest, text.ConsoleReasonMissing)
		return
	}
	if !digestForm.MatchString(digest) {
		c.refused(w, r, http.StatusBadRequest, text.ConsoleNoPreview)
		return
	}
	// The preview has found out whether the policy asks for an approval. A verb that needs one and has none is refused.
	title, asks, of := language(r).Sprintf(one.Title), sent.values.Get("ask") == checked, back(one, v)
	v = with(execution(one, v, asks, digest), "operator", person.Name, "reason", reason)
	if one.Has("key") && !asks {
		v["key"] = "console-" + jobID // a form that is sent again creates nothing
	}
	if asks {
		title = language(r).Sprintf(text.ConsoleAsk, title)
	}
	c.start(w, r, &job{ID: jobID, Person: person, Title: title, Back: of}, one, v, sent)
}

// start runs a verb in a job, and shows its page: with the result, if it ends soon. A form that was sent before leads
// to its job.
func (c *Console) start(w http.ResponseWriter, r *http.Request, j *job, one *verb.Verb, v verb.Values, sent upload) {
	l := language(r)
	j.Command, j.Began = shell(one.Command(v)), c.Now()
	list, stdin := sent.pass, sent.stdin() // sent has the whole list, which the verb reads at once
	list.Share()
	begun, err := c.Jobs.Start(r.Context(), record.Work{
		Job:     record.Job{ID: j.ID, Caller: j.Person.Name, Verb: one.Asked(v), Digest: v["expect-digest"]},
		Printed: j.printed,
		Do: func(ctx context.Context, tell func(done, of int)) record.Job {
			defer list.Leave()
			j.exit = serversAway // after a panic
			c.metrics.running.Inc()
			defer func() {
				c.metrics.running.Dec()
				c.metrics.ended.WithLabelValues(resultOf(j.exit)).Inc()
			}()
			answer := c.Run(ctx, verb.Call{By: j.Person, Language: l, Verb: one, Values: v, Stdin: stdin,
				Stdout: &j.Out, Stderr: &j.Notes, Progress: tell})
			for _, wrong := range besides(nil, answer.Wrong) {
				fmt.Fprintln(&j.Notes, wrong)
			}
			j.exit = answer.Exit
			return record.Job{State: stateOf(answer.Exit)}
		},
	})
	if err != nil {
		list.Leave()
	}
	switch {
	case err == nil:
		j.begun = begun
		c.kept.add(j)
		begun.Await(r.Context(), record.Quickly)
	case errors.Is(err, record.ErrKnown): // its page is below
	case errors.Is(err, record.ErrBusy):
		c.metrics.refused.WithLabelValues(jobsBusy).Inc()
		c.refused(w, r, http.StatusServiceUnavailable, text.ConsoleBusy)
		return
	default:
		c.failed(w, r, err)
		return
	}
	http.Redirect(w, r, "/jobs/"+j.ID, http.StatusSeeOther)
}

// jobPage shows a job with its result to the person who began it, and other jobs as they are recorded.
func (c *Console) jobPage(w http.ResponseWriter, r *http.Request) {
	j := c.kept.find(r.PathValue("id"))
	if j == nil || j.Person.SignIn != signin.From(r.Context()).SignIn {
		c.recordPage(w, r)
		return
	}
	locale, err := c.locale(r.Context(), language(r))
	if err != nil {
		c.failed(w, r, err)
		return
	}
	p := c.page(r, j.Title)
	p.Command, p.Links = j.Command, []link{{Text: p.say(text.ConsoleBack), Href: j.Back}}
	p.Blocks = p.blocks(j.Out.Blocks())
	p.Notes = lines(j.Notes.Blocks())
	switch {
	case !j.ended():
		p.Refresh = true
		done, of := j.begun.Of(j.printed())
		soFar := output.Grouped(fmt.Sprint(done))
		if of > 0 {
			soFar += " / " + output.Grouped(fmt.Sprint(of))
		}
		p.Lead = []string{p.say(text.ConsoleWorking, locale.Instant(j.Began), soFar)}
	case j.exit == 0:
		p.Lead = []string{p.say(text.ConsoleDone)}
	default:
		p.Lead, p.Bad = []string{p.say(text.ConsoleNotDone, j.exit)}, true
	}
	c.show(w, http.StatusOK, p)
}
