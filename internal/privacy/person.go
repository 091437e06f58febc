// Package privacy reads everything that is stored of one user, and deletes what may go.
package privacy

import (
	"context"
	"database/sql"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Redis reads what Redis has of one user and one coupon. candidates.Store implements it.
type Redis interface {
	LookupUser(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (candidates.UserLookup, error)
}

// Person is everything that is stored of one user. Its parts are lists, each in the order of the coupons.
type Person struct {
	User         coupon.UserID `json:"user"`
	At           time.Time     `json:"at"` // of MySQL's clock
	Coupons      []Issued      `json:"coupons"`
	Applications []Application `json:"applications"`
	Undecided    []Undecided   `json:"undecided"`
	AuditEvents  []AuditEvent  `json:"auditEvents"`

	// RedisUnknown is set if Redis could not be read. Undecided and the marks are then not known.
	RedisUnknown bool `json:"redisUnknown,omitzero"`
}

// Issued is a coupon that the user was given.
type Issued struct {
	ID        coupon.UserCouponID     `json:"id"`
	Coupon    coupon.CouponID         `json:"coupon"`
	Name      string                  `json:"name"`
	AppliedAt *time.Time              `json:"appliedAt"` // null: given by hand
	IssuedAt  time.Time               `json:"issuedAt"`
	ExpiresAt *time.Time              `json:"expiresAt"` // exclusive; null: does not expire
	State     coupon.UserCouponStatus `json:"state"`
	OrderID   *string                 `json:"orderId"`
	Orders    []Order                 `json:"orders"`
	Log       []Change                `json:"log"`
}

type Order struct {
	ID            string            `json:"orderId"`
	AmountWon     int64             `json:"amountWon"`
	DiscountWon   int64             `json:"discountWon"`
	State         coupon.OrderState `json:"state"`
	ReservedUntil time.Time         `json:"reservedUntil"`
}

type Change struct {
	Seq       uint64         `json:"seq"`
	Kind      coupon.LogKind `json:"kind"`
	OrderID   *string        `json:"orderId"`
	Amount    *int64         `json:"amountWon"`
	Discount  *int64         `json:"discountWon"`
	ExpiresAt *time.Time     `json:"expiresAt"`
	Actor     string         `json:"actor"`
	At        time.Time      `json:"at"`
}

// Application is a decided application that did not end with a coupon.
type Application struct {
	Coupon     coupon.CouponID `json:"coupon"`
	Name       string          `json:"name"`
	AppliedAt  time.Time       `json:"appliedAt"`
	Outcome    coupon.Outcome  `json:"outcome"`
	Reason     string          `json:"reason"`
	RecordedAt time.Time       `json:"recordedAt"`
	Finalised  bool            `json:"finalised"` // the coupon is finalised
}

// Undecided is what Redis has of the user and a coupon that is not finalised.
type Undecided struct {
	Coupon         coupon.CouponID `json:"coupon"`
	Name           string          `json:"name"`
	AppliedAt      []time.Time     `json:"appliedAt"` // of the entries in queue and DLQ
	UnderReview    bool            `json:"underReview"`
	MarkedIssued   bool            `json:"markedIssued"`
	MarkedRejected bool            `json:"markedRejected"`
}

type AuditEvent struct {
	Coupon    *coupon.CouponID `json:"coupon"`
	At        time.Time        `json:"at"`
	Actor     string           `json:"actor"`
	Action    string           `json:"action"`
	Reason    string           `json:"reason"`
	Detail    string           `json:"detail"`
	Finalised bool             `json:"finalised"` // the coupon is finalised
}

const couponsPerPage = 1000

const (
	issuedSQL = `
SELECT u.id, u.coupon_id, c.name, u.applied_at, u.issued_at, u.expires_at, u.status, u.order_id, o.reserved_until
FROM user_coupon u FORCE INDEX (user_coupon_user) JOIN coupon c ON c.id = u.coupon_id LEFT JOIN coupon_order o ON o.order_id = u.order_id
WHERE u.user_id = ? ORDER BY u.coupon_id`

	ordersSQL = `
SELECT order_id, amount_won, discount_won, state, reserved_until FROM coupon_order WHERE user_coupon_id = ? AND user_id = ? ORDER BY order_id`

	changesSQL = `
SELECT seq, kind, order_id, amount_won, discount_won, expires_at, actor, at FROM coupon_log WHERE user_coupon_id = ? ORDER BY seq`

	// applicationsSQL looks each coupon of a page up by the primary key: no index begins with the user.
	applicationsSQL = `
SELECT o.coupon_id, c.name, o.applied_at, o.outcome, o.reason, o.recorded_at, c.finalised_at IS NOT NULL
FROM (SELECT id, name, finalised_at FROM coupon WHERE id > ? ORDER BY id LIMIT 1000) c
STRAIGHT_JOIN application_outcome o ON o.coupon_id = c.id AND o.user_id = ?
ORDER BY o.coupon_id, o.applied_at`

	lastOfPageSQL = "SELECT COALESCE(MAX(id), 0), COUNT(*) FROM (SELECT id FROM coupon WHERE id > ? ORDER BY id LIMIT 1000) c"

	auditsSQL = `
SELECT e.coupon_id, e.at, e.actor, e.action, e.reason, e.detail, c.finalised_at IS NOT NULL
FROM audit_event e LEFT JOIN coupon c ON c.id = e.coupon_id WHERE e.user_id = ? ORDER BY e.id`

	openCouponsSQL = "SELECT id, name FROM coupon WHERE finalised_at IS NULL ORDER BY id"
)

// Read returns what MySQL and Redis have of the user. If Redis cannot be read, it returns what MySQL has, and the error of Redis.
func Read(ctx context.Context, db *sql.DB, redis Redis, user coupon.UserID) (p *Person, redisErr, err error) {
	p = &Person{User: user, Applications: []Application{}, Undecided: []Undecided{}}
	var open []Undecided
	err = mysqltx.Read(ctx, db, sql.LevelRepeatableRead, func(tx *sql.Tx) (err error) {
		if err = tx.QueryRowContext(ctx, "SELECT UTC_TIMESTAMP(6)").Scan(&p.At); err != nil {
			return err
		}
		if err = p.readIssued(ctx, tx); err != nil {
			return err
		}
		if err = p.readApplications(ctx, tx); err != nil {
			return err
		}
		p.AuditEvents, err = mysqltx.Collect(ctx, tx, func(e *AuditEvent) []any {
			return []any{&e.Coupon, &e.At, &e.Actor, &e.Action, &e.Reason, &e.Detail, &e.Finalised}
		}, auditsSQL, user)
		if err != nil {
			return err
		}
		open, err = mysqltx.Collect(ctx, tx, func(u *Undecided) []any { return []any{&u.Coupon, &u.Name} }, openCouponsSQL)
		return err
	})
	if err != nil {
		return nil, nil, mysqltx.Wrap(err, "read user %d", user)
	}
	redisErr = p.readRedis(ctx, redis, open)
	p.RedisUnknown = redisErr != nil
	return p, redisErr, nil
}

func (p *Person) readIssued(ctx context.Context, tx *sql.Tx) (err error) {
	p.Coupons = []Issued{}
	err = mysqltx.Each(ctx, tx, func(rows *sql.Rows) error {
		var i Issued
		var until, expires sql.NullTime
		err := rows.Scan(&i.ID, &i.Coupon, &i.Name, &i.AppliedAt, &i.IssuedAt, &expires, &i.State, &i.OrderID, &until)
		if expires.Valid {
			i.ExpiresAt = &expires.Time
		}
		i.State = coupon.StateAt(i.State, until.Time, expires.Time, p.At)
		p.Coupons = append(p.Coupons, i)
		return err
	}, issuedSQL, p.User)
	for n := range p.Coupons {
		if err != nil {
			return err
		}
		i := &p.Coupons[n]
		i.Orders, err = mysqltx.Collect(ctx, tx, func(o *Order) []any {
			return []any{&o.ID, &o.AmountWon, &o.DiscountWon, &o.State, &o.ReservedUntil}
		}, ordersSQL, i.ID, p.User)
		if err != nil {
			return err
		}
		i.Log, err = mysqltx.Collect(ctx, tx, func(c *Change) []any {
			return []any{&c.Seq, &c.Kind, &c.OrderID, &c.Amount, &c.Discount, &c.ExpiresAt, &c.Actor, &c.At}
		}, changesSQL, i.ID)
	}
	return err
}

func (p *Person) readApplications(ctx context.Context, tx *sql.Tx) error {
	for after := coupon.CouponID(0); ; {
		page, err := mysqltx.Collect(ctx, tx, func(a *Application) []any {
			return []any{&a.Coupon, &a.Name, &a.AppliedAt, &a.Outcome, &a.Reason, &a.RecordedAt, &a.Finalised}
		}, applicationsSQL, after, p.User)
		if err != nil {
			return err
		}
		p.Applications = append(p.Applications, page...)
		var coupons int
		if err := tx.QueryRowContext(ctx, lastOfPageSQL, after).Scan(&after, &coupons); err != nil || coupons < couponsPerPage {
			return err
		}
	}
}

// parallelLookups bounds the calls to Redis at one time.
const parallelLookups = 16

func (p *Person) readRedis(ctx context.Context, redis Redis, open []Undecided) error {
	known := make([]bool, len(open))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelLookups)
	for n := range open {
		group.Go(func() error {
			found, err := redis.LookupUser(ctx, open[n].Coupon, p.User)
			if err != nil {
				return err
			}
			u := &open[n]
			for _, e := range found.Entries {
				u.AppliedAt = append(u.AppliedAt, e.Arrival.Time())
				u.UnderReview = u.UnderReview || e.Source != coupon.SourceQueue
			}
			u.MarkedIssued, u.MarkedRejected = found.MarkedIssued, found.MarkedRejected
			known[n] = len(u.AppliedAt) > 0 || u.MarkedIssued || u.MarkedRejected
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for n, u := range open {
		if known[n] {
			p.Undecided = append(p.Undecided, u)
		}
	}
	return nil
}
