// Package catalog knows which coupons there are: from MySQL into the memory of this process and to the doors in Redis.
//
// # A coupon's way
//
//	row in MySQL ── Refresh ──▶ memory of this process: Lookup
//	                   ├──────▶ window and status at its door in Redis, unless it is finalised
//	                   ├──────▶ snapshot of all coupons in Redis
//	promise row  ◀── Refresh ──▶ promises at the door: both sides learn what the other knows
//
// A coupon is here from a day before it opens until 30 days after it closed.
//
// # What is trusted
//
// MySQL alone says what a coupon is. The snapshot is for a process that cannot reach MySQL: an older one never replaces
// what was read from MySQL, and it is never published. Promises only rise. A Redis that lost data hears with the next refresh
// how many there were and which arrival was the highest, and a process learns by its refresh that another server answers:
// see package candidates.
//
// # What order changes have
//
// A window carries the version of its row. Changes of window and status raise it under the row's lock, and the door keeps
// the newest, so that a slow process cannot put an older one back. Of one version, the last that is told counts: a row
// that was changed by hand without its version reaches the door too, but is not kept apart from a process that is slow.
// A door keeps a version only three minutes against an older one: no refresh and no COMMIT lasts as long, and what still comes then is what
// MySQL has, after a change that shut the door and was not committed, or from a backup.
//
// # What an idle refresh writes
//
// Nothing. A door is written where its window, its promise or its end differs, a promise row where Redis knows more, and
// the snapshot where its digest is another. So the time in a snapshot is when what it says was first read.
//
// # What a crash leads to
//
// Nothing here needs finishing: every step is safe to repeat and the next refresh, of any process, does it all again.
// Without MySQL coupons stay as they were last seen, without Redis memory is still refreshed, and without both what is
// in memory stays. A process that starts without both has nothing and says so: Loaded is false.
package catalog
