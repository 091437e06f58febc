package couponadmin

import (
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Summary is the JSON of a change.
type Summary struct {
	Coupon      coupon.CouponID `json:"coupon"`
	Changed     bool            `json:"changed"`
	Seats       int             `json:"seats"`
	Issued      int             `json:"issued"`
	OpensAt     time.Time       `json:"opensAt"`
	ClosesAt    time.Time       `json:"closesAt"`
	Paused      bool            `json:"paused"`
	Finalised   bool            `json:"finalised"`
	NotSelected int             `json:"notSelected"`
	Published   bool            `json:"doorTold"` // false: the catalog publishes the change within 5 s
	SoldOut     *bool           `json:"soldOut"`  // whether new applications are answered SOLD_OUT; null: unknown
	Cadence     coupon.Cadence  `json:"cadence"`
	Frozen      bool            `json:"frozen"`
	LineLimit   *int            `json:"lineLimit"`        // null: no limit
	CampaignID  *uint64         `json:"campaignId"`       // null: no campaign
	Digest      string          `json:"digest,omitempty"` // for --expect-digest; empty: nothing to expect
}

func (c *Change) Summary() Summary {
	s := Summary{
		Coupon: c.After.ID, Changed: c.Changed, Seats: c.After.TotalQuantity, Issued: c.After.IssuedCount,
		OpensAt:  c.After.OpensAt,
		ClosesAt: c.After.ClosesAt, Paused: c.After.Paused(), Finalised: c.After.Finalised(),
		NotSelected: c.NotSelected,
		Published:   c.PublishErr == nil, Cadence: c.After.Cadence, Frozen: c.After.Frozen,
	}
	if c.announced {
		s.SoldOut = &c.SoldOut
	}
	if c.After.LineLimit > 0 {
		s.LineLimit = &c.After.LineLimit
	}
	if c.After.CampaignID > 0 {
		s.CampaignID = &c.After.CampaignID
	}
	if c.Plan.Action != "" {
		s.Digest = c.Plan.Digest()
	}
	return s
}
