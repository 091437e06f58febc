// Package settle issues coupons. settlement.go has one settlement from top to bottom; its last phases are in
// closeout.go and finish.go. run.go settles every due coupon, immediate.go one immediate coupon at once, and preview.go
// shows what a run would do. rules.go has all that depends on the trigger of a run. Package records has the SQL.
//
// # States of a settlement
//
// A settlement settles one coupon up to one cutoff. The names are the steps that `--log-level=debug` logs.
//
//	fence → lock → account → issue → count → record → commit → clean_up → close_out → finish → sweep
//	  ▲                                         │
//	  └────── any error before the commit ──────┘
//
// What each step does:
//
//   - Fence: waits until the coupon's Redis shard has passed the cutoff. From then on no arrival is below it. If
//     another Redis server takes over before the commit, the transaction is rolled back and the settlement begins
//     again, at most three times in all.
//   - Lock: the transaction locks the coupon's row (SELECT … FOR UPDATE). This lock is the only mutual exclusion.
//   - Account: a wrong issued_count or a gap holds the coupon. Before a gap is called one, and after Redis has
//     restarted or lost data, the transaction is rolled back, applications return from the journal (step restore), and
//     the settlement begins again. Before the commit it counts once more, and restarts if applications have vanished
//     meanwhile.
//   - Issue, count, record: seats, issued_count and settlement row are committed in the same transaction. Pages are
//     read and classified on other connections, which do not see the uncommitted rows of this transaction.
//   - Clean-up: the issued and rejected applications are removed from Redis. Refused rows go to the DLQ.
//   - Close-out: every other application before the cutoff goes to the DLQ, or is recorded NOT_SELECTED if no seat is
//     free. Each page has its own transaction. A long line waits until all coupons of the run are issued. A page is
//     classified before its transaction, and leaves Redis while the next page is recorded. If a seat was given or added
//     in between, or a row is recorded already, the page is classified again under the lock.
//   - Finish: the settlement is marked as cleaned up, and its count of applications under review becomes final, see
//     "Counts". It asks for a restore if the journal has somebody at a later arrival whom the run settled at an earlier
//     one. If seats are left, Redis accepts applications again. If the window is over and nobody is left, the coupon
//     is swept from Redis and finalised. If a restore is due by then, it comes first; the next run settles whom it
//     enters.
//
// # Immediate runs
//
// `settle serve` looks at the queues of immediate coupons. Where somebody waits, it calls IssueNow, which does the same
// settlement by other rules. A run that changes nothing rolls back after the step issue. Nightly and manual runs settle
// immediate coupons, too.
//
// The cost of a run does not grow with the coupon. It walks the DLQ only if the field dlqs of the state has changed or
// a clean-up is pending. Every ten seconds it compares issued_count with the number of issued coupons, and holds the
// coupon if one was given by hand and not counted. If more applications are accounted for than `accepted` counts, it
// raises `accepted`. If too many rows are refused within a minute, `settle serve` lets the coupon rest. After errors it
// tries again in pauses of 0.2 to 5 s.
//
// # Previews
//
// A preview holds the coupon's lock no longer than a settlement, and never while it walks the rest of the line. It
// inserts no outcome: if MySQL refuses one, the run moves the application to the DLQ, but the preview counts it as
// NOT_SELECTED. A run that an operator confirms on a terminal settles the coupons that the preview showed, each by its
// digest.
//
// # Frozen coupons
//
// Every transaction locks the coupon first, and is rolled back if the coupon is frozen. The run then does nothing more
// with the coupon. Its status is FROZEN, unless the run changed something before the freeze. In Redis, nightly and
// manual runs still renew the keys and write the fence. If MySQL is away, no application of a frozen coupon is moved.
//
// # Sums
//
// Table settled has the sums over the rows of each coupon, see ledger.Sums. Every transaction that adds or deletes such
// rows changes the sums, too. An immediate run reads the sums, so that its cost does not grow with the coupon. If they
// do not add up, it counts the rows before it holds the coupon. The other runs count the rows, and correct wrong sums.
//
// # Counts
//
// The settlement row counts what the run has decided. Each transaction adds what it decides, so that the row agrees
// with the other rows after a crash at any time. MySQL has no row of an application in the DLQ: the transaction counts
// those that it decides to move. They move after the commit, and the script that moves them adds to the run's count in
// Redis. That count replaces the other as the settlement is marked as cleaned up, by the run itself or by the next run.
// So each application is counted by the run that moved it.
//
// # Clocks and memory
//
// MySQL holds the settled applications, Redis the waiting ones. An application waits if Redis has it and MySQL has no
// outcome with the same arrival. Arrivals, windows and cutoffs go by the clock of the coupon's Redis shard, heartbeats
// by the clock of MySQL. The clock and the memory of this process decide nothing.
//
// # Crashes
//
//   - Before the commit: MySQL rolls back. The fence stays; it only says that the cutoff has passed.
//   - During the commit: the next attempt or run waits for the coupon's lock, until the lost transaction has ended.
//     Then it looks for the settlement row. No application is moved before that.
//   - After the commit: settlement.cleaned_at is NULL. The next run finds issued applications in Redis by coupon, user
//     and arrival, and removes them. Until then the account counts them once. A run with an earlier cutoff leaves
//     cleaned_at NULL, because it does not read the line after its cutoff.
//   - Before the commit of an immediate run: its row in settlement_run is rolled back, too. Another look begins again.
//   - During the commit of an immediate run: the next attempt looks for the nonce of the run, because MySQL may have
//     given its id to another run.
//   - After the commit of an immediate run: cleaned_at is NULL, as above. The next look that finds somebody in the
//     queue repairs it. If nobody is left there, `settle serve` finds the coupon as it refreshes its list of coupons.
//   - Between the commit of a page and its removal from Redis: the next run finds the page recorded, and removes it.
//     There are two such pages at most.
//   - After the sweep, before finalised_at: the coupon is due again, has an empty line, and is finalised.
//   - Refused rows and unsuitable users move to the DLQ after the commit. After a crash they are still in the queue,
//     before the last arrival that got a seat. The next run moves them, as PASSED_OVER if they are eligible by then.
//     The record of the run that was killed counts them until then.
//   - A refused row of a NOT_SELECTED application moves to the DLQ before the commit that deletes the record. After a
//     crash it is in both places. The record counts, and the next run removes the DLQ entry.
//
// A run writes a heartbeat every 10 s. After 60 s without one, later runs mark it ABANDONED. That mark decides nothing.
// An immediate run writes no heartbeat, because its row says SUCCEEDED from the beginning.
//
// # Failures
//
// Package mysqltx classifies errors and repeats transactions. A row that MySQL refuses is found by halving and moved to
// the DLQ; the others are issued. If MySQL cannot be reached, a nightly run moves as many applications as seats are
// free to the DLQ. The next run tries these first. If Redis fails after the commit, the next run cleans up.
//
// # Refused rows
//
// A DLQ entry of cause BAD_ROW is tried once per nightly cutoff and ten times in all, then only if an operator retries
// it. Redis counts the attempts, including those of manual runs. A run that leaves an entry out keeps a seat free for
// it, so that no later application gets that seat. A retry with canaries leaves out the other DLQ entries in the same
// way. If too many rows are refused for the first time, the settlement fails; attempts at rows refused earlier still
// count.
//
// A retried entry that finds no seat stays in the DLQ. The next run that is not a retry decides it: the entry stays if
// it arrived before the last winner, and is recorded NOT_SELECTED if it arrived later.
package settle
