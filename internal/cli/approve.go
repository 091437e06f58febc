package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
	"github.com/jajeong/jajeong/internal/view"
)

// approvalFlags are the flags of a verb that a policy can name.
type approvalFlags struct {
	Ask      bool        `xor:"approval" form:"-"`
	Approval approval.ID `xor:"approval" placeholder:"N" form:"-"`
	pinFlags `embed:""`
}

func (f approvalFlags) ticket(p *program, person operatorFlags) approval.Ticket {
	return approval.Ticket{Approval: f.Approval, Person: p.person(person), Expect: string(f.ExpectDigest)}
}

func (p *program) person(of operatorFlags) approval.Person {
	return approval.Person{Name: of.Operator, SignIn: p.by.SignIn}
}

// origin returns the origin of a change that the operator makes now.
func (p *program) origin(of operatorFlags) audit.Origin {
	return audit.Origin{At: p.Now().UTC().Truncate(time.Microsecond), Actor: of.Operator, SignIn: p.by.SignIn,
		Reason: of.Reason}
}

func (f approvalFlags) approvals(id coupon.CouponID) map[coupon.CouponID]approval.ID {
	return map[coupon.CouponID]approval.ID{id: f.Approval}
}

// asked is the JSON of --ask.
type asked struct {
	Approval approval.ID   `json:"approval"`
	Digest   string        `json:"digest"`
	Plan     approval.Plan `json:"plan"`
}

// requestApproval records a plan, and prints what another person shall do. A plan of no action changes nothing.
func (p *program) requestApproval(ctx context.Context, s *servers, plan approval.Plan, pin pinFlags,
	person operatorFlags, format string) error {
	if plan.Action == "" {
		p.warn(text.NothingToApprove)
		if format == "json" {
			return output.JSON(p.Stdout, struct {
				Changed bool `json:"changed"`
			}{})
		}
		return nil
	}
	if err := pin.expected(plan.Digest()); err != nil {
		return p.printRefusal(err)
	}
	id, err := approval.Ask(ctx, mysqltx.New(s.MySQL), plan, p.person(person), person.Reason)
	if err != nil {
		return err
	}
	a, err := approval.Read(ctx, s.MySQL, id)
	if err != nil {
		return err
	}
	if format == "json" {
		return output.JSON(p.Stdout, asked{id, a.Digest, a.Plan})
	}
	p.view().Approval(a)
	if p.forPage { // the number in the list is a link
		p.view().Approvals([]approval.Approval{a})
		p.warn(text.ApprovalAskedOnPage)
		return nil
	}
	p.warn(text.ApprovalAsked, id, id, id)
	return nil
}

type approvalsCmd struct {
	ID     approval.ID     `arg:"" optional:"" name:"id"`
	Coupon coupon.CouponID `placeholder:"ID" form:"-"`
	By     string          `placeholder:"NAME" form:"-"`
	Open   bool            `form:"-"`
	Before approval.ID     `placeholder:"N" form:"-"`
	Limit  int             `default:"20" placeholder:"N" form:"-"`
	Output string          `enum:"table,json" default:"table" form:"-"`
}

func (*approvalsCmd) Declare() verb.Declaration {
	return verb.Declaration{Right: signin.Act, API: "GET /v1/approvals/{id}"}
}

func (c *approvalsCmd) Validate() error {
	return refuse(c.Limit < 1 || c.Limit > maxRunsListed, text.WrongLimit, c.Limit, maxRunsListed, "--before")
}

func (c *approvalsCmd) read(ctx context.Context, p *program, s *servers) error {
	if c.ID > 0 {
		a, err := approval.Read(ctx, s.MySQL, c.ID)
		if err == nil && p.forPage {
			own := a.IsOf(approval.Person{Name: p.by.Name, SignIn: p.by.SignIn})
			if !p.by.MaySeeRequest(own, a.Plan.User > 0) {
				err = text.MissingErrorf(text.NoSuchApproval, c.ID)
			}
		}
		if err != nil {
			return err
		}
		if c.Output == "json" {
			return output.JSON(p.Stdout, a)
		}
		p.view().Approval(a)
		return nil
	}
	filter := approval.Filter{Coupon: c.Coupon, Maker: c.By, Open: c.Open, Before: c.Before, Limit: c.Limit}
	if c.By != "" { // at the console, a name at a terminal is another person's
		filter.MakerSignIn = p.by.SignIn
	}
	all, err := approval.List(ctx, s.MySQL, filter)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return output.JSON(p.Stdout, all)
	}
	p.view().Approvals(all)
	return nil
}

type approveCmd struct {
	ID            approval.ID `arg:"" name:"id"`
	Refuse        bool
	operatorFlags `embed:""`
	Yes           bool
	Output        string `enum:"table,json" default:"table"`
}

func (c *approveCmd) Validate() error { return c.operatorFlags.check(text.OperatorIsRecorded) }

func (c *approveCmd) run(ctx context.Context, p *program) error {
	s, err := p.openWriting(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if !c.Yes && !c.Refuse {
		if may, err := c.mayDecide(ctx, p, s); err != nil || !may {
			return err
		}
	}
	a, err := approval.Decide(ctx, mysqltx.New(s.MySQL), c.ID, p.person(c.operatorFlags), !c.Refuse, c.Reason)
	if err != nil {
		return p.printRefusal(err)
	}
	if c.Output == "json" {
		return output.JSON(p.Stdout, a)
	}
	p.view().Approval(a)
	return nil
}

// mayDecide shows the plan and asks. Without a terminal the plan must have been looked at: --yes says so.
func (c *approveCmd) mayDecide(ctx context.Context, p *program, s *servers) (bool, error) {
	a, err := approval.Read(ctx, s.MySQL, c.ID)
	if err != nil {
		return false, err
	}
	if !p.isTerminal() {
		return false, text.UsageErrorf(text.ApproveNeedsYes, c.ID)
	}
	p.errors().Approval(a)
	return p.ask(ctx, p.Sprintf(text.AskApprove))
}

type policyCmd struct {
	Show policyShowCmd `cmd:""`
	Set  policySetCmd  `cmd:""`
}

type policyShowCmd struct {
	Output string `enum:"table,json" default:"table"`
}

func (c *policyShowCmd) read(ctx context.Context, p *program, s *servers) error {
	policy, err := approval.ReadPolicy(ctx, s.MySQL)
	if err != nil {
		return err
	}
	return p.printPolicy(policy, c.Output)
}

func (p *program) printPolicy(policy approval.Policy, format string) error {
	if format == "json" {
		return output.JSON(p.Stdout, policy)
	}
	p.view().Policy(policy)
	return nil
}

// printPlan prints a plan as JSON, or as show prints it.
func (p *program) printPlan(plan approval.Plan, format string, show func(view.View)) error {
	if format == "json" {
		return output.JSON(p.Stdout, struct {
			Digest string        `json:"digest"`
			Plan   approval.Plan `json:"plan"`
		}{plan.Digest(), plan})
	}
	show(p.view())
	return nil
}

type policySetCmd struct {
	Actions        []string `placeholder:"ACTION"`
	SharedAccounts []string `placeholder:"ACCOUNT"`
	Person         []string `placeholder:"NAME=ACCOUNT"`
	Zone           string   `placeholder:"ZONE"`
	DryRun         bool     `xor:"approval" form:"-"`
	operatorFlags  `embed:""`
	approvalFlags  `embed:""`
	Output         string `enum:"table,json" default:"table" form:"-"`
}

func (*policySetCmd) Declare() verb.Declaration {
	return verb.Declaration{Title: text.ConsoleSetPolicy, Right: signin.SetPolicy,
		Actions: []approval.Action{approval.SetPolicy}}
}

func (c *policySetCmd) Validate() error {
	problems := []error{c.operatorFlags.checkUnless(c.DryRun),
		about("--actions", refuse(c.Actions == nil && c.SharedAccounts == nil && c.Person == nil && c.Zone == "",
			text.FlagsMissing, "--actions, --shared-accounts, --person, --zone"))}
	lists := map[string][]string{"--actions": c.Actions, "--shared-accounts": c.SharedAccounts, "--person": c.Person}
	for flag, list := range lists {
		mixed := refuse(slices.Contains(list, approval.None) && len(list) > 1, text.NoneIsAlone, flag,
			strings.Join(list, ","))
		problems = append(problems, about(flag, mixed))
	}
	return errors.Join(problems...)
}

// wanted is the new version. A list that is not given stays; none makes it empty.
func (c *policySetCmd) wanted() (w approval.Wanted) {
	w.SharedAccounts, w.Zone = listed(c.SharedAccounts), c.Zone
	if c.Person != nil {
		w.Persons = []approval.Mapped{}
	}
	for _, person := range listed(c.Person) {
		name, account, _ := strings.Cut(person, "=") // without an account, it is refused
		w.Persons = append(w.Persons, approval.Mapped{Name: name, Account: account})
	}
	if c.Actions != nil {
		w.Actions = []approval.Rule{}
	}
	for _, a := range listed(c.Actions) {
		w.Actions = append(w.Actions, approval.Rule(a))
	}
	return w
}

func listed(given []string) []string {
	if slices.Equal(given, []string{approval.None}) {
		return []string{}
	}
	return given
}

func (c *policySetCmd) run(ctx context.Context, p *program) error {
	s, err := p.openWriting(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if c.Ask || c.DryRun {
		plan, err := approval.PlanPolicy(ctx, s.MySQL, c.wanted())
		if err != nil {
			return p.printRefusal(err)
		}
		if c.Ask {
			return p.requestApproval(ctx, s, plan, c.pinFlags, c.operatorFlags, c.Output)
		}
		return p.printPlan(plan, c.Output, func(v view.View) { v.PlannedPolicy(plan) })
	}
	origin := p.origin(c.operatorFlags)
	set, err := approval.Set(ctx, mysqltx.New(s.MySQL), c.wanted(), c.ticket(p, c.operatorFlags), origin)
	if err != nil {
		return p.printRefusal(err)
	}
	return p.printPolicy(set, c.Output)
}
