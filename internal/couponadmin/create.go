package couponadmin

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jajeong/jajeong/internal/approval"
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

// keyForm is what the column client_key takes.
var keyForm = regexp.MustCompile(`^[!-~]{1,64}$`)

type NewCoupon struct {
	// Key names the coupon for whoever creates it: with the same key, a second call answers the same coupon. Empty:
	// Create chooses one.
	Key           string
	Name          string
	Seats         int64
	Opens, Closes time.Time
	ValidityDays  int64
	coupon.Discount
	Campaign  uint64         // 0: no campaign
	Cadence   coupon.Cadence // empty: nightly
	LineLimit int64          // while so many wait in the queue, nobody joins it; 0: no limit
}

// Problems returns a *text.FieldError for each wrong value. It does not check the window, which depends on the time.
func (n NewCoupon) Problems() (problems []error) {
	refuse := func(wrong bool, field string, m text.Message, args ...any) {
		if wrong {
			problems = append(problems, text.About(field, text.UsageErrorf(m, args...)))
		}
	}
	refuse(strings.TrimSpace(n.Name) == "" || utf8.RuneCountInString(n.Name) > maxNameLetters ||
		!utf8.ValidString(n.Name) || strings.ContainsFunc(n.Name, unicode.IsControl), "name", text.WrongName, n.Name,
		maxNameLetters)
	refuse(n.Key != "" && !keyForm.MatchString(n.Key), "key", text.WrongKey, n.Key)
	refuse(n.Seats < 1 || n.Seats > MaxSeats, "seats", text.WrongSeats, n.Seats, int64(MaxSeats))
	refuse(n.ValidityDays < 1 || n.ValidityDays > maxDays, "validity-days", text.WrongDays, n.ValidityDays, maxDays)
	wrongWon := func(won int64) bool { return won < 0 || won > coupon.MaxWon }
	d := n.Discount
	refuse(wrongWon(d.DiscountWon), "discount-won", text.WrongDiscount, d.DiscountWon, int64(coupon.MaxWon))
	refuse(d.DiscountPercent < 0 || d.DiscountPercent > 100, "discount-percent", text.WrongPercent, d.DiscountPercent)
	refuse(wrongWon(d.DiscountMaxWon), "discount-max-won", text.WrongDiscountMax, d.DiscountMaxWon,
		int64(coupon.MaxWon))
	refuse((d.DiscountPercent == 0) != (d.DiscountMaxWon == 0), "discount-percent", text.PercentNeedsMax)
	refuse(d.DiscountPercent != 0 && d.DiscountWon != 0, "discount-won", text.TwoDiscounts)
	refuse(wrongWon(d.MinimumWon), "minimum-won", text.WrongMinimum, d.MinimumWon, int64(coupon.MaxWon))
	refuse(n.LineLimit < 0 || n.LineLimit > maxLine, "line-limit", text.WrongLineLimit, n.LineLimit, int64(maxLine))
	return problems
}

func (n NewCoupon) refusal() error {
	if problems := n.Problems(); problems != nil {
		return &coupon.Error{Class: coupon.Setup, Err: errors.Join(problems...)}
	}
	return nil
}

// Create makes a coupon. The catalog publishes its window within seconds. If there is a coupon with the key, Create
// answers that one, or refuses the key if the coupon was created otherwise.
func (a *Admin) Create(ctx context.Context, n NewCoupon) (*Change, error) {
	now, err := a.Redis.Now(ctx)
	if err != nil {
		return nil, err
	}
	if err := n.refusal(); err != nil {
		return nil, err
	}
	n.Key, n.Cadence = cmp.Or(n.Key, rand.Text()), cmp.Or(n.Cadence, coupon.Nightly)
	n.Opens, n.Closes = n.Opens.UTC().Truncate(time.Microsecond), n.Closes.UTC().Truncate(time.Microsecond)
	origin := a.origin()
	for skipped := 0; ; skipped++ {
		made, err := a.create(ctx, n, now, origin)
		switch {
		case errors.Is(err, errKnown) && skipped < maxSkipped-1: // the counter goes on, although MySQL rolls back
			continue
		case err != nil && !errors.Is(err, errDryRun):
			return nil, approval.Void(ctx, a.DB, changeUnknown(0, err))
		}
		made.Skipped = skipped
		return made, nil
	}
}

// maxSkipped is more coupons than anybody creates in the seconds that a failover of MySQL may lose.
const maxSkipped = 1000

// errKnown says that Redis knows people of a coupon with the id. MySQL has lost that coupon, and counts ids from
// before. A new coupon would take the people over.
var errKnown = &coupon.Error{Class: coupon.Setup, Err: text.Errorf(text.CouponIDsKnown, maxSkipped)}

func (a *Admin) create(ctx context.Context, n NewCoupon, now time.Time, origin audit.Origin) (made *Change, err error) {
	inserted := false
	err = a.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) (err error) {
		made = &Change{At: now}
		made.After, err = created(ctx, tx, n)
		if err != nil || made.After.ID > 0 {
			made.Changed = inserted // the reply to COMMIT was lost
			return err
		}
		if err := checkEnd(text.NewCoupon, n.Opens, n.Closes, now); err != nil {
			return err
		}
		made.Changed, made.Plan = true, n.planned()
		if a.DryRun {
			return errDryRun
		}
		if made.After, err = insert(ctx, tx, n); err != nil {
			return err
		}
		inserted = true
		return a.admit(ctx, tx, made, n, origin)
	})
	return made, err
}

// admit completes a coupon whose row is there. The policy is asked before the audit event is written, as for every
// change.
func (a *Admin) admit(ctx context.Context, tx *sql.Tx, made *Change, n NewCoupon, origin audit.Origin) error {
	redis, cancel := mysqltx.Meanwhile(ctx)
	defer cancel()
	id := made.After.ID
	look, err := a.Redis.Observe(redis, id, 0)
	if err != nil {
		return err
	}
	if look.Since != 0 || look.Closes != 0 || look.Accepted+look.Waiting+look.DLQ+look.Issued+look.Returned > 0 {
		return errKnown
	}
	if err := a.Ticket.UseFor(ctx, tx, made.Plan, id, origin); err != nil {
		return err
	}
	if err := promise.Begin(ctx, tx, id); err != nil {
		return err
	}
	return audit.Append(ctx, tx, origin, audit.CouponCreated, id, audit.Entry{Payload: n.payload()})
}

// planned is what a second person approves. The key is no part of it.
func (n NewCoupon) planned() approval.Plan {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	arguments := map[string]string{"name": n.Name, "seats": number(n.Seats), "opens": stamp(n.Opens),
		"closes": stamp(n.Closes), "validity-days": number(n.ValidityDays),
		"cadence": strings.ToLower(string(n.Cadence))}
	for name, value := range map[string]int64{"discount-won": n.DiscountWon, "discount-percent": n.DiscountPercent,
		"discount-max-won": n.DiscountMaxWon, "minimum-won": n.MinimumWon, "line-limit": n.LineLimit} {
		if value > 0 {
			arguments[name] = number(value)
		}
	}
	if n.Campaign > 0 {
		arguments["campaign"] = strconv.FormatUint(n.Campaign, 10)
	}
	return approval.Plan{Action: approval.Create, Arguments: arguments, Changes: []approval.Change{},
		CostWon: n.Discount.Cost(n.Seats)}
}

const createdSQL = `
SELECT c.id, COALESCE(e.detail, '') FROM coupon c LEFT JOIN audit_event e ON e.coupon_id = c.id AND e.action = '` +
	string(audit.CouponCreated) + `' WHERE c.client_key = ?`

// created returns the coupon with the key; an empty one if there is none. It refuses the key of a coupon that was
// created otherwise.
func created(ctx context.Context, tx *sql.Tx, n NewCoupon) (coupon.Coupon, error) {
	var id coupon.CouponID
	var detail audit.Detail
	switch err := tx.QueryRowContext(ctx, createdSQL, n.Key).Scan(&id, &detail); {
	case errors.Is(err, sql.ErrNoRows):
		return coupon.Coupon{}, nil
	case err != nil:
		return coupon.Coupon{}, fmt.Errorf("look for a coupon with the key %s: %w", n.Key, err)
	}
	if detail.Payload(audit.CouponCreated) != audit.Payload(n.payload()) {
		return coupon.Coupon{}, text.UsageErrorf(text.KeyReused, n.Key, id)
	}
	return lock(ctx, tx, id)
}

func (n NewCoupon) payload() audit.NewCoupon {
	return audit.NewCoupon{Key: n.Key, Name: n.Name, Seats: n.Seats, Opens: n.Opens, Closes: n.Closes,
		Campaign: n.Campaign, ValidityDays: n.ValidityDays, Discount: n.Discount, Cadence: n.Cadence,
		LineLimit: n.LineLimit}
}

const insertSQL = `
INSERT INTO coupon (client_key, name, total_quantity, apply_opens_at, apply_closes_at, campaign_id, validity_days,
                    discount_won, discount_percent, discount_max_won, minimum_won, cadence, line_limit)
VALUES (?, ?, ?, ?, ?, NULLIF(?, 0), ?, ?, ?, ?, ?, ?, NULLIF(?, 0))`

// insert inserts the row. If another session has just inserted one with the key, the error is a duplicate: Do repeats,
// and created finds it.
func insert(ctx context.Context, tx *sql.Tx, n NewCoupon) (coupon.Coupon, error) {
	done, err := tx.ExecContext(ctx, insertSQL, n.Key, n.Name, n.Seats, n.Opens, n.Closes, n.Campaign,
		n.ValidityDays, n.DiscountWon, n.DiscountPercent, n.DiscountMaxWon, n.MinimumWon, n.Cadence, n.LineLimit)
	if err != nil {
		return coupon.Coupon{}, fmt.Errorf("create coupon: %w", err)
	}
	id, err := done.LastInsertId()
	if err != nil {
		return coupon.Coupon{}, fmt.Errorf("create coupon: %w", err)
	}
	return lock(ctx, tx, coupon.CouponID(id))
}
