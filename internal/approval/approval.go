package approval

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// ID is the number of an approval, from 1.
type ID uint64

// goodFor is how long an approval can be given and used. A plan that is a day old is asked for again.
const goodFor = 24 * time.Hour

// State of an approval.
type State string

const (
	Requested State = "REQUESTED"
	Approved  State = "APPROVED"
	Refused   State = "REFUSED"
	Expired   State = "EXPIRED"
	Voided    State = "VOID" // the plan had changed when it was to be executed
	Used      State = "USED"
)

// Approval is a row of table approval.
type Approval struct {
	ID           ID        `json:"id"`
	State        State     `json:"state"` // the state by MySQL's clock
	Plan         Plan      `json:"plan"`
	Digest       string    `json:"digest"`
	Reason       string    `json:"reason"`
	Maker        string    `json:"maker"`
	MakerAccount string    `json:"makerAccount,omitempty"` // MySQL account; at a terminal, it says who asked
	CreatedAt    time.Time `json:"createdAt"`
	ExpiresAt    time.Time `json:"expiresAt"`

	Checker        string       `json:"checker,omitempty"`
	CheckerAccount string       `json:"checkerAccount,omitempty"` // MySQL account of the checker, see MakerAccount
	DecidedAt      *time.Time   `json:"decidedAt,omitempty"`
	Remark         string       `json:"remark,omitempty"`
	VoidedAt       *time.Time   `json:"voidedAt,omitempty"`
	VoidPlan       *Plan        `json:"voidPlan,omitempty"` // what the plan was when it was to be executed
	UsedAt         *time.Time   `json:"usedAt,omitempty"`
	Run            coupon.RunID `json:"run,omitempty"`

	maker, checker identity
	expired        bool
}

const askSQL = `
INSERT INTO approval (action, coupon_id, user_id, plan, digest, reason, maker, maker_sign_in, maker_account, created_at,
    expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL ? SECOND)`

// Ask records a plan that another person shall approve. It is not safe to repeat: a second call asks a second time.
func Ask(ctx context.Context, db *mysqltx.DB, plan Plan, maker Person, reason string) (id ID, err error) {
	plan = plan.salted()
	err = db.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) error {
		by, err := maker.identify(ctx, q)
		if err != nil {
			return err
		}
		user := sql.Null[coupon.UserID]{V: plan.User, Valid: plan.User > 0}
		done, err := q.ExecContext(ctx, askSQL, plan.Action, plan.Coupon, user, plan.JSON(), plan.Digest(), reason,
			by.Name, by.SignIn, by.account, int(goodFor.Seconds()))
		if err != nil {
			return err
		}
		last, err := done.LastInsertId()
		id = ID(last)
		return err
	})
	return id, mysqltx.Wrap(err, "ask for approval")
}

const (
	columns = `
SELECT id, plan, digest, reason, maker, maker_sign_in, maker_account, created_at, expires_at,
       COALESCE(checker, ''), COALESCE(checker_sign_in, ''), COALESCE(checker_account, ''), decided_at,
       COALESCE(approved, FALSE), COALESCE(remark, ''), voided_at, COALESCE(void_plan, ''), used_at,
       COALESCE(run_id, 0), UTC_TIMESTAMP(6)
FROM approval `
	readSQL = columns + "WHERE id = ?"
	lockSQL = columns + "WHERE id = ? FOR UPDATE"
	listSQL = columns + `WHERE (? = 0 OR id < ?) AND (? = 0 OR coupon_id = ?) AND (? = '' OR maker = ?)
  AND (? = '' OR maker_sign_in = ?)
  AND (NOT ? OR decided_at IS NULL AND expires_at > UTC_TIMESTAMP(6)) ORDER BY id DESC LIMIT ?`
	openSQL = "SELECT COUNT(*) FROM approval WHERE decided_at IS NULL AND expires_at > UTC_TIMESTAMP(6)"
)

func scan(row interface{ Scan(...any) error }) (a Approval, err error) {
	var plan, voidPlan string
	var approved bool
	var now time.Time
	err = row.Scan(&a.ID, &plan, &a.Digest, &a.Reason, &a.Maker, &a.maker.SignIn, &a.maker.account, &a.CreatedAt,
		&a.ExpiresAt,
		&a.Checker, &a.checker.SignIn, &a.checker.account, &a.DecidedAt, &approved, &a.Remark, &a.VoidedAt, &voidPlan,
		&a.UsedAt, &a.Run, &now)
	a.maker.Name, a.checker.Name = a.Maker, a.Checker
	a.MakerAccount, a.CheckerAccount = a.maker.atTerminal(), a.checker.atTerminal()
	if err == nil && plan != "" { // it is empty after its person was forgotten
		err = json.Unmarshal([]byte(plan), &a.Plan)
	}
	if err == nil && voidPlan != "" {
		a.VoidPlan = new(Plan)
		err = json.Unmarshal([]byte(voidPlan), a.VoidPlan)
	}
	a.expired = !a.ExpiresAt.After(now)
	a.State = a.state(approved)
	return a, err
}

func (a Approval) state(approved bool) State {
	switch {
	case a.UsedAt != nil:
		return Used
	case a.VoidedAt != nil:
		return Voided
	case a.DecidedAt != nil && !approved:
		return Refused
	case a.expired:
		return Expired
	case a.DecidedAt != nil:
		return Approved
	default:
		return Requested
	}
}

func Read(ctx context.Context, q mysqltx.Querier, id ID) (Approval, error) {
	return read(ctx, q, readSQL, id)
}

func read(ctx context.Context, q mysqltx.Querier, query string, id ID) (Approval, error) {
	a, err := scan(q.QueryRowContext(ctx, query, id))
	if errors.Is(err, sql.ErrNoRows) {
		return a, text.MissingErrorf(text.NoSuchApproval, id)
	}
	return a, mysqltx.Wrap(err, "read approval %d", id)
}

// Filter chooses approvals. Zero fields choose all.
type Filter struct {
	Coupon coupon.CouponID
	Maker  string
	Open   bool // those that wait for a decision
	Before ID
	Limit  int

	MakerSignIn string // of Maker at the console
}

// List returns approvals, the newest first.
func List(ctx context.Context, q mysqltx.Querier, f Filter) (all []Approval, err error) {
	all = []Approval{}
	err = mysqltx.Each(ctx, q, func(rows *sql.Rows) error {
		a, err := scan(rows)
		all = append(all, a)
		return err
	}, listSQL, f.Before, f.Before, f.Coupon, f.Coupon, f.Maker, f.Maker, f.MakerSignIn, f.MakerSignIn, f.Open,
		f.Limit)
	return all, mysqltx.Wrap(err, "read approvals")
}

// Waiting returns how many requests wait for a decision.
func Waiting(ctx context.Context, q mysqltx.Querier) (n int, err error) {
	err = q.QueryRowContext(ctx, openSQL).Scan(&n)
	return n, mysqltx.Wrap(err, "count requests")
}

const decideSQL = `
UPDATE approval SET checker = ?, checker_sign_in = ?, checker_account = ?, policy_id = ?, decided_at = UTC_TIMESTAMP(6),
    approved = ?, remark = ? WHERE id = ? AND decided_at IS NULL`

// Decide approves or refuses a request. The checker is certainly another person than the maker, and no shared account.
// The maker may refuse it, which takes the request back. Repeating the same decision changes nothing.
func Decide(ctx context.Context, db *mysqltx.DB, id ID, checker Person, approve bool,
	remark string) (decided Approval, err error) {
	err = db.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		policy, err := lockPolicy(ctx, tx, sharePolicySQL)
		if err != nil {
			return err
		}
		if decided, err = read(ctx, tx, lockSQL, id); err != nil {
			return err
		}
		by, err := checker.identify(ctx, tx)
		if err != nil {
			return err
		}
		if repeated, err := mayDecide(decided, policy, by, approve); err != nil || repeated {
			return err
		}
		if err := mysqltx.Exec(ctx, tx, 1, decideSQL, by.Name, by.SignIn, by.account, policy.Version, approve, remark,
			id); err != nil {
			return mysqltx.Wrap(err, "decide about approval %d", id)
		}
		decided, err = read(ctx, tx, readSQL, id)
		return err
	})
	return decided, err
}

func mayDecide(a Approval, policy Policy, checker identity, approve bool) (repeated bool, err error) {
	want := map[bool]State{true: Approved, false: Refused}[approve]
	twoSignIns := checker.SignIn != "" && a.maker.SignIn != "" && checker.SignIn != a.maker.SignIn
	checker, maker := checker.under(policy), a.maker.under(policy)
	switch {
	case a.State == want && checker.is(a.checker.under(policy)):
		return true, nil
	case a.State != Requested:
		return false, text.UsageErrorf(text.ApprovalNotOpen, a.ID, a.State)
	case approve && checker.shares(policy.SharedAccounts):
		return false, text.UsageErrorf(text.AccountIsShared, checker.account)
	case approve && twoSignIns && checker.SignIn == "" && stem(checker.account) == stem(maker.account):
		return false, text.UsageErrorf(text.ConsoleNotShared, checker.account)
	case approve && checker.mayBe(maker, policy) && (checker.SignIn == "") == (maker.SignIn == ""):
		return false, text.UsageErrorf(text.ApprovalIsOwn, a.ID, a.Maker)
	case approve && checker.mayBe(maker, policy):
		return false, text.UsageErrorf(text.PersonNotMapped, a.ID, a.Maker)
	}
	return false, nil
}

// Ticket is what the executor of a change presents.
type Ticket struct {
	Approval ID // 0: none
	Person   Person
	Expect   string // digest that a preview of the change has shown; empty: the change is made whatever it is
}

// Refusal means that a change was not made because it is not approved. It is a *text.UsageError.
type Refusal struct {
	error
	Plan    Plan // what the change would do now
	changed ID   // the approval that is void
}

func (r *Refusal) Unwrap() error { return r.error }

func refuse(plan Plan, m text.Message, args ...any) error {
	return &Refusal{error: text.UsageErrorf(m, args...), Plan: plan}
}

// Expected returns an error if a change is not the one that a preview has shown.
func Expected(want, digest string) error {
	if want == "" || digest == want {
		return nil
	}
	return text.UsageErrorf(text.PreviewChanged, digest, want)
}

// Needed reports whether Use looks at the approval of an action without a cost at all.
func (t Ticket) Needed(ctx context.Context, tx mysqltx.Querier, action Action) (bool, error) {
	policy, err := lockPolicy(ctx, tx, sharePolicySQL)
	return err == nil && (t.Approval > 0 || t.Expect != "" || policy.Names(action, 0)), err
}

const useSQL = "UPDATE approval SET used_at = UTC_TIMESTAMP(6), run_id = ?, coupon_id = ? WHERE id = ? AND " +
	"used_at IS NULL AND voided_at IS NULL"

// MayBeUsed reports whether the change may be made. The approval of a list holds for all of its pages, until it
// expires.
func (a Approval) MayBeUsed() bool {
	return a.State == Approved || a.State == Used && a.Plan.isOfList() && !a.expired
}

// Use lets a change pass that is as expected, and that the policy does not name or that is approved. tx makes the
// change, and holds the lock of the coupon's row. The approval is then used up, and an audit event names it. That of a
// list is used by each page until it expires, and each page's own event names it.
func (t Ticket) Use(ctx context.Context, tx mysqltx.Querier, plan Plan, origin audit.Origin) error {
	return t.UseFor(ctx, tx, plan, plan.Coupon, origin)
}

// UseFor is Use for a plan without a coupon: tx has made the coupon, to which the approval belongs from now on.
func (t Ticket) UseFor(ctx context.Context, tx mysqltx.Querier, plan Plan, id coupon.CouponID,
	origin audit.Origin) error {
	policy, err := lockPolicy(ctx, tx, sharePolicySQL)
	if err != nil {
		return err
	}
	used, err := t.use(ctx, tx, policy, plan, id, origin)
	if err != nil || used.ID == 0 || used.State == Used {
		return err
	}
	return audit.Append(ctx, tx, origin, audit.ApprovalUsed, id,
		audit.Entry{User: plan.User, Payload: audit.UsedApproval{
			Approval: uint64(used.ID), Action: string(plan.Action), Digest: used.Digest, Maker: used.Maker,
			Checker: used.Checker}})
}

// use returns the approval that was used; none if none is needed.
func (t Ticket) use(ctx context.Context, tx mysqltx.Querier, policy Policy, plan Plan, id coupon.CouponID,
	origin audit.Origin) (used Approval, err error) {
	if err := Expected(t.Expect, plan.Digest()); err != nil {
		return used, &Refusal{error: err, Plan: plan}
	}
	if t.Approval == 0 {
		if policy.Names(plan.Action, plan.CostWon) {
			return used, refuse(plan, text.ApprovalNeeded, plan.Action)
		}
		return used, nil
	}
	if used, err = read(ctx, tx, lockSQL, t.Approval); err != nil {
		return used, err
	}
	by, err := t.Person.identify(ctx, tx)
	if err != nil {
		return used, err
	}
	plan.Salt = used.Plan.Salt
	switch {
	case !used.MayBeUsed():
		if used.Plan.isOfList() && used.State == Used { // it was given, and has expired since
			used.State = Expired
		}
		return used, refuse(plan, text.ApprovalNotGiven, used.ID, used.State)
	case !used.Plan.sameRequest(plan):
		return used, refuse(plan, text.ApprovalOfOther, used.ID, used.Plan.Action, used.Plan.Coupon)
	case !by.under(policy).is(used.maker.under(policy)):
		return used, refuse(plan, text.ApprovalOfOtherPerson, used.ID, used.Maker)
	case origin.Reason != used.Reason:
		return used, refuse(plan, text.ApprovalOfOtherReason, used.ID, used.Reason)
	case used.Digest != plan.Digest():
		return used, &Refusal{error: text.UsageErrorf(text.ApprovalChanged, used.ID, difference(used.Plan, plan)),
			Plan: plan, changed: used.ID}
	}
	if used.State == Used {
		return used, nil
	}
	run := sql.Null[coupon.RunID]{V: origin.Run, Valid: origin.Run > 0}
	return used, mysqltx.Wrap(mysqltx.Exec(ctx, tx, 1, useSQL, run, id, used.ID), "use approval %d", used.ID)
}

// difference lists the values that are no longer as approved.
func difference(was, is Plan) string {
	var parts []string
	for i := range max(len(was.Changes), len(is.Changes)) {
		var a, b Change
		if i < len(was.Changes) {
			a = was.Changes[i]
		}
		if i < len(is.Changes) {
			b = is.Changes[i]
		}
		if a != b {
			parts = append(parts, fmt.Sprintf("%s: %s → %s (%s → %s)", cmp.Or(b.What, a.What), cmp.Or(b.From, "–"),
				cmp.Or(b.To, "–"), cmp.Or(a.From, "–"), cmp.Or(a.To, "–")))
		}
	}
	return strings.Join(parts, "; ")
}

const voidSQL = `
UPDATE approval SET voided_at = UTC_TIMESTAMP(6), void_plan = ? WHERE id = ? AND used_at IS NULL AND voided_at IS NULL`

// Void records, after the transaction was rolled back, that an approval is void because its plan has changed. It
// returns err.
func Void(ctx context.Context, db *mysqltx.DB, err error) error {
	refused, ok := errors.AsType[*Refusal](err)
	if !ok || refused.changed == 0 {
		return err
	}
	failed := db.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) error {
		return mysqltx.Upsert(ctx, q, voidSQL, refused.Plan.JSON(), refused.changed)
	})
	return errors.Join(err, mysqltx.Wrap(failed, "void approval %d", refused.changed))
}

// IsOf reports whether a person at the console asked for the approval there.
func (a Approval) IsOf(p Person) bool { return p.SignIn != "" && identity{Person: p}.is(a.maker) }

// MayBeOf reports whether a person at the console may have asked for the approval, and therefore cannot approve it.
func (a Approval) MayBeOf(p Person, policy Policy) bool {
	return identity{Person: p}.mayBe(a.maker, policy)
}
