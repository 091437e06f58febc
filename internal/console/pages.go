package console

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
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

// verb runs a verb that reads, and puts what it prints on the page.
func (c *Console) verb(ctx context.Context, p *page, args ...string) {
	var out, notes output.Document
	p.Command = commandLine(args)
	exit := c.Run(ctx, Call{SignIn: p.Person.SignIn, Language: p.Language, Args: args, Stdout: &out, Stderr: &notes})
	printed := out.Blocks()
	for _, b := range printed {
		if b.Sheet != nil && b.Sheet.Left > 0 {
			p.Lead = append(p.Lead, p.say(text.ConsoleCut, len(b.Sheet.Rows), len(b.Sheet.Rows)+b.Sheet.Left))
		}
		if b.Digest != "" {
			p.digest, p.costWon = b.Digest, b.CostWon
		}
	}
	p.Blocks = append(p.Blocks, blocks(printed, p.Person)...)
	said := lines(notes.Blocks())
	if p.missing = notes.NotFound(); p.missing {
		p.Lead = append(p.Lead, said...)
	} else {
		p.Notes = append(p.Notes, said...)
	}
	p.Bad, p.away = p.Bad || exit != 0, exit == serversAway
}

// serversAway is the exit code of a verb that may succeed later.
const serversAway = 1

// status is 404, 422 or 503 if the verb printed nothing but errors.
func (p *page) status() int {
	if !p.Bad || len(p.Blocks) > 0 {
		return http.StatusOK
	}
	return statusOf(p.missing, p.away || len(p.Notes) == 0)
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

// flag returns --name=value; nothing for an empty value.
func flag(name, value string) []string {
	if value == "" {
		return nil
	}
	return []string{"--" + name + "=" + value}
}

func join(parts ...[]string) (all []string) {
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

const perPage = "50"

func (c *Console) coupons(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p := c.page(r, language(r).Sprintf(text.ConsoleCoupons))
	c.verb(r.Context(), p, join([]string{"coupon", "list", "--limit=" + perPage}, flag("status", q.Get("status")),
		flag("after", q.Get("after")))...)
	p.Form = &form{Action: "/coupons", Method: "get", Button: p.say(text.ConsoleShow), Fields: []field{
		{Name: "status", Kind: "select", Label: p.say(text.ColumnStatus), Value: q.Get("status"),
			Options: couponStatuses(p.Language)}}}
	p.nextPage("/coupons", "after", "status", q.Get("status"))
	p.change("create")
	c.show(w, p.status(), p)
}

// nextPage adds a link to the page after the last row, if this page is full.
func (p *page) nextPage(path, after string, filters ...string) {
	for _, b := range p.Blocks {
		if b.Table != nil && fmt.Sprint(len(b.Table.Rows)) == perPage {
			last := b.Table.Rows[len(b.Table.Rows)-1][0].Text
			p.Links = append(p.Links, link{Text: p.say(text.ConsoleNext),
				Href: query(path, append(filters, after, last)...)})
		}
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
	c.verb(r.Context(), p, "coupon", "show", id)
	add := func(right signin.Right, m text.Message, href string) {
		if p.Person.May(right) && !p.missing {
			p.Links = append(p.Links, link{Text: p.say(m), Href: href})
		}
	}
	add(signin.See, text.ConsoleRunsOfCoupon, query("/runs", "coupon", id))
	add(signin.SeeLists, text.ConsoleWinners, "/coupons/"+id+"/winners")
	add(signin.SeeLists, text.ConsoleDLQ, "/dlq/"+id)
	add(signin.SeeLists, text.ConsoleApprovals, query("/approvals", "coupon", id))
	for _, one := range changes {
		if one.menu == onCoupon {
			p.change(one.name, "coupon", id)
		}
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
	c.verb(r.Context(), p, "coupon", "winners", fmt.Sprint(n))
	p.download(fmt.Sprintf("/coupons/%d/winners.csv", n))
	c.show(w, p.status(), p)
}

func (c *Console) runs(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p := c.page(r, language(r).Sprintf(text.ConsoleRuns))
	filter := join(flag("date", q.Get("date")), flag("coupon", q.Get("coupon")), flag("status", q.Get("status")))
	c.verb(r.Context(), p, join([]string{"runs", "--limit=" + perPage}, filter, flag("before", q.Get("before")))...)
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
	p.change("run")
	c.show(w, p.status(), p)
}

// download adds a link to the file of what the page shows.
func (p *page) download(href string) {
	if p.status() == http.StatusOK {
		p.Links = append(p.Links, link{Text: "CSV", Href: href})
	}
}

// change adds a link to the form of a change with these values, if the person may make it.
func (p *page) change(name string, pairs ...string) {
	one, v := changeOf(name), map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		v[pairs[i]] = pairs[i+1]
	}
	if p.Person.May(one.right(v)) {
		p.Changes = append(p.Changes, link{Text: p.say(one.title), Href: query("/do/"+name, pairs...)})
	}
}

// another adds the link to a new coupon like this one, which leaves the window open.
func (c *Console) another(ctx context.Context, p *page, id coupon.CouponID) {
	if !p.Person.May(signin.Campaign) {
		return
	}
	was, err := history.Reader{DB: c.DB}.Coupon(ctx, id)
	if err != nil {
		return
	}
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(n)
	}
	values := []string{"name", was.Name, "seats", number(was.TotalQuantity),
		"cadence", strings.ToLower(string(was.Cadence)), "validity-days", number(was.ValidityDays),
		"discount-won", number(was.DiscountWon), "discount-percent", number(was.DiscountPercent),
		"discount-max-won", number(was.DiscountMaxWon), "minimum-won", number(was.MinimumWon)}
	if was.CampaignID != nil {
		values = append(values, "campaign", fmt.Sprint(*was.CampaignID))
	}
	if was.LineLimit != nil {
		values = append(values, "line-limit", number(*was.LineLimit))
	}
	p.Changes = append(p.Changes, link{Text: p.say(text.ConsoleAnother), Href: query("/do/create", values...)})
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
		c.verb(r.Context(), p, "show", fmt.Sprint(n))
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
		c.verb(r.Context(), p, join([]string{"report"}, reportFlags(q.Get))...)
		if !p.Bad {
			rest := []string{"date", date, "month", month, "campaign", campaign}
			p.Links = []link{{Text: p.say(text.ConsoleReportPage), Href: query("/report.html", rest...)},
				{Text: "CSV", Href: query("/report.csv", rest...)}}
		}
	}
	c.show(w, p.status(), p)
}

func reportFlags(value func(string) string) []string {
	return join(flag("date", value("date")), flag("month", value("month")), flag("campaign", value("campaign")))
}

func (c *Console) dlq(w http.ResponseWriter, r *http.Request) {
	p := c.page(r, language(r).Sprintf(text.ConsoleDLQ))
	given := r.URL.Query().Get("coupon")
	c.verb(r.Context(), p, join([]string{"dlq", "list"}, flag("coupon", given))...)
	for _, b := range p.Blocks {
		if b.Table != nil {
			for _, row := range b.Table.Rows {
				row[0].Href = "/dlq/" + row[0].Text
			}
		}
	}
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
	if cause == "" {
		c.verb(r.Context(), p, "dlq", "list", "--coupon="+coupon)
		for _, b := range p.Blocks {
			if b.Table != nil {
				for _, row := range b.Table.Rows {
					row[1].Href = query("/dlq/"+coupon, "cause", row[1].Text)
				}
			}
		}
	} else {
		c.verb(r.Context(), p, "dlq", "list", "--coupon="+coupon, "--cause="+cause, "--list")
	}
	p.change("retry", "coupon", coupon, "cause", cause)
	p.change("drop", "coupon", coupon, "cause", cause)
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
	c.verb(r.Context(), p, "user", "show", "--user="+user)
	for _, b := range p.Blocks {
		if b.Table != nil {
			for _, row := range b.Table.Rows {
				row[0].Href = "/people/" + user + row[0].Href
			}
		}
	}
	p.Form = &form{Action: "/search", Method: "get", Button: p.say(text.ConsoleShow), Fields: []field{
		{Name: "user", Kind: "hidden", Value: user},
		{Name: "coupon", Kind: "number", Label: p.say(text.ConsoleOtherCoupon), Required: true}}}
	p.change("grant", "user", user)
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
	c.verb(r.Context(), p, "explain", "--coupon="+coupon, fmt.Sprint("--user=", user))
	if last := len(p.Blocks) - 1; last >= 0 && p.Blocks[last].Table == nil {
		p.Lead, p.Blocks = []string{p.Blocks[last].Text}, p.Blocks[:last]
	}
	for _, one := range changes {
		if one.menu == onPerson {
			p.change(one.name, "coupon", coupon, "user", fmt.Sprint(user))
		}
	}
	p.Links = append(p.Links, link{Text: p.say(text.ConsolePerson, user), Href: fmt.Sprint("/people/", user)})
	if !p.missing {
		p.Links = append(p.Links, link{Text: p.say(text.ConsoleCoupon, n), Href: "/coupons/" + coupon})
	}
	c.show(w, p.status(), p)
}

// receiptForm is what a receipt looks like: three parts of base64url.
var receiptForm = regexp.MustCompile(`^[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}$`)

// maxQuery is longer than a receipt.
const maxQuery = 2000

func (c *Console) search(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	user, of := strings.TrimSpace(values.Get("user")), strings.TrimSpace(values.Get("coupon"))
	if user != "" && of != "" {
		c.searchOne(w, r, user, of)
		return
	}
	q := strings.TrimSpace(values.Get("q"))
	if q == "" || len(q) > maxQuery {
		c.refused(w, r, http.StatusBadRequest, text.ConsoleSearchWhat)
		return
	}
	p := c.page(r, language(r).Sprintf(text.ConsoleSearch))
	p.Query = output.Printable(q)
	if receipt := strings.Join(strings.Fields(q), ""); receiptForm.MatchString(receipt) {
		c.verb(r.Context(), p, "receipt", "show", receipt)
		p.change("honour", "receipt", receipt)
		c.show(w, p.status(), p)
		return
	}
	found, err := c.Reads.Search(r.Context(), q)
	if err != nil {
		c.failed(w, r, err)
		return
	}
	if found.OrderUser > 0 {
		p.Links = append(p.Links, link{Text: p.say(text.ConsoleOrder, p.Query, found.OrderUser, found.OrderCoupon),
			Href: fmt.Sprintf("/people/%d/coupons/%d", found.OrderUser, found.OrderCoupon)})
	}
	if found.Number > 0 {
		p.Links = append(p.Links, link{Text: p.say(text.ConsolePersonText, q), Href: "/people/" + q})
	}
	if found.Coupon > 0 {
		p.Links = append(p.Links, link{Text: p.say(text.ConsoleCoupon, found.Coupon), Href: "/coupons/" + q})
	}
	if found.Run > 0 {
		p.Links = append(p.Links, link{Text: p.say(text.ConsoleRun, found.Run), Href: "/runs/" + q})
	}
	switch len(p.Links) {
	case 0:
		p.Lead = []string{p.say(text.ConsoleNothingFound, p.Query)}
	case 1:
		http.Redirect(w, r, p.Links[0].Href, http.StatusSeeOther)
		return
	}
	c.show(w, http.StatusOK, p)
}

// searchOne leads to the coupon of one user.
func (c *Console) searchOne(w http.ResponseWriter, r *http.Request, user, of string) {
	for _, typed := range []struct {
		value string
		label text.Message
	}{{user, text.ColumnUser}, {of, text.ColumnCoupon}} {
		if !isID(typed.value) {
			c.refused(w, r, http.StatusUnprocessableEntity, text.ConsoleWrongField, language(r).Sprintf(typed.label),
				coupon.ShownMember(typed.value))
			return
		}
	}
	http.Redirect(w, r, "/people/"+user+"/coupons/"+of, http.StatusSeeOther)
}

// isID reports whether a typed number is a canonical decimal from 1 to 2^64-1, as an id is.
func isID(typed string) bool { return coupon.ParseUserID(typed) > 0 }

// fileOf is a verb whose output is a file.
type fileOf struct {
	name, kind string
	args       func(r *http.Request) []string
	html       bool
}

var files = map[string]fileOf{
	"/report.csv": {"report.csv", "text/csv; charset=utf-8", func(r *http.Request) []string {
		return join([]string{"report", "--output=csv"}, reportFlags(r.URL.Query().Get))
	}, false},
	"/report.html": {"report.html", "text/html; charset=utf-8", func(r *http.Request) []string {
		return join([]string{"report", "--output=html"}, reportFlags(r.URL.Query().Get))
	}, true},
	"/runs.csv": {"runs.csv", "text/csv; charset=utf-8", func(r *http.Request) []string {
		q := r.URL.Query()
		return join([]string{"runs", "--output=csv", "--limit=500"}, flag("date", q.Get("date")),
			flag("coupon", q.Get("coupon")), flag("status", q.Get("status")))
	}, false},
	"/dlq.csv": {"dlq.csv", "text/csv; charset=utf-8", func(r *http.Request) []string {
		q := r.URL.Query()
		args := join([]string{"dlq", "list", "--output=csv"}, flag("coupon", q.Get("coupon")),
			flag("cause", q.Get("cause")))
		if q.Get("cause") != "" {
			args = append(args, "--list")
		}
		return args
	}, false},
	"/coupons/{id}/winners.csv": {"winners.csv", "text/csv; charset=utf-8", func(r *http.Request) []string {
		return []string{"coupon", "winners", "--output=csv", fmt.Sprint(id(r, "id"))}
	}, false},
}

// fileWriter begins the answer with the first byte, so that an error before it can still be a page.
type fileWriter struct {
	http.ResponseWriter
	begin func()
	begun bool
}

func (f *fileWriter) Write(p []byte) (int, error) {
	if !f.begun {
		f.begun = true
		f.begin()
	}
	return f.ResponseWriter.Write(p)
}

func (c *Console) file(w http.ResponseWriter, r *http.Request, file fileOf) {
	if r.PathValue("id") != "" {
		if _, ok := c.numbered(w, r, "id"); !ok {
			return
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), fileTimeout)
	defer cancel()
	var notes output.Document
	to := &fileWriter{ResponseWriter: w, begin: func() {
		w.Header().Set("Content-Type", file.kind)
		if file.html { // the report has its own style sheet inside, and its chart has styles
			w.Header().Set("Content-Security-Policy",
				"default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'; base-uri 'none'")
		} else {
			w.Header().Set("Content-Disposition", `attachment; filename="`+file.name+`"`)
		}
	}}
	exit := c.Run(ctx, Call{Language: language(r), Args: file.args(r), Stdout: to, Stderr: &notes})
	switch said := lines(notes.Blocks()); {
	case exit == 0 && !to.begun:
		to.begin()
	case !to.begun:
		status, message := statusOf(notes.NotFound(), exit == serversAway || len(said) == 0), text.ConsoleWrong
		if status == http.StatusServiceUnavailable {
			message = text.ConsoleServerAway
		}
		c.refused(w, r, status, message, strings.Join(said, " "))
	case exit != 0:
		panic(http.ErrAbortHandler) // half a file must not look like a whole one
	}
}
