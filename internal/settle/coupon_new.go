package settle

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Bounds of a coupon. Those without a why are the columns'.
const (
	MostSeats       = 1<<32 - 1
	mostNameLetters = 200
	mostDays        = 36_500
	mostWon         = 1_000_000_000_000 // more is a slip of the hand
)

// lastInstant: arrivals are whole µs in a double until the year 2255, and a line may outlive its window.
var lastInstant = time.Date(2250, 1, 1, 0, 0, 0, 0, time.UTC)

// NewCoupon is a coupon to be created.
type NewCoupon struct {
	Name                      string
	Seats                     int64
	Opens, Closes             time.Time
	ValidityDays, DiscountWon int64
	Campaign                  uint64 // 0: none
}

// Problems are what is impossible about it, whatever the time.
func (n NewCoupon) Problems() (problems []error) {
	if strings.TrimSpace(n.Name) == "" || utf8.RuneCountInString(n.Name) > mostNameLetters || !utf8.ValidString(n.Name) || strings.ContainsFunc(n.Name, unicode.IsControl) {
		problems = append(problems, told(WrongName, n.Name, mostNameLetters))
	}
	if n.Seats < 1 || n.Seats > MostSeats {
		problems = append(problems, told(WrongSeats, n.Seats, int64(MostSeats)))
	}
	if n.ValidityDays < 1 || n.ValidityDays > mostDays {
		problems = append(problems, told(WrongDays, n.ValidityDays, mostDays))
	}
	if n.DiscountWon < 0 || n.DiscountWon > mostWon {
		problems = append(problems, told(WrongDiscount, n.DiscountWon, int64(mostWon)))
	}
	return problems
}

const insertCouponSQL = `
INSERT INTO coupon (name, total_quantity, apply_opens_at, apply_closes_at, campaign_id, validity_days, discount_won)
VALUES (?, ?, ?, ?, NULLIF(?, 0), ?, ?)`

// Create makes a coupon. Doors hear of it by the catalog.
func (d *Desk) Create(ctx context.Context, n NewCoupon) (*CouponChange, error) {
	now, err := d.Clock.Now(ctx)
	if err != nil {
		return nil, err
	}
	if problems := n.Problems(); problems != nil {
		return nil, &coupon.Error{Class: coupon.Setup, Err: errors.Join(problems...)}
	}
	switch {
	case !n.Closes.After(n.Opens):
		return nil, refuse(RefusedEndsBeforeItOpens, uint64(0), n.Closes, n.Opens)
	case !n.Closes.After(now):
		return nil, refuse(RefusedPast, uint64(0), n.Closes, now)
	case n.Closes.After(lastInstant):
		return nil, refuse(RefusedFar, n.Closes, lastInstant)
	}
	r := d.signedRun()
	made := &CouponChange{Changed: true, At: now}
	sent := false
	err = d.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		if sent {
			return &mysqltx.CommitUnknown{Err: errSent}
		}
		done, err := tx.ExecContext(ctx, insertCouponSQL, n.Name, n.Seats, n.Opens.UTC(), n.Closes.UTC(), n.Campaign, n.ValidityDays, n.DiscountWon)
		if err != nil {
			return fmt.Errorf("create coupon: %w", err)
		}
		id, err := done.LastInsertId()
		if err != nil {
			return fmt.Errorf("create coupon: %w", err)
		}
		detail := fmt.Sprintf("name %q, total_quantity %d, apply_opens_at %s, apply_closes_at %s, campaign_id %d, validity_days %d, discount_won %d",
			n.Name, n.Seats, stamp(n.Opens), stamp(n.Closes), n.Campaign, n.ValidityDays, n.DiscountWon)
		if err := r.audit(ctx, tx, audit.CouponCreated, uint64(id), audit.Entry{Detail: detail}); err != nil {
			return err
		}
		if made.Is, err = selectRow(ctx, tx, uint64(id)); err != nil {
			return err
		}
		sent = true
		return nil
	})
	if err != nil {
		return nil, changeUnknown(0, err)
	}
	return made, nil
}

// Refusal is why a change of a coupon would break a promise or make no sense.
type Refusal string

// The refusals, with what their Args are.
const (
	RefusedFinalised         Refusal = "FINALISED"           // coupon, since
	RefusedSwept             Refusal = "FINALISED_BEFORE"    // coupon
	RefusedForgotten         Refusal = "MARKS_LOST"          // coupon
	RefusedUnfinished        Refusal = "NOT_TOLD_YET"        // coupon
	RefusedNotOpen           Refusal = "NOT_OPEN_YET"        // coupon, opens
	RefusedEndsBeforeItOpens Refusal = "ENDS_BEFORE_OPENING" // coupon or 0, closes, opens
	RefusedPast              Refusal = "CLOSES_IN_THE_PAST"  // coupon or 0, closes, now
	RefusedFar               Refusal = "CLOSES_TOO_LATE"     // closes, the latest
	RefusedShorter           Refusal = "SHORTER"             // coupon, closes, closes now
	RefusedFewerThanIssued   Refusal = "FEWER_THAN_ISSUED"   // coupon, issued, asked for
	RefusedMoreThanSeats     Refusal = "MORE_THAN_SEATS"     // coupon, coupons there are, seats
	RefusedSeats             Refusal = "SEATS"               // asked for, most
)

// CouponRefused is a refused change; nothing was changed.
type CouponRefused struct {
	Why  Refusal
	Args []any // ids, numbers and instants
}

func refuse(why Refusal, args ...any) error { return &CouponRefused{why, args} }

func (e *CouponRefused) Error() string { return fmt.Sprintf("refused: %s %v", e.Why, e.Args) }

// Setup says that repeating cannot help.
func (e *CouponRefused) Setup() bool { return true }
