// Package catalog reads the coupons from MySQL, and keeps them in the memory of the process and in Redis.
//
// # Data flow of a coupon
//
//	row in MySQL ── Refresh ──▶ memory of this process: Lookup
//	                   ├──────▶ window in Redis, unless the coupon is finalised
//	                   ├──────▶ snapshot of all coupons in Redis
//	promise row  ◀── Refresh ──▶ promise in Redis: each side gets the higher values
//
// The catalog has a coupon from one day before it opens until 30 days after it closed.
//
// # Authority
//
// MySQL decides what a coupon is. The snapshot is for processes that cannot reach MySQL: it never replaces a newer reading of
// MySQL, and it is never published as windows. Promises only rise. A Redis that lost data gets the number of accepted
// applications and the highest arrival with the next refresh, and the refresh also detects a failover: see package candidates.
//
// # Order of changes
//
// A window has the version of its row. Each change of window or status raises the version under the row's lock, and Redis
// keeps the newest version, so that a slow process cannot restore an older window. Of two windows with the same version, the
// last one published counts: a row that was changed by hand without its version still reaches Redis. Redis refuses older
// versions for three minutes only, longer than any refresh or COMMIT takes. After that an older version means that a change was
// not committed after it had reached Redis, or that MySQL was restored from a backup.
//
// # Writes of an idle refresh
//
// None. A window is written if it, its promise or its end differs; a promise row if Redis has higher values; the snapshot if
// its digest differs. The time in a snapshot is therefore the first time that its content was read.
//
// # Crashes
//
// Nothing needs to be finished: every step is safe to repeat, and the next refresh of any process repeats all of them. Without
// MySQL the coupons in memory stay as they are, and without Redis memory is still refreshed. A process that starts without
// both has no coupons: Loaded is false.
package catalog
