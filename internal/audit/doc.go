// Package audit writes, chains and checks audit events: who did what to a coupon or one of its users, why and when.
//
// The events of a coupon are a chain of hashes, numbered from 1, with its end in audit_head. Append is the only writer of
// both tables. Its transaction must hold the coupon's row lock, or the chain forks.
//
// The chain by itself reveals a changed, removed or added event, unless the author can also write every later event and
// audit_head. An account that can write both tables can forge another chain; no table prevents that. A printed head does:
// number and hash, as `settle verify` prints them, bind all events up to that number.
package audit
