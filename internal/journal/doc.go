// Package journal copies the line of every open coupon from Redis to MySQL, and puts applications back that Redis has
// lost.
//
// # Journal
//
// Applying never waits for the journal: Copy reads queue and DLQ by arrival, at most a second behind. Table
// line_journal has one row for each application and each arrival at which it ever stood. Rows are only added, until the
// coupon is finalised.
//
// Two numbers say how far the journal came. journal.up_to is written in the same transaction as the rows. The field
// `journalled` of the coupon's state in Redis follows after COMMIT. Everybody who stood at the lower of them or before
// it is in the journal. Redis may fall back to an older state, and MySQL may be restored from a backup: the lower
// number is right. A script that enters somebody at an arrival of the past lowers `journalled`, unless the journal has
// that arrival of the user. Copy moves it on only if it is still what Copy had read. Copy also raises the promise to
// what the same epoch has counted, so that a loss is known before any process refreshes its catalog. If Redis has lost
// it, Restore sets it to journal.up_to, provided that nobody stands there or before; else Copy reads the whole line
// again.
//
// Processes share the coupons without a leader: who copies a coupon holds the lock on its row of table journal, and
// others skip it.
//
// # Restore
//
// Restore holds the lock of the coupon's row, so that no settlement moves anybody meanwhile. It compares each row of
// the journal with Redis, and then with MySQL. Whoever stands in neither is put back at the lowest arrival of the
// journal. Users who have the coupon or were rejected get back their marks in Redis, too. Restore is safe to repeat,
// and to kill at any step. It begins again, at most three times, if another Redis server takes over meanwhile.
//
// Accounted for is who stands in Redis, has the coupon from a run, was rejected, or has an outcome of that arrival or a
// later one. Entries of a lost DLQ return to the queue, where the next run judges them again. Who comes back is not
// written off any more. More applications than promises are added to the promise: an excess would hide as many losses.
//
// A loss is found by comparing persons; counts only show that there may be one. A restore is due
//
//   - if Redis took over promises of an earlier epoch, or its state is older than the journal, and it was not compared
//     since
//   - if the coupon's state is gone
//   - if Redis marks fewer users as issued than have the coupon
//   - if not as many promises are missing as the last restore has left. See package missing
//
// After MySQL was restored to before a settlement whose winners know it, Restore by marks enters again, at their first
// arrival, the users whom Redis marks as issued. It lists those whose arrival the journal does not know.
//
// A member that is no user id was written into Redis by hand. The journal does not have it.
package journal
