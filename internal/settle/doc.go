// Package settle is everything that issues coupons. settlement.go tells one settlement, top to bottom.
//
// # A settlement
//
// For one coupon and one cutoff, in this order:
//
//  1. Fence. The coupon's Redis shard passes the cutoff; nothing can arrive below it any more.
//  2. Lock. One MySQL transaction begins with SELECT … FROM coupon … FOR UPDATE. This row lock is the only mutual
//     exclusion: a CronJob, a scheduler and people may all run at once.
//  3. Account. More promises accepted than can be found holds the coupon.
//  4. Issue. The line is read by arrival, page by page; each page is classified by one query, and the eligible are
//     inserted by one statement, until the seats are gone or the line ends.
//  5. Count and record. coupon.issued_count and the settlement row.
//  6. Commit. Coupons, count and record stand or fall together.
//  7. Tell Redis who was issued, and who was rejected on return, read back from what was committed.
//  8. Conclude. What is left of the line before the cutoff is walked again: who cannot hold a coupon goes to the DLQ;
//     when no seat is left, the others are recorded NOT_SELECTED, each page in a transaction that locks the coupon.
//  9. Finish. The settlement is marked clean; a coupon that is over is swept from Redis and finalised.
//
// # What is trusted
//
// MySQL is the truth about what was settled, Redis about who waits, and the Redis clock about before and after. What
// this process remembers is never needed to go on: steps 7 and 8 read MySQL again.
//
// # What a crash leads to
//
// Before the commit: the transaction is rolled back, nothing happened. The next run begins anew.
//
// During the commit: the next attempt locks the coupon, which waits until the lost transaction has ended one way or
// the other, and finds this run's settlement row or does not.
//
// After the commit, before Redis is clean: settlement.cleaned_at is NULL. Whoever is issued and still stands in the
// line is recognised by coupon, user and arrival, is not issued again, and is taken out by the next run. Until then the
// account walks the line, so that nobody is counted twice. A run with an earlier cutoff tells Redis too, but leaves the
// record unclean: what lies behind its cutoff it has not walked. Only an empty line makes every record clean.
//
// Between a page's commit and its removal from Redis: the page is recognised as recorded, and taken out.
//
// After the sweep, before the coupon is finalised: the coupon is due again, has no line, and is finalised.
//
// Who was refused a seat because of a blocked or unknown user is put under review only after the commit. After a crash
// in between, the next run finds them before the last arrival that got a seat: whoever is still refused goes under
// review, and whoever could be issued meanwhile too, as PASSED_OVER, first in line for the next free seat.
package settle
