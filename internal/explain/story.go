package explain

import (
	"slices"
	"strconv"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

// logEvent words an entry of the coupon's log.
func (p Phrasing) logEvent(f *Facts, e Event) string {
	l, order := e.Entry, output.Printable(e.Order)
	var line string
	switch l.Kind {
	case coupon.LogReserved:
		line = p.Sprintf(text.EventReserved, order, won(l.AmountWon), won(l.DiscountWon))
	case coupon.LogUsed:
		line = p.Sprintf(text.EventUsed, order, won(l.DiscountWon))
	case coupon.LogReleased:
		line = p.Sprintf(text.EventReleased, order)
		i := slices.IndexFunc(f.UserCoupon.Log, func(other LogEntry) bool { return other.Seq == l.Seq })
		if i >= 0 && f.UserCoupon.ranOut(i) {
			line = p.Sprintf(text.EventTakenOver, order)
		}
	case coupon.LogRefunded:
		line = p.Sprintf(text.EventRefunded, order)
		if l.Reason != "" { // an operator has one
			line = p.Sprintf(text.EventUnused, order)
		}
	case coupon.LogGranted:
		line = p.Sprintf(text.EventGranted)
	case coupon.LogRevoked:
		line = p.Sprintf(text.EventRevoked)
	case coupon.LogReissued:
		line = p.Sprintf(text.EventReissued)
	case coupon.LogExtended:
		line = p.Sprintf(text.EventExtended)
	}
	if l.ExpiresAt != nil {
		line += p.Sprintf(text.ValidUntil, *l.ExpiresAt)
	}
	switch {
	case l.Kind == coupon.LogRevoked && l.Seats > 0:
		line += p.Sprintf(text.SeatForNext)
	case l.Kind == coupon.LogReissued && l.Seats < 0:
		line += p.Sprintf(text.SeatTakenBack)
	}
	return line + p.Sprintf(text.ByActor, output.Printable(l.Actor)) + p.detail(l.Reason)
}

// ofUserCoupon says what became of the coupon.
func (p Phrasing) ofUserCoupon(f *Facts, n Note) string {
	c := f.UserCoupon
	switch {
	case n == NoteRefunded:
		refund, how := c.last(coupon.LogRefunded), text.UsedAndRefunded
		if refund.Reason != "" {
			how = text.UsedAndUndone
		}
		return p.Sprintf(how, output.Printable(refund.OrderID), refund.At)
	case n == NoteUsable:
		return p.Sprintf(text.UsableUntil, c.ExpiresAt)
	case n == NoteReserved:
		return p.Sprintf(text.ReservedUntil, output.Printable(c.Order.ID), c.Order.ReservedUntil)
	case n == NoteUsed && c.Order != nil:
		return p.used(c)
	case n == NoteExpired && c.last(coupon.LogRefunded) != nil:
		return p.Sprintf(text.ExpiredAt, c.ExpiresAt)
	case n == NoteExpired:
		return p.Sprintf(text.ExpiredUnused, c.ExpiresAt)
	case n == NoteRevoked && c.last(coupon.LogRevoked) != nil:
		revoked := c.last(coupon.LogRevoked)
		if revoked.Reason == "" {
			return p.Sprintf(text.RevokedBy, output.Printable(revoked.Actor), revoked.At)
		}
		return p.Sprintf(text.RevokedBecause, output.Printable(revoked.Actor), revoked.At,
			output.Printable(revoked.Reason))
	default:
		return p.Sprintf(noteMessages[n])
	}
}

// used says for which order the coupon is used. Without its USED entry, which the bounds of the log may leave out, the
// time is unknown.
func (p Phrasing) used(c *UserCoupon) string {
	order, discount := output.Printable(c.Order.ID), won(c.Order.DiscountWon)
	entry := c.last(coupon.LogUsed)
	switch {
	case entry == nil || entry.OrderID != c.Order.ID || c.uses() != 1:
		return p.Sprintf(text.UsedForOrder, order, discount)
	case c.last(coupon.LogRefunded) != nil:
		return p.Sprintf(text.UsedOnceSince, order, entry.At, discount)
	default:
		return p.Sprintf(text.UsedOnce, order, entry.At, discount)
	}
}

func won(n int64) string { return output.Grouped(strconv.FormatInt(n, 10)) }
