package console

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
	"github.com/jajeong/jajeong/internal/view"
)

func (c *Console) routes() http.Handler {
	mux := http.NewServeMux()
	get := func(path string, right signin.Right, show func(w http.ResponseWriter, r *http.Request)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if c.may(w, r, right) {
				ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
				defer cancel()
				show(w, r.WithContext(ctx))
			}
		})
	}
	get("/{$}", signin.See, c.tonight)
	get("/coupons", signin.See, c.coupons)
	get("/coupons/{id}", signin.See, c.coupon)
	get("/coupons/{id}/winners", signin.SeeLists, c.winners)
	get("/runs", signin.See, c.runs)
	get("/runs/{id}", signin.See, c.run)
	get("/report", signin.SeeLists, c.reportForm)
	get("/dlq", signin.SeeLists, c.dlq)
	get("/dlq/{id}", signin.SeeLists, c.dlqOf)
	get("/search", signin.SeePerson, c.search)
	get("/people/{user}", signin.SeePerson, c.person)
	get("/people/{user}/coupons/{id}", signin.SeePerson, c.explain)
	get("/approvals", signin.Act, c.approvals)
	get("/approvals/{id}", signin.Act, c.approval)
	get("/policy", signin.SeeLists, c.policyPage)
	get("/jobs/{id}", signin.Act, c.jobPage)
	get("/do/{change}", signin.Act, c.form)
	mux.HandleFunc("POST /do/{change}", c.post)
	mux.HandleFunc("POST /approvals/{id}/{decision}", c.decide)
	for path, file := range files {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if c.may(w, r, signin.SeeLists) {
				c.file(w, r, file)
			}
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter,
		r *http.Request) {
		c.refused(w, r, http.StatusNotFound, text.ConsoleNoPage)
	})
	return mux
}

// verb runs a verb that changes nothing, and puts what it prints on the page.
func (c *Console) verb(ctx context.Context, p *page, path string, v verb.Values) {
	c.read(ctx, p, verb.Call{Verb: c.Verbs.At(path), Values: v})
}

func (c *Console) read(ctx context.Context, p *page, call verb.Call) verb.Answer {
	var out, notes output.Document
	p.Command = shell(call.Verb.Command(call.Values))
	call.By, call.Language, call.Stdout, call.Stderr = p.Person, p.Language, &out, &notes
	answer := c.Run(ctx, call)
	printed := out.Blocks()
	for _, b := range printed {
		if b.Sheet != nil {
			p.last = lastOf(b.Sheet)
		}
		if b.Sheet != nil && b.Sheet.Left > 0 {
			p.Lead = append(p.Lead, p.say(text.ConsoleCut, len(b.Sheet.Rows), len(b.Sheet.Rows)+b.Sheet.Left))
		}
		if b.Digest != "" {
			p.digest, p.costWon = b.Digest, b.CostWon
		}
	}
	p.Blocks = append(p.Blocks, p.blocks(printed)...)
	said := append(lines(notes.Blocks()), besides(p.Form, answer.Wrong)...)
	if p.missing = notes.NotFound(); p.missing {
		p.Lead = append(p.Lead, said...)
	} else {
		p.Notes = append(p.Notes, said...)
	}
	p.Bad, p.away, p.wrong = p.Bad || answer.Exit != 0, answer.Exit == serversAway, len(answer.Wrong) > 0
	return answer
}

// lastOf returns the id of the last row of a page that is full; nil if it is not full.
func lastOf(s *output.Sheet) any {
	if fmt.Sprint(len(s.Rows)) != perPage {
		return nil
	}
	return s.Rows[len(s.Rows)-1][0]
}

// serversAway is the exit code of a verb that may succeed later.
const serversAway = 1

// status is 404, 422 or 503 if the verb printed nothing but errors.
func (p *page) status() int {
	if !p.Bad || len(p.Blocks) > 0 {
		return http.StatusOK
	}
	return statusOf(p.missing, p.away || len(p.Notes) == 0 && !p.wrong)
}

// statusOf is the status of a page on which a verb has printed nothing but errors.
func statusOf(missing, away bool) int {
	switch {
	case missing:
		return http.StatusNotFound
	case away:
		return http.StatusServiceUnavailable
	default:
		return http.StatusUnprocessableEntity
	}
}

// id returns the number in a path; 0 if it is none.
func id(r *http.Request, name string) uint64 { return uint64(coupon.ParseUserID(r.PathValue(name))) }

// numbered returns the number in the path, and shows a page if there is none.
func (c *Console) numbered(w http.ResponseWriter, r *http.Request, name string) (uint64, bool) {
	n := id(r, name)
	if n == 0 {
		c.refused(w, r, http.StatusNotFound, text.ConsoleNoPage)
	}
	return n, n > 0
}

func (p *page) say(m text.Message, args ...any) string { return p.Language.Sprintf(m, args...) }

const perPage = "50"

func (c *Console) coupons(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p := c.page(r, language(r).Sprintf(text.ConsoleCoupons))
	c.verb(r.Context(), p, "coupon list", verb.Values{"limit": perPage, "status": q.Get("status"),
		"after": q.Get("after")})
	p.Form = &form{Action: "/coupons", Method: "get", Button: p.say(text.ConsoleShow), Fields: []field{
		{Name: "status", Kind: "select", Label: p.say(text.ColumnStatus), Value: q.Get("status"),
			Options: couponStatuses(p.Language)}}}
	p.nextPage("/coupons", "after", "status", q.Get("status"))
	c.change(p, "create")
	c.show(w, p.status(), p)
}

// nextPage adds a link to the page after the last row, if this page is full.
func (p *page) nextPage(path, after string, filters ...string) {
	if p.last != nil {
		p.Links = append(p.Links, link{Text: p.say(text.ConsoleNext),
			Href: query(path, append(filters, after, fmt.Sprint(p.last))...)})
	}
}

func couponStatuses(l text.Language) []option {
	all := []option{{"", l.Sprintf(text.ConsoleAll)}}
	for _, status := range []string{"SCHEDULED", "OPEN", "PAUSED", "CLOSED", "FINALISED"} {
		all = append(all, option{strings.ToLower(status), output.Word(l, status)})
	}
	return all
}

func (c *Console) coupon(w http.ResponseWriter, r *http.Request) {
	n, ok := c.numbered(w, r, "id")
	if !ok {
		return
	}
	id := fmt.Sprint(n)
	p := c.page(r, language(r).Sprintf(text.ConsoleCoupon, n))
	c.verb(r.Context(), p, "coupon show", verb.Values{"coupon": id})
	add := func(right signin.Right, m text.Message, href string) {
		if p.Person.May(right) && !p.missing {
			p.Links = append(p.Links, link{Text: p.say(m), Href: href})
		}
	}
	add(signin.See, text.ConsoleRunsOfCoupon, query("/runs", "coupon", id))
	add(signin.SeeLists, text.ConsoleWinners, "/coupons/"+id+"/winners")
	add(signin.SeeLists, text.ConsoleDLQ, "/dlq/"+id)
	add(signin.SeeLists, text.ConsoleApprovals, query("/approvals", "coupon", id))
	c.changes(p, verb.Coupon, "coupon", id)
	if p.Person.May(signin.GrantList) {
		c.prefilled(p, string(approval.Grant), text.ConsoleGrantList, verb.Values{"coupon": id})
	}
	if p.status() == http.StatusOK {
		c.another(r.Context(), p, coupon.CouponID(n))
		c.line(r.Context(), p, n)
		c.chain(r.Context(), p, n)
	}
	c.show(w, p.status(), p)
}

func (c *Console) winners(w http.ResponseWriter, r *http.Request) {
	n, ok := c.numbered(w, r, "id")
	if !ok {
		return
	}
	p := c.page(r, language(r).Sprintf(text.ConsoleWinnersOf, n))
	c.verb(r.Context(), p, "coupon winners", verb.Values{"coupon": fmt.Sprint(n)})
	p.download(fmt.Sprintf("/coupons/%d/winners.csv", n))
	c.show(w, p.status(), p)
}

func (c *Console) runs(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p := c.page(r, language(r).Sprintf(text.ConsoleRuns))
	c.verb(r.Context(), p, "runs", with(runsOf(r), "limit", perPage, "before", q.Get("before")))
	statuses := []option{{"", p.say(text.ConsoleAll)}}
	for _, status := range []coupon.RunStatus{coupon.RunSucceeded, coupon.RunHeld, coupon.RunFailed,
		coupon.RunAbandoned, coupon.RunRunning} {
		statuses = append(statuses, option{string(status), output.Word(p.Language, status)})
	}
	p.Form = &form{Action: "/runs", Method: "get", Button: p.say(text.ConsoleShow), Fields: []field{
		{Name: "date", Kind: "date", Label: p.say(text.ConsoleNight), Value: q.Get("date")},
		{Name: "coupon", Kind: "number", Label: p.say(text.ColumnCoupon), Value: q.Get("coupon")},
		{Name: "status", Kind: "select", Label: p.say(text.ColumnStatus), Value: q.Get("status"), Options: statuses}}}
	p.nextPage("/runs", "before", "date", q.Get("date"), "coupon", q.Get("coupon"), "status", q.Get("status"))
	if p.Person.May(signin.SeeLists) {
		p.download(query("/runs.csv", "date", q.Get("date"), "coupon", q.Get("coupon"), "status", q.Get("status")))
	}
	c.change(p, "run")
	c.show(w, p.status(), p)
}

// runsOf are the filters of a list of runs.
func runsOf(r *http.Request) verb.Values {
	q := r.URL.Query()
	return verb.Values{"date": q.Get("date"), "coupon": q.Get("coupon"), "status": q.Get("status")}
}

// download adds a link to the file of what the page shows.
func (p *page) download(href string) {
	if p.status() == http.StatusOK {
		p.Links = append(p.Links, link{Text: "CSV", Href: href})
	}
}

// change adds a link to the form of a verb with these values, if the person may use it.
func (c *Console) change(p *page, name string, pairs ...string) {
	one := c.Verbs.Named(name)
	if p.Person.May(one.RightFor(with(verb.Values{}, pairs...))) {
		p.Changes = append(p.Changes, link{Text: p.say(one.Title), Href: query("/do/"+name, pairs...)})
	}
}

// changes adds the links to all forms that concern the subject of a page.
func (c *Console) changes(p *page, on verb.Subject, pairs ...string) {
	for _, one := range c.Verbs {
		if one.Form && one.On == on {
			c.change(p, one.Name(), pairs...)
		}
	}
}

// another adds links to forms that have this coupon's values: of its change before it opens, and of a new coupon like
// it, which leaves the window open.
func (c *Console) another(ctx context.Context, p *page, id coupon.CouponID) {
	if !p.Person.May(signin.Campaign) {
		return
	}
	was, err := history.Reader{DB: c.DB}.Coupon(ctx, id)
	locale, unknown := c.locale(ctx, p.Language)
	if err != nil || unknown != nil {
		return
	}
	values := verb.Values{"name": was.Name, "seats": fmt.Sprint(was.TotalQuantity),
		"validity-days": fmt.Sprint(was.ValidityDays), "discount-won": fmt.Sprint(was.DiscountWon),
		"discount-percent": number(was.DiscountPercent), "discount-max-won": number(was.DiscountMaxWon),
		"minimum-won": number(was.MinimumWon)}
	if was.CampaignID != nil {
		values["campaign"] = fmt.Sprint(*was.CampaignID)
	}
	if was.Status == history.Scheduled {
		c.prefilled(p, string(approval.Edit), text.ConsoleEdit, with(values, "coupon", id.String(),
			"opens", was.OpensAt.In(locale.Zone).Format(timeInForms), "closes",
			was.ClosesAt.In(locale.Zone).Format(timeInForms)))
	}
	if was.LineLimit != nil {
		values["line-limit"] = number(*was.LineLimit)
	}
	c.prefilled(p, string(approval.Create), text.ConsoleAnother, with(values, "cadence",
		strings.ToLower(string(was.Cadence))))
}

// timeInForms is how an input for a time has its value.
const timeInForms = "2006-01-02T15:04:05.999999"

// number is what a form has for a number that need not be given.
func number(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// prefilled adds a link to a form with values.
func (c *Console) prefilled(p *page, name string, title text.Message, v verb.Values) {
	var pairs []string
	for _, field := range slices.Sorted(maps.Keys(v)) {
		pairs = append(pairs, field, v[field])
	}
	p.Changes = append(p.Changes, link{Text: p.say(title), Href: query("/do/"+name, pairs...)})
}

// chain adds the end of the coupon's audit chain: a copy of it reveals later changes of the events.
func (c *Console) chain(ctx context.Context, p *page, id uint64) {
	head, err := audit.ReadHead(ctx, c.DB, coupon.CouponID(id))
	if err == nil && head.Seq > 0 {
		p.Blocks = append(p.Blocks, block{Text: p.say(text.ConsoleChain, head.Seq, head.Hash)})
	}
}

func (c *Console) run(w http.ResponseWriter, r *http.Request) {
	if n, ok := c.numbered(w, r, "id"); ok {
		p := c.page(r, language(r).Sprintf(text.ConsoleRun, n))
		c.verb(r.Context(), p, "show", verb.Values{"run": fmt.Sprint(n)})
		c.show(w, p.status(), p)
	}
}

func (c *Console) reportForm(w http.ResponseWriter, r *http.Request) {
	p := c.page(r, language(r).Sprintf(text.ConsoleReport))
	q := r.URL.Query()
	date, month, campaign := q.Get("date"), q.Get("month"), q.Get("campaign")
	p.Form = &form{Action: "/report", Method: "get", Button: p.say(text.ConsoleShow), Fields: []field{
		{Name: "date", Kind: "date", Label: p.say(text.ConsoleDay), Value: date},
		{Name: "month", Kind: "month", Label: p.say(text.ConsoleMonth), Value: month},
		{Name: "campaign", Kind: "number", Label: p.say(text.ColumnCampaign), Value: campaign}}}
	if date+month+campaign != "" {
		c.verb(r.Context(), p, "report", reportOf(r))
		if !p.Bad {
			rest := []string{"date", date, "month", month, "campaign", campaign}
			p.Links = []link{{Text: p.say(text.ConsoleReportPage), Href: query("/report.html", rest...)},
				{Text: "CSV", Href: query("/report.csv", rest...)}}
		}
	}
	c.show(w, p.status(), p)
}

func reportOf(r *http.Request) verb.Values {
	q := r.URL.Query()
	return verb.Values{"date": q.Get("date"), "month": q.Get("month"), "campaign": q.Get("campaign")}
}

func (c *Console) dlq(w http.ResponseWriter, r *http.Request) {
	p := c.page(r, language(r).Sprintf(text.ConsoleDLQ))
	given := r.URL.Query().Get("coupon")
	p.leads = func(value any) string {
		if id, is := value.(coupon.CouponID); is {
			return fmt.Sprint("/dlq/", id)
		}
		return ""
	}
	c.verb(r.Context(), p, "dlq list", verb.Values{"coupon": given})
	p.download(query("/dlq.csv", "coupon", given))
	c.show(w, p.status(), p)
}

func (c *Console) dlqOf(w http.ResponseWriter, r *http.Request) {
	n, ok := c.numbered(w, r, "id")
	if !ok {
		return
	}
	coupon, cause := fmt.Sprint(n), r.URL.Query().Get("cause")
	p := c.page(r, language(r).Sprintf(text.ConsoleDLQOf, n))
	v := verb.Values{"coupon": coupon, "cause": cause}
	if cause != "" {
		v["list"] = checked
	}
	p.leads = func(value any) string {
		if cause, is := value.(view.Cause); is {
			return query("/dlq/"+coupon, "cause", string(cause))
		}
		return ""
	}
	c.verb(r.Context(), p, "dlq list", v)
	c.change(p, "retry", "coupon", coupon, "cause", cause)
	c.change(p, "drop", "coupon", coupon, "cause", cause)
	p.download(query("/dlq.csv", "coupon", coupon, "cause", cause))
	c.show(w, p.status(), p)
}

func (c *Console) person(w http.ResponseWriter, r *http.Request) {
	n, ok := c.numbered(w, r, "user")
	if !ok {
		return
	}
	user := fmt.Sprint(n)
	p := c.page(r, language(r).Sprintf(text.ConsolePerson, n))
	p.leads = func(value any) string {
		if id, is := value.(coupon.CouponID); is {
			return fmt.Sprintf("/people/%s/coupons/%d", user, id)
		}
		return ""
	}
	c.verb(r.Context(), p, "user show", verb.Values{"user": user})
	p.Form = &form{Action: "/search", Method: "get", Button: p.say(text.ConsoleShow), Fields: []field{
		{Name: "user", Kind: "hidden", Value: user},
		{Name: "coupon", Kind: "number", Label: p.say(text.ConsoleOtherCoupon), Required: true}}}
	c.change(p, "grant", "user", user)
	status := p.status()
	if status == http.StatusOK {
		p.Blocks = append(p.Blocks, block{Text: p.say(text.ConsoleForget, user)})
	}
	c.show(w, status, p)
}

// explain shows the sentence to read out first.
func (c *Console) explain(w http.ResponseWriter, r *http.Request) {
	user, ok := c.numbered(w, r, "user")
	if !ok {
		return
	}
	n, ok := c.numbered(w, r, "id")
	if !ok {
		return
	}
	coupon := fmt.Sprint(n)
	p := c.page(r, language(r).Sprintf(text.ConsoleExplain, user, n))
	c.verb(r.Context(), p, "explain", verb.Values{"coupon": coupon, "user": fmt.Sprint(user)})
	if last := len(p.Blocks) - 1; last >= 0 && p.Blocks[last].Table == nil {
		p.Lead, p.Blocks = []string{p.Blocks[last].Text}, p.Blocks[:last]
	}
	c.changes(p, verb.Holder, "coupon", coupon, "user", fmt.Sprint(user))
	p.Links = append(p.Links, link{Text: p.say(text.ConsolePerson, user), Href: fmt.Sprint("/people/", user)})
	if !p.missing {
		p.Links = append(p.Links, link{Text: p.say(text.ConsoleCoupon, n), Href: "/coupons/" + coupon})
	}
	c.show(w, p.status(), p)
}
