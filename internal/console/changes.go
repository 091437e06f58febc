package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
)

// Pages that have the link to a change.
const (
	elsewhere = iota
	onCoupon
	onPerson
)

// change is a verb that changes something.
type change struct {
	name   string // name of the change in paths
	title  text.Message
	menu   int
	right  func(values map[string]string) signin.Right
	fields []field
	args   func(v map[string]string) []string // arguments of the verb; a field that is a flag has the flag's name
	back   func(v map[string]string) string
}

// field is an input of a form.
type field struct {
	Name, Kind, Label, Value, Hint string
	Required                       bool
	Options                        []option

	label, hint text.Message
	choices     []choice // of a select
	first       string   // value of a form that nobody has filled in yet
}

// choice is a value that a select takes.
type choice struct {
	value string
	word  func(l text.Language) string
}

// causes are those of DLQ entries, and all of them.
func causes() []choice {
	all := []choice{{"", func(l text.Language) string { return l.Sprintf(text.ConsoleAll) }}}
	for _, cause := range append(slices.Clone(coupon.Causes), history.UnknownCause) {
		all = append(all, choice{string(cause), func(l text.Language) string {
			return string(cause) + " " + text.Word(l, string(cause))
		}})
	}
	return all
}

// cadences are the values of settle coupon create --cadence.
func cadences() (all []choice) {
	for _, cadence := range []coupon.Cadence{coupon.Nightly, coupon.Immediate} {
		all = append(all, choice{strings.ToLower(string(cadence)),
			func(l text.Language) string { return text.Word(l, string(cadence)) }})
	}
	return all
}

type option struct{ Value, Text string }

func always(r signin.Right) func(map[string]string) signin.Right {
	return func(map[string]string) signin.Right { return r }
}

// ofOne needs less for the entry of one person than for many, or for the whole line.
func ofOne(v map[string]string) signin.Right {
	if coupon.ParseUserID(v["user"]) > 0 && v["cause"] == "" && v["now"] == "" {
		return signin.ReviewPerson
	}
	return signin.Settle
}

var (
	couponField = field{Name: "coupon", Kind: "number", label: text.ColumnCoupon, Required: true}
	userField   = field{Name: "user", Kind: "number", label: text.ColumnUser, Required: true}
	someUser    = field{Name: "user", Kind: "text", label: text.ColumnUser}
	causeField  = field{Name: "cause", Kind: "select", label: text.ColumnCause, choices: causes()}
	yesNo       = "checkbox"
)

func toCoupon(v map[string]string) string { return "/coupons/" + v["coupon"] }

func toPerson(v map[string]string) string { return "/people/" + v["user"] + "/coupons/" + v["coupon"] }

// ofCoupon is settle coupon VERB ID with the flags of the fields.
func ofCoupon(verb string, flags ...string) func(map[string]string) []string {
	return func(v map[string]string) []string {
		args := []string{"coupon", verb, v["coupon"]}
		for _, name := range flags {
			if v[name] == "on" {
				args = append(args, "--"+name)
			} else {
				args = append(args, flag(name, v[name])...)
			}
		}
		return args
	}
}

func simple(name string, title text.Message, right signin.Right) change {
	return change{name: name, title: title, menu: onCoupon, right: always(right),
		fields: []field{couponField}, args: ofCoupon(name), back: toCoupon}
}

func ofPerson(name string, title text.Message, more ...field) change {
	flags := []string{"user"}
	for _, f := range more {
		flags = append(flags, f.Name)
	}
	return change{name: name, title: title, menu: onPerson, right: always(signin.ChangePerson),
		fields: append([]field{couponField, userField}, more...),
		args:   ofCoupon(name, flags...), back: toPerson}
}

// creation is settle coupon create. The values have the names of its flags.
func creation(v map[string]string) []string {
	args := []string{"coupon", "create"}
	for _, name := range []string{"name", "seats", "opens", "closes", "cadence", "discount-won", "discount-percent",
		"discount-max-won", "minimum-won", "validity-days", "campaign", "line-limit"} {
		args = append(args, flag(name, v[name])...)
	}
	return args
}

func chosen(v map[string]string) []string {
	return join(flag("coupon", v["coupon"]), flag("user", v["user"]), flag("cause", v["cause"]))
}

var changes = []change{
	{name: "create", title: text.ConsoleCreate, right: always(signin.Campaign),
		fields: []field{
			{Name: "name", Kind: "text", label: text.ConsoleName, Required: true},
			{Name: "seats", Kind: "number", label: text.ColumnSeats, Required: true},
			{Name: "opens", Kind: "datetime-local", label: text.ConsoleOpens, Required: true},
			{Name: "closes", Kind: "datetime-local", label: text.ConsoleCloses, Required: true},
			{Name: "cadence", Kind: "select", label: text.ColumnCadence, choices: cadences(), first: "nightly"},
			{Name: "discount-won", Kind: "number", label: text.ConsoleDiscountWon, hint: text.ConsoleDiscountHint},
			{Name: "discount-percent", Kind: "number", label: text.ConsoleDiscountPercent},
			{Name: "discount-max-won", Kind: "number", label: text.ConsoleDiscountMax},
			{Name: "minimum-won", Kind: "number", label: text.ConsoleMinimum},
			{Name: "validity-days", Kind: "number", label: text.ConsoleValidity, first: "30"},
			{Name: "campaign", Kind: "number", label: text.ConsoleCampaign},
			{Name: "line-limit", Kind: "number", label: text.ConsoleLineLimit, hint: text.ConsoleLineLimitHint}},
		args: creation,
		back: func(map[string]string) string { return "/coupons" }},
	simple("pause", text.ConsolePause, signin.Campaign), simple("resume", text.ConsoleResume, signin.Campaign),
	simple("close", text.ConsoleClose, signin.Campaign),
	simple("freeze", text.ConsoleFreeze, signin.ChangeCoupon),
	simple("unfreeze", text.ConsoleUnfreeze, signin.ChangeCoupon),
	simple("recount", text.ConsoleRecount, signin.ChangeCoupon),
	{name: "cadence", title: text.ConsoleCadence, menu: onCoupon, right: always(signin.Campaign),
		fields: []field{couponField, {Name: "cadence", Kind: "select", label: text.ColumnCadence, choices: cadences(),
			Required: true}},
		args: func(v map[string]string) []string {
			return []string{"coupon", "cadence", v["coupon"], v["cadence"]}
		}, back: toCoupon},
	{name: "extend", title: text.ConsoleExtend, menu: onCoupon, right: always(signin.Campaign),
		fields: []field{couponField, {Name: "closes", Kind: "datetime-local", label: text.ConsoleNewEnd,
			Required: true}}, args: ofCoupon("extend", "closes"), back: toCoupon},
	{name: "add-seats", title: text.ConsoleAddSeats, menu: onCoupon, right: always(signin.Campaign),
		fields: []field{couponField, {Name: "seats", Kind: "number", label: text.ConsoleSeats, Required: true}},
		args:   ofCoupon("add-seats", "seats"), back: toCoupon},
	{name: "restore", title: text.ConsoleRestore, menu: onCoupon, right: always(signin.ChangeCoupon),
		fields: []field{couponField},
		args:   func(v map[string]string) []string { return []string{"restore", "--coupon=" + v["coupon"]} },
		back:   toCoupon},
	{name: "run", title: text.ConsoleRunAgain, menu: onCoupon, right: always(signin.Settle),
		fields: []field{{Name: "coupon", Kind: "number", label: text.ColumnCoupon, hint: text.ConsoleAllCoupons},
			{Name: "date", Kind: "date", label: text.ConsoleNight, Required: true},
			{Name: "accept-gap", Kind: yesNo, label: text.ConsoleAcceptGap}},
		args: func(v map[string]string) []string {
			args := join([]string{"run"}, flag("coupon", v["coupon"]), flag("date", v["date"]))
			if v["accept-gap"] == "on" {
				args = append(args, "--accept-gap")
			}
			return args
		},
		back: func(v map[string]string) string {
			if v["coupon"] == "" {
				return "/runs"
			}
			return toCoupon(v)
		}},
	{name: "retry", title: text.ConsoleRetry, menu: onPerson, right: ofOne,
		fields: []field{couponField, someUser, causeField,
			{Name: "canary", Kind: "number", label: text.ConsoleCanary, hint: text.ConsoleCanaryHint},
			{Name: "now", Kind: yesNo, label: text.ConsoleCutoffNow}},
		args: func(v map[string]string) []string {
			args := join([]string{"dlq", "retry"}, chosen(v), flag("canary", v["canary"]))
			if v["now"] == "on" {
				args = append(args, "--cutoff=now")
			}
			return args
		}, back: toCoupon},
	{name: "drop", title: text.ConsoleDrop, menu: onPerson, right: ofOne,
		fields: []field{couponField, someUser, causeField},
		args:   func(v map[string]string) []string { return join([]string{"dlq", "drop", "--yes"}, chosen(v)) },
		back:   toCoupon},
	ofPerson("grant", text.ConsoleGrant),
	ofPerson("revoke", text.ConsoleRevoke,
		field{Name: "free-seat", Kind: yesNo, label: text.ConsoleFreeSeat}),
	ofPerson("reissue", text.ConsoleReissue),
	ofPerson("extend-user", text.ConsoleExtendUser,
		field{Name: "until", Kind: "date", label: text.ConsoleUntil, Required: true}),
	{name: "honour", title: text.ConsoleHonour, right: always(signin.ChangePerson),
		fields: []field{{Name: "receipt", Kind: "text", label: text.ConsoleReceipt, Required: true}},
		args:   func(v map[string]string) []string { return []string{"receipt", "honour", v["receipt"]} },
		back:   func(map[string]string) string { return "/" }},
	{name: "policy", title: text.ConsoleSetPolicy, right: always(signin.SetPolicy),
		fields: []field{{Name: "actions", Kind: "text", label: text.ConsoleActions, hint: text.ConsoleActionsHint},
			{Name: "shared-accounts", Kind: "text", label: text.ConsoleShared, hint: text.ConsoleListStays},
			{Name: "person", Kind: "text", label: text.ConsolePersons, hint: text.ConsolePersonsHint},
			{Name: "zone", Kind: "text", label: text.ConsoleZone, hint: text.ConsoleZoneHint}},
		args: func(v map[string]string) []string {
			return join([]string{"policy", "set"}, flag("actions", v["actions"]),
				flag("shared-accounts", v["shared-accounts"]), flag("person", v["person"]), flag("zone", v["zone"]))
		},
		back: func(map[string]string) string { return "/policy" }},
}

func changeOf(name string) *change {
	for i := range changes {
		if changes[i].name == name {
			return &changes[i]
		}
	}
	return nil
}

// form asks for values.
type form struct {
	Action, Method, Button string
	Fields                 []field
}

// do executes what a preview shows.
type do struct {
	Action, Button string
	Hidden         []option
	Ask            bool // another person must approve it first
}

// values reads the fields of a change. complete reports whether every required one is there.
func (one *change) values(given url.Values) (v map[string]string, complete bool) {
	v, complete = map[string]string{}, true
	anything := false
	for _, f := range one.fields {
		v[f.Name] = strings.TrimSpace(given.Get(f.Name))
		complete = complete && (v[f.Name] != "" || !f.Required)
		anything = anything || v[f.Name] != ""
	}
	return v, complete && anything
}

// wrong says which value does not have its form: a value becomes one argument of a verb, and the verb checks what it
// means.
func (one *change) wrong(v map[string]string) (wrong field, found bool) {
	for _, f := range one.fields {
		value := v[f.Name]
		switch f.Kind {
		case "number":
			if value != "" && !isID(value) {
				return f, true
			}
		case yesNo:
			if value != "" && value != "on" {
				return f, true
			}
		case "select":
			if value != "" && !slices.ContainsFunc(f.choices, func(c choice) bool { return c.value == value }) {
				return f, true
			}
		default:
			if strings.HasPrefix(value, "-") || len(value) > maxQuery {
				return f, true
			}
		}
	}
	return field{}, false
}

func (one *change) shown(l text.Language, v map[string]string) (fields []field) {
	for _, f := range one.fields {
		f.Label, f.Hint, f.Value = l.Sprintf(f.label), l.Sprintf(f.hint), cmp.Or(v[f.Name], f.first)
		for _, c := range f.choices {
			f.Options = append(f.Options, option{c.value, c.word(l)})
		}
		fields = append(fields, f)
	}
	return fields
}

// open returns the change of a path and its values, if the person may make it.
func (c *Console) open(w http.ResponseWriter, r *http.Request,
	given url.Values) (one *change, v map[string]string, complete bool) {
	if one = changeOf(r.PathValue("change")); one == nil {
		c.refused(w, r, http.StatusNotFound, text.ConsoleNoPage)
		return nil, nil, false
	}
	v, complete = one.values(given)
	if !c.may(w, r, one.right(v)) {
		return nil, nil, false
	}
	if f, wrong := one.wrong(v); wrong {
		c.refused(w, r, http.StatusUnprocessableEntity, text.ConsoleWrongField, language(r).Sprintf(f.label),
			coupon.ShownMember(v[f.Name]))
		return nil, nil, false
	}
	return one, v, complete
}

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// form shows the fields of a change and, when they are filled in, its preview and the button that makes it.
func (c *Console) form(w http.ResponseWriter, r *http.Request) {
	one, v, complete := c.open(w, r, r.URL.Query())
	if one == nil {
		return
	}
	p := c.page(r, language(r).Sprintf(one.title))
	p.Form = &form{Action: "/do/" + one.name, Method: "get", Button: p.say(text.ConsolePreview),
		Fields: one.shown(p.Language, v)}
	p.Links = []link{{Text: p.say(text.ConsoleBack), Href: one.back(v)}}
	if !complete {
		p.Command = commandLine(one.args(v))
		c.show(w, http.StatusOK, p)
		return
	}
	c.verb(r.Context(), p, append(one.args(v), "--dry-run")...)
	if p.Bad && one.name != "run" {
		p.Command = commandLine(append(one.args(v), "--operator="+p.Person.Name, "--reason=…"))
		c.show(w, p.status(), p)
		return
	}
	policy, err := c.policy(r.Context())
	if err != nil {
		c.failed(w, r, err)
		return
	}
	p.Do = &do{Action: "/do/" + one.name, Button: p.say(one.title), Ask: policy.Names(one.action(v), p.costWon)}
	p.Command = commandLine(append(one.execution(v, p.Do.Ask, p.digest), "--operator="+p.Person.Name, "--reason=…"))
	p.Do.Hidden = []option{{"job", rand.Text()}, {"digest", p.digest}}
	if p.Do.Ask {
		p.Do.Hidden = append(p.Do.Hidden, option{"ask", "on"})
	}
	for _, f := range one.fields {
		p.Do.Hidden = append(p.Do.Hidden, option{f.Name, v[f.Name]})
	}
	if one.name == "run" && v["coupon"] == "" {
		p.runEachCoupon(v["date"])
	} else if p.digest == "" { // nothing would change
		p.Do = nil
	}
	c.show(w, p.status(), p)
}

// execution is the command that makes the change as its preview showed it, or asks for its approval.
func (one *change) execution(v map[string]string, ask bool, digest string) []string {
	args := one.args(v)
	if ask {
		args = append(slices.DeleteFunc(args, func(a string) bool { return a == "--yes" }), "--ask")
	}
	return append(args, flag("expect-digest", digest)...)
}

// action is the one that the policy may name.
func (one *change) action(v map[string]string) approval.Action {
	if one.name == "run" && v["accept-gap"] == "on" {
		return approval.AcceptGap
	}
	return approval.Action(one.name)
}

// runEachCoupon leaves a run of all coupons to runs of single coupons: each has its digest.
func (p *page) runEachCoupon(date string) {
	p.Do, p.Lead = nil, append(p.Lead, p.say(text.ConsoleOneByOne))
	for _, b := range p.Blocks {
		if b.Table != nil {
			for _, row := range b.Table.Rows {
				if strings.HasPrefix(row[0].Href, "/coupons/") {
					row[0].Href = query("/do/run", "coupon", row[0].Text, "date", date)
				}
			}
		}
	}
}

// post makes a change in a job, or asks for its approval.
func (c *Console) post(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		c.refused(w, r, http.StatusBadRequest, text.ConsoleWrong, err)
		return
	}
	one, v, complete := c.open(w, r, r.PostForm)
	if one == nil {
		return
	}
	person := signin.From(r.Context())
	reason, jobID, digest := strings.TrimSpace(r.PostForm.Get("reason")), r.PostForm.Get("job"),
		r.PostForm.Get("digest")
	if !complete || reason == "" || len(jobID) < 20 || len(jobID) > 40 {
		c.refused(w, r, http.StatusBadRequest, text.ConsoleReasonMissing)
		return
	}
	if !digestForm.MatchString(digest) {
		c.refused(w, r, http.StatusBadRequest, text.ConsoleNoPreview)
		return
	}
	// The preview has found out whether the policy asks for an approval. A verb that needs one and has none is refused.
	title, asks := language(r).Sprintf(one.title), r.PostForm.Get("ask") == "on"
	args := one.execution(v, asks, digest)
	if one.name == "create" && !asks {
		args = append(args, "--key=console-"+jobID) // a form that is sent again creates nothing
	}
	if asks {
		title = language(r).Sprintf(text.ConsoleAsk, title)
	}
	args = append(args, "--operator="+person.Name, "--reason="+reason)
	c.start(w, r, &job{ID: jobID, Person: person, Title: title, Back: one.back(v), Command: commandLine(args)}, args)
}

// start runs a verb in a job, and shows its page: with the result, if it ends soon.
func (c *Console) start(w http.ResponseWriter, r *http.Request, j *job, args []string) {
	l := language(r)
	started := c.jobs.start(j, func(ctx context.Context, j *job) int {
		return c.Run(ctx, Call{SignIn: j.Person.SignIn, Language: l, Args: args, Stdout: &j.Out, Stderr: &j.Notes})
	})
	if started == nil {
		c.metrics.refused.WithLabelValues(jobsBusy).Inc()
		c.refused(w, r, http.StatusServiceUnavailable, text.ConsoleBusy)
		return
	}
	timer := time.NewTimer(quickly)
	defer timer.Stop()
	select {
	case <-started.done:
	case <-timer.C:
	case <-r.Context().Done():
	}
	http.Redirect(w, r, "/jobs/"+started.ID, http.StatusSeeOther)
}

// jobPage shows a job to the person who began it.
func (c *Console) jobPage(w http.ResponseWriter, r *http.Request) {
	j := c.jobs.find(r.PathValue("id"))
	if j == nil || j.Person.SignIn != signin.From(r.Context()).SignIn {
		c.refused(w, r, http.StatusNotFound, text.ConsoleNoJob)
		return
	}
	locale, err := c.locale(r.Context(), language(r))
	if err != nil {
		c.failed(w, r, err)
		return
	}
	p := c.page(r, j.Title)
	p.Command, p.Links = j.Command, []link{{Text: p.say(text.ConsoleBack), Href: j.Back}}
	p.Blocks = blocks(j.Out.Blocks(), p.Person)
	p.Notes = lines(j.Notes.Blocks())
	switch {
	case !j.ended():
		p.Refresh = true
		p.Lead = []string{p.say(text.ConsoleWorking, locale.Instant(j.Began),
			output.Grouped(fmt.Sprint(j.Out.Count()+j.Notes.Count())))}
	case j.exit == 0:
		p.Lead = []string{p.say(text.ConsoleDone)}
	default:
		p.Lead, p.Bad = []string{p.say(text.ConsoleNotDone, j.exit)}, true
	}
	c.show(w, http.StatusOK, p)
}
