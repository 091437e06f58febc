package output

import (
	"strconv"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/text"
)

// OfRequest is text about a request for approval, which not everybody may see who sees the rest.
type OfRequest string

// Detail puts the detail of an audit event into words, with times in l.Zone. A detail that the program did not write is
// shown as it is stored.
func (l Locale) Detail(action audit.Action, stored audit.Detail) string {
	w := words{Locale: l}
	switch is := stored.Payload(action).(type) {
	case audit.MissingPromises:
		w.say(l.Sprintf(text.DetailGapHeld, is.Missing, is.Account.Accepted, is.Account.In(l.Language)))
	case audit.WrittenOff:
		w.say(l.Sprintf(text.DetailWrittenOff, is.Missing, is.Account.In(l.Language), Printable(is.Digest)))
	case audit.WrongCount:
		w.say(l.Sprintf(text.DetailCountHeld, is.Recorded, is.Coupons, is.Seats))
	case audit.Retried:
		if is.All {
			w.say(l.Sprintf(text.DetailAllUnderReview))
		} else {
			w.application(is.Application)
		}
	case audit.Application:
		w.application(is)
	case audit.Settled:
		w.settled(is)
	case audit.NewCoupon:
		w.created(is)
	case audit.CouponChange:
		w.changed(is)
	case audit.HolderChange:
		change(&w, text.ColumnValidUntil, is.Expires, l.timeOrNone)
		w.changed(is.CouponChange)
	case audit.GrantedList:
		w.say(l.Sprintf(text.DetailList, grouped(is.Users), Printable(is.List)))
		w.value(text.ColumnValidUntil, l.Instant(is.Expires))
		w.changed(is.CouponChange)
	case audit.Unfinalised:
		why := text.DetailForNewSeats
		if is.LostEnd {
			why = text.DetailLostEnd
		}
		w.say(l.Sprintf(why))
	case audit.Forgotten:
		w.say(l.Sprintf(text.DetailForgotten, is.Outcomes, is.Events))
	case audit.Restored:
		w.restored(is)
	case audit.Honoured:
		w.value(text.CSVArrival, l.Instant(is.Arrival.Time()))
	case audit.UnknownPromises:
		w.say(l.Sprintf(text.DetailUnknown, is.Accepted-is.Known, is.Accepted, is.Known))
	case audit.UsedApproval:
		w.say(l.Sprintf(text.DetailApproval, is.Approval, Word(l.Language, is.Action), Printable(is.Maker),
			Printable(is.Checker), Printable(is.Digest)))
	default:
		w.say(Printable(string(stored)))
	}
	return strings.Join(w.parts, ", ")
}

// words collects the parts of a sentence.
type words struct {
	Locale
	parts []string
}

func (w *words) say(part string) { w.parts = append(w.parts, part) }

func (w *words) value(name text.Message, value string) { w.say(w.Sprintf(name) + " " + value) }

// counted says how many of something there were, if there was one.
func (w *words) counted(m text.Message, n int64) {
	if n > 0 {
		w.say(w.Sprintf(m, n))
	}
}

// change says both values of what has changed.
func change[T any](w *words, name text.Message, c *audit.Change[T], shown func(T) string) {
	if c != nil {
		w.value(name, shown(c.From)+" → "+shown(c.To))
	}
}

func (w *words) application(is audit.Application) {
	if is.Member != "" {
		w.say(w.Sprintf(text.DetailMember, Printable(is.Member)))
	}
	w.value(text.CSVArrival, w.Instant(is.Arrival.Time()))
}

func (w *words) settled(is audit.Settled) {
	w.value(text.ColumnCutoff, w.Instant(is.Cutoff))
	if is.Issued == 0 {
		w.say(w.Sprintf(text.DetailNothingIssued))
		return
	}
	w.value(text.ColumnIssued, grouped(is.Issued))
	w.say(Printable(is.Digest))
}

func (w *words) created(is audit.NewCoupon) {
	w.value(text.ColumnName, Printable(is.Name))
	w.value(text.ColumnSeats, grouped(is.Seats))
	w.value(text.ColumnOpens, w.Instant(is.Opens))
	w.value(text.ColumnCloses, w.Instant(is.Closes))
	w.value(text.ColumnCampaign, w.numberOrNone(is.Campaign))
	w.value(text.ColumnValidity, w.Sprintf(text.Days, is.ValidityDays))
	w.value(text.ColumnDiscount, w.Discount(is.Discount))
	w.value(text.ColumnCadence, w.cadence(is.Cadence))
	w.value(text.ColumnLineLimit, w.numberOrNone(uint64(max(0, is.LineLimit))))
}

func (w *words) changed(is audit.CouponChange) {
	change(w, text.ColumnName, is.Name, Printable)
	change(w, text.ColumnSeats, is.Seats, grouped[int])
	change(w, text.ColumnIssued, is.Issued, grouped[int])
	change(w, text.ColumnOpens, is.Opens, w.timeOrNone)
	change(w, text.ColumnCloses, is.Closes, w.timeOrNone)
	change(w, text.ColumnDiscount, is.Discount, w.Discount)
	change(w, text.ColumnValidity, is.ValidityDays, func(days int) string { return w.Sprintf(text.Days, days) })
	change(w, text.ColumnCampaign, is.Campaign, w.numberOrNone)
	change(w, text.ColumnStatus, is.Status, func(s coupon.Status) string { return Word(w.Language, s) })
	change(w, text.ColumnFinalisedAt, is.Finalised, w.timeOrNone)
	change(w, text.ColumnCadence, is.Cadence, w.cadence)
	change(w, text.ColumnFrozen, is.Frozen, w.onOrOff)
	if is.StoppedAt != nil {
		w.value(text.DetailShutAt, w.Instant(*is.StoppedAt))
	}
}

func (w *words) restored(is audit.Restored) {
	w.counted(text.DetailPutBack, is.Back)
	w.counted(text.DetailMoved, is.Moved)
	w.counted(text.DetailFromMarks, is.FromMarks)
	w.counted(text.DetailStillMissing, is.Missing)
}

func (l Locale) timeOrNone(t *time.Time) string {
	if t == nil {
		return l.Sprintf(text.DetailNone)
	}
	return l.Instant(*t)
}

// Discount describes what a coupon takes off a price, such as "10 %, at most 5000 won".
func (l Locale) Discount(d coupon.Discount) string {
	off := l.Sprintf(text.Won, d.DiscountWon)
	if d.DiscountPercent > 0 {
		off = l.Sprintf(text.PercentUpTo, d.DiscountPercent, d.DiscountMaxWon)
	}
	if d.MinimumWon > 0 {
		off += l.Sprintf(text.FromMinimum, d.MinimumWon)
	}
	return off
}

func (l Locale) numberOrNone(n uint64) string {
	if n == 0 {
		return l.Sprintf(text.DetailNone)
	}
	return strconv.FormatUint(n, 10)
}

func (l Locale) onOrOff(on bool) string {
	if on {
		return l.Sprintf(text.DetailOn)
	}
	return l.Sprintf(text.DetailOff)
}

func (l Locale) cadence(c coupon.Cadence) string {
	return l.Sprintf(map[coupon.Cadence]text.Message{coupon.Nightly: text.CadenceNightly,
		coupon.Immediate: text.CadenceImmediate}[c])
}

func grouped[N int | int64](n N) string { return Grouped(strconv.FormatInt(int64(n), 10)) }
