package wallet

import (
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// UserCoupon is a row of table user_coupon.
type UserCoupon struct {
	ID        coupon.UserCouponID
	Coupon    coupon.CouponID
	User      coupon.UserID
	Status    coupon.UserCouponStatus // as stored; coupon.StateAt says what it means now
	OrderID   string                  // the order that has the coupon; empty: none
	Seq       uint32                  // number of its last row in coupon_log; 0: none
	ExpiresAt time.Time               // exclusive
}

// Order is a row of table coupon_order. The zero Order is one that never had a coupon.
type Order struct {
	ID            string
	UserCoupon    coupon.UserCouponID
	User          coupon.UserID
	AmountWon     int64
	DiscountWon   int64
	State         coupon.OrderState
	ReservedUntil time.Time // the reservation is live before this instant
}

// Has reports whether the order has a coupon.
func (o Order) Has() bool { return o.State == coupon.OrderReserved || o.State == coupon.OrderUsed }

// Facts is what a decision is made of. The row of user_coupon is locked, and Now was read after that.
type Facts struct {
	Now      time.Time // MySQL's clock
	Discount coupon.Discount
	Coupon   UserCoupon
	Order    Order // the order of the call; zero: it never had a coupon
	Holder   Order // the order that Coupon.OrderID names; zero: none

	FreedSeat bool // Coupon is revoked, and its revocation added a seat
}

// Verb is what a caller wants to do with an issued coupon.
type Verb uint8

const (
	Reserve Verb = iota + 1 // an order takes the coupon until the reservation runs out
	Confirm                 // the order was placed: the coupon is used
	Release                 // the order was not placed: the coupon is free again
	Refund                  // the order came back: the coupon can be used again, unless it has expired
	Read                    // the state of the order is asked for: nothing changes
	Revoke                  // an operator takes the coupon back
	Reissue                 // an operator gives a revoked coupon back
	Extend                  // an operator moves the end of validity
)

// String returns the name of the call, as metrics and logs have it.
func (v Verb) String() string {
	return [...]string{Reserve: "reserve", Confirm: "confirm", Release: "release", Refund: "refund", Read: "read",
		Revoke: "revoke", Reissue: "reissue", Extend: "extend"}[v]
}

// Call is what a caller wants. The caller is the actor of the log.
type Call struct {
	Verb  Verb
	Actor string

	OrderID   string        // for Reserve, Confirm, Release, Refund and Read
	User      coupon.UserID // for Reserve
	AmountWon int64         // for Reserve: price of the order before the discount
	TTL       time.Duration // for Reserve: how long the reservation lives

	ExpiresAt time.Time // for Extend: the new end of validity
	FreeSeat  bool      // for Revoke: the seat becomes free for the next in line
}

// Code is the result of a call. A refusal changes nothing.
type Code string

const (
	Done     Code = "DONE"     // the call has changed something
	Repeated Code = "REPEATED" // the state is already as the call wants it; nothing was changed
	Nothing  Code = "NOTHING"  // Release: the order never had a coupon

	NotOwned          Code = "NOT_OWNED"
	OrderDiffers      Code = "ORDER_DIFFERS"    // the order was reserved for another user or amount
	OrderHasCoupon    Code = "ORDER_HAS_COUPON" // the order has another coupon
	OrderRefunded     Code = "ORDER_REFUNDED"
	OrderNotFound     Code = "ORDER_NOT_FOUND"
	ReservedElsewhere Code = "RESERVED_ELSEWHERE" // another order has a live reservation
	ReservationLost   Code = "RESERVATION_LOST"   // the reservation was given back, or another order took the coupon
	Used              Code = "USED"
	Expired           Code = "EXPIRED"
	Revoked           Code = "REVOKED"
	BelowMinimum      Code = "BELOW_MINIMUM"
	NotUsed           Code = "NOT_USED" // Refund: the order has not used a coupon
)

// Entry is a new row of coupon_log.
type Entry struct {
	Kind        coupon.LogKind
	OrderID     string // empty: the change is not part of an order
	AmountWon   int64  // amount of the order
	DiscountWon int64  // discount of the order
	ExpiresAt   time.Time
	Seats       int // by how much the change moves total_quantity
}

// Decision is the result of a call, and what is to be written. Coupon and Order are the new rows; of a refusal, the old
// ones.
type Decision struct {
	Code    Code
	Coupon  UserCoupon
	Order   Order
	Lost    Order   // the order that loses the coupon because its reservation ran out; zero: none
	Entries []Entry // rows in the order of writing; empty: nothing is written

	MinimumWon       int64 // the smallest amount of an order that can use the coupon
	ReservedByCaller bool  // for ReservedElsewhere: Call.Actor made the other reservation. Store.Redeem sets it

	Now           time.Time // Facts.Now
	ReservedUntil time.Time // end of the reservation of Coupon, also by another order; zero: it is not reserved
}

// State returns what the status of the coupon means at Now, after the decision.
func (d Decision) State() coupon.UserCouponStatus {
	return coupon.StateAt(d.Coupon.Status, d.ReservedUntil, d.Coupon.ExpiresAt, d.Now)
}

// Decide is the only place that decides about an issued coupon. It has no side effects.
func Decide(f Facts, call Call) Decision {
	d := Decision{Coupon: f.Coupon, Order: f.Order, MinimumWon: f.Discount.MinimumWon, Now: f.Now}
	switch call.Verb {
	case Reserve:
		d.reserve(f, call)
	case Confirm:
		d.confirm()
	case Release:
		d.release()
	case Refund:
		d.refund()
	case Read:
		d.read()
	case Revoke:
		d.revoke(f, call)
	case Reissue:
		d.reissue(f)
	case Extend:
		d.extend(call)
	}
	switch {
	case d.Coupon.Status != coupon.CouponReserved:
	case d.Coupon.OrderID == d.Order.ID:
		d.ReservedUntil = d.Order.ReservedUntil
	default:
		d.ReservedUntil = f.Holder.ReservedUntil
	}
	return d
}

func (d *Decision) reserve(f Facts, call Call) {
	if d.Code = ofKnownOrder(f, call); d.Code != "" {
		return
	}
	if d.Code = unusable(f, call); d.Code != "" {
		return
	}
	d.takeOver(f.Holder)
	d.Order = Order{ID: call.OrderID, UserCoupon: f.Coupon.ID, User: call.User, AmountWon: call.AmountWon,
		DiscountWon: f.Discount.Of(call.AmountWon), State: coupon.OrderReserved, ReservedUntil: f.Now.Add(call.TTL)}
	d.Coupon.Status, d.Coupon.OrderID = coupon.CouponReserved, call.OrderID
	d.logOrder(coupon.LogReserved)
}

// ofKnownOrder returns the result of a reservation for an order that is known. It returns "" for an order that has no
// coupon and may get one: it is new, or gave its coupon back.
func ofKnownOrder(f Facts, call Call) Code {
	o := f.Order
	switch {
	case o.State == "":
		return ""
	case o.User != call.User:
		return OrderDiffers
	case o.State == coupon.OrderRefunded:
		return OrderRefunded
	case !o.Has():
		return ""
	case o.UserCoupon != f.Coupon.ID:
		return OrderHasCoupon
	case o.AmountWon != call.AmountWon:
		return OrderDiffers
	default:
		return Repeated
	}
}

// unusable returns why the coupon cannot be reserved now; "": it can.
func unusable(f Facts, call Call) Code {
	switch coupon.StateAt(f.Coupon.Status, f.Holder.ReservedUntil, f.Coupon.ExpiresAt, f.Now) {
	case coupon.CouponRevoked:
		return Revoked
	case coupon.CouponUsed:
		return Used
	case coupon.CouponReserved:
		return ReservedElsewhere
	case coupon.CouponExpired:
		return Expired
	default:
	}
	if call.AmountWon < f.Discount.MinimumWon {
		return BelowMinimum
	}
	return ""
}

// takeOver releases a reservation that has run out.
func (d *Decision) takeOver(holder Order) {
	if !holder.Has() {
		return
	}
	holder.State = coupon.OrderReleased
	d.Lost = holder
	d.Entries = append(d.Entries, entryOf(coupon.LogReleased, holder))
	d.Coupon.Status, d.Coupon.OrderID = coupon.CouponIssued, ""
}

// confirm does not compare times: while no other order has taken the coupon, the promised price stays.
func (d *Decision) confirm() {
	switch d.Order.State {
	case coupon.OrderReserved:
		d.Order.State, d.Coupon.Status = coupon.OrderUsed, coupon.CouponUsed
		d.logOrder(coupon.LogUsed)
	case coupon.OrderUsed:
		d.Code = Repeated
	case coupon.OrderReleased:
		d.Code = ReservationLost
	case coupon.OrderRefunded:
		d.Code = OrderRefunded
	default:
		d.Code = OrderNotFound
	}
}

func (d *Decision) release() {
	switch d.Order.State {
	case coupon.OrderReserved:
		d.giveBack(coupon.OrderReleased, coupon.LogReleased)
	case coupon.OrderReleased:
		d.Code = Repeated
	case coupon.OrderUsed:
		d.Code = Used
	case coupon.OrderRefunded:
		d.Code = OrderRefunded
	default:
		d.Code = Nothing
	}
}

func (d *Decision) refund() {
	switch d.Order.State {
	case coupon.OrderUsed:
		d.giveBack(coupon.OrderRefunded, coupon.LogRefunded)
	case coupon.OrderRefunded:
		d.Code = Repeated
	case coupon.OrderReserved, coupon.OrderReleased:
		d.Code = NotUsed
	default:
		d.Code = OrderNotFound
	}
}

func (d *Decision) read() {
	d.Code = Repeated
	if d.Order.State == "" {
		d.Code = OrderNotFound
	}
}

func (d *Decision) giveBack(state coupon.OrderState, kind coupon.LogKind) {
	d.Order.State = state
	d.Coupon.Status, d.Coupon.OrderID = coupon.CouponIssued, ""
	d.logOrder(kind)
}

func (d *Decision) revoke(f Facts, call Call) {
	switch coupon.StateAt(f.Coupon.Status, f.Holder.ReservedUntil, f.Coupon.ExpiresAt, f.Now) {
	case coupon.CouponRevoked:
		d.Code = Repeated
	case coupon.CouponUsed:
		d.Code = Used
	case coupon.CouponReserved:
		d.Code = ReservedElsewhere
	default:
		d.takeOver(f.Holder)
		d.Coupon.Status = coupon.CouponRevoked
		entry := Entry{Kind: coupon.LogRevoked}
		if call.FreeSeat {
			entry.Seats = 1
		}
		d.log(entry)
	}
}

func (d *Decision) reissue(f Facts) {
	if f.Coupon.Status != coupon.CouponRevoked {
		d.Code = Repeated
		return
	}
	d.Coupon.Status = coupon.CouponIssued
	entry := Entry{Kind: coupon.LogReissued}
	if f.FreedSeat {
		entry.Seats = -1
	}
	d.log(entry)
}

func (d *Decision) extend(call Call) {
	switch {
	case d.Coupon.Status == coupon.CouponRevoked:
		d.Code = Revoked
	case d.Coupon.Status == coupon.CouponUsed:
		d.Code = Used
	case !call.ExpiresAt.After(d.Coupon.ExpiresAt):
		d.Code = Repeated
	default:
		d.Coupon.ExpiresAt = call.ExpiresAt
		d.log(Entry{Kind: coupon.LogExtended, ExpiresAt: call.ExpiresAt})
	}
}

func (d *Decision) logOrder(kind coupon.LogKind) { d.log(entryOf(kind, d.Order)) }

func (d *Decision) log(entry Entry) {
	d.Code = Done
	d.Entries = append(d.Entries, entry)
	d.Coupon.Seq = d.Coupon.Seq + uint32(len(d.Entries))
}

func entryOf(kind coupon.LogKind, o Order) Entry {
	return Entry{Kind: kind, OrderID: o.ID, AmountWon: o.AmountWon, DiscountWon: o.DiscountWon}
}
