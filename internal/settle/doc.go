// Package settle issues coupons. settlement.go is one settlement from top to bottom; run.go runs it for every due coupon,
// preview.go plans it without a change.
//
// # States of a settlement
//
// A settlement is one coupon and one cutoff. The names are the steps that `--log-level=debug` logs.
//
//	fence ──▶ lock ──▶ account ──▶ issue ──▶ count ──▶ record ──▶ commit ──▶ clean_up ──▶ close_out ──▶ finish ──▶ sweep
//	  ▲                                                   │
//	  └───────── any error before the commit ─────────────┘
//
// In words:
//
//   - Fence: the coupon's Redis shard passes the cutoff, and nothing arrives below it any more. If another Redis server takes
//     over before the commit, the transaction is rolled back and the settlement starts again, three times in all.
//   - Lock: the MySQL transaction begins with SELECT … FOR UPDATE of the coupon's row. This lock is the only mutual exclusion.
//   - Account: a wrong issued_count or a gap holds the coupon.
//   - Issue, count, record: seats, issued_count and the settlement row are committed in the same transaction. Pages are read
//     and classified on other connections, which see what was committed when the coupon was locked.
//   - Clean-up: the issued and rejected applications, remembered or read from MySQL, are removed from Redis.
//   - Close-out: every other application before the cutoff goes to the DLQ, or is recorded NOT_SELECTED if no seat is free. Each
//     page has its own transaction, which locks the coupon. A long line waits until all coupons of the run are issued.
//   - Finish: the settlement is marked clean. If seats are left, the door opens again; if the coupon is over, it is swept
//     from Redis and finalised. A coupon with DLQ entries is not finalised, because an operator may still grant them a seat.
//
// # Clocks and memory
//
// MySQL holds the settled applications, Redis the waiting ones. An application waits if Redis has it and MySQL has no outcome
// of the same arrival; the memory of the process only saves queries. Arrivals, windows and cutoffs go by the clock of the
// coupon's Redis shard, heartbeats by the clock of MySQL. The clock of this process decides nothing.
//
// # Crashes
//
//   - Before the commit: MySQL rolls back. The fence stays; it only says that the cutoff has passed.
//   - During the commit: the next attempt or run locks the coupon, which waits for the lost transaction to end, and then looks
//     for the settlement row. Nothing is moved before that is known.
//   - After the commit: settlement.cleaned_at is NULL. The next run recognises issued applications in Redis by coupon, user and
//     arrival, and removes them. Until then the account counts them once. A run with an earlier cutoff cleans up too, but
//     leaves cleaned_at NULL, because it does not walk the line behind its cutoff.
//   - Between the commit of a page and its removal from Redis: the next run recognises it as recorded.
//   - After the sweep, before finalised_at: the coupon is due again, has an empty line, and is finalised.
//   - Refused rows and unsuitable users move to the DLQ after the commit. After a crash the next run finds them before the last
//     arrival that got a seat: they go to the DLQ then, as PASSED_OVER if they could be issued meanwhile.
//   - A refused row of a NOT_SELECTED application moves to the DLQ before the commit that deletes the record. After a crash it is
//     in both places; the record counts, and the next run clears the DLQ.
//
// A run writes a heartbeat every 10 s. After 60 s without one, later runs mark it ABANDONED. No decision depends on that.
//
// # Failures
//
// Package mysqltx classifies errors and repeats transactions. A row that MySQL refuses is found by halving and moved to the
// DLQ; the others are issued. If MySQL cannot be reached, a nightly run moves as many applications as seats are free to the
// DLQ, first in line for the next run; the others wait with a renewed life. A run of an operator moves nothing then. If Redis
// fails after the commit, the next run cleans up.
//
// # Refused rows
//
// A DLQ entry of cause BAD_ROW is tried once per nightly cutoff and ten times in all, then by an operator only. Redis counts.
// A manual run always tries, and counts. A run that leaves an entry out keeps a seat free for it, so that no later
// application passes it over untried. A retry with canaries leaves out the other DLQ entries in the same way. If too many rows
// are refused for the first time, the settlement fails, and the attempts at the known ones count all the same.
//
// A retried entry that finds no seat stays in the DLQ. The next run that is no retry decides it by its arrival: it keeps its
// claim if it arrived before the last winner, and is recorded NOT_SELECTED if it arrived later.
package settle
