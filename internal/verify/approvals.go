package verify

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// approvalRule says which approval an audited action needs: if the policy names one of named, one of given must have
// been used.
type approvalRule struct{ named, given []string }

func only(action string) approvalRule { return approvalRule{[]string{action}, []string{action}} }

var approvalRules = map[audit.Action]approvalRule{
	audit.ManualSettle:         {[]string{"run"}, []string{"run", "accept-gap"}},
	audit.GapAccepted:          {[]string{"run", "accept-gap"}, []string{"accept-gap"}},
	audit.CouponCreated:        only("create"),
	audit.CouponEdited:         only("change"),
	audit.CouponSeats:          only("add-seats"),
	audit.CouponClosed:         only("close"),
	audit.CouponExtended:       only("extend"),
	audit.CouponPaused:         only("pause"),
	audit.CouponResumed:        only("resume"),
	audit.CouponFrozen:         only("freeze"),
	audit.CouponUnfrozen:       only("unfreeze"),
	audit.CouponCadence:        only("cadence"),
	audit.CouponRecounted:      only("recount"),
	audit.CouponGranted:        only("grant"),
	audit.CouponListGranted:    only("grant"),
	audit.CouponRevoked:        only("revoke"),
	audit.CouponReissued:       only("reissue"),
	audit.CouponUserExtended:   only("extend-user"),
	audit.CouponUnused:         only("unuse"),
	audit.ReceiptHonoured:      only("honour"),
	audit.DLQDropped:           only("drop"),
	audit.ApplicationsRestored: only("restore"),
}

// policyVersion is a row of table policy.
type policyVersion struct {
	id, runsAfter, eventsAfter, approval uint64
	zone                                 string
	actions, shared                      []string
	persons                              []mapped
}

// mapped is a person of the policy: the name at the console, and the account at a terminal.
type mapped struct{ Name, Account string }

const policiesSQL = "SELECT id, runs_after, events_after, COALESCE(approval_id, 0), actions, shared_accounts, " +
	"persons, zone FROM policy ORDER BY id"

func readPolicies(ctx context.Context, q mysqltx.Querier) ([]policyVersion, error) {
	all := []policyVersion{}
	err := mysqltx.Each(ctx, q, func(rows *sql.Rows) error {
		var p policyVersion
		var actions, shared, persons []byte
		err := rows.Scan(&p.id, &p.runsAfter, &p.eventsAfter, &p.approval, &actions, &shared, &persons, &p.zone)
		if err == nil {
			err = errors.Join(json.Unmarshal(actions, &p.actions), json.Unmarshal(shared, &p.shared),
				json.Unmarshal(persons, &p.persons))
		}
		all = append(all, p)
		return err
	}, policiesSQL)
	return all, mysqltx.Wrap(err, "read the policies of approvals")
}

// approvedEvent is an audit event that a policy may concern, or that names an approval.
type approvedEvent struct {
	id     uint64
	action audit.Action
	actor  string
	at     time.Time
	run    *uint64
	detail audit.Detail

	account string // MySQL account that wrote the event
	signIn  string // name at the console; empty: it was done at a terminal
}

// change identifies the transaction, or the run, whose events name one approval.
func (e approvedEvent) change() string {
	if e.run != nil {
		return fmt.Sprint("run ", *e.run)
	}
	return fmt.Sprint(e.at.UnixMicro(), " ", e.actor)
}

// promised is what a coupon could cost at one moment.
type promised struct {
	seats int64
	coupon.Discount
}

// most is the highest discount of all seats, in won.
func (p promised) most() *big.Int {
	most := p.DiscountWon
	if p.DiscountPercent > 0 {
		most = p.DiscountMaxWon
	}
	return new(big.Int).Mul(big.NewInt(most), big.NewInt(p.seats))
}

// before returns what the coupon could cost before the event, if it could cost after after it.
func (e approvedEvent) before(after promised) (before promised) {
	before = after
	var is audit.CouponChange
	switch payload := e.detail.Payload(e.action).(type) {
	case audit.NewCoupon:
		return promised{}
	case audit.CouponChange:
		is = payload
	case audit.HolderChange:
		is = payload.CouponChange
	case audit.GrantedList:
		is = payload.CouponChange
	}
	if is.Seats != nil {
		before.seats += int64(is.Seats.From - is.Seats.To)
	}
	if is.Discount != nil {
		before.Discount = is.Discount.From
	}
	return before
}

// cost is the highest discount, in won, that the event made possible; -1: more than any amount.
func (e approvedEvent) cost(before, after promised) int64 {
	cost := new(big.Int).Sub(after.most(), before.most())
	switch payload := e.detail.Payload(e.action).(type) {
	case audit.HolderChange:
		cost = promised{1, after.Discount}.most()
	case audit.GrantedList:
		cost = promised{max(payload.Users, seatsOf(payload)), after.Discount}.most()
	}
	if cost.Sign() > 0 && !cost.IsInt64() {
		return -1
	}
	return max(cost.Int64(), 0)
}

// needs reports whether a rule of the policy, such as "create" or "create:1000000", asks for the approval of one of the
// actions at this cost.
func needs(rule string, actions []string, cost int64) bool {
	action, amount, limited := strings.Cut(rule, ":")
	if !slices.Contains(actions, action) {
		return false
	}
	above, err := strconv.ParseInt(amount, 10, 64)
	return !limited || err != nil || cost < 0 || cost > above
}

// named reports whether the policy names one of the actions: every version that was in force between the beginning of
// the run, which gets its number long before it asks the policy, and the event.
func (e approvedEvent) named(policies []policyVersion, actions []string, cost int64) bool {
	first, last := -1, -1
	for i, p := range policies {
		if e.id > p.eventsAfter {
			last = i
		}
		if e.run == nil || *e.run > p.runsAfter {
			first = i
		}
	}
	if first > last {
		first = last
	}
	for i := max(first, 0); i <= last; i++ {
		if !slices.ContainsFunc(policies[i].actions, func(rule string) bool { return needs(rule, actions, cost) }) {
			return false
		}
	}
	return last >= 0
}

const approvedEventsSQL = `
SELECT e.id, e.action, e.actor, e.at, e.run_id, e.detail, e.account, e.sign_in` + audit.Chained + `WHERE e.coupon_id = ?
AND e.action NOT IN ('GAP_HELD', 'COUNT_HELD', 'DLQ_RETRIED', 'PROMISE_UNKNOWN', 'COUPON_UNFINALISED', 'USER_FORGOTTEN')
ORDER BY e.seq`

// checkApprovals checks invariant 10: every audited change that the policy names has an approval by another person,
// used once.
func (c *check) checkApprovals(ctx context.Context) error {
	policies, err := readPolicies(ctx, c.tx)
	if err != nil {
		return err
	}
	events, err := mysqltx.Collect(ctx, c.tx, func(e *approvedEvent) []any {
		return []any{&e.id, &e.action, &e.actor, &e.at, &e.run, &e.detail, &e.account, &e.signIn}
	}, approvedEventsSQL, c.Coupon)
	if err != nil {
		return mysqltx.Wrap(err, "read the approved changes of coupon %d", c.Coupon)
	}
	given, err := readApprovals(ctx, c.tx, "coupon_id = ?", c.Coupon)
	if err != nil {
		return err
	}
	used := map[string][]string{} // the actions of the approvals that a change names
	var missing, wrong int64
	for _, e := range events {
		if e.action != audit.ApprovalUsed {
			continue
		}
		c.Approvals++
		is, _ := e.detail.Payload(e.action).(audit.UsedApproval)
		a := given.named(is)
		if a == nil || a.fault(policies) || a.seen || a.action != is.Action || !a.usedBy(e, a.policyOf(policies)) {
			wrong++
		}
		if a != nil {
			a.seen = true
			used[e.change()] = append(used[e.change()], is.Action)
		}
	}
	after := promised{int64(c.row.TotalQuantity), c.row.Discount}
	for _, e := range slices.Backward(events) {
		rule, concerned := approvalRules[e.action]
		before := e.before(after)
		cost := e.cost(before, after)
		after = before
		if !concerned || e.action == audit.ApplicationsRestored && e.actor == audit.NightlyActor ||
			!e.named(policies, rule.named, cost) {
			continue
		}
		approved := slices.ContainsFunc(used[e.change()], func(a string) bool { return slices.Contains(rule.given, a) })
		if e.action == audit.CouponListGranted {
			approved = given.hasList(e, policies)
		}
		if !approved {
			missing++
		}
	}
	for _, a := range given {
		if a.usedAt != nil && !a.seen || a.forged() {
			wrong++
		}
	}
	c.findAny(10, ApprovalMissing, missing, "changes that needed an approval by the policy and have none: %d")
	c.findAny(10, ApprovalWrong, wrong,
		"approvals that are not by another person, not of their plan, or not used once as given: %d")
	return nil
}

// checkPolicies checks invariant 10 for the policy itself: a version that follows one that names an action has its
// approval.
func checkPolicies(ctx context.Context, q mysqltx.Querier, v *Verdict) error {
	policies, err := readPolicies(ctx, q)
	if err != nil {
		return err
	}
	given, err := readApprovals(ctx, q, "coupon_id = 0")
	if err != nil {
		return err
	}
	var missing, wrong int64
	for i, p := range policies {
		a := given[p.approval]
		switch {
		case p.approval == 0 && i > 0 && len(policies[i-1].actions) > 0:
			missing++
		case p.approval == 0:
		case a == nil || a.fault(policies) || a.seen || a.action != "policy":
			wrong++
		}
		if a != nil {
			a.seen = true
		}
	}
	for _, a := range given {
		if a.usedAt != nil && !a.seen || a.forged() {
			wrong++
		}
	}
	zones, err := mysqltx.Column[string](ctx, q, "SELECT zone FROM deployment")
	if err != nil {
		return mysqltx.Wrap(err, "read the time zone of the nights")
	}
	if last := len(policies) - 1; last < 0 || !slices.Equal(zones, []string{policies[last].zone}) {
		v.find(10, ZoneWrong, 1, "the nights are of %q, which is not what the policy says", zones)
	}
	v.findAny(10, ApprovalMissing, missing, "versions of the policy that needed an approval and have none: %d")
	v.findAny(10, ApprovalWrong, wrong,
		"approvals of the policy that are not by another person, not of their plan, or not used once as given: %d")
	return nil
}

// givenApproval is a row of table approval.
type givenApproval struct {
	id                   uint64
	action, plan, digest string
	maker, checker       approver
	policy               uint64 // version of the policy in force at the decision
	approved             bool
	createdAt, expiresAt time.Time
	decidedAt, usedAt    *time.Time

	seen   bool  // an audit event, or a version of the policy, names it
	listed int64 // seats of the pages of its list
}

type approver struct {
	name    string
	signIn  string // empty: at a terminal
	account string // MySQL account
}

type givenApprovals map[uint64]*givenApproval

const approvalsSQL = `
SELECT id, action, plan, digest, maker, maker_sign_in, maker_account, COALESCE(checker, ''), COALESCE(checker_sign_in,
    ''), COALESCE(checker_account, ''),
       COALESCE(policy_id, 0), COALESCE(approved, FALSE),
       created_at, expires_at, decided_at, used_at FROM approval WHERE `

func readApprovals(ctx context.Context, q mysqltx.Querier, where string, args ...any) (givenApprovals, error) {
	all := givenApprovals{}
	err := mysqltx.Each(ctx, q, func(rows *sql.Rows) error {
		a := new(givenApproval)
		err := rows.Scan(&a.id, &a.action, &a.plan, &a.digest, &a.maker.name, &a.maker.signIn, &a.maker.account,
			&a.checker.name, &a.checker.signIn, &a.checker.account, &a.policy, &a.approved,
			&a.createdAt, &a.expiresAt, &a.decidedAt, &a.usedAt)
		all[a.id] = a
		return err
	}, approvalsSQL+where, args...)
	return all, mysqltx.Wrap(err, "read approvals")
}

// named returns the approval that an event names. It is nil if there is none, or one with another digest or other
// persons.
func (g givenApprovals) named(is audit.UsedApproval) *givenApproval {
	a := g[is.Approval] // no approval has the number 0
	if a == nil || is.Digest != a.digest || is.Maker != a.maker.name || is.Checker != a.checker.name {
		return nil
	}
	return a
}

// seatsOf is how many users of the list got the coupon with the page.
func seatsOf(page audit.GrantedList) int64 {
	if page.Seats == nil {
		return 0
	}
	return int64(page.Seats.To - page.Seats.From)
}

// hasList reports whether the event is a page of a list that was approved. The first page has used the approval, and
// all pages together give no more seats than the list has users.
func (g givenApprovals) hasList(e approvedEvent, policies []policyVersion) bool {
	is, ok := e.detail.Payload(e.action).(audit.GrantedList)
	a := g[is.Approval]
	if !ok || a == nil || !a.seen || a.action != "grant" || !a.usedBy(e, a.policyOf(policies)) ||
		e.at.After(a.expiresAt) {
		return false
	}
	var plan struct {
		Arguments struct{ File string }
		Changes   []struct{ What, To string }
	}
	if json.Unmarshal([]byte(a.plan), &plan) != nil || len(plan.Changes) != 1 || plan.Arguments.File != is.List ||
		plan.Changes[0].To != strconv.FormatInt(is.Users, 10) {
		return false
	}
	a.listed += seatsOf(is)
	return a.listed <= is.Users
}

// fault reports whether the approval was not given by another person in time, or was not used in time.
func (a *givenApproval) fault(policies []policyVersion) bool {
	if !a.approved || a.decidedAt == nil || a.usedAt == nil {
		return true
	}
	inTime := !a.decidedAt.Before(a.createdAt) && !a.usedAt.Before(*a.decidedAt) && !a.usedAt.After(a.expiresAt)
	return !inTime || a.maker.mayBe(a.checker, a.policyOf(policies)) || a.shared(policies)
}

// under leaves out a sign-in by an account that the policy does not call shared: its owner can start a console with any
// sign-in.
func (p approver) under(policy policyVersion) approver {
	if !policy.shares(p.account) {
		p.signIn = ""
	}
	return p
}

// mayBe reports whether two may be one person. Between the console and a terminal, the policy must know both as two.
func (p approver) mayBe(other approver, policy policyVersion) bool {
	p, other = p.under(policy), other.under(policy)
	if accountName(p.account) == accountName(other.account) && (p.signIn == "" || other.signIn == "") {
		return true
	}
	switch {
	case p.signIn != "" && other.signIn != "":
		return p.signIn == other.signIn || spelled(p.name) == spelled(other.name)
	case p.signIn != "":
		return !policy.knowsAsTwo(p.name, other.account)
	case other.signIn != "":
		return !policy.knowsAsTwo(other.name, p.account)
	default:
		return false
	}
}

// knowsAsTwo reports whether a name at the console and an account at a terminal are of two persons of the policy.
func (p policyVersion) knowsAsTwo(name, account string) bool {
	ofName, ofAccount := mapped{}, mapped{}
	for _, person := range p.persons {
		if spelled(person.Name) == spelled(name) {
			ofName = person
		}
		if accountName(person.Account) == accountName(account) {
			ofAccount = person
		}
	}
	return ofName != mapped{} && ofAccount != mapped{} && ofName != ofAccount
}

func spelled(name string) string { return strings.ToLower(norm.NFKC.String(strings.TrimSpace(name))) }

func accountName(account string) string {
	name, _, _ := strings.Cut(spelled(account), "@")
	return name
}

// policyOf is the version in force when the approval was decided.
func (a *givenApproval) policyOf(policies []policyVersion) (found policyVersion) {
	for _, p := range policies {
		if p.id == a.policy {
			found = p
		}
	}
	return found
}

// shared reports whether an account that several persons use has approved.
func (a *givenApproval) shared(policies []policyVersion) bool {
	return a.checker.signIn == "" && a.policyOf(policies).shares(a.checker.account)
}

// shares reports whether several persons use an account.
func (p policyVersion) shares(account string) bool {
	user, _, _ := strings.Cut(account, "@")
	return slices.Contains(p.shared, account) || slices.Contains(p.shared, user)
}

// usedBy reports whether the one who asked has made the change of an event: at the console the sign-in, at a terminal
// the account.
func (a *givenApproval) usedBy(e approvedEvent, policy policyVersion) bool {
	maker, user := a.maker.under(policy), approver{name: e.actor, signIn: e.signIn, account: e.account}.under(policy)
	if maker.signIn != "" || user.signIn != "" {
		return user.signIn == maker.signIn && spelled(user.name) == spelled(maker.name)
	}
	return accountName(user.account) == accountName(maker.account)
}

// forged reports whether the plan is not that of the digest, or names another action.
func (a *givenApproval) forged() bool {
	if a.plan == "" { // its person was forgotten
		return false
	}
	var is struct{ Action, Pin string }
	if json.Unmarshal([]byte(a.plan), &is) != nil || is.Action != a.action {
		return true
	}
	sum := sha256.Sum256([]byte(a.plan))
	return a.digest != is.Pin && a.digest != "sha256:"+hex.EncodeToString(sum[:])
}
