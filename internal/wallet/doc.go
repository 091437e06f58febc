// Package wallet decides and records what happens to an issued coupon: reserved for an order, used, given back,
// revoked.
//
// # One transaction
//
// Every change is one transaction in MySQL. It locks the row of user_coupon, then reads MySQL's clock and the orders,
// decides by the pure function Decide, and writes: the order, the coupon, one row of coupon_log for each step. There is
// no other lock. A coupon is therefore used at most once, and has at most one live reservation.
//
// The lock comes first, because the time in a statement that waited for a lock is the time before the wait. The orders
// are read without a lock. An order that another transaction changes meanwhile is noticed when it is written: the write
// is conditional, and the transaction starts again.
//
// Many callers may ask for one coupon at once. Each process makes one of these calls at a time, so that they take one
// connection: see Store. The others wait in the process. A coupon is protected by its row alone.
//
// # Repetition
//
// The order id is the idempotency key. A call whose reply was lost can be repeated at any time: it answers the state of
// the order. That includes a COMMIT whose reply was lost, so an error of Do never means that nothing was done.
//
// # Time
//
// Nothing happens when a reservation runs out or a coupon expires: no job, no row. Both are comparisons with MySQL's
// clock. A reservation that ran out is still confirmed while no other order has taken the coupon, even after the coupon
// expired: the price was promised.
package wallet
