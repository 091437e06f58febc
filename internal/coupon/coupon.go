package coupon

import "time"

// Coupon is one campaign round: a row of table coupon. Times are UTC.
type Coupon struct {
	ID            CouponID
	Name          string
	TotalQuantity int64 // seats
	IssuedCount   int64 // seats that are taken
	OpensAt       time.Time
	ClosesAt      time.Time // end of applying, exclusive
	Status        Status
	FinalisedAt   time.Time // zero: not finalised
	CampaignID    uint64    // 0: none
	ValidityDays  int64
	DiscountWon   int64
	Version       int64 // increases with each change of window or status, and with nothing else

	// Promise is what MySQL knows of the accepted applications, from table promise.
	Promise Promise
}

// Free is the number of free seats.
func (c Coupon) Free() int64 { return max(0, c.TotalQuantity-c.IssuedCount) }

// SoldOut reports whether every seat was issued.
func (c Coupon) SoldOut() bool { return c.IssuedCount > 0 && c.Free() == 0 }

// Finalised reports whether the coupon has ended: its Redis keys are swept and its applications have outcomes.
func (c Coupon) Finalised() bool { return !c.FinalisedAt.IsZero() }

// Paused reports whether an operator has paused the coupon.
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

// Status is coupon.status: whether an operator has paused the coupon.
type Status string

// The statuses of a coupon.
const (
	Open   Status = "OPEN"
	Paused Status = "PAUSED"
)

// Scan implements sql.Scanner.
func (s *Status) Scan(value any) error { return scan(s, value, Open, Paused) }
