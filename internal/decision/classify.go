// Package decision decides applications. Classify finds their state in MySQL; Decide decides those that got no seat.
package decision

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/users"
)

// Verdict is the state of an application in MySQL. The zero value is Eligible, because almost all applications are.
type Verdict uint8

const (
	Eligible      Verdict = iota
	Settled               // MySQL has recorded this application with the same arrival; Redis still has it
	HoldsAlready          // the user holds the coupon by another application, or got it by hand
	UnknownUser           // the user does not exist
	InactiveUser          // the user's status does not mean active
	MalformedUser         // the member is no user id
)

type Application struct {
	coupon.Application
	Verdict Verdict
	Holds   bool           // whether the user holds the coupon
	HeldAt  coupon.Arrival // arrival of the coupon that the user holds; 0: given by hand
	Status  string         // the user's status, for InactiveUser
}

// Failure returns the reason why this application cannot be settled. ok is false if nothing prevents it.
func (c Application) Failure() (f coupon.Failure, ok bool) {
	f.Application = c.Application
	switch c.Verdict {
	case UnknownUser:
		f.Cause = coupon.CauseUnknownUser
	case InactiveUser:
		f.Cause, f.Note = coupon.CauseInactiveUser, users.Shown(c.Status)
	case MalformedUser:
		f.Cause = coupon.CauseMalformed
	default:
		return coupon.Failure{}, false
	}
	return f, true
}

// exceptionsSQL finds the users that are not eligible. users.Table fills in the names of the shop's table. A user with
// several outcomes yields several rows. Without FORCE INDEX, a server with old statistics may read the whole table for
// each page. The two boolean parameters switch off the lookup in a table that has no row of the coupon.
const exceptionsSQL = `
SELECT j.n, {id} IS NOT NULL, {active}, {status}, c.user_id IS NOT NULL, IF(c.run_id IS NULL, NULL, c.applied_at),
    o.applied_at
FROM ` + mysqltx.UsersTable + `
LEFT JOIN {users} ON {id} = j.user_id AND j.user_id <= {last}
LEFT JOIN user_coupon c ON ? AND c.coupon_id = ? AND c.user_id = j.user_id
LEFT JOIN application_outcome o FORCE INDEX (PRIMARY) ON ? AND o.coupon_id = ? AND o.user_id = j.user_id
    AND o.user_id > 0
WHERE NOT {active} OR c.user_id IS NOT NULL OR o.user_id IS NOT NULL`

// AssumeExisting makes Classify look for coupons and outcomes of each user.
var AssumeExisting = ledger.Past{Held: true, Recorded: true, Settled: true}

// Classify finds the verdict of each application of a page, and keeps the order of the page.
func Classify(ctx context.Context, q mysqltx.Querier, directory *users.Directory, couponID coupon.CouponID,
	past ledger.Past, page []coupon.Application) ([]Application, error) {
	all := make([]Application, len(page))
	for i, a := range page {
		all[i].Application = a
	}
	malformed := false
	order := mysqltx.ByUser(page) // sorted as the tables' keys are
	table, err := directory.Table(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("classify applications of coupon %d: %w", couponID, err)
	}
	err = mysqltx.Each(ctx, q, func(rows *sql.Rows) error {
		var n int
		var exists, active, holds bool
		var status string
		var issued, recorded sql.NullTime
		if err := rows.Scan(&n, &exists, &active, &status, &holds, &issued, &recorded); err != nil {
			return err
		}
		c := &all[order[n-1]]
		c.Holds = holds && c.User() != 0 // every malformed member is user 0
		if issued.Valid && c.Holds {
			c.HeldAt = coupon.ArrivalAt(issued.Time)
		}
		// A NOT_SELECTED application is itself a recorded outcome, which does not make it Settled.
		switch {
		case c.Verdict == Settled: // an earlier row of this user has decided
		case arrivedAt(issued, c.Arrival), arrivedAt(recorded, c.Arrival) && c.Source != coupon.SourceNotSelected:
			c.Verdict = Settled
		case c.User() == 0:
			c.Verdict, malformed = MalformedUser, true
		case holds:
			c.Verdict = HoldsAlready
		case !exists:
			c.Verdict = UnknownUser
		case !active:
			c.Verdict, c.Status = InactiveUser, status
		}
		return nil
	}, table.SQL(exceptionsSQL), mysqltx.UsersJSON(usersOf(page, order)), past.Held, couponID, past.Recorded, couponID)
	if err != nil {
		return nil, fmt.Errorf("classify applications of coupon %d: %w", couponID, err)
	}
	if malformed && past.Recorded {
		return all, findDropped(ctx, q, couponID, all)
	}
	return all, nil
}

// ClassifyAgain returns the page with new verdicts for those applications that are not sure.
func ClassifyAgain(ctx context.Context, q mysqltx.Querier, directory *users.Directory, couponID coupon.CouponID,
	page []Application, sure func(Application) bool) ([]Application, error) {
	var unsure []coupon.Application
	var at []int
	for i, c := range page {
		if !sure(c) {
			unsure, at = append(unsure, c.Application), append(at, i)
		}
	}
	if len(unsure) == 0 {
		return page, nil
	}
	again, err := Classify(ctx, q, directory, couponID, AssumeExisting, unsure)
	if err != nil || len(again) == len(page) {
		return again, err
	}
	page = slices.Clone(page)
	for i, c := range again {
		page[at[i]] = c
	}
	return page, nil
}

func arrivedAt(t sql.NullTime, arrival coupon.Arrival) bool {
	return t.Valid && coupon.ArrivalAt(t.Time) == arrival
}

const droppedSQL = `
SELECT j.n, COALESCE(o.member, '') FROM ` + mysqltx.ApplicationsTable + `
JOIN application_outcome o ON o.coupon_id = ? AND o.user_id = 0 AND o.applied_at = ` + mysqltx.AppliedAt

// findDropped marks as Settled the malformed members that were dropped before.
func findDropped(ctx context.Context, q mysqltx.Querier, couponID coupon.CouponID, all []Application) error {
	var malformed []coupon.Application
	var at []int
	for i, c := range all {
		if c.Verdict == MalformedUser {
			malformed, at = append(malformed, c.Application), append(at, i)
		}
	}
	err := mysqltx.Each(ctx, q, func(rows *sql.Rows) error {
		var n int
		var member string
		if err := rows.Scan(&n, &member); err != nil {
			return err
		}
		if c := &all[at[n-1]]; member == coupon.StoredMember(c.Member) {
			c.Verdict = Settled
		}
		return nil
	}, droppedSQL, mysqltx.ApplicationsJSON(malformed), couponID)
	if err != nil {
		return fmt.Errorf("find dropped members of coupon %d: %w", couponID, err)
	}
	return nil
}

func usersOf(page []coupon.Application, order []int) []coupon.UserID {
	users := make([]coupon.UserID, len(page))
	for i, place := range order {
		users[i] = page[place].User()
	}
	return users
}
