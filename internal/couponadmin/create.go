package couponadmin

import (
	"cmp"
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
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/text"
)

const (
	maxNameLetters = 200
	maxDays        = 36_500
	maxLine        = 1<<32 - 1 // the highest value of the column line_limit
)

type NewCoupon struct {
	Name          string
	Seats         int64
	Opens, Closes time.Time
	ValidityDays  int64
	coupon.Discount
	Campaign  uint64         // 0: no campaign
	Cadence   coupon.Cadence // empty: nightly
	LineLimit int64          // while so many wait in the queue, nobody joins it; 0: no limit
}

// Problems returns an error for each wrong value. It does not check the window, which depends on the time.
func (n NewCoupon) Problems() (problems []error) {
	if strings.TrimSpace(n.Name) == "" || utf8.RuneCountInString(n.Name) > maxNameLetters ||
		!utf8.ValidString(n.Name) || strings.ContainsFunc(n.Name, unicode.IsControl) {
		problems = append(problems, text.UsageErrorf(text.WrongName, n.Name, maxNameLetters))
	}
	if n.Seats < 1 || n.Seats > MaxSeats {
		problems = append(problems, text.UsageErrorf(text.WrongSeats, n.Seats, int64(MaxSeats)))
	}
	if n.ValidityDays < 1 || n.ValidityDays > maxDays {
		problems = append(problems, text.UsageErrorf(text.WrongDays, n.ValidityDays, maxDays))
	}
	problems = append(problems, discountProblems(n.Discount)...)
	if n.LineLimit < 0 || n.LineLimit > maxLine {
		problems = append(problems, text.UsageErrorf(text.WrongLineLimit, n.LineLimit, int64(maxLine)))
	}
	return problems
}

func discountProblems(d coupon.Discount) (problems []error) {
	refuse := func(wrong bool, m text.Message, args ...any) {
		if wrong {
			problems = append(problems, text.UsageErrorf(m, args...))
		}
	}
	wrongWon := func(won int64) bool { return won < 0 || won > coupon.MaxWon }
	refuse(wrongWon(d.DiscountWon), text.WrongDiscount, d.DiscountWon, int64(coupon.MaxWon))
	refuse(d.DiscountPercent < 0 || d.DiscountPercent > 100, text.WrongPercent, d.DiscountPercent)
	refuse(wrongWon(d.DiscountMaxWon), text.WrongDiscountMax, d.DiscountMaxWon, int64(coupon.MaxWon))
	refuse((d.DiscountPercent == 0) != (d.DiscountMaxWon == 0), text.PercentNeedsMax)
	refuse(d.DiscountPercent != 0 && d.DiscountWon != 0, text.TwoDiscounts)
	refuse(wrongWon(d.MinimumWon), text.WrongMinimum, d.MinimumWon, int64(coupon.MaxWon))
	return problems
}

func (n NewCoupon) refusal(now time.Time) error {
	if problems := n.Problems(); problems != nil {
		return &coupon.Error{Class: coupon.Setup, Err: errors.Join(problems...)}
	}
	return checkEnd(text.NewCoupon, n.Opens, n.Closes, now)
}

// Create makes a coupon. The catalog publishes its window within seconds.
func (a *Admin) Create(ctx context.Context, n NewCoupon) (*Change, error) {
	now, err := a.Redis.Now(ctx)
	if err != nil {
		return nil, err
	}
	if err := n.refusal(now); err != nil {
		return nil, err
	}
	n.Cadence = cmp.Or(n.Cadence, coupon.Nightly)
	made, origin := &Change{Changed: true, At: now}, a.origin()
	inserted := false
	err = a.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) (err error) {
		if inserted { // the reply to COMMIT was lost, and a repetition could create a second coupon
			return &mysqltx.CommitUnknown{Err: &coupon.Error{Class: coupon.Infrastructure,
				Err: errors.New("the reply to COMMIT was lost")}}
		}
		made.After, err = insert(ctx, tx, origin, n)
		inserted = err == nil
		return err
	})
	if err != nil {
		return nil, changeUnknown(0, err)
	}
	return made, nil
}

const insertSQL = `
INSERT INTO coupon (name, total_quantity, apply_opens_at, apply_closes_at, campaign_id, validity_days, discount_won,
                    discount_percent, discount_max_won, minimum_won, cadence, line_limit)
VALUES (?, ?, ?, ?, NULLIF(?, 0), ?, ?, ?, ?, ?, ?, NULLIF(?, 0))`

func insert(ctx context.Context, tx *sql.Tx, origin audit.Origin, n NewCoupon) (coupon.Coupon, error) {
	done, err := tx.ExecContext(ctx, insertSQL, n.Name, n.Seats, n.Opens.UTC(), n.Closes.UTC(), n.Campaign,
		n.ValidityDays, n.DiscountWon, n.DiscountPercent, n.DiscountMaxWon, n.MinimumWon, n.Cadence, n.LineLimit)
	if err != nil {
		return coupon.Coupon{}, fmt.Errorf("create coupon: %w", err)
	}
	id, err := done.LastInsertId()
	if err != nil {
		return coupon.Coupon{}, fmt.Errorf("create coupon: %w", err)
	}
	made, err := lock(ctx, tx, coupon.CouponID(id))
	if err != nil {
		return coupon.Coupon{}, err
	}
	if err := promise.Begin(ctx, tx, made.ID); err != nil {
		return coupon.Coupon{}, err
	}
	payload := audit.NewCoupon{Name: n.Name, Seats: n.Seats, Opens: n.Opens.UTC(), Closes: n.Closes.UTC(),
		Campaign:     n.Campaign,
		ValidityDays: n.ValidityDays, Discount: n.Discount, Cadence: n.Cadence, LineLimit: n.LineLimit}
	return made, audit.Append(ctx, tx, origin, audit.CouponCreated, made.ID, audit.Entry{Payload: payload})
}
