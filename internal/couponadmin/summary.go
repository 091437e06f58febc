package couponadmin

import "time"

// Summary is a change in the form that programs read.
type Summary struct {
	Coupon      uint64    `json:"coupon"`
	Changed     bool      `json:"changed"`
	Seats       int       `json:"seats"`
	Issued      int       `json:"issued"`
	OpensAt     time.Time `json:"opensAt"`
	ClosesAt    time.Time `json:"closesAt"`
	Paused      bool      `json:"paused"`
	Finalised   bool      `json:"finalised"`
	NotSelected int       `json:"notSelected"` // candidates for free seats
	Published   bool      `json:"doorTold"`    // false: the catalog publishes the change within 5 s
	SoldOut     *bool     `json:"soldOut"`     // whether new applications are answered SOLD_OUT; null: unknown
}

// Summary summarises the change.
func (c *Change) Summary() Summary {
	s := Summary{
		Coupon: c.After.ID, Changed: c.Changed, Seats: c.After.TotalQuantity, Issued: c.After.IssuedCount, OpensAt: c.After.OpensAt,
		ClosesAt: c.After.ClosesAt, Paused: c.After.Paused(), Finalised: !c.After.FinalisedAt.IsZero(), NotSelected: c.NotSelected,
		Published: c.PublishErr == nil,
	}
	if s.Published && !s.Finalised { // else Redis was not asked
		s.SoldOut = &c.SoldOut
	}
	return s
}
