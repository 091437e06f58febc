// Package privacy reads everything that is stored of one user, and deletes what may go.
package privacy

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/seal"
	"github.com/jajeong/jajeong/internal/standing"
)

// Redis reads what Redis has of one user and one coupon. candidates.Store implements it.
type Redis interface {
	Watch(ctx context.Context, couponID coupon.CouponID, upTo coupon.Arrival,
		users ...coupon.UserID) (candidates.Watch, error)
	Returned(ctx context.Context, couponID coupon.CouponID,
		after uint64) (all []coupon.Application, next uint64, err error)
}

// Person is everything that is stored of one user. Its lists are complete, and in the order of the coupons, but
// AuditEvents is in the order of writing.
type Person struct {
	User         coupon.UserID `json:"user"`
	At           time.Time     `json:"at"` // time on MySQL's clock
	Coupons      []Issued      `json:"coupons"`
	Applications []Application `json:"applications"`
	Undecided    []Undecided   `json:"undecided"` // null: Redis could not be read
	AuditEvents  []AuditEvent  `json:"auditEvents"`
	Approvals    []Approval    `json:"approvals"`

	// RedisUnknown is set if Redis could not be read. Undecided and the marks are then not known.
	RedisUnknown bool `json:"redisUnknown,omitzero"`

	obtainable []coupon.CouponID // coupons that the user may still get
}

// Issued is a coupon that the user was given.
type Issued struct {
	ID        coupon.UserCouponID     `json:"id"`
	Coupon    coupon.CouponID         `json:"coupon"`
	Name      string                  `json:"name"`
	AppliedAt *time.Time              `json:"appliedAt"` // null: given by hand
	IssuedAt  time.Time               `json:"issuedAt"`
	ExpiresAt time.Time               `json:"expiresAt"` // exclusive
	State     coupon.UserCouponStatus `json:"state"`
	OrderID   *string                 `json:"orderId"`
	Orders    []Order                 `json:"orders"`
	Log       []Change                `json:"log"`

	reservedUntil sql.NullTime // end of the reservation for OrderID
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
	Cause      coupon.Cause    `json:"cause,omitzero"`
	Note       string          `json:"note"`
	RecordedAt time.Time       `json:"recordedAt"`
	Finalised  bool            `json:"finalised"` // the coupon is finalised

	cutoff   time.Time // of the run
	erasable bool      // the coupon cannot lose its end any more
}

// Undecided is what Redis has of the user and a coupon that is not finalised. If it has lost an application without
// outcome, the arrival is that of the journal, or the one at which pods have handed the user over: a restore will put
// the application back.
type Undecided struct {
	Coupon         coupon.CouponID `json:"coupon"`
	Name           string          `json:"name"`
	AppliedAt      []time.Time     `json:"appliedAt"`   // arrivals of the undecided entries in queue and DLQ
	UnderReview    bool            `json:"underReview"` // the first of them is in the DLQ, and none in the queue
	MarkedIssued   bool            `json:"markedIssued"`
	MarkedRejected bool            `json:"markedRejected"`
	Lost           bool            `json:"lost,omitzero"` // Redis has lost the application

	facts standing.Facts
}

// Approval is a change of the user's coupon for which approval was asked.
type Approval struct {
	ID        uint64          `json:"id"`
	Coupon    coupon.CouponID `json:"coupon"`
	Action    string          `json:"action"`
	Plan      string          `json:"plan"` // JSON
	Maker     string          `json:"maker"`
	Reason    string          `json:"reason"`
	CreatedAt time.Time       `json:"createdAt"`
}

type AuditEvent struct {
	Coupon    *coupon.CouponID `json:"coupon"`
	At        time.Time        `json:"at"`
	Actor     string           `json:"actor"`
	Action    string           `json:"action"`
	Reason    string           `json:"reason"`
	Detail    audit.Detail     `json:"detail"`
	Finalised bool             `json:"finalised"` // the coupon is finalised

	id       uint64
	erasable bool // the coupon cannot lose its end any more
}

// rowsPerPage bounds the rows that one query reads, so that the rest of a long list is read by further ones, and the
// ids in one statement.
const rowsPerPage = 1000

// readPages reads all rows by pages. The last two arguments of the query are the key after which a page begins, and its
// length. key returns the key of a row; the keys of all rows are above the zero value.
func readPages[T any, K any](ctx context.Context, q mysqltx.Querier, key func(T) K, fields func(*T) []any, query string,
	args ...any) ([]T, error) {
	all := []T{}
	for after := *new(K); ; {
		page, err := mysqltx.Collect(ctx, q, fields, query, slices.Concat(args, []any{after, rowsPerPage})...)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < rowsPerPage {
			return all, nil
		}
		after = key(page[len(page)-1])
	}
}

const (
	issuedSQL = `
SELECT u.id, u.coupon_id, c.name, u.applied_at, u.issued_at, u.expires_at, u.status, u.order_id, o.reserved_until
FROM user_coupon u FORCE INDEX (user_coupon_user) JOIN coupon c ON c.id = u.coupon_id LEFT JOIN coupon_order o
    ON o.order_id = u.order_id
WHERE u.user_id = ? AND u.id > ? ORDER BY u.id LIMIT ?`

	ordersSQL = `
SELECT order_id, amount_won, discount_won, state, reserved_until FROM coupon_order FORCE INDEX (coupon_order_coupon)
WHERE user_coupon_id = ? AND user_id = ? AND order_id > ? ORDER BY order_id LIMIT ?`

	changesSQL = `
SELECT seq, kind, order_id, amount_won, discount_won, expires_at, actor, at FROM coupon_log
WHERE user_coupon_id = ? AND seq > ? ORDER BY seq LIMIT ?`

	// appliedSQL has the coupons in which the user may have outcomes: those that user_application names, and those that
	// it may lack.
	appliedSQL = `
SELECT coupon_id FROM user_application WHERE user_id = ?
UNION SELECT id FROM coupon FORCE INDEX (coupon_due) WHERE finalised_at IS NULL
UNION SELECT id FROM coupon FORCE INDEX (coupon_due) WHERE finalised_at >= ?
ORDER BY 1`

	applicationsSQL = `
SELECT o.coupon_id, c.name, o.applied_at, o.outcome, COALESCE(o.cause, ''), o.note, o.recorded_at,
    c.finalised_at IS NOT NULL, COALESCE(r.cutoff, o.applied_at), ` + erasable + `
FROM application_outcome o FORCE INDEX (PRIMARY) JOIN coupon c ON c.id = o.coupon_id
LEFT JOIN settlement_run r ON r.id = o.run_id
WHERE o.user_id = ? AND o.coupon_id IN `

	// erasable tells whether a coupon was finalised longer than coupon.EndGuard ago. Until then Redis may lose the end,
	// and whoever was forgotten would be put back.
	erasable = "COALESCE(c.finalised_at < UTC_TIMESTAMP(6) - INTERVAL 5 MINUTE, FALSE)"

	auditsSQL = `
SELECT e.id, e.coupon_id, e.at, e.actor, e.action, e.reason, e.detail, c.finalised_at IS NOT NULL, ` + erasable + `
FROM audit_event e LEFT JOIN coupon c ON c.id = e.coupon_id WHERE e.user_id = ? AND e.id > ? ORDER BY e.id LIMIT ?`

	approvalsSQL = `
SELECT id, coupon_id, action, plan, maker, reason, created_at FROM approval WHERE user_id = ? AND id > ? ORDER BY id
    LIMIT ?`

	openCouponsSQL = "SELECT id, name FROM coupon WHERE finalised_at IS NULL AND id > ? ORDER BY id LIMIT ?"

	// journalledSQL reads the whole journal of open coupons, because no index begins with the user: a million rows take
	// a part of a second.
	journalledSQL = "SELECT coupon_id, arrival FROM line_journal WHERE user_id = ? ORDER BY arrival"
)

// Read returns what MySQL and Redis have of the user. The journal is read first, then Redis, then the rest of MySQL: an
// application is in Redis until MySQL has decided it, and a restore enters there whom the journal has. If Redis cannot
// be read, Read returns what MySQL has, and the error of Redis.
func Read(ctx context.Context, db *sql.DB, redis Redis, user coupon.UserID) (p *Person, redisErr, err error) {
	p = &Person{User: user, Applications: []Application{}, Undecided: []Undecided{}}
	open, err := readOpen(ctx, db, user)
	if err != nil {
		return nil, nil, mysqltx.Wrap(err, "read what is stored of a user")
	}
	redisErr = p.readRedis(ctx, redis, open)
	err = mysqltx.Read(ctx, db, sql.LevelRepeatableRead, func(tx *sql.Tx) (err error) {
		if p.At, err = mysqltx.Now(ctx, tx); err != nil {
			return err
		}
		if err = p.readIssued(ctx, tx); err != nil {
			return err
		}
		if err = p.readApplications(ctx, tx); err != nil {
			return err
		}
		p.AuditEvents, err = readPages(ctx, tx, func(e AuditEvent) uint64 { return e.id }, func(e *AuditEvent) []any {
			return []any{&e.id, &e.Coupon, &e.At, &e.Actor, &e.Action, &e.Reason, &e.Detail, &e.Finalised,
				&e.erasable}
		}, auditsSQL, user)
		if err != nil {
			return err
		}
		p.Approvals, err = readPages(ctx, tx, func(a Approval) uint64 { return a.ID }, func(a *Approval) []any {
			return []any{&a.ID, &a.Coupon, &a.Action, &a.Plan, &a.Maker, &a.Reason, &a.CreatedAt}
		}, approvalsSQL, user)
		return err
	})
	if err != nil {
		return nil, nil, mysqltx.Wrap(err, "read what is stored of a user")
	}
	if p.RedisUnknown = redisErr != nil; p.RedisUnknown {
		p.Undecided = nil
	} else {
		p.conclude(open)
	}
	return p, redisErr, nil
}

// readOpen returns the coupons that are not finalised, with what the journal has of the user.
func readOpen(ctx context.Context, db *sql.DB, user coupon.UserID) (open []Undecided, err error) {
	return open, mysqltx.Read(ctx, db, sql.LevelRepeatableRead, func(tx *sql.Tx) (err error) {
		open, err = readPages(ctx, tx, func(u Undecided) coupon.CouponID { return u.Coupon },
			func(u *Undecided) []any { return []any{&u.Coupon, &u.Name} }, openCouponsSQL)
		if err != nil {
			return err
		}
		return mysqltx.Each(ctx, tx, func(rows *sql.Rows) error {
			var id coupon.CouponID
			var at coupon.Arrival
			err := rows.Scan(&id, &at)
			facts := factsOf(open, id)
			facts.Journalled = append(facts.Journalled, at)
			return err
		}, journalledSQL, user)
	})
}

// conclude adds the applications that are not decided, and the coupons that the user may still get.
func (p *Person) conclude(open []Undecided) {
	for _, c := range p.Coupons {
		issued := standing.Outcome{Outcome: coupon.OutcomeIssued}
		if c.AppliedAt != nil {
			issued.Arrival = coupon.ArrivalAt(*c.AppliedAt)
		}
		factsOf(open, c.Coupon).Outcomes = []standing.Outcome{issued}
	}
	for _, a := range p.Applications {
		facts := factsOf(open, a.Coupon)
		facts.Outcomes = append(facts.Outcomes, standing.Outcome{Outcome: a.Outcome,
			Arrival: coupon.ArrivalAt(a.AppliedAt), Cutoff: coupon.ArrivalAt(a.cutoff)})
	}
	for _, u := range open {
		is, waiting := u.facts.Conclude(), u.facts.Undecided()
		u.MarkedIssued, u.MarkedRejected = u.facts.MarkedIssued, u.facts.MarkedRejected
		u.UnderReview = len(waiting) > 0 && waiting[0].Source != coupon.SourceQueue
		for _, a := range waiting {
			u.AppliedAt = append(u.AppliedAt, a.Arrival.Time())
		}
		if u.Lost = is.Is == coupon.StandingLost; u.Lost {
			u.AppliedAt = []time.Time{is.Arrival.Time()}
		}
		if len(u.AppliedAt) > 0 || u.MarkedIssued || u.MarkedRejected {
			p.Undecided = append(p.Undecided, u)
		}
		if len(u.AppliedAt) > 0 || is.Is == coupon.StandingNotSelected { // more seats may be added
			p.obtainable = append(p.obtainable, u.Coupon)
		}
	}
}

// factsOf returns the facts of an open coupon; facts that nobody reads if it is not open.
func factsOf(open []Undecided, id coupon.CouponID) *standing.Facts {
	n, found := slices.BinarySearchFunc(open, id,
		func(u Undecided, id coupon.CouponID) int { return cmp.Compare(u.Coupon, id) })
	if !found {
		return new(standing.Facts)
	}
	return &open[n].facts
}

func (p *Person) readIssued(ctx context.Context, tx *sql.Tx) (err error) {
	p.Coupons, err = readPages(ctx, tx, func(i Issued) coupon.UserCouponID { return i.ID }, func(i *Issued) []any {
		return []any{&i.ID, &i.Coupon, &i.Name, &i.AppliedAt, &i.IssuedAt, &i.ExpiresAt, &i.State, &i.OrderID,
			&i.reservedUntil}
	}, issuedSQL, p.User)
	slices.SortFunc(p.Coupons, func(a, b Issued) int { return cmp.Compare(a.Coupon, b.Coupon) })
	for n := range p.Coupons {
		if err != nil {
			return err
		}
		i := &p.Coupons[n]
		i.State = coupon.StateAt(i.State, i.reservedUntil.Time, i.ExpiresAt, p.At)
		i.Orders, err = readPages(ctx, tx, func(o Order) string { return o.ID }, func(o *Order) []any {
			return []any{&o.ID, &o.AmountWon, &o.DiscountWon, &o.State, &o.ReservedUntil}
		}, ordersSQL, i.ID, p.User)
		if err != nil {
			return err
		}
		i.Log, err = readPages(ctx, tx, func(c Change) uint64 { return c.Seq }, func(c *Change) []any {
			return []any{&c.Seq, &c.Kind, &c.OrderID, &c.Amount, &c.Discount, &c.ExpiresAt, &c.Actor, &c.At}
		}, changesSQL, i.ID)
	}
	return err
}

func (p *Person) readApplications(ctx context.Context, tx *sql.Tx) error {
	listed, err := seal.Listed(ctx, tx)
	if err != nil {
		return err
	}
	ids, err := mysqltx.Column[coupon.CouponID](ctx, tx, appliedSQL, p.User, listed)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(ids, rowsPerPage) {
		page, err := mysqltx.Collect(ctx, tx, func(a *Application) []any {
			return []any{&a.Coupon, &a.Name, &a.AppliedAt, &a.Outcome, &a.Cause, &a.Note, &a.RecordedAt, &a.Finalised,
				&a.cutoff, &a.erasable}
		}, applicationsSQL+mysqltx.In(len(some))+" ORDER BY o.coupon_id, o.applied_at",
			append([]any{p.User}, args(some)...)...)
		if err != nil {
			return err
		}
		p.Applications = append(p.Applications, page...)
	}
	return nil
}

// parallelLookups bounds the calls to Redis at one time.
const parallelLookups = 16

func (p *Person) readRedis(ctx context.Context, redis Redis, open []Undecided) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelLookups)
	for n := range open {
		group.Go(func() error {
			// Whom a restore takes from there meanwhile stands in the queue afterwards.
			if err := open[n].readReturned(ctx, redis, p.User); err != nil {
				return err
			}
			w, err := redis.Watch(ctx, open[n].Coupon, 0, p.User)
			if err == nil {
				open[n].facts.Found, open[n].facts.Asked = w.Users[0], true
			}
			return err
		})
	}
	return group.Wait()
}

// readReturned adds the arrival at which pods have handed the user over: a restore writes it into the journal.
func (u *Undecided) readReturned(ctx context.Context, redis Redis, user coupon.UserID) error {
	for after := uint64(0); ; {
		page, next, err := redis.Returned(ctx, u.Coupon, after)
		if err != nil {
			return err
		}
		for _, a := range page {
			if a.Member == user.Member() {
				u.facts.Journalled = append(u.facts.Journalled, a.Arrival)
			}
		}
		if after = next; after == 0 {
			slices.Sort(u.facts.Journalled)
			return nil
		}
	}
}
