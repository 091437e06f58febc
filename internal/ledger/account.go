package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/users"
)

// Store is what the ledger reads of Redis; candidates.Store has it.
type Store interface {
	Counts(ctx context.Context, couponID coupon.CouponID, after coupon.Arrival) (candidates.Counts, error)
	Page(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor, cutoff time.Time) ([]coupon.Application, coupon.Cursor, error)
	MarkedIssued(ctx context.Context, couponID coupon.CouponID, after uint64) (users []string, next uint64, err error)
	MarkedRejected(ctx context.Context, couponID coupon.CouponID, after uint64) (users []string, next uint64, err error)
	Inspect(ctx context.Context, couponID coupon.CouponID) (candidates.Inspection, error)
	ScanCoupons(ctx context.Context, visit func(coupons []coupon.CouponID) error) error
	Now(ctx context.Context) (time.Time, error)
	LoadCatalog(ctx context.Context) ([]byte, error)
}

type Ledger struct {
	Store Store
	Users *users.Directory

	until atomic.Pointer[time.Time] // the end of waitForPods; nil before its first call
}

// Account is where the accepted applications of one coupon are. Invariant 4: accepted = waiting + under review + issued by
// runs + recorded outcomes, where an application that is both in Redis and settled in MySQL counts once.
type Account struct {
	Accepted    int64 `json:"accepted"`    // ever promised: the higher count of Redis and MySQL
	Waiting     int64 `json:"waiting"`     // in the queue
	UnderReview int64 `json:"underReview"` // in the DLQ
	Issued      int64 `json:"issued"`      // coupons that runs issued
	Outcomes    int64 `json:"outcomes"`    // recorded in application_outcome
	Twice       int64 `json:"twice"`       // counted twice: in Redis, and settled in MySQL before the clean-up
	WrittenOff  int64 `json:"writtenOff"`  // lost promises that an operator has accepted

	// AskedAgain counts applications that two Redis servers have counted: a failover lost the application, the user applied
	// again, and an API pod restored the first arrival.
	AskedAgain int64 `json:"askedAgain"`
	Arrivals

	Past Past `json:"-"`
}

// Arrivals are the instants that the promises depend on.
type Arrivals struct {
	CountedSince coupon.Arrival `json:"-"`           // when the Redis server that counted AskedAgain began to count
	LastArrival  coupon.Arrival `json:"lastArrival"` // the highest ever given
}

// Past describes the rows of a coupon in MySQL. It is empty at the first settlement of most coupons.
type Past struct {
	Held     bool  // user_coupon has rows, by runs or by hand
	Coupons  int64 // their number
	Recorded bool  // application_outcome has rows
	Settled  bool  // settlement has rows
}

// Gap is the number of lost promises; below zero, the number of applications without a promise.
func (a Account) Gap() int64 {
	return a.Accepted - a.AskedAgain - a.WrittenOff - (a.Waiting + a.UnderReview + a.Issued + a.Outcomes - a.Twice)
}

func (a Account) String() string {
	text := fmt.Sprintf("accepted %d, waiting %d, under review %d, issued %d, other outcomes %d, counted twice %d, written off %d",
		a.Accepted, a.Waiting, a.UnderReview, a.Issued, a.Outcomes, a.Twice, a.WrittenOff)
	if a.AskedAgain > 0 {
		text += fmt.Sprintf(", accepted again after a failover %d", a.AskedAgain)
	}
	return text
}

// Account counts one coupon in a transaction, which holds the coupon's lock if the count must be exact.
func (l *Ledger) Account(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (Account, error) {
	a, _, err := l.count(ctx, tx, couponID)
	return a, err
}

const existsSQL = "SELECT id FROM coupon WHERE id = ?"

// AccountOf counts one coupon in a transaction of its own. It repeats the count under the coupon's lock before it reports a gap.
func (l *Ledger) AccountOf(ctx context.Context, db *sql.DB, couponID coupon.CouponID) (a Account, err error) {
	for _, query := range []string{existsSQL, existsSQL + UnderLock} {
		err = mysqltx.Read(ctx, db, sql.LevelDefault, func(tx *sql.Tx) error {
			err := tx.QueryRowContext(ctx, query, couponID).Scan(&couponID)
			if err == nil {
				a, err = l.Account(ctx, tx, couponID)
			}
			return err
		})
		if err != nil || a.Gap() <= 0 {
			break
		}
	}
	return a, mysqltx.Wrap(err, "account for coupon %d", couponID)
}

const promisedSQL = `
SELECT COALESCE(MAX(accepted), 0), COALESCE(MAX(last_arrival), 0), COALESCE(MAX(written_off), 0), COALESCE(MAX(twice), 0), COALESCE(MAX(counted_since), 0),
       EXISTS (SELECT 1 FROM user_coupon WHERE coupon_id = ?), EXISTS (SELECT 1 FROM application_outcome WHERE coupon_id = ?),
       EXISTS (SELECT 1 FROM settlement WHERE coupon_id = ?)
FROM promise WHERE coupon_id = ?`

// settledSQL finds the highest arrival of each outcome by an index.
const settledSQL = `
SELECT COUNT(*), COUNT(run_id),
       (SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ?),
       (SELECT COALESCE(MAX(last_arrival), 0) FROM settlement WHERE coupon_id = ?),
       (SELECT MAX(applied_at) FROM application_outcome WHERE coupon_id = ? AND outcome = 'NOT_SELECTED'),
       (SELECT MAX(applied_at) FROM application_outcome WHERE coupon_id = ? AND outcome = 'REJECTED'),
       (SELECT MAX(applied_at) FROM application_outcome WHERE coupon_id = ? AND outcome = 'ALREADY_ISSUED')
FROM user_coupon WHERE coupon_id = ?`

// ReadRecorded counts what MySQL has recorded of a coupon. settledUpTo is the highest arrival with an outcome.
func ReadRecorded(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (a Account, settledUpTo coupon.Arrival, err error) {
	err = tx.QueryRowContext(ctx, promisedSQL, couponID, couponID, couponID, couponID).
		Scan(&a.Accepted, &a.LastArrival, &a.WrittenOff, &a.AskedAgain, &a.CountedSince, &a.Past.Held, &a.Past.Recorded, &a.Past.Settled)
	if err == nil && a.Past != (Past{}) {
		var outcomes [3]sql.NullTime
		err = tx.QueryRowContext(ctx, settledSQL, couponID, couponID, couponID, couponID, couponID, couponID).
			Scan(&a.Past.Coupons, &a.Issued, &a.Outcomes, &settledUpTo, &outcomes[0], &outcomes[1], &outcomes[2])
		for _, at := range outcomes {
			if at.Valid {
				settledUpTo = max(settledUpTo, coupon.ArrivalAt(at.Time))
			}
		}
	}
	return a, settledUpTo, mysqltx.Wrap(err, "count outcomes of coupon %d", couponID)
}

// count reads MySQL before Redis. Even under the coupon's lock, applications arrive and API pods raise the promise row. A promise
// row that was read after Redis would include later applications, and these would look lost.
func (l *Ledger) count(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (Account, candidates.Counts, error) {
	recorded, settledUpTo, err := ReadRecorded(ctx, tx, couponID)
	if err != nil {
		return Account{}, candidates.Counts{}, err
	}
	return l.AddUp(ctx, tx, couponID, recorded, settledUpTo, func(Entry) {})
}

// AddUp adds the applications in Redis to the recorded counts. An application up to settledUpTo can be settled already: the
// clean-up is pending, or Redis fell back to an older state. AddUp compares these applications one by one and calls visit for
// each. It also counts them there, because a run can clean up meanwhile; no run removes applications above settledUpTo.
func (l *Ledger) AddUp(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, a Account, settledUpTo coupon.Arrival, visit func(Entry)) (Account, candidates.Counts, error) {
	counts, err := l.Store.Counts(ctx, couponID, settledUpTo)
	if err != nil {
		return Account{}, counts, err
	}
	a.Accepted, a.LastArrival = max(a.Accepted, counts.Accepted), max(a.LastArrival, counts.LastArrival)
	a.AskedAgain, a.CountedSince = max(a.AskedAgain, counts.Twice), max(a.CountedSince, counts.Since)
	a.Waiting, a.UnderReview = counts.WaitingAfter, counts.DLQAfter
	if counts.Waiting == counts.WaitingAfter && counts.DLQ == counts.DLQAfter {
		return a, counts, nil
	}
	err = l.walk(ctx, tx, couponID, settledUpTo, func(e Entry) {
		if e.Source == coupon.SourceQueue {
			a.Waiting++
		} else {
			a.UnderReview++
		}
		if e.Settled() {
			a.Twice++
		}
		visit(e)
	})
	return a, counts, err
}
