package approval

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/deployment"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// Policy says which actions need an approval.
type Policy struct {
	Version        uint64    `json:"version"`
	Actions        []Rule    `json:"actions"`
	SharedAccounts []string  `json:"sharedAccounts"` // accounts of MySQL that several persons use: they cannot approve
	Persons        []Mapped  `json:"persons"`
	Zone           string    `json:"zone"` // time zone of the nights
	SetAt          time.Time `json:"setAt"`
	SetBy          string    `json:"setBy"`
	Reason         string    `json:"reason"`
	Approval       ID        `json:"approval,omitempty"` // 0: none was needed
}

// None is the word for an empty list.
const None = "none"

// Mapped is a person who signs in at the console by a name, and whose own account of MySQL is another one.
type Mapped struct {
	Name    string `json:"name"`
	Account string `json:"account"`
}

func (m Mapped) String() string { return m.Name + "=" + m.Account }

// Rule is an action that needs an approval, such as "revoke", or one that needs it if its plan costs more than an
// amount in won: "create:1000000".
type Rule string

// Names returns the action, and the amount above which it needs an approval; -1: it always does.
func (r Rule) Names() (a Action, aboveWon int64, err error) {
	name, amount, limited := strings.Cut(string(r), ":")
	if !limited {
		return Action(name), -1, nil
	}
	aboveWon, err = strconv.ParseInt(amount, 10, 64)
	if err == nil && aboveWon < 0 {
		err = strconv.ErrRange
	}
	return Action(name), aboveWon, err
}

// Names reports whether an action whose plan costs so much needs an approval.
func (p Policy) Names(a Action, costWon int64) bool {
	if a == SetPolicy {
		return len(p.Actions) > 0
	}
	return slices.ContainsFunc(p.Actions, func(r Rule) bool {
		named, aboveWon, err := r.Names()
		return (named == a || named == Run && a == AcceptGap) && (err != nil || costWon > aboveWon)
	})
}

// apart reports whether the policy knows that two are different persons: who signs in at the console by this name, and
// who has this account at a terminal.
func (p Policy) apart(name, account string) bool {
	signsIn, atTerminal := false, false
	for _, person := range p.Persons {
		switch isName, isAccount := folded(person.Name) == folded(name), names(person.Account, account); {
		case isName && isAccount:
			return false
		case isName:
			signsIn = true
		case isAccount:
			atTerminal = true
		}
	}
	return signsIn && atTerminal
}

const (
	readPolicySQL = `
SELECT id, actions, shared_accounts, persons, zone, set_at, set_by, reason, COALESCE(approval_id, 0) FROM policy
    ORDER BY id DESC LIMIT 1`

	// Adding a version locks row 1 for writing: see table policy.
	sharePolicySQL = "SELECT id FROM policy WHERE id = 1 LOCK IN SHARE MODE"
	lockPolicySQL  = "SELECT id FROM policy WHERE id = 1 FOR UPDATE"

	insertPolicySQL = `
INSERT INTO policy (actions, shared_accounts, persons, zone, set_at, set_by, account, reason, approval_id, runs_after,
    events_after)
SELECT ?, ?, ?, ?, UTC_TIMESTAMP(6), ?, CURRENT_USER(), ?, ?, (SELECT COALESCE(MAX(id), 0) FROM settlement_run),
    (SELECT COALESCE(MAX(id), 0) FROM audit_event)`
)

// ReadPolicy returns the version in force.
func ReadPolicy(ctx context.Context, q mysqltx.Querier) (p Policy, err error) {
	var actions, shared, persons string
	err = q.QueryRowContext(ctx, readPolicySQL).Scan(&p.Version, &actions, &shared, &persons, &p.Zone, &p.SetAt,
		&p.SetBy, &p.Reason, &p.Approval)
	if err != nil {
		return p, mysqltx.Wrap(err, "read the policy of approvals")
	}
	err = errors.Join(json.Unmarshal([]byte(actions), &p.Actions), json.Unmarshal([]byte(shared), &p.SharedAccounts),
		json.Unmarshal([]byte(persons), &p.Persons))
	return p, mysqltx.Wrap(err, "read version %d of the policy of approvals", p.Version)
}

func lockPolicy(ctx context.Context, tx mysqltx.Querier, how string) (Policy, error) {
	var row uint64
	if err := tx.QueryRowContext(ctx, how).Scan(&row); err != nil {
		return Policy{}, mysqltx.Wrap(err, "lock the policy of approvals")
	}
	return ReadPolicy(ctx, tx)
}

// Wanted is what a new version of the policy shall have. A list that is nil stays as it is.
type Wanted struct {
	Actions        []Rule
	SharedAccounts []string
	Persons        []Mapped
	Zone           string // time zone of the nights; empty: it stays
}

// with returns the lists of the new version, sorted.
func (w Wanted) with(now Policy) Wanted {
	if w.Actions == nil {
		w.Actions = now.Actions
	}
	if w.SharedAccounts == nil {
		w.SharedAccounts = now.SharedAccounts
	}
	if w.Persons == nil {
		w.Persons = now.Persons
	}
	persons := slices.SortedFunc(slices.Values(w.Persons),
		func(a, b Mapped) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Account, b.Account)) })
	return Wanted{unique(w.Actions), unique(w.SharedAccounts), slices.Compact(persons), cmp.Or(w.Zone, now.Zone)}
}

// PlanPolicy plans a new version of the policy. An unknown action or account is refused.
func PlanPolicy(ctx context.Context, q mysqltx.Querier, wanted Wanted) (Plan, error) {
	now, err := ReadPolicy(ctx, q)
	if err != nil {
		return Plan{}, err
	}
	wanted = wanted.with(now)
	if err := checkRules(wanted.Actions); err != nil {
		return Plan{}, err
	}
	if err := checkAccounts(ctx, q, now, wanted); err != nil {
		return Plan{}, err
	}
	if _, err := deployment.Load("--zone", wanted.Zone); err != nil {
		return Plan{}, err
	}
	return planOf(now, wanted), nil
}

// checkRules refuses unknown actions, amounts that are none or of an action that costs nothing, and two rules for one
// action.
func checkRules(rules []Rule) error {
	named := map[Action]bool{}
	for _, rule := range rules {
		a, aboveWon, err := rule.Names()
		switch {
		case !slices.Contains(Actions, a):
			return text.UsageErrorf(text.UnknownAction, a, join(Actions))
		case err != nil:
			return text.UsageErrorf(text.WrongAmountOfRule, rule, a)
		case aboveWon >= 0 && !slices.Contains(Costly, a):
			return text.UsageErrorf(text.ActionWithoutCost, a, join(Costly))
		case named[a]:
			return text.UsageErrorf(text.ActionNamedTwice, a)
		}
		named[a] = true
	}
	return nil
}

func planOf(now Policy, wanted Wanted) Plan {
	actions, shared, persons := join(wanted.Actions), join(wanted.SharedAccounts), join(wanted.Persons)
	return Plan{Action: SetPolicy, Arguments: map[string]string{"actions": cmp.Or(actions, None),
		"shared-accounts": cmp.Or(shared, None), "person": cmp.Or(persons, None), "zone": wanted.Zone},
		Changes: []Change{
			{What: "version", From: fmt.Sprint(now.Version), To: fmt.Sprint(now.Version + 1)},
			{What: "actions", From: join(now.Actions), To: actions},
			{What: "shared accounts", From: join(now.SharedAccounts), To: shared},
			{What: "persons", From: join(now.Persons), To: persons},
			{What: "zone", From: now.Zone, To: wanted.Zone},
		}}
}

// Set adds a version. While the policy names an action, ticket must have the approval of this change.
func Set(ctx context.Context, db *mysqltx.DB, wanted Wanted, ticket Ticket,
	origin audit.Origin) (set Policy, err error) {
	if _, err := PlanPolicy(ctx, db.Pool(), wanted); err != nil { // it reads long tables, so it comes before the lock
		return set, err
	}
	err = db.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		now, err := lockPolicy(ctx, tx, lockPolicySQL)
		if err != nil {
			return err
		}
		to := wanted.with(now)
		if slices.Equal(to.Actions, now.Actions) && slices.Equal(to.SharedAccounts, now.SharedAccounts) &&
			slices.Equal(to.Persons, now.Persons) && to.Zone == now.Zone {
			set = now                                   // also after a COMMIT whose reply was lost
			return deployment.Change(ctx, tx, now.Zone) // somebody may have changed it by hand
		}
		if _, err := ticket.use(ctx, tx, now, planOf(now, to), 0, origin); err != nil {
			return err
		}
		approval := sql.Null[ID]{V: ticket.Approval, Valid: ticket.Approval > 0}
		err = mysqltx.Exec(ctx, tx, 1, insertPolicySQL, list(to.Actions), list(to.SharedAccounts), list(to.Persons),
			to.Zone, origin.Actor, origin.Reason, approval)
		if err != nil {
			return mysqltx.Wrap(err, "set the policy of approvals")
		}
		if err := deployment.Change(ctx, tx, to.Zone); err != nil {
			return err
		}
		set, err = ReadPolicy(ctx, tx)
		return err
	})
	return set, Void(ctx, db, err)
}

func unique[T cmp.Ordered](list []T) []T { return slices.Compact(slices.Sorted(slices.Values(list))) }

// join shows a list to people.
func join[T any](list []T) string {
	parts := make([]string, len(list))
	for i, one := range list {
		parts[i] = fmt.Sprint(one)
	}
	return strings.Join(parts, ",")
}

// list is a list as the table has it: a JSON array.
func list[T any](of []T) string {
	text, _ := json.Marshal(append([]T{}, of...)) // no error: strings alone
	return string(text)
}
