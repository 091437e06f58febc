package console

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
)

func (c *Console) approvals(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p := c.page(r, language(r).Sprintf(text.ConsoleApprovals))
	v := verb.Values{"limit": perPage, "coupon": q.Get("coupon"), "before": q.Get("before"), "open": q.Get("open")}
	if !p.Person.May(signin.SeeLists) { // then only what this person has asked for by this sign-in
		v["by"] = p.Person.Name
	}
	c.verb(r.Context(), p, "approvals", v)
	p.nextPage("/approvals", "before", "coupon", q.Get("coupon"), "open", q.Get("open"))
	p.Form = &form{Action: "/approvals", Method: "get", Button: p.say(text.ConsoleShow), Fields: []field{
		{Name: "coupon", Kind: "number", Label: p.say(text.ColumnCoupon), Value: q.Get("coupon")},
		{Name: "open", Kind: string(verb.Check), Label: p.say(text.ConsoleOpenRequests), Value: q.Get("open")}}}
	if p.Person.May(signin.SeeLists) {
		p.Links = append(p.Links, link{Text: p.say(text.ConsolePolicy), Href: "/policy"})
	}
	c.show(w, p.status(), p)
}

func (c *Console) policyPage(w http.ResponseWriter, r *http.Request) {
	p := c.page(r, language(r).Sprintf(text.ConsolePolicy))
	c.verb(r.Context(), p, "policy show", nil)
	if p.Person.May(signin.SetPolicy) {
		p.Links = []link{{Text: p.say(text.ConsoleSetPolicy), Href: "/do/policy"}}
	}
	c.show(w, p.status(), p)
}

// approvalPage has what may be done with an approval.
type approvalPage struct {
	ID                   approval.ID
	Digest               string
	Job                  string
	Approve, Refuse, Use bool
	File                 *field // is sent again to use the approval; nil: there is none
}

func approver(p signin.Person) approval.Person {
	return approval.Person{Name: p.Name, SignIn: p.SignIn}
}

// request returns the approval of the path. Requests that the person may not see do not exist for them.
func (c *Console) request(w http.ResponseWriter, r *http.Request) (a approval.Approval, own, ok bool) {
	n, ok := c.numbered(w, r, "id")
	if !ok {
		return a, false, false
	}
	person := signin.From(r.Context())
	a, err := approval.Read(r.Context(), c.DB, approval.ID(n))
	own = err == nil && a.IsOf(approver(person))
	if err == nil && !person.MaySeeRequest(own, a.Plan.User > 0) {
		err = text.MissingErrorf(text.NoSuchApproval, n)
	}
	if err != nil {
		c.failed(w, r, err)
	}
	return a, own, err == nil
}

// approval shows a request, and to the right person the buttons.
func (c *Console) approval(w http.ResponseWriter, r *http.Request) {
	a, own, ok := c.request(w, r)
	if !ok {
		return
	}
	policy, err := c.policy(r.Context())
	if err != nil {
		c.failed(w, r, err)
		return
	}
	n := a.ID
	p := c.page(r, language(r).Sprintf(text.ConsoleApproval, n))
	c.verb(r.Context(), p, "approvals", verb.Values{"id": fmt.Sprint(n)})
	requested := a.State == approval.Requested
	p.Approval = &approvalPage{ID: a.ID, Digest: a.Digest, Job: rand.Text(), Approve: requested &&
		!a.MayBeOf(approver(p.Person), policy) && p.Person.May(signin.Approve),
		Refuse: requested && (own || p.Person.May(signin.Approve)), Use: a.MayBeUsed() && own}
	if one, v := c.Verbs.OfPlan(a.Plan); p.Approval.Use && v["file"] != "" {
		p.Approval.File = fileField(fieldsOf(p.Language, one, nil, nil))
	}
	switch {
	case requested && own:
		p.Lead = []string{p.say(text.ConsoleWaitForOther)}
	case p.Approval.Use && a.State == approval.Used:
		p.Lead = []string{p.say(text.ConsoleListBegun)}
	case p.Approval.Use:
		p.Lead = []string{p.say(text.ConsoleMayUse)}
	}
	if a.Plan.Coupon > 0 {
		p.Links = append(p.Links, link{Text: p.say(text.ConsoleCoupon, a.Plan.Coupon),
			Href: fmt.Sprint("/coupons/", a.Plan.Coupon)})
	}
	if a.Plan.User > 0 && p.Person.May(signin.SeePerson) {
		p.Links = append(p.Links, link{Text: p.say(text.ConsoleExplain, a.Plan.User, a.Plan.Coupon),
			Href: fmt.Sprintf("/people/%d/coupons/%d", a.Plan.User, a.Plan.Coupon)})
	}
	c.show(w, p.status(), p)
}

// decide approves, refuses or uses an approval in a job.
func (c *Console) decide(w http.ResponseWriter, r *http.Request) {
	if !c.may(w, r, signin.Act) {
		return
	}
	a, own, ok := c.request(w, r)
	if !ok {
		return
	}
	sent, err := c.received(w, r)
	defer sent.pass.Leave()
	if err != nil {
		c.refused(w, r, http.StatusBadRequest, text.ConsoleWrong, text.In(language(r), err))
		return
	}
	n, person := a.ID, signin.From(r.Context())
	one, v, title := c.Verbs.At("approve"), verb.Values{"id": fmt.Sprint(n)}, text.ConsoleApprove
	reason, jobID := strings.TrimSpace(sent.values.Get("reason")), sent.values.Get("job")
	switch r.PathValue("decision") {
	case "approve":
		if !c.may(w, r, signin.Approve) {
			return
		}
		if sent.values.Get("digest") != a.Digest {
			c.refused(w, r, http.StatusConflict, text.ConsoleOtherDigest)
			return
		}
		v["yes"] = checked
	case "refuse":
		if !own && !c.may(w, r, signin.Approve) {
			return
		}
		v["refuse"], title = checked, text.ConsoleRefuse
	case "use":
		one, v = c.Verbs.OfPlan(a.Plan)
		if one == nil || !own || !person.May(one.RightFor(v)) {
			c.forbidden(w, r)
			return
		}
		if v["file"] != "" && sent.file == nil {
			c.refused(w, r, http.StatusBadRequest, text.ConsoleFileMissing)
			return
		}
		v["approval"] = fmt.Sprint(n)
		if one.Has("yes") {
			v["yes"] = checked
		}
		title, reason = one.Title, a.Reason
	default:
		c.refused(w, r, http.StatusNotFound, text.ConsoleNoPage)
		return
	}
	if reason == "" || len(jobID) < 20 || len(jobID) > 40 {
		c.refused(w, r, http.StatusBadRequest, text.ConsoleReasonMissing)
		return
	}
	c.start(w, r, &job{ID: jobID, Person: person, Title: language(r).Sprintf(title),
		Back: fmt.Sprint("/approvals/", n)}, one, with(v, "operator", person.Name, "reason", reason),
		sent)
}
