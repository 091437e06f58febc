// Package coupon has the types that all other packages share. It imports only the standard library.
//
// Numeric enumerations start at 1, so that the zero value is not valid. Enumerations that are stored or sent are
// strings; Scan and UnmarshalText refuse unknown strings.
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
	Discount
	Version   int64   `json:"version"` // increases with each change of window or status, and with nothing else
	Cadence   Cadence `json:"cadence,omitzero"`
	LineLimit int     `json:"lineLimit,omitzero"` // while so many wait in the queue, nobody joins it; 0: no limit
	Frozen    bool    `json:"frozen,omitzero"`    // runs change nothing; applying goes on

	// Known is the highest arrival that MySQL knows: that the journal has, or that was settled. 0: none, or not read.
	// A journal that claims arrivals more than five seconds ahead of the clock of MySQL is not believed.
	Known Arrival `json:"-"`
}

// Columns are the columns that Fields scans. Table coupon has the alias c.
const Columns = `c.id, c.name, c.total_quantity, c.issued_count, c.apply_opens_at,
    c.apply_closes_at, c.status, c.finalised_at,
       COALESCE(c.campaign_id, 0), c.validity_days, c.discount_won, c.discount_percent, c.discount_max_won,
         c.minimum_won,
       c.version, c.cadence, COALESCE(c.line_limit, 0), c.frozen`

func (c *Coupon) Fields() []any {
	return []any{&c.ID, &c.Name, &c.TotalQuantity, &c.IssuedCount, &c.OpensAt, &c.ClosesAt, &c.Status,
		zeroTime{&c.FinalisedAt},
		&c.CampaignID, &c.ValidityDays, &c.DiscountWon, &c.DiscountPercent, &c.DiscountMaxWon, &c.MinimumWon,
		&c.Version, &c.Cadence, &c.LineLimit, &c.Frozen}
}

// EndGuard is how long a finalised coupon can lose its end again: another Redis server can take over that lacks the
// last seconds. Pods and the journal keep until then what they know. candidates.FinishedTTL is longer: a server that
// has swept the coupon still has its state.
const EndGuard = 5 * time.Minute

// KeptOpenAfter is how long after its end a coupon that is not finalised is named: a run or an operator has
// forgotten it. Pods do not read it any more then.
const KeptOpenAfter = 30 * 24 * time.Hour

// LockSQL begins every transaction that changes a coupon. A join would lock the rows of other tables, too.
const LockSQL = "SELECT " + ColumnsWithKnown + " FROM coupon c WHERE c.id = ? FOR UPDATE"

// ColumnsWithKnown are the columns that FieldsWithKnown scans.
const ColumnsWithKnown = Columns + `,
       GREATEST(COALESCE((SELECT LEAST(j.up_to, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + 5000000)
                  FROM journal j WHERE j.coupon_id = c.id), 0),
                COALESCE((SELECT s.settled_up_to FROM settled s WHERE s.coupon_id = c.id), 0))`

func (c *Coupon) FieldsWithKnown() []any { return append(c.Fields(), &c.Known) }

func (c Coupon) Free() int { return max(0, c.TotalQuantity-c.IssuedCount) }

func (c Coupon) SoldOut() bool { return c.IssuedCount > 0 && c.Free() == 0 }

// Finalised reports whether the coupon has ended: its Redis keys are swept and its applications have outcomes.
func (c Coupon) Finalised() bool { return !c.FinalisedAt.IsZero() }

func (c Coupon) Paused() bool { return c.Status == Paused }

// Immediate reports whether `settle serve` issues the coupon as soon as somebody applies.
func (c Coupon) Immediate() bool { return c.Cadence == Immediate }

func (c Coupon) Window() Window {
	return Window{Coupon: c.ID, Version: c.Version, Opens: c.OpensAt, Closes: c.ClosesAt, Paused: c.Paused(),
		Sold: c.SoldOut(), LineLimit: c.LineLimit}
}

// Window is the part of a coupon by which its Redis shard accepts or refuses applications.
type Window struct {
	Coupon  CouponID
	Version int64 // Coupon.Version: an older window does not replace a newer one
	Opens   time.Time
	Closes  time.Time
	Paused  bool
	Sold    bool // every seat was issued; Redis uses this only if it has lost its own flag

	LineLimit int // while so many wait in the queue, nobody joins it; 0: no limit
}

// Reading is what a process has read of a coupon in Redis.
type Reading struct {
	Waiting int64     // applications in the queue
	Sold    bool      // applying is answered with SOLD_OUT
	Now     time.Time // time on the clock of the coupon's Redis shard
	SeenAt  time.Time // the same moment by the clock of the process; set by package catalog. Zero: Redis was never read
}

// Read reports whether the process has read the coupon in Redis.
func (r Reading) Read() bool { return !r.SeenAt.IsZero() }

// At returns the time on the shard's clock when the clock of the process shows local. If Redis was never read, both
// clocks are taken for equal.
func (r Reading) At(local time.Time) time.Time {
	if !r.Read() {
		return local
	}
	return r.Now.Add(local.Sub(r.SeenAt))
}

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

// Cadence is coupon.cadence: when a coupon is issued.
type Cadence string

const (
	Nightly   Cadence = "NIGHTLY"   // issued by the nightly run
	Immediate Cadence = "IMMEDIATE" // many times a second, by `settle serve`
)

func (c *Cadence) Scan(value any) error { return scan(c, value, Nightly, Immediate) }

func (c *Cadence) UnmarshalText(text []byte) error { return scan(c, text, Nightly, Immediate) }
