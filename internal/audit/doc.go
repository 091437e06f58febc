// Package audit writes, chains and checks audit events. An event names a change of a coupon or of one of its users, its author,
// its reason and its time.
//
// The events of a coupon are a chain of hashes, numbered from 1, with its end in audit_head. Append is the only writer of
// both tables. Its transaction must hold the coupon's row lock, or the chain forks.
//
// The chain reveals a changed, removed or added event. An account that can write both tables can forge the whole chain; a printed
// head reveals that: number and hash, as `settle verify` prints them, bind all events up to that number.
package audit
