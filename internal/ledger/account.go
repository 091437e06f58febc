// Package ledger counts the accepted applications of each coupon for the engine: a settlement holds a coupon whose
// account does not add up. Package verify counts them for `settle verify`, in another way.
package ledger

import (
	"context"
	"database/sql"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// Store reads what the ledger needs from Redis. candidates.Store implements it.
type Store interface {
	Counts(ctx context.Context, couponID coupon.CouponID, after coupon.Arrival) (candidates.Counts, error)
	Page(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor,
		cutoff time.Time) ([]coupon.Application, coupon.Cursor, error)
}

type Ledger struct {
	Store Store

	walked walks
}

// Account counts the accepted applications of one coupon by where they are now. Invariant 4: accepted = waiting + under
// review + issued by runs + recorded outcomes. An application both in Redis and settled in MySQL counts once.
type Account struct {
	Accepted    int64 `json:"accepted"`    // applications ever accepted; if Redis and MySQL differ, the higher count
	Waiting     int64 `json:"waiting"`     // in the queue
	UnderReview int64 `json:"underReview"` // in the DLQ
	Issued      int64 `json:"issued"`      // coupons that runs issued; coupons given by hand are not counted
	Outcomes    int64 `json:"outcomes"`    // rows of application_outcome
	InBoth      int64 `json:"twice"`       // applications that are settled in MySQL, but still in Redis
	WrittenOff  int64 `json:"writtenOff"`  // lost promises that an operator has accepted

	Erased int64 `json:"erased,omitzero"` // outcomes of people who were forgotten; their rows were deleted

	// AskedAgain is how many applications Accepted counts twice. A failover lost the application, the user applied
	// again, and an API pod then put back the first arrival.
	AskedAgain int64 `json:"askedAgain"`
	Arrivals

	Server Server `json:"-"`
	Sold   bool   `json:"-"` // Redis answers SOLD_OUT
	Past   Past   `json:"-"`
	Sums   Sums   `json:"-"` // counted from the rows, or read
	Stored Sums   `json:"-"` // the row of table settled
}

// Server is what the Redis server of a coupon says of the promises that it took over.
type Server struct {
	Base     int64          // promises of earlier servers, which this one may lack
	Since    coupon.Arrival // when it began to count
	Restored coupon.Arrival // Since of the last server that was compared with the journal
	Missing  int64          // promises that were missing after that comparison
	Gone     int64          // accepted applications that it no longer has: they are settled or lost
}

type Arrivals struct {
	CountedSince coupon.Arrival `json:"-"`           // start of the epoch in which AskedAgain was counted
	LastArrival  coupon.Arrival `json:"lastArrival"` // highest arrival that the coupon has ever given
}

// Past tells which tables in MySQL have rows of a coupon. Before the first settlement most coupons have none.
type Past struct {
	Held     bool  // user_coupon has rows, issued by runs or given by hand
	Coupons  int64 // number of rows in user_coupon
	Recorded bool  // application_outcome has rows
	Settled  bool  // settlement has rows
	Pending  bool  // the clean-up of one of them is pending
}

// Gap returns the number of lost promises. A negative number counts applications without a promise.
func (a Account) Gap() int64 {
	return a.Accepted - a.AskedAgain - a.WrittenOff - (a.Waiting + a.UnderReview + a.Issued + a.Outcomes +
		a.Erased - a.InBoth)
}

// RestoreDue reports whether promises may have been lost since the journal was last compared with Redis. It is so, too,
// if those that were missing then are accounted for: as many that are lost later would be taken for them.
func (a Account) RestoreDue() bool {
	if a.Server.Restored != a.Server.Since {
		return a.Server.Base > 0 || a.Gap() > 0
	}
	return max(a.Gap(), 0) != a.Server.Missing
}

// Figures returns the numbers that add up to the gap.
func (a Account) Figures() audit.Figures {
	return audit.Figures{Accepted: a.Accepted, Waiting: a.Waiting, UnderReview: a.UnderReview, Issued: a.Issued,
		Outcomes: a.Outcomes, InBoth: a.InBoth, WrittenOff: a.WrittenOff, AskedAgain: a.AskedAgain, Erased: a.Erased}
}

func (a Account) String() string { return a.Figures().In(text.English) }

// Account counts one coupon within tx. The count is exact only if tx holds the lock of the coupon's row.
func (l *Ledger) Account(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (Account, error) {
	a, _, err := l.count(ctx, tx, couponID)
	return a, err
}

// Vanished returns how many more promises are missing than in a, an earlier account of the same transaction. It counts
// the rows of MySQL only if Redis has fewer of the accepted applications than then: a clean-up may have removed them.
func (l *Ledger) Vanished(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, a Account) (int64, error) {
	counts, err := l.Store.Counts(ctx, couponID, 0)
	if err != nil || gone(counts) <= a.Server.Gone {
		return 0, err
	}
	now, err := l.Account(ctx, tx, couponID)
	return max(now.Gap()-a.Gap(), 0), err
}

// UnderLock makes a SELECT lock the coupon's row against settlements and changes until the transaction ends. The lock
// is shared, because a read-only server refuses FOR UPDATE.
const UnderLock = " LOCK IN SHARE MODE"

const existsSQL = "SELECT id FROM coupon WHERE id = ?"

// AccountOf counts one coupon. If it finds a gap, it counts again under the lock of the coupon's row.
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
SELECT COALESCE(p.accepted, 0), COALESCE(p.last_arrival, 0), COALESCE(p.written_off, 0), COALESCE(p.twice, 0),
    COALESCE(p.counted_since, 0), COALESCE(p.erased, 0),
       COALESCE(s.issued, 0), COALESCE(s.concluded, 0), COALESCE(s.settled_up_to, 0), COALESCE(s.last_issued, 0),
       EXISTS (SELECT 1 FROM user_coupon u WHERE u.coupon_id = o.id), EXISTS (SELECT 1 FROM application_outcome a
         WHERE a.coupon_id = o.id),
       EXISTS (SELECT 1 FROM settlement t WHERE t.coupon_id = o.id),
       EXISTS (SELECT 1 FROM settlement t WHERE t.coupon_id = o.id AND t.cleaned_at IS NULL)
FROM (SELECT ? AS id) o LEFT JOIN promise p ON p.coupon_id = o.id LEFT JOIN settled s ON s.coupon_id = o.id`

// readPromised reads the promise, the sums, and which tables have rows of a coupon.
func readPromised(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (a Account, err error) {
	fields := []any{&a.Accepted, &a.LastArrival, &a.WrittenOff, &a.AskedAgain, &a.CountedSince, &a.Erased}
	fields = append(append(fields, a.Stored.fields()...), &a.Past.Held, &a.Past.Recorded, &a.Past.Settled,
		&a.Past.Pending)
	err = tx.QueryRowContext(ctx, promisedSQL, couponID).Scan(fields...)
	return a, mysqltx.Wrap(err, "read promise and sums of coupon %d", couponID)
}

func (a *Account) useSums(s Sums) { a.Sums, a.Issued, a.Outcomes = s, s.Issued, s.Concluded }

// settledSQL asks for each outcome separately, because an index then gives the highest arrival.
const settledSQL = `
SELECT COUNT(*), COUNT(run_id),
       (SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ?),
       (SELECT COALESCE(MAX(last_arrival), 0) FROM settlement WHERE coupon_id = ?),
       (SELECT MAX(applied_at) FROM application_outcome WHERE coupon_id = ? AND outcome = 'NOT_SELECTED'),
       (SELECT MAX(applied_at) FROM application_outcome WHERE coupon_id = ? AND outcome = 'REJECTED'),
       (SELECT MAX(applied_at) FROM application_outcome WHERE coupon_id = ? AND outcome = 'ALREADY_ISSUED')
FROM user_coupon WHERE coupon_id = ?`

// ReadRecorded counts the rows of one coupon in MySQL.
func ReadRecorded(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (Account, error) {
	a, err := readPromised(ctx, tx, couponID)
	if err != nil || a.Past == (Past{}) {
		return a, err
	}
	var counted Sums
	var outcomes [3]sql.NullTime
	err = tx.QueryRowContext(ctx, settledSQL, couponID, couponID, couponID, couponID, couponID, couponID).
		Scan(&a.Past.Coupons, &counted.Issued, &counted.Concluded, &counted.LastIssued, &outcomes[0], &outcomes[1],
			&outcomes[2])
	counted.SettledUpTo = counted.LastIssued
	for _, at := range outcomes {
		if at.Valid {
			counted.SettledUpTo = max(counted.SettledUpTo, coupon.ArrivalAt(at.Time))
		}
	}
	a.useSums(counted)
	return a, mysqltx.Wrap(err, "count outcomes of coupon %d", couponID)
}

// count reads MySQL before Redis. Applications arrive even under the coupon's lock, and API pods then raise the promise
// row. If Redis were read first, applications that arrive between the two reads would look lost.
func (l *Ledger) count(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (Account, candidates.Counts, error) {
	recorded, err := ReadRecorded(ctx, tx, couponID)
	if err != nil {
		return Account{}, candidates.Counts{}, err
	}
	return l.AddUp(ctx, tx, couponID, recorded, func(Entry) {})
}

// AddUp adds the applications in Redis to the counts from MySQL. Those above SettledUpTo are unsettled, and no run
// removes them. Earlier ones can be settled, because the clean-up is pending or Redis fell back to an older state:
// AddUp compares each of them with MySQL and calls visit for it.
func (l *Ledger) AddUp(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, a Account,
	visit func(Entry)) (Account, candidates.Counts, error) {
	counts, err := l.Store.Counts(ctx, couponID, a.Sums.SettledUpTo)
	if err != nil {
		return Account{}, counts, err
	}
	a, err = l.addUp(ctx, tx, couponID, a, counts, visit)
	return a, counts, err
}

// lift raises the promise in MySQL to that in Redis.
func (a *Account) lift(counts candidates.Counts) {
	a.Accepted, a.LastArrival = max(a.Accepted, counts.Accepted), max(a.LastArrival, counts.LastArrival)
	a.AskedAgain, a.CountedSince = max(a.AskedAgain, counts.Twice), max(a.CountedSince, counts.Since)
	a.Sold = counts.Sold
	a.Server = Server{Base: counts.Base, Since: counts.Since, Restored: counts.Restored, Missing: counts.Missing,
		Gone: gone(counts)}
}

func gone(c candidates.Counts) int64 { return c.Accepted - c.Twice - c.Waiting - c.DLQ }

func (l *Ledger) addUp(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, a Account, counts candidates.Counts,
	visit func(Entry)) (Account, error) {
	a.lift(counts)
	a.Waiting, a.UnderReview = counts.WaitingAfter, counts.DLQAfter
	if counts.Waiting == counts.WaitingAfter && counts.DLQ == counts.DLQAfter {
		return a, nil
	}
	err := l.walk(ctx, tx, couponID, a.Sums.SettledUpTo, func(e Entry) {
		if e.Source == coupon.SourceQueue {
			a.Waiting++
		} else {
			a.UnderReview++
		}
		if e.Settled() {
			a.InBoth++
		}
		visit(e)
	})
	return a, err
}
