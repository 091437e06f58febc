package console

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
)

func (c *Console) approvals(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p := c.page(r, language(r).Sprintf(text.ConsoleApprovals))
	args := join([]string{"approvals", "--limit=" + perPage}, flag("coupon", q.Get("coupon")),
		flag("before", q.Get("before")))
	if q.Get("open") != "" {
		args = append(args, "--open")
	}
	if !p.Person.May(signin.SeeLists) { // then only what this person has asked for by this sign-in
		args = append(args, "--by="+p.Person.Name)
	}
	c.verb(r.Context(), p, args...)
	p.nextPage("/approvals", "before", "coupon", q.Get("coupon"), "open", q.Get("open"))
	p.Form = &form{Action: "/approvals", Method: "get", Button: p.say(text.ConsoleShow), Fields: []field{
		{Name: "coupon", Kind: "number", Label: p.say(text.ColumnCoupon), Value: q.Get("coupon")},
		{Name: "open", Kind: yesNo, Label: p.say(text.ConsoleOpenRequests), Value: q.Get("open")}}}
	if p.Person.May(signin.SeeLists) {
		p.Links = append(p.Links, link{Text: p.say(text.ConsolePolicy), Href: "/policy"})
	}
	c.show(w, p.status(), p)
}

func (c *Console) policyPage(w http.ResponseWriter, r *http.Request) {
	p := c.page(r, language(r).Sprintf(text.ConsolePolicy))
	c.verb(r.Context(), p, "policy", "show")
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
}

func approver(p signin.Person) approval.Person {
	return approval.Person{Name: p.Name, SignIn: p.SignIn}
}

// request returns the approval of the path. Persons who may not see lists see only their own requests, and those about
// a user only if they may see persons. Others do not exist for them.
func (c *Console) request(w http.ResponseWriter, r *http.Request) (a approval.Approval, own, ok bool) {
	n, ok := c.numbered(w, r, "id")
	if !ok {
		return a, false, false
	}
	person := signin.From(r.Context())
	a, err := approval.Read(r.Context(), c.DB, approval.ID(n))
	own = err == nil && a.IsOf(approver(person))
	hidden := !own && !person.May(signin.SeeLists) || a.Plan.User > 0 && !person.May(signin.SeePerson)
	if err == nil && hidden {
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
	c.verb(r.Context(), p, "approvals", fmt.Sprint(n))
	requested := a.State == approval.Requested
	p.Approval = &approvalPage{ID: a.ID, Digest: a.Digest, Job: rand.Text(), Approve: requested &&
		!a.MayBeOf(approver(p.Person), policy) && p.Person.May(signin.Approve),
		Refuse: requested && (own || p.Person.May(signin.Approve)), Use: a.State == approval.Approved && own}
	switch {
	case requested && own:
		p.Lead = []string{p.say(text.ConsoleWaitForOther)}
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
	if err := r.ParseForm(); err != nil {
		c.refused(w, r, http.StatusBadRequest, text.ConsoleWrong, err)
		return
	}
	n, person := a.ID, signin.From(r.Context())
	args, title := []string{"approve", fmt.Sprint(n)}, text.ConsoleApprove
	reason, jobID := strings.TrimSpace(r.PostForm.Get("reason")), r.PostForm.Get("job")
	switch r.PathValue("decision") {
	case "approve":
		if !c.may(w, r, signin.Approve) {
			return
		}
		if r.PostForm.Get("digest") != a.Digest {
			c.refused(w, r, http.StatusConflict, text.ConsoleOtherDigest)
			return
		}
		args = append(args, "--yes")
	case "refuse":
		if !own && !c.may(w, r, signin.Approve) {
			return
		}
		args, title = append(args, "--refuse"), text.ConsoleRefuse
	case "use":
		one, v := changeOfPlan(a.Plan)
		if one == nil || !own || !person.May(one.right(v)) {
			c.forbidden(w, r)
			return
		}
		locale, err := c.locale(r.Context(), language(r))
		if err != nil {
			c.failed(w, r, err)
			return
		}
		args = append(argsOfPlan(a.Plan, locale.Zone), fmt.Sprint("--approval=", n))
		title, reason = one.title, a.Reason
	default:
		c.refused(w, r, http.StatusNotFound, text.ConsoleNoPage)
		return
	}
	if reason == "" || len(jobID) < 20 || len(jobID) > 40 {
		c.refused(w, r, http.StatusBadRequest, text.ConsoleReasonMissing)
		return
	}
	args = append(args, "--operator="+person.Name, "--reason="+reason)
	c.start(w, r, &job{ID: jobID, Person: person, Title: language(r).Sprintf(title), Back: fmt.Sprint("/approvals/", n),
		Command: commandLine(args)}, args)
}

// changeOfPlan returns the change that a plan is of, with what decides about its right.
func changeOfPlan(plan approval.Plan) (*change, map[string]string) {
	v := map[string]string{"user": plan.Arguments["user"], "cause": plan.Arguments["cause"]}
	if plan.User > 0 {
		v["user"] = plan.User.Member()
	}
	if plan.Action == approval.AcceptGap {
		return changeOf(string(approval.Run)), v
	}
	return changeOf(string(plan.Action)), v
}

// argsOfPlan is the command that was asked for. Dates are those of the zone of the nights.
func argsOfPlan(plan approval.Plan, zone *time.Location) []string {
	id := fmt.Sprint(plan.Coupon)
	of := func(names ...string) (flags []string) {
		for _, name := range names {
			flags = append(flags, flag(name, plan.Arguments[name])...)
		}
		return flags
	}
	switch plan.Action {
	case approval.Run:
		return join([]string{"run", "--coupon=" + id}, of("cutoff"))
	case approval.AcceptGap:
		return join([]string{"run", "--coupon=" + id, "--accept-gap"}, of("cutoff"))
	case approval.AddSeats:
		return join([]string{"coupon", "add-seats", id}, of("seats", "total"))
	case approval.Create:
		v := maps.Clone(plan.Arguments)
		v["cadence"] = strings.ToLower(v["cadence"])
		return creation(v)
	case approval.Extend:
		return join([]string{"coupon", "extend", id}, of("closes"))
	case approval.Cadence:
		return []string{"coupon", "cadence", id, strings.ToLower(plan.Arguments["cadence"])}
	case approval.Close, approval.Pause, approval.Resume, approval.Freeze, approval.Unfreeze, approval.Recount:
		return []string{"coupon", string(plan.Action), id}
	case approval.Drop:
		args := join([]string{"dlq", "drop", "--yes", "--coupon=" + id}, of("user", "cause"))
		if plan.User > 0 {
			args = append(args, "--user="+plan.User.Member())
		}
		return args
	case approval.ExtendUser:
		midnight, _ := time.Parse(time.RFC3339Nano, plan.Arguments["expires_at"]) // no error: a plan has it
		last := midnight.In(zone).AddDate(0, 0, -1).Format(time.DateOnly)
		return []string{"coupon", "extend-user", id, fmt.Sprint("--user=", plan.User), "--until=" + last}
	case approval.Honour:
		return []string{"receipt", "honour", plan.Arguments["receipt"]}
	case approval.Restore:
		return []string{"restore", "--coupon=" + id}
	case approval.Grant, approval.Reissue:
		return []string{"coupon", string(plan.Action), id, fmt.Sprint("--user=", plan.User)}
	case approval.Revoke:
		args := []string{"coupon", "revoke", id, fmt.Sprint("--user=", plan.User)}
		if plan.Arguments["free-seat"] == "true" {
			args = append(args, "--free-seat")
		}
		return args
	case approval.SetPolicy:
		args := []string{"policy", "set"}
		for _, list := range [][2]string{{"actions", "actions"}, {"shared-accounts", "shared"}, {"person", "persons"}} {
			args = join(args, flag(list[0], output.Printable(orNone(plan.Arguments[list[1]]))))
		}
		return join(args, flag("zone", output.Printable(plan.Arguments["zone"])))
	default:
		return nil
	}
}

func orNone(list string) string {
	if list == "" {
		return "none"
	}
	return list
}
