package couponadmin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/users"
	"github.com/jajeong/jajeong/internal/wallet"
)

// HolderChange is a change of the coupon that one user has. Its Changed is false if nothing was written.
type HolderChange struct {
	Change
	User      coupon.UserID
	State     coupon.UserCouponStatus // after the change, by MySQL's clock
	ExpiresAt time.Time               // after the change, exclusive
	OrderID   string                  // the order that has the coupon after the change; empty: none
	FreedSeat bool                    // the coupon is revoked, and its revocation added a seat
	Undone    wallet.Order            // no longer uses the coupon; zero: none
	Now       time.Time               // MySQL's clock
}

// holderOp is a change of an issued coupon. plan returns the decision, or a *text.UsageError if the change is refused.
type holderOp struct {
	action audit.Action
	asked  approval.Plan // action and arguments
	plan   func(c coupon.Coupon, f wallet.Facts, found bool) (wallet.Decision, error)
	// check refuses a change for what other tables say; it may be nil.
	check func(ctx context.Context, tx *sql.Tx) error
	// write records the decision. nil: wallet.Write does.
	write func(ctx context.Context, tx *sql.Tx, f wallet.Facts, d wallet.Decision) error
}

// Revoke takes a coupon back from a user. With freeSeat, the coupon gets one seat more, for the next in line.
func (a *Admin) Revoke(ctx context.Context, couponID coupon.CouponID, user coupon.UserID,
	freeSeat bool) (*HolderChange, error) {
	asked := approval.Plan{Action: approval.Revoke, Coupon: couponID, User: user,
		Arguments: map[string]string{"free-seat": fmt.Sprint(freeSeat)}}
	return a.changeHolder(ctx, couponID, user, holderOp{action: audit.CouponRevoked, asked: asked,
		plan: func(c coupon.Coupon, f wallet.Facts, found bool) (wallet.Decision, error) {
			return planRevoke(c, f, found, user, freeSeat)
		}})
}

func planRevoke(c coupon.Coupon, f wallet.Facts, found bool, user coupon.UserID,
	freeSeat bool) (wallet.Decision, error) {
	if !found {
		return wallet.Decision{}, text.UsageErrorf(text.RefusedNotHeld, user, c.ID)
	}
	d := wallet.Decide(f, wallet.Call{Verb: wallet.Revoke, FreeSeat: freeSeat})
	switch {
	case d.Code == wallet.Used:
		return d, text.UsageErrorf(text.RefusedUsed, user, c.ID, f.Coupon.OrderID)
	case d.Code == wallet.ReservedElsewhere:
		return d, text.UsageErrorf(text.RefusedReserved, user, c.ID, f.Coupon.OrderID, f.Holder.ReservedUntil)
	case d.Code == wallet.Repeated && freeSeat && !f.FreedSeat:
		return d, text.UsageErrorf(text.RefusedRevokedWithoutSeat, user, c.ID)
	case d.Code == wallet.Done && freeSeat && c.TotalQuantity >= MaxSeats:
		return d, text.UsageErrorf(text.WrongSeats, c.TotalQuantity+1, int64(MaxSeats))
	}
	return d, nil
}

// Reissue gives a revoked coupon back to its user. If the revocation added a seat, a seat must be free, and is taken
// away.
func (a *Admin) Reissue(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (*HolderChange, error) {
	asked := approval.Plan{Action: approval.Reissue, Coupon: couponID, User: user}
	return a.changeHolder(ctx, couponID, user, holderOp{action: audit.CouponReissued, asked: asked,
		plan: func(c coupon.Coupon, f wallet.Facts, found bool) (wallet.Decision, error) {
			if !found {
				return wallet.Decision{}, text.UsageErrorf(text.RefusedNotHeld, user, c.ID)
			}
			if f.FreedSeat && c.Free() == 0 {
				return wallet.Decision{}, text.UsageErrorf(text.RefusedNoSeatLeft, user, c.ID)
			}
			return wallet.Decide(f, wallet.Call{Verb: wallet.Reissue}), nil
		}})
}

// Unuse undoes the use of a coupon in the name of an operator, as a refund by the shop does: its order is refunded, and
// the coupon goes back to the user.
func (a *Admin) Unuse(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (*HolderChange, error) {
	asked := approval.Plan{Action: approval.Unuse, Coupon: couponID, User: user}
	return a.changeHolder(ctx, couponID, user, holderOp{action: audit.CouponUnused, asked: asked,
		plan: func(c coupon.Coupon, f wallet.Facts, found bool) (wallet.Decision, error) {
			return planUnuse(c, f, found, user)
		}})
}

func planUnuse(c coupon.Coupon, f wallet.Facts, found bool, user coupon.UserID) (wallet.Decision, error) {
	var none wallet.Decision
	if !found {
		return none, text.UsageErrorf(text.RefusedNotHeld, user, c.ID)
	}
	switch coupon.StateAt(f.Coupon.Status, f.Holder.ReservedUntil, f.Coupon.ExpiresAt, f.Now) {
	case coupon.CouponUsed:
		return wallet.Decide(f, wallet.Call{Verb: wallet.Refund}), nil
	case coupon.CouponReserved:
		return none, text.UsageErrorf(text.RefusedUnuseReserved, user, c.ID, f.Coupon.OrderID, f.Holder.ReservedUntil)
	case coupon.CouponRevoked:
		return none, text.UsageErrorf(text.RefusedUnuseRevoked, user, c.ID)
	default:
		return wallet.Decision{Code: wallet.Repeated, Coupon: f.Coupon}, nil
	}
}

// ExtendUser moves the end of validity of one user's coupon to a later midnight, exclusive. It is a midnight of its
// location.
func (a *Admin) ExtendUser(ctx context.Context, couponID coupon.CouponID, user coupon.UserID,
	expires time.Time) (*HolderChange, error) {
	asked := approval.Plan{Action: approval.ExtendUser, Coupon: couponID, User: user,
		Arguments: map[string]string{"until": expires.AddDate(0, 0, -1).Format(time.DateOnly)}}
	return a.changeHolder(ctx, couponID, user, holderOp{action: audit.CouponUserExtended, asked: asked,
		plan: func(c coupon.Coupon, f wallet.Facts, found bool) (wallet.Decision, error) {
			return planExtendUser(c, f, found, user, expires)
		}})
}

func planExtendUser(c coupon.Coupon, f wallet.Facts, found bool, user coupon.UserID,
	expires time.Time) (wallet.Decision, error) {
	var none wallet.Decision
	switch was := f.Coupon.ExpiresAt; {
	case !found:
		return none, text.UsageErrorf(text.RefusedNotHeld, user, c.ID)
	case !expires.After(f.Now):
		return none, text.About("until", text.UsageErrorf(text.RefusedExtendPast, expires, f.Now))
	case expires.After(maxCloses):
		return none, text.About("until", text.UsageErrorf(text.RefusedExtendFar, expires, maxCloses))
	case expires.Before(was):
		return none, text.About("until", text.UsageErrorf(text.RefusedExtendShorter, user, c.ID, was, expires))
	}
	d := wallet.Decide(f, wallet.Call{Verb: wallet.Extend, ExpiresAt: expires})
	switch d.Code {
	case wallet.Used:
		return d, text.UsageErrorf(text.RefusedUsed, user, c.ID, f.Coupon.OrderID)
	case wallet.Revoked:
		return d, text.UsageErrorf(text.RefusedExtendRevoked, user, c.ID)
	default:
		return d, nil
	}
}

// Grantee is the user of Grant, and what Grant needs to know about users and midnights.
type Grantee struct {
	User  coupon.UserID
	Users *users.Directory
	Zone  *time.Location
}

// Grant gives a coupon to a user who did not apply, or was not selected. The coupon gets one seat more, so that no
// applicant loses one. An application of the user that still waits gets the outcome ALREADY_ISSUED.
func (a *Admin) Grant(ctx context.Context, couponID coupon.CouponID, to Grantee) (*HolderChange, error) {
	asked := approval.Plan{Action: approval.Grant, Coupon: couponID, User: to.User}
	return a.changeHolder(ctx, couponID, to.User, holderOp{action: audit.CouponGranted, asked: asked,
		plan: func(c coupon.Coupon, f wallet.Facts, found bool) (wallet.Decision, error) {
			return planGrant(c, f, found, to)
		},
		check: func(ctx context.Context, tx *sql.Tx) error {
			if err := a.nobodyIsMissing(ctx, tx, couponID, text.GrantWaits); err != nil {
				return err
			}
			return checkGrantee(ctx, tx, to)
		},
		write: func(ctx context.Context, tx *sql.Tx, f wallet.Facts, d wallet.Decision) error {
			return wallet.GrantAll(ctx, tx, wallet.Grants{Coupon: couponID, Users: []coupon.UserID{to.User}, At: f.Now,
				ExpiresAt: d.Coupon.ExpiresAt, Actor: a.Operator})
		}})
}

// nobodyIsMissing refuses a change while MySQL has lost winners, whom a restore brings back: a grant would move them to
// other seats than they were told. While Redis is away, and once they are in the queue again, it does not see that.
func (a *Admin) nobodyIsMissing(ctx context.Context, tx *sql.Tx, id coupon.CouponID, why text.Message) error {
	redis, cancel := mysqltx.Meanwhile(ctx)
	defer cancel()
	look, err := a.Redis.Observe(redis, id, 0)
	switch {
	case err != nil && mysqltx.ClassOf(err) != coupon.Infrastructure:
		return err
	case err != nil || !look.Restored:
		return nil
	}
	books, err := promise.Read(ctx, tx, id) // after Redis
	if err == nil && books.Missing(look.Line) > look.Left {
		err = &coupon.Error{Class: coupon.Infrastructure, Err: text.Errorf(why, id)}
	}
	return err
}

func planGrant(c coupon.Coupon, f wallet.Facts, found bool, to Grantee) (wallet.Decision, error) {
	switch {
	case found && f.Coupon.Status == coupon.CouponRevoked:
		return wallet.Decision{}, text.UsageErrorf(text.RefusedGrantRevoked, to.User, c.ID)
	case found:
		return wallet.Decision{Code: wallet.Repeated, Coupon: f.Coupon}, nil
	case c.Frozen:
		return wallet.Decision{}, text.UsageErrorf(text.RefusedGrantFrozen, c.ID)
	case c.TotalQuantity >= MaxSeats:
		return wallet.Decision{}, text.UsageErrorf(text.WrongSeats, c.TotalQuantity+1, int64(MaxSeats))
	}
	expires := calendar.ExpiresAt(f.Now, c.ValidityDays, to.Zone)
	return wallet.Decision{Code: wallet.Done,
		Coupon: wallet.UserCoupon{Coupon: c.ID, User: to.User, Status: coupon.CouponIssued, Seq: 1,
			ExpiresAt: expires},
		Entries: []wallet.Entry{{Kind: coupon.LogGranted, ExpiresAt: expires, Seats: 1}}}, nil
}

const activeUserSQL = "SELECT {active}, {status} FROM {users} WHERE {id} = ? AND ? <= {last}"

// checkGrantee refuses users who do not exist or are not active.
func checkGrantee(ctx context.Context, tx *sql.Tx, to Grantee) error {
	table, err := to.Users.Table(ctx, tx)
	if err != nil {
		return err
	}
	known, active, status := false, false, ""
	err = mysqltx.Each(ctx, tx, func(rows *sql.Rows) error {
		known = true
		return rows.Scan(&active, &status)
	}, table.SQL(activeUserSQL), to.User, to.User)
	switch {
	case err != nil:
		return fmt.Errorf("read user %d: %w", to.User, err)
	case !known:
		return text.About("user", text.UsageErrorf(text.RefusedUnknownUser, to.User))
	case !active:
		return text.About("user", text.UsageErrorf(text.RefusedInactiveUser, to.User, users.Shown(status)))
	}
	return nil
}

// changeHolder makes a change of an issued coupon. MySQL decides: while Redis is away, the change is possible, too.
func (a *Admin) changeHolder(ctx context.Context, couponID coupon.CouponID, user coupon.UserID,
	op holderOp) (*HolderChange, error) {
	origin := a.origin()
	made := &HolderChange{}
	err := a.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, attempt int) error {
		old, err := lock(ctx, tx, couponID)
		if err != nil {
			return err
		}
		if attempt > 1 { // an earlier attempt may have been committed
			done, err := audit.RecordedOfUser(ctx, tx, origin, op.action, couponID, user)
			if err != nil || done {
				return err
			}
		}
		*made = HolderChange{Change: Change{Before: old, After: old}, User: user}
		return a.applyToHolder(ctx, tx, made, origin, op)
	})
	switch {
	case errors.Is(err, errDryRun):
		return made, nil
	case err != nil:
		return nil, approval.Void(ctx, a.DB, changeUnknown(couponID, err))
	}
	a.publishHolder(ctx, made, op)
	return made, nil
}

func (a *Admin) applyToHolder(ctx context.Context, tx *sql.Tx, made *HolderChange, origin audit.Origin,
	op holderOp) error {
	f, found, err := wallet.LockForOperator(ctx, tx, made.Before.ID, made.User)
	if err != nil {
		return err
	}
	if !found { // LockForOperator has not read the clock
		if f.Now, err = mysqltx.Now(ctx, tx); err != nil {
			return err
		}
	}
	d, err := op.plan(made.Before, f, found)
	if err != nil {
		return err
	}
	made.describe(f, d)
	if len(d.Entries) == 0 {
		return nil
	}
	if op.check != nil {
		if err := op.check(ctx, tx); err != nil {
			return err
		}
	}
	made.Changed = true
	made.Plan = op.asked
	made.Plan.Changes, made.Plan.CostWon = holderChanges(f, found, d), costOf(made.Before, d)
	if err := a.permit(ctx, tx, made.Plan, origin); err != nil {
		return err
	}
	if op.write == nil {
		op.write = func(ctx context.Context, tx *sql.Tx, f wallet.Facts, d wallet.Decision) error {
			return wallet.Write(ctx, tx, f, d, a.Operator)
		}
	}
	if err := op.write(ctx, tx, f, d); err != nil {
		return err
	}
	return a.moveSeats(ctx, tx, made, origin, op.action, f, d)
}

// holderChanges lists what a plan changes. Seats are relative, so that plans for several users do not exclude each
// other.
func holderChanges(f wallet.Facts, found bool, d wallet.Decision) []approval.Change {
	state := approval.Change{What: "user_coupon.status", To: string(d.Coupon.Status)}
	if found {
		state.From = string(f.Coupon.Status)
	}
	changes := []approval.Change{}
	if state.From != state.To {
		changes = append(changes, state)
	}
	if found && !d.Coupon.ExpiresAt.Equal(f.Coupon.ExpiresAt) {
		changes = append(changes, approval.Change{What: "expires_at", From: stamp(f.Coupon.ExpiresAt),
			To: stamp(d.Coupon.ExpiresAt)})
	}
	if d.Order != f.Order {
		changes = append(changes, approval.Change{What: "order", From: d.Order.ID, To: string(d.Order.State)})
	}
	for _, entry := range d.Entries {
		if entry.Seats != 0 {
			changes = append(changes, approval.Change{What: "total_quantity", To: fmt.Sprintf("%+d", entry.Seats)})
		}
	}
	return changes
}

// costOf is the highest discount of a coupon that is given.
func costOf(c coupon.Coupon, d wallet.Decision) int64 {
	if slices.ContainsFunc(d.Entries, func(e wallet.Entry) bool { return e.Kind == coupon.LogGranted }) {
		return c.Discount.Cost(1)
	}
	return 0
}

func (h *HolderChange) describe(f wallet.Facts, d wallet.Decision) {
	h.Now, h.At, h.ExpiresAt, h.OrderID = f.Now, f.Now, d.Coupon.ExpiresAt, d.Coupon.OrderID
	until := f.Holder.ReservedUntil
	if d.Lost.ID != "" {
		until = time.Time{}
	}
	h.State = coupon.StateAt(d.Coupon.Status, until, d.Coupon.ExpiresAt, f.Now)
	h.FreedSeat = f.FreedSeat && d.Coupon.Status == coupon.CouponRevoked
	if d.Order != f.Order {
		h.Undone = d.Order
	}
	for _, entry := range d.Entries {
		h.FreedSeat = h.FreedSeat || entry.Kind == coupon.LogRevoked && entry.Seats > 0
	}
}

// moveSeats writes the seats that the change adds or takes away, and the audit event.
func (a *Admin) moveSeats(ctx context.Context, tx *sql.Tx, made *HolderChange, origin audit.Origin, action audit.Action,
	f wallet.Facts, d wallet.Decision) error {
	counts, err := readFacts(ctx, tx, made.Before.ID)
	if err != nil {
		return err
	}
	made.NotSelected = counts.notSelected
	for _, entry := range d.Entries {
		made.After.TotalQuantity += entry.Seats
		if entry.Kind == coupon.LogGranted {
			made.After.IssuedCount++
		}
	}
	if made.After.TotalQuantity > made.Before.TotalQuantity {
		made.After = dueAgain(made.After, counts)
	}
	if made.After != made.Before {
		if err := update(ctx, tx, origin, made.Change); err != nil {
			return err
		}
	}
	change := audit.HolderChange{Expires: audit.ChangedTime(f.Coupon.ExpiresAt, made.ExpiresAt),
		CouponChange: audit.ChangeOf(made.Before, made.After)}
	return audit.Append(ctx, tx, origin, action, made.Before.ID,
		audit.Entry{User: made.User, Payload: change, Seats: made.seats()})
}

// publishHolder tells Redis what concerns new applications: the seats, and that a granted user has the coupon. If it
// fails, the catalog publishes the seats, and a run gives an application of the user the outcome ALREADY_ISSUED.
func (a *Admin) publishHolder(ctx context.Context, made *HolderChange, op holderOp) {
	is := made.After
	if is.Finalised() {
		return
	}
	if op.action == audit.CouponGranted {
		if made.PublishErr = a.markIssued(ctx, is, made.User); made.PublishErr != nil {
			return
		}
	}
	if is.TotalQuantity != made.Before.TotalQuantity {
		made.SoldOut, made.PublishErr = a.Redis.Announce(ctx, is.Window(), is.Known)
		made.announced = made.PublishErr == nil
	}
}

// HolderSummary is the JSON of a HolderChange.
type HolderSummary struct {
	Summary
	User      coupon.UserID           `json:"user"`
	State     coupon.UserCouponStatus `json:"state"`
	ExpiresAt time.Time               `json:"expiresAt"` // exclusive
	FreedSeat bool                    `json:"freedSeat"`
	Now       time.Time               `json:"now"`
}

func (h *HolderChange) Summary() HolderSummary {
	return HolderSummary{Summary: h.Change.Summary(), User: h.User, State: h.State, ExpiresAt: h.ExpiresAt.UTC(),
		FreedSeat: h.FreedSeat, Now: h.Now}
}
