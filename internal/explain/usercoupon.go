package explain

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// UserCoupon is the user's coupon: a row of table user_coupon, its order and its log.
type UserCoupon struct {
	ID        coupon.UserCouponID `json:"id"`
	Seat      int64               `json:"seat"` // seat number from 1; 0: given by hand without a seat
	AppliedAt *time.Time          `json:"appliedAt,omitempty"`
	IssuedAt  time.Time           `json:"issuedAt"`
	ExpiresAt time.Time           `json:"expiresAt"`     // exclusive
	Run       coupon.RunID        `json:"run,omitempty"` // 0: given by hand

	Status coupon.UserCouponStatus `json:"status"` // as stored; a reservation that ran out is still RESERVED
	State  coupon.UserCouponStatus `json:"state"`  // what Status means at AsOf
	AsOf   time.Time               `json:"asOf"`   // time of reading by the clock of MySQL
	Order  *Order                  `json:"order,omitempty"`
	Log    []LogEntry              `json:"log"` // ascending by Seq
}

// Order is the order that has the coupon. Its reservation may have run out.
type Order struct {
	ID            string    `json:"id"`
	AmountWon     int64     `json:"amountWon"`
	DiscountWon   int64     `json:"discountWon"`
	ReservedUntil time.Time `json:"reservedUntil"`
}

// LogEntry is a row of coupon_log. Fields that its kind does not use are empty.
type LogEntry struct {
	Seq   uint32         `json:"seq"`
	Kind  coupon.LogKind `json:"kind"`
	At    time.Time      `json:"at"` // time on the clock of MySQL
	Actor string         `json:"actor"`
	// Reason of an operator, from the audit event; empty: not known.
	Reason        string     `json:"reason,omitempty"`
	OrderID       string     `json:"order,omitempty"`
	AmountWon     int64      `json:"amountWon,omitempty"`
	DiscountWon   int64      `json:"discountWon,omitempty"`
	ReservedUntil *time.Time `json:"reservedUntil,omitempty"` // only RESERVED has it; nil: reserved again since
	ExpiresAt     *time.Time `json:"expiresAt,omitempty"`     // the new end; only GRANTED and EXTENDED have it
	// End before EXTENDED, by the audit event; nil: unknown.
	ExpiredAt *time.Time `json:"expiredAt,omitempty"`
	Seats     int        `json:"seats,omitempty"` // by how much the number of seats changed
}

// state returns what Status means at AsOf.
func (c *UserCoupon) state() coupon.UserCouponStatus {
	var until time.Time
	if c.Order != nil {
		until = c.Order.ReservedUntil
	}
	return coupon.StateAt(c.Status, until, c.ExpiresAt, c.AsOf)
}

// last returns the last entry of a kind, or nil.
func (c *UserCoupon) last(kind coupon.LogKind) *LogEntry {
	for i := range slices.Backward(c.Log) {
		if c.Log[i].Kind == kind {
			return &c.Log[i]
		}
	}
	return nil
}

// uses returns the number of uses in the log that were not refunded.
func (c *UserCoupon) uses() (n int) {
	for _, e := range c.Log {
		switch e.Kind {
		case coupon.LogUsed:
			n++
		case coupon.LogRefunded:
			n--
		default:
		}
	}
	return n
}

// decisive returns the first entry from index i on that is not EXTENDED, which changes nothing but the end of validity.
func (c *UserCoupon) decisive(i int) *LogEntry {
	for ; i < len(c.Log); i++ {
		if c.Log[i].Kind != coupon.LogExtended {
			return &c.Log[i]
		}
	}
	return nil
}

// ranOut reports whether the RELEASED entry i belongs to a reservation that had run out: the same transaction then gave
// the coupon to another order, or took it back.
func (c *UserCoupon) ranOut(i int) bool {
	return i+1 < len(c.Log) && c.Log[i].Kind == coupon.LogReleased && c.Log[i+1].At.Equal(c.Log[i].At) &&
		slices.Contains([]coupon.LogKind{coupon.LogReserved, coupon.LogRevoked}, c.Log[i+1].Kind)
}

const userCouponSQL = `
SELECT u.id, u.position, u.applied_at, u.issued_at, u.expires_at, COALESCE(u.run_id, 0), u.status, UTC_TIMESTAMP(6),
       COALESCE(o.order_id, ''), COALESCE(o.amount_won, 0), COALESCE(o.discount_won, 0), o.reserved_until
FROM user_coupon u LEFT JOIN coupon_order o ON o.order_id = u.order_id WHERE u.coupon_id = ? AND u.user_id = ?`

func (r *reader) readUserCoupon(ctx context.Context) error {
	c, o, until := new(UserCoupon), Order{}, sql.NullTime{}
	err := r.tx.QueryRowContext(ctx, userCouponSQL, r.CouponID, r.UserID).Scan(&c.ID, &c.Seat, &c.AppliedAt,
		&c.IssuedAt, &c.ExpiresAt, &c.Run, &c.Status, &c.AsOf, &o.ID, &o.AmountWon, &o.DiscountWon, &until)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if r.UserCoupon = c; o.ID != "" {
		o.ReservedUntil = until.Time
		c.Order = &o
	}
	c.State = c.state()
	if c.Run > 0 && c.AppliedAt != nil { // a run issued the coupon
		r.application(coupon.ArrivalAt(*c.AppliedAt)).Decision =
			Decision{Outcome: coupon.OutcomeIssued, Run: c.Run, RecordedAt: &c.IssuedAt}
	}
	return r.readLog(ctx)
}

// logSQL knows the end of an order's last reservation only: the row of the order keeps no earlier one.
const logSQL = `
SELECT l.seq, l.kind, l.at, l.actor, COALESCE(l.order_id, ''), COALESCE(l.amount_won, 0), COALESCE(l.discount_won, 0),
    l.expires_at, l.seats,
       o.reserved_until
FROM coupon_log l LEFT JOIN coupon_order o ON o.order_id = l.order_id AND o.user_coupon_id = l.user_coupon_id
    AND l.kind = 'RESERVED'
WHERE l.user_coupon_id = ? ORDER BY l.seq DESC LIMIT ?`

func (r *reader) readLog(ctx context.Context) error {
	entries, err := mysqltx.Collect(ctx, r.tx, func(e *LogEntry) []any {
		return []any{&e.Seq, &e.Kind, &e.At, &e.Actor, &e.OrderID, &e.AmountWon, &e.DiscountWon, &e.ExpiresAt, &e.Seats,
			&e.ReservedUntil}
	}, logSQL, r.UserCoupon.ID, maxLog+1)
	entries = bounded(r, entries, maxLog)
	seen := map[string]bool{}
	for i := range entries { // the latest first
		if e := &entries[i]; e.Kind == coupon.LogReserved && seen[e.OrderID] {
			e.ReservedUntil = nil
		} else if e.Kind == coupon.LogReserved {
			seen[e.OrderID] = true
		}
	}
	slices.Reverse(entries)
	r.UserCoupon.Log = entries
	return err
}

var operatorActs = map[coupon.LogKind][]audit.Action{
	coupon.LogGranted:  {audit.CouponGranted, audit.CouponListGranted},
	coupon.LogRevoked:  {audit.CouponRevoked},
	coupon.LogReissued: {audit.CouponReissued},
	coupon.LogExtended: {audit.CouponUserExtended},
	coupon.LogRefunded: {audit.CouponUnused},
}

// addReasons moves the reason of each operator's act from its audit event to the log, and drops the event: one line
// tells the act. audits are the latest first. An act has one entry and one event, so the latest entry of a kind has the
// latest event.
func (c *UserCoupon) addReasons(audits []Event) []Event {
	for i := range slices.Backward(c.Log) {
		entry := &c.Log[i]
		actions := operatorActs[entry.Kind]
		at := slices.IndexFunc(audits, func(e Event) bool { return slices.Contains(actions, e.Action) })
		if at >= 0 && audits[at].Actor == entry.Actor {
			entry.Reason, entry.ExpiredAt = audits[at].Reason, endBefore(audits[at])
			audits = slices.Delete(audits, at, at+1)
		}
	}
	return audits
}

// endBefore returns when the coupon would have expired without the change of an audit event, or nil.
func endBefore(e Event) *time.Time {
	if change, ok := e.Detail.Payload(e.Action).(audit.HolderChange); ok && change.Expires != nil {
		return change.Expires.From
	}
	return nil
}

// FreedSeat is a seat that became free for the next in line, because an operator revoked the coupon of another user.
type FreedSeat struct {
	At    time.Time `json:"at"`
	Actor string    `json:"actor"`
}

const freedSeatsSQL = "SELECT DISTINCT l.at, l.actor" + audit.Chained + `
JOIN user_coupon u ON u.coupon_id = e.coupon_id AND u.user_id = e.user_id
JOIN coupon_log l ON l.user_coupon_id = u.id AND l.kind = 'REVOKED' AND l.seats > 0
WHERE e.coupon_id = ? AND e.action = ? AND e.user_id <> ? AND l.at > ? AND l.at <= ? ORDER BY l.at DESC LIMIT ?`

// readFreedSeats reads the seats that became free while the user had applied and had no coupon.
func (r *reader) readFreedSeats(ctx context.Context) error {
	if len(r.Applications) == 0 {
		return nil
	}
	until := mysqltx.Latest
	if r.UserCoupon != nil {
		until = r.UserCoupon.IssuedAt
	}
	freed, err := mysqltx.Collect(ctx, r.tx, func(s *FreedSeat) []any { return []any{&s.At, &s.Actor} },
		freedSeatsSQL, r.CouponID, audit.CouponRevoked, r.UserID, r.Applications[0].AppliedAt, until, maxAudits+1)
	r.FreedSeats = bounded(r, freed, maxAudits)
	return err
}

func (t *timeline) addUserCoupon(c *UserCoupon) {
	if len(c.Log) == 0 || c.Log[0].Kind != coupon.LogGranted {
		issued := Event{Kind: EventIssued, Run: c.Run}
		if c.Run > 0 && c.AppliedAt != nil {
			issued.Arrival = coupon.ArrivalAt(*c.AppliedAt)
		}
		t.add(&c.IssuedAt, issued)
	}
	for i := range c.Log {
		e := &c.Log[i]
		t.add(&e.At, Event{Kind: EventKind(e.Kind), Actor: e.Actor, Reason: e.Reason, Order: e.OrderID, Entry: e})
		if next := c.decisive(i + 1); e.ReservedUntil != nil && (next == nil || !next.At.Before(*e.ReservedUntil)) {
			t.add(e.ReservedUntil, Event{Kind: EventRanOut, Order: e.OrderID})
		}
	}
	for _, end := range c.ends() {
		t.add(&end, Event{Kind: EventExpires})
	}
}

// ends returns the ends of validity that came, or are to come: those that were not moved before, and at which the
// coupon was not used or revoked for good. The end before the first extension is known from GRANTED, or from the audit
// event of the extension.
func (c *UserCoupon) ends() (ends []time.Time) {
	end := (*time.Time)(nil)
	if c.last(coupon.LogExtended) == nil {
		end = &c.ExpiresAt
	}
	for _, e := range c.Log {
		if e.Kind == coupon.LogExtended && end == nil {
			end = e.ExpiredAt
		}
		if e.Kind == coupon.LogExtended && end != nil && !e.At.Before(*end) {
			ends = append(ends, *end)
		}
		if e.ExpiresAt != nil {
			end = e.ExpiresAt
		}
	}
	if end != nil && !c.gone(*end) {
		ends = append(ends, *end)
	}
	return ends
}

// gone reports whether the coupon was used or revoked before an instant, and never came back.
func (c *UserCoupon) gone(at time.Time) bool {
	for _, e := range slices.Backward(c.Log) {
		if e.Kind != coupon.LogExtended {
			return (e.Kind == coupon.LogUsed || e.Kind == coupon.LogRevoked) && e.At.Before(at)
		}
	}
	return false
}
