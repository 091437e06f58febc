package ledger

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Sums are sums over the rows that settlements wrote: a row of table settled. The cost of reading them does not grow.
type Sums struct {
	Issued      int64          // rows of user_coupon that runs inserted
	Concluded   int64          // rows of application_outcome
	SettledUpTo coupon.Arrival // highest arrival with such a row; higher if a record of NOT_SELECTED was deleted
	LastIssued  coupon.Arrival // highest arrival that ever got a seat
}

// AccountBySums is Account with the sums of table settled instead of counted rows. seated is the coupon's issued_count.
// Every ten seconds, the coupons are compared with seated. If anything does not add up, the rows are counted after all.
func (l *Ledger) AccountBySums(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, seated int) (Account, error) {
	a, err := readPromised(ctx, tx, couponID)
	if err != nil {
		return a, err
	}
	a.useSums(a.Stored)
	a, now, err := l.addUpUnlessKnown(ctx, tx, couponID, a)
	if err != nil {
		return a, err
	}
	a.Past.Coupons = int64(seated)
	if l.walked.countsRows(couponID, now) {
		if err := tx.QueryRowContext(ctx, couponsSQL, couponID).Scan(&a.Past.Coupons); err != nil {
			return a, mysqltx.Wrap(err, "count coupons of coupon %d", couponID)
		}
		if a.Past.Coupons == int64(seated) { // else the next run counts again
			l.walked.countedRows(couponID, now)
		}
	}
	if a.Gap() != 0 || a.Past.Coupons != int64(seated) || a.Issued > int64(seated) {
		return l.Account(ctx, tx, couponID)
	}
	return a, nil
}

// couponsSQL counts the rows of one coupon by the unique key alone.
const couponsSQL = "SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ?"

// addUpUnlessKnown is AddUp, but does not walk a DLQ that has not changed since the last walk.
func (l *Ledger) addUpUnlessKnown(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID,
	a Account) (_ Account, now time.Time, err error) {
	look, err := l.Store.Observe(ctx, couponID, a.Sums.SettledUpTo)
	if err != nil {
		return a, look.Now, err
	}
	if !a.Past.Pending && look.Waiting == look.WaitingAfter {
		if still, known := l.walked.inBoth(couponID, look); known {
			a.read(look)
			a.Waiting, a.UnderReview, a.InBoth = look.Waiting, look.DLQ, still
			return a, look.Now, nil
		}
	}
	settledInDLQ := int64(0)
	a, err = l.addUp(ctx, tx, couponID, a, look, func(e Entry) {
		if e.Source != coupon.SourceQueue && e.Settled() {
			settledInDLQ++
		}
	})
	if err == nil && !a.Past.Pending {
		l.walked.keep(couponID, look, settledInDLQ)
	}
	return a, look.Now, err
}

// maxWalked bounds the memory: as many coupons as a catalog has.
const maxWalked = 10_000

// walks remembers how many entries of a DLQ were settled in MySQL. While the DLQ does not change and no clean-up is
// pending, the number stays.
type walks struct {
	mu       sync.Mutex
	byCoupon map[coupon.CouponID]walk
	counted  map[coupon.CouponID]time.Time // when the rows were counted last
}

// countInterval is how often a process counts the rows of an immediate coupon, unless it has found a wrong number.
// Another program may insert coupons by hand and forget issued_count. Counting a million rows takes about 0.1 s.
const countInterval = 10 * time.Second

// countsRows reports whether it is time to count the rows.
func (w *walks) countsRows(id coupon.CouponID, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok := w.counted[id]
	return !ok || !now.Before(at.Add(countInterval))
}

func (w *walks) countedRows(id coupon.CouponID, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counted == nil || len(w.counted) >= maxWalked {
		w.counted = map[coupon.CouponID]time.Time{}
	}
	w.counted[id] = now
}

type walk struct {
	since   coupon.Arrival // epoch of the state that counts the changes
	changes int64
	inBoth  int64
}

func (w *walks) inBoth(id coupon.CouponID, now coupon.Look) (int64, bool) {
	if now.DLQ == 0 {
		return 0, true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.byCoupon[id]
	return last.inBoth, ok && last.since == now.Since && last.changes == now.DLQChanges
}

func (w *walks) keep(id coupon.CouponID, look coupon.Look, inBoth int64) {
	if look.Since == 0 { // without a state, changes are not counted
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byCoupon == nil || len(w.byCoupon) >= maxWalked {
		w.byCoupon = map[coupon.CouponID]walk{}
	}
	w.byCoupon[id] = walk{look.Since, look.DLQChanges, inBoth}
}
