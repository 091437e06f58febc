package couponadmin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/userlist"
	"github.com/jajeong/jajeong/internal/users"
	"github.com/jajeong/jajeong/internal/wallet"
)

// Grantees are the users of GrantList, and what it needs to know about users and midnights.
type Grantees struct {
	userlist.List
	Users *users.Directory
	Zone  *time.Location

	Progress func(done int) // is called after each page with the number of users so far; may be nil
}

// ListGrant counts the users of a list by what became of them.
type ListGrant struct {
	Coupon     coupon.Coupon // after the last page
	List       string        // digest of the list
	Users      int           // of the whole list
	Duplicates int           // lines that name a user of another line
	Granted    int           // got the coupon; in a plan, would get it
	Held       int           // had it already
	Revoked    int           // had it once; it was revoked, which a list does not change
	Unknown    int
	Inactive   int
	NotGiven   []NotGiven    // some of the last three
	Plan       approval.Plan // of no action if nobody would get the coupon

	PublishErr error // Redis may not know who has the coupon, or the seats: a run and the catalog mend that
}

// NotGiven is a user of a list who cannot get the coupon.
type NotGiven struct {
	User coupon.UserID `json:"user"`
	Why  string        `json:"why"` // REVOKED, UNKNOWN_USER or INACTIVE_USER
}

// maxNotGiven bounds how many are named.
const maxNotGiven = 100

// Done is how many users of the list were looked at.
func (l *ListGrant) Done() int { return l.Granted + l.Held + l.Revoked + l.Unknown + l.Inactive }

// listPage is how many users get a coupon in one transaction. Between two of them, other work gets the coupon's lock.
const listPage = 5000

// GrantList gives a coupon to the users of a list, as Grant does to one. Users who cannot get it are counted. Each page
// is a transaction of its own: what is done stays if a later page fails, and the result tells how much that is. It is
// safe to repeat. An approval holds for the list until it expires, so that what was stopped can go on.
func (a *Admin) GrantList(ctx context.Context, couponID coupon.CouponID, to Grantees) (*ListGrant, error) {
	made := &ListGrant{List: to.Digest(), Users: len(to.List.Users), Duplicates: to.Duplicates}
	for page := range slices.Chunk(to.List.Users, listPage) {
		err := a.grantPage(ctx, couponID, to, made, page)
		if err != nil {
			return made, approval.Void(ctx, a.DB, changeUnknown(couponID, err))
		}
		if to.Progress != nil {
			to.Progress(made.Done())
		}
	}
	if is := made.Coupon; made.Granted > 0 && !a.DryRun && !is.Finalised() && made.PublishErr == nil {
		_, made.PublishErr = a.Redis.Announce(ctx, is.Window(), is.Known)
	}
	return made, nil
}

// listed is a page of a list.
type listed struct {
	ListGrant
	new, held []coupon.UserID
}

// grantPage gives the coupon to the users of one page, and adds them to made.
func (a *Admin) grantPage(ctx context.Context, couponID coupon.CouponID, to Grantees, made *ListGrant,
	page []coupon.UserID) error {
	origin := a.origin()
	var done listed
	err := a.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, attempt int) error {
		old, err := lock(ctx, tx, couponID)
		if err != nil {
			return err
		}
		if attempt > 1 { // an earlier attempt may have been committed
			recorded, err := audit.Recorded(ctx, tx, origin, audit.CouponListGranted, couponID)
			if err != nil || recorded {
				return err
			}
		}
		if done, err = classifyListed(ctx, tx, old, to.Users, page); err != nil || len(done.new) == 0 {
			return err
		}
		// Page and log have the time of the event, by which `settle explain` finds the reason.
		if origin.At, err = mysqltx.Now(ctx, tx); err != nil {
			return err
		}
		done.Plan = listPlan(old, made)
		return a.writePage(ctx, tx, origin, made, &done, to.Zone)
	})
	if err != nil && !errors.Is(err, errDryRun) {
		return err
	}
	made.add(done.ListGrant)
	if a.DryRun || done.Coupon.Finalised() {
		return nil
	}
	// Those who have it already are marked, too: who gave it to them may have died before. A mark that is there stays.
	if err := a.markIssued(ctx, done.Coupon, append(done.new, done.held...)...); err != nil {
		made.PublishErr = err
	}
	return nil
}

func (l *ListGrant) add(page ListGrant) {
	l.Coupon = page.Coupon
	l.Granted += page.Granted
	l.Held += page.Held
	l.Revoked += page.Revoked
	l.Unknown += page.Unknown
	l.Inactive += page.Inactive
	l.NotGiven = append(l.NotGiven, page.NotGiven...)
	l.NotGiven = l.NotGiven[:min(len(l.NotGiven), maxNotGiven)]
	if page.Plan.Action != "" {
		l.Plan = page.Plan
	}
}

// listPlan depends on the list alone, not on how far it is.
func listPlan(c coupon.Coupon, made *ListGrant) approval.Plan {
	return approval.Plan{Action: approval.Grant, Coupon: c.ID, Arguments: map[string]string{"file": made.List},
		Changes: []approval.Change{{What: "users", To: strconv.Itoa(made.Users)}},
		CostWon: c.Discount.Cost(int64(made.Users))}
}

// listedSQL finds those who do not get the coupon. users.Table fills in the names of the shop's table.
const listedSQL = `
SELECT j.user_id, {id} IS NOT NULL, c.status
FROM ` + mysqltx.UsersTable + `
LEFT JOIN {users} ON {id} = j.user_id AND j.user_id <= {last}
LEFT JOIN user_coupon c ON c.coupon_id = ? AND c.user_id = j.user_id
WHERE NOT {active} OR c.user_id IS NOT NULL`

func classifyListed(ctx context.Context, tx *sql.Tx, c coupon.Coupon, directory *users.Directory,
	page []coupon.UserID) (done listed, err error) {
	done.Coupon = c
	table, err := directory.Table(ctx, tx)
	if err != nil {
		return done, err
	}
	others := map[coupon.UserID]bool{}
	err = mysqltx.Each(ctx, tx, func(rows *sql.Rows) error {
		var user coupon.UserID
		var known bool
		var has sql.Null[coupon.UserCouponStatus]
		if err := rows.Scan(&user, &known, &has); err != nil {
			return err
		}
		others[user] = true
		why := ""
		switch {
		case has.V == coupon.CouponRevoked:
			done.Revoked, why = done.Revoked+1, string(has.V)
		case has.Valid:
			done.Held, done.held = done.Held+1, append(done.held, user)
		case !known:
			done.Unknown, why = done.Unknown+1, string(coupon.CauseUnknownUser)
		default:
			done.Inactive, why = done.Inactive+1, string(coupon.CauseInactiveUser)
		}
		if why != "" && len(done.NotGiven) < maxNotGiven {
			done.NotGiven = append(done.NotGiven, NotGiven{user, why})
		}
		return nil
	}, table.SQL(listedSQL), mysqltx.UsersJSON(page), c.ID)
	if err != nil {
		return done, fmt.Errorf("look for %d users of a list: %w", len(page), err)
	}
	done.new = slices.DeleteFunc(slices.Clone(page), func(u coupon.UserID) bool { return others[u] })
	done.Granted = len(done.new)
	return done, nil
}

// writePage gives the coupon to the new users of a page. Each has a seat of their own.
func (a *Admin) writePage(ctx context.Context, tx *sql.Tx, origin audit.Origin, made *ListGrant, page *listed,
	zone *time.Location) error {
	old := page.Coupon
	switch n := int64(old.TotalQuantity) + int64(page.Granted); {
	case old.Frozen:
		return text.UsageErrorf(text.RefusedGrantFrozen, old.ID)
	case n > MaxSeats:
		return text.UsageErrorf(text.WrongSeats, n, int64(MaxSeats))
	}
	if err := a.nobodyIsMissing(ctx, tx, old.ID, text.GrantWaits); err != nil {
		return err
	}
	if err := a.permit(ctx, tx, page.Plan, origin); err != nil {
		return err
	}
	expires := calendar.ExpiresAt(origin.At, old.ValidityDays, zone)
	if err := wallet.GrantAll(ctx, tx, wallet.Grants{Coupon: old.ID, Users: page.new, At: origin.At,
		ExpiresAt: expires, Actor: a.Operator}); err != nil {
		return err
	}
	is := &page.Coupon
	is.TotalQuantity += page.Granted
	is.IssuedCount += page.Granted
	if err := update(ctx, tx, origin, Change{Before: old, After: *is}); err != nil {
		return err
	}
	return audit.Append(ctx, tx, origin, audit.CouponListGranted, old.ID, audit.Entry{Seats: int64(page.Granted),
		Payload: audit.GrantedList{List: made.List, Users: int64(made.Users), Approval: uint64(a.Ticket.Approval),
			Expires: expires.UTC(), CouponChange: audit.ChangeOf(old, *is)}})
}

// ListSummary is the JSON of a ListGrant.
type ListSummary struct {
	Coupon     coupon.CouponID `json:"coupon"`
	List       string          `json:"list"` // digest of the users
	Users      int             `json:"users"`
	Duplicates int             `json:"duplicates"` // lines that name a user of another line
	Granted    int             `json:"granted"`
	Held       int             `json:"held"`
	Revoked    int             `json:"revoked"`
	Unknown    int             `json:"unknown"`
	Inactive   int             `json:"inactive"`
	NotGiven   []NotGiven      `json:"notGiven"` // at most 100 of those who are revoked, unknown or inactive
	Seats      int             `json:"seats"`
	Issued     int             `json:"issued"`
	Published  bool            `json:"doorTold"`         // false: Redis lacks it; catalog and runs mend that
	Digest     string          `json:"digest,omitempty"` // for --expect-digest; empty: nothing to expect
}

func (l *ListGrant) Summary() ListSummary {
	s := ListSummary{Coupon: l.Coupon.ID, List: l.List, Users: l.Users, Duplicates: l.Duplicates, Granted: l.Granted,
		Held: l.Held, Revoked: l.Revoked, Unknown: l.Unknown, Inactive: l.Inactive, NotGiven: l.NotGiven,
		Seats: l.Coupon.TotalQuantity, Issued: l.Coupon.IssuedCount, Published: l.PublishErr == nil}
	if s.NotGiven == nil {
		s.NotGiven = []NotGiven{}
	}
	if l.Plan.Action != "" {
		s.Digest = l.Plan.Digest()
	}
	return s
}
