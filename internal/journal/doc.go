// Package journal copies the line of every open coupon from Redis to MySQL, and puts applications back that Redis has lost.
//
// # Journal
//
// Applying never waits for the journal: Copy reads queue and DLQ by arrival, at most a second behind. Table line_journal has
// one row for each application and each arrival at which it ever stood. Rows are only added, until the coupon is finalised.
//
// Two numbers say how far the journal came. journal.up_to is written in the same transaction as the rows. The field
// `journalled` of the coupon's state in Redis follows after COMMIT. Everybody who stood at the lower of them or before it is
// in the journal. Redis may fall back to an older state, and MySQL may be restored from a backup: the lower number is right.
// A script that enters somebody at an arrival of the past lowers `journalled`, unless the journal has that arrival of the user.
// Copy moves it on only if it is still what Copy had read. If Redis has lost it, Restore sets it to journal.up_to, provided that
// nobody stands there or before; else Copy reads the whole line again.
//
// Processes share the coupons without a leader: who copies a coupon holds the lock on its row of table journal, and others skip
// it.
//
// # Restore
//
// Restore holds the lock of the coupon's row, so that no settlement moves anybody meanwhile. It compares each row of the
// journal with Redis, and then with MySQL. Whoever stands in neither is put back at the lowest arrival of the journal. Users
// who have the coupon or were rejected get back their marks in Redis, too. Restore is safe to repeat, and to kill at any step.
//
// A loss is found by comparing persons; counts only show that there may be one. See package missing.
//
// A member that is no user id was written into Redis by hand. The journal does not have it.
package journal
