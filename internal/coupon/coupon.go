// Package coupon is the vocabulary of Jajeong: the types that Redis, MySQL, the settlement and the programs exchange. It
// imports the standard library alone. docs/design.md has the glossary.
//
// Enumerations start at 1, so that a value that was never set is not a valid one. Enumerations that are stored or sent are
// strings in their stored form; Scan and UnmarshalText refuse unknown ones.
package coupon

import (
	"fmt"
	"time"
)

// Coupon is one campaign round: a row of table coupon. Times are UTC.
type Coupon struct {
	ID            CouponID  `json:"id"`
	Name          string    `json:"name"`
	TotalQuantity int       `json:"totalQuantity"` // seats
	IssuedCount   int       `json:"issuedCount"`   // seats that are taken
	OpensAt       time.Time `json:"opensAt"`
	ClosesAt      time.Time `json:"closesAt"` // end of applying, exclusive
	Status        Status    `json:"status,omitzero"`
	FinalisedAt   time.Time `json:"finalisedAt,omitzero"` // zero: not finalised
	CampaignID    uint64    `json:"campaignId,omitzero"`  // 0: none
	ValidityDays  int       `json:"validityDays"`
	DiscountWon   int64     `json:"discountWon"`
	Version       int64     `json:"version"` // increases with each change of window or status, and with nothing else

	// Promise is what MySQL knows of the accepted applications, from table promise.
	Promise Promise `json:"-"`
}

// Columns are the columns of table coupon, as c, for Fields.
const Columns = `c.id, c.name, c.total_quantity, c.issued_count, c.apply_opens_at, c.apply_closes_at, c.status, c.finalised_at,
       COALESCE(c.campaign_id, 0), c.validity_days, c.discount_won, c.version`

func (c *Coupon) Fields() []any {
	return []any{&c.ID, &c.Name, &c.TotalQuantity, &c.IssuedCount, &c.OpensAt, &c.ClosesAt, &c.Status, zeroTime{&c.FinalisedAt},
		&c.CampaignID, &c.ValidityDays, &c.DiscountWon, &c.Version}
}

// LockSQL begins every transaction that changes a coupon. A locking read of a join would also lock the row of table promise,
// which the catalog writes.
const LockSQL = "SELECT " + ColumnsWithPromise + " FROM coupon c WHERE c.id = ? FOR UPDATE"

// ColumnsWithPromise are Columns and PromiseColumns of a query of table coupon alone, for FieldsWithPromise.
const ColumnsWithPromise = Columns + `,
       COALESCE((SELECT p.accepted FROM promise p WHERE p.coupon_id = c.id), 0),
       COALESCE((SELECT p.last_arrival FROM promise p WHERE p.coupon_id = c.id), 0),
       COALESCE((SELECT p.twice FROM promise p WHERE p.coupon_id = c.id), 0),
       COALESCE((SELECT p.counted_since FROM promise p WHERE p.coupon_id = c.id), 0)`

func (c *Coupon) FieldsWithPromise() []any { return append(c.Fields(), c.Promise.Fields()...) }

func (c Coupon) Free() int { return max(0, c.TotalQuantity-c.IssuedCount) }

func (c Coupon) SoldOut() bool { return c.IssuedCount > 0 && c.Free() == 0 }

// Finalised reports whether the coupon has ended: its Redis keys are swept and its applications have outcomes.
func (c Coupon) Finalised() bool { return !c.FinalisedAt.IsZero() }

func (c Coupon) Paused() bool { return c.Status == Paused }

// Window is the part of the coupon that Redis judges applications by.
func (c Coupon) Window() Window {
	return Window{Coupon: c.ID, Version: c.Version, Opens: c.OpensAt, Closes: c.ClosesAt, Paused: c.Paused(), Sold: c.SoldOut()}
}

// Window decides whether a coupon's Redis shard accepts an application.
type Window struct {
	Coupon  CouponID
	Version int64 // Coupon.Version: an older window does not replace a newer one
	Opens   time.Time
	Closes  time.Time
	Paused  bool
	Sold    bool // every seat was issued; Redis takes it over only when it has lost its own flag
}

// Promise counts the accepted applications of a coupon, and is the highest arrival given.
type Promise struct {
	Accepted    int64
	LastArrival Arrival
	Twice       int64   // of Accepted: counted by two Redis servers, because one took the first application with it
	Since       Arrival // when the Redis server that counted Accepted and Twice began to count; 0: unknown
}

// PromiseColumns are the columns of table promise, as p, for Fields; 0 without a row.
const PromiseColumns = "COALESCE(p.accepted, 0), COALESCE(p.last_arrival, 0), COALESCE(p.twice, 0), COALESCE(p.counted_since, 0)"

func (p *Promise) Fields() []any { return []any{&p.Accepted, &p.LastArrival, &p.Twice, &p.Since} }

type zeroTime struct{ into *time.Time }

func (z zeroTime) Scan(value any) error {
	at, ok := value.(time.Time)
	if value != nil && !ok {
		return fmt.Errorf("%T is no time", value)
	}
	*z.into = at
	return nil
}

// Status is coupon.status: whether an operator has paused the coupon.
type Status string

const (
	Open   Status = "OPEN"
	Paused Status = "PAUSED"
)

func (s *Status) Scan(value any) error { return scan(s, value, Open, Paused) }

func (s *Status) UnmarshalText(text []byte) error { return scan(s, text, Open, Paused) }
