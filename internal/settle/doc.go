// Package settle is everything that issues coupons. settlement.go tells one settlement, top to bottom; around it stand
// run.go (all due coupons once), schedule.go (every night), preview.go (what a run would do), review.go (what a person
// decides about the DLQ), coupon_changes.go and coupon_new.go (what people do to coupons), away.go (what is done without
// MySQL), metrics.go (what the last run came to), and below it fence.go, seats.go and returned.go (issue), tell.go, decide.go,
// finish.go, classify.go, isolate.go, line.go, ahead.go, records.go, runs.go, audit.go and database.go.
//
// # A settlement and its states
//
// For one coupon and one cutoff, in this order. The words in brackets are the steps that `--log-level=debug` logs.
//
//	open ──▶ locked ──▶ committed ──▶ told ──▶ concluded ──▶ clean ──▶ finalised
//	  ▲         │
//	  └─────────┘ any error before the commit
//
// Step by step:
//
//  0. The run looks at the table of users, which belongs to another team. One that cannot be read right (package users)
//     ends it before anybody is judged.
//  1. Fence [fence]. The coupon's Redis shard passes the cutoff; nothing can arrive below it any more. Where another server of
//     Redis has taken over, pods get the time to put back whom it lacks (package candidates). One that takes over later, until
//     step 6, rolls the transaction back, and the settlement begins anew at the fence: three attempts in all.
//  2. Lock [lock]. One MySQL transaction begins with SELECT … FROM coupon … FOR UPDATE. This row lock is the only mutual
//     exclusion: a CronJob, a scheduler and people may all run at once. The coupon is locked from here on.
//  3. Account [account]. An issued_count that is not the number of coupons holds the coupon, since free seats go by it; and so
//     do more promises accepted than can be found.
//  4. Issue [issue]. The line is read by arrival, page by page; each page is classified by one query, and the eligible are
//     inserted by one statement, until the seats are gone or the line ends. Reading and classifying go ahead of inserting,
//     on a connection of their own, which must reach the same server: they see what was committed when the coupon had been
//     locked.
//  5. Count and record [count, record]. coupon.issued_count and the settlement row.
//  6. Commit [commit, which begins with putting aside whose row was refused on return]. Coupons, count and record stand
//     or fall together. The settlement is committed.
//  7. Tell Redis [tell] who was issued, and who was rejected on return: as remembered, up to a million winners in a run,
//     or read back from what was committed.
//  8. Conclude [conclude]. What is left of the line before the cutoff is walked again: who cannot hold a coupon goes to the
//     DLQ; when no seat is left, the others are recorded NOT_SELECTED, each page in a transaction that locks the coupon,
//     with the door shut under that lock: it is opened only under the lock, while seats are free and nobody is NOT_SELECTED.
//     A long line is concluded when every coupon of the run has been told or has failed.
//  9. Finish [finish, sweep]. The settlement is marked clean. Where seats are left, or the coupon is over, it is locked once
//     more: newcomers are let in again; what is over is swept from Redis and finalised.
//
// # What is trusted
//
// MySQL is the truth about what was settled, Redis about who waits, and the Redis clock about before and after. What
// this process remembers is never needed to go on: steps 7 and 8 can read MySQL again. Who waits is what stands in Redis and
// is not recorded in MySQL with the same arrival.
//
// # What a crash leads to
//
// Open or locked, steps 1 to 5: the transaction is rolled back by the server, nothing happened. The fence stays, which
// says no more than that the cutoff has passed. The next run begins anew.
//
// During the commit: the next attempt, or the next run, locks the coupon, which waits until the lost transaction has
// ended one way or the other, and finds the settlement row or does not. Until that is known nothing is moved.
//
// Committed or told, steps 7 and 8: settlement.cleaned_at is NULL. Whoever is issued and still stands in the line is
// recognised by coupon, user and arrival, is not issued again, and is taken out by the next run. Until then the account
// walks the line, so that nobody is counted twice. A run with an earlier cutoff tells Redis too, but leaves the record
// unclean: what lies behind its cutoff it has not walked. Only an empty line makes every record clean.
//
// Between a page's commit and its removal from Redis: the page is recognised as recorded, and taken out.
//
// Concluded, step 9: only marks are missing, and the next run sets them. After the sweep, before the coupon is
// finalised: the coupon is due again, has no line, and is finalised.
//
// Who was refused a seat because of a blocked or unknown user, or because the database refused the row, is put under
// review only after the commit. After a crash in between, the next run finds them before the last arrival that got a
// seat: whoever is still refused goes under review, and whoever could be issued meanwhile too, as PASSED_OVER, first in
// line for the next free seat.
//
// Who was not selected before, and whose row is refused now, is put under review before the commit that takes back the
// record. After a crash in between they stand in both places; the record counts, and the next run clears the DLQ.
//
// # Which runs live
//
// A run says every 10 s that it is alive, by the clock of the database: those of pods differ. One that has been silent for
// 60 s is shown as ABANDONED, and every run that begins writes that down for those before it. Nothing hangs on it: what keeps
// order is the coupon's lock, and a night is caught up because it has not finished. So a run that was only cut off from the
// database for so long loses nothing: its next heartbeat makes it RUNNING again, and its end says how it really ended.
//
// As a run ends, it keeps how long each coupon took and why it was not settled in run_coupon, as far as that can be done;
// settlement, which a crash cannot part from what was settled, has what was.
//
// # What a fault leads to
//
// failure.go decides what an error of MySQL means, by its number. A transaction that met a deadlock, a lock wait, a lost
// connection or a server that takes no writes is repeated as a whole, with growing pauses. A row that the database
// refuses is found by halving and set apart; everybody else is issued. When MySQL cannot be reached, the first of the line,
// as many as seats are free, go to the DLQ as retryable, so that their users learn that something went wrong and are
// first again in the next run; the others wait on with a renewed life. A breaker then leaves the server alone for a while.
// When Redis fails after the commit, the next run cleans up. Whatever else: nothing is moved.
//
// # How often a refused row is tried
//
// An application under review for its own refused row (BAD_ROW) is tried once by the runs of each nightly cutoff, and ten times
// in all; then it is held until a person decides. Runs that a person asked for always try, and each time counts. Redis
// counts, where the reason stands. A nightly run that fails because too many rows are refused counts the attempts at those
// that were refused before: else a night that fails for good would try them for ever. These do not add up with the rows
// refused for the first time, which alone can be too many.
//
// Whom a run leaves out keeps a seat: where their turn comes, one of the free seats is set apart for them, and only the
// others go to those behind. So nobody is passed over untried, however scarce the seats are. Seats that are kept stay
// free, and who finds none beside them waits on; the next night tries again, and a seat that is refused then goes on in
// turn. A retry with canaries leaves out everybody else under review in the same way.
//
// # A retry that finds no seat
//
// Who is under review and retried by a person gets a seat only if one is free in turn. If none is, the retry says so and the
// application stays under review, retryable. What becomes of it then goes by its arrival, as for everybody: whoever came before
// the last who got a seat keeps the claim to the next free one and stays; whoever came after it is recorded NOT_SELECTED, but
// by the next run that is no retry, which settles the whole line. So a person who wanted one application tried again ends
// none, and sees in the DLQ what has become of it. Who waits in the queue is settled by a retry as by any run.
//
// # What people do to coupons
//
// A change is one transaction that locks the coupon, with an audit event of the old and the new values. It moves the
// version of the row if it changes window or status, and nothing else does. Windows are judged by the Redis clock.
//
// Who was accepted lies before an end that is recorded. So a close, which lets in fewer, shuts the door first, under the
// row's lock, and records the instant that the door returns, which is behind every arrival; a pause does so too, but
// is recorded also where the door cannot be reached. If the transaction is not committed then, the row stands as it was, and
// the catalog opens the door again three minutes later, as long as a COMMIT may still be under way. What lets in more is
// committed first, and then told the door at once, or by the catalog within 5 s. Whoever is accepted until then stands. Pause and
// resume judge no window: they are recorded also while Redis is away, and say that it has not heard of them.
//
// Seats that are added go to whoever is NOT_SELECTED, by arrival, in the next run; newcomers are let in after that run. A
// finalised coupon is due again for it if anybody is. Its keys are gone from Redis, but the promise row and what was settled
// are the whole account, nobody can arrive through a door that is shut, and the run finalises it again. Such a coupon
// cannot be opened again: the door has forgotten who was rejected for good. Nor can one whose keys were swept by a run that
// died before it was committed that the coupon is finalised, or that Redis has lost: whoever opens one that has closed counts
// under its lock whether the door turns away as many as MySQL has issued and rejected.
package settle
