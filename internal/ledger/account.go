// Package ledger counts the accepted applications of each coupon for the engine: a settlement holds a coupon whose
// account does not add up. Package verify counts them for `settle verify`, in another way.
package ledger

import (
	"context"
	"database/sql"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/text"
)

// Store reads what the ledger needs from Redis. candidates.Store implements it.
type Store interface {
	Observe(ctx context.Context, couponID coupon.CouponID, after coupon.Arrival) (coupon.Look, error)
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
	Accepted    int64 `json:"accepted"`    // applications that this state of Redis has accepted
	Waiting     int64 `json:"waiting"`     // in the queue
	UnderReview int64 `json:"underReview"` // in the DLQ
	Issued      int64 `json:"issued"`      // coupons that runs issued; coupons given by hand are not counted
	Outcomes    int64 `json:"outcomes"`    // rows of application_outcome
	InBoth      int64 `json:"inBoth"`      // applications that are settled in MySQL, but still in Redis
	WrittenOff  int64 `json:"writtenOff"`  // lost promises that an operator has accepted

	Erased int64 `json:"erased,omitzero"` // outcomes of people who were forgotten; their rows were deleted

	LastArrival coupon.Arrival `json:"lastArrival"` // highest arrival that the coupon has ever given

	Books  promise.Books `json:"-"` // the sums of table settled, and the journal
	Line   coupon.Line   `json:"-"` // what Redis says
	Sold   bool          `json:"-"` // Redis answers SOLD_OUT
	Past   Past          `json:"-"`
	Sums   Sums          `json:"-"` // counted from the rows, or read
	Stored Sums          `json:"-"` // the row of table settled
}

// Past tells which tables in MySQL have rows of a coupon. Before the first settlement most coupons have none.
type Past struct {
	Held     bool  // user_coupon has rows, issued by runs or given by hand
	Coupons  int64 // number of rows in user_coupon
	Recorded bool  // application_outcome has rows
	Settled  bool  // settlement has rows
	Pending  bool  // the clean-up of one of them is pending
}

// Settled returns how many promises MySQL accounts for.
func (a Account) Settled() int64 { return a.Issued + a.Outcomes + a.WrittenOff + a.Erased }

// Gap returns the number of lost promises. A negative number counts applications without a promise. A server that was
// not compared with the journal, or whose state has expired, counts too few: there, no such number is known.
func (a Account) Gap() int64 {
	gap := a.Accepted - (a.Waiting + a.UnderReview + a.Settled() - a.InBoth)
	if gap < 0 && a.RestoreDue() == promise.NewServer {
		return 0
	}
	return gap
}

// RestoreDue returns why a restore is due, but for missing marks.
func (a Account) RestoreDue() promise.Cause { return a.Books.Due(a.Line) }

// LacksMarks reports whether Redis marks fewer users as issued than have the coupon, though no clean-up is pending.
func (a Account) LacksMarks() bool { return a.Line.Issued < a.Issued && !a.Past.Pending }

// Figures returns the numbers that add up to the gap.
func (a Account) Figures() audit.Figures {
	return audit.Figures{Accepted: a.Accepted, Waiting: a.Waiting, UnderReview: a.UnderReview, Issued: a.Issued,
		Outcomes: a.Outcomes, InBoth: a.InBoth, WrittenOff: a.WrittenOff, Erased: a.Erased}
}

func (a Account) String() string { return a.Figures().In(text.English) }

// Account counts one coupon within tx. The count is exact only if tx holds the lock of the coupon's row.
func (l *Ledger) Account(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (Account, error) {
	a, _, err := l.count(ctx, tx, couponID)
	return a, err
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

const promisedSQL = "SELECT " + promise.Columns + `, COALESCE(s.last_issued, 0),
       EXISTS (SELECT 1 FROM user_coupon u WHERE u.coupon_id = o.id), EXISTS (SELECT 1 FROM application_outcome a
         WHERE a.coupon_id = o.id),
       EXISTS (SELECT 1 FROM settlement t WHERE t.coupon_id = o.id),
       EXISTS (SELECT 1 FROM settlement t WHERE t.coupon_id = o.id AND t.cleaned_at IS NULL)
FROM (SELECT ? AS id) o LEFT JOIN journal j ON j.coupon_id = o.id LEFT JOIN settled s ON s.coupon_id = o.id`

// readPromised reads the journal, the sums, and which tables have rows of a coupon.
func readPromised(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (a Account, err error) {
	b := &a.Books
	err = tx.QueryRowContext(ctx, promisedSQL, couponID).Scan(append(b.Fields(), &a.Stored.LastIssued, &a.Past.Held,
		&a.Past.Recorded, &a.Past.Settled, &a.Past.Pending)...)
	a.Stored.Issued, a.Stored.Concluded, a.Stored.SettledUpTo = b.Issued, b.Concluded, b.SettledUpTo
	a.WrittenOff, a.Erased = b.WrittenOff, b.Erased
	return a, mysqltx.Wrap(err, "read journal and sums of coupon %d", couponID)
}

func (a *Account) useSums(s Sums) {
	a.Sums, a.Issued, a.Outcomes = s, s.Issued, s.Concluded
	a.Books.Issued, a.Books.Concluded = s.Issued, s.Concluded
}

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

// count reads MySQL before Redis: under the coupon's lock only the clean-up of a settlement moves anybody, and it is
// seen entry by entry.
func (l *Ledger) count(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (Account, coupon.Look, error) {
	recorded, err := ReadRecorded(ctx, tx, couponID)
	if err != nil {
		return Account{}, coupon.Look{}, err
	}
	return l.AddUp(ctx, tx, couponID, recorded, func(Entry) {})
}

// AddUp adds the applications in Redis to the counts from MySQL. Those above SettledUpTo are unsettled, and no run
// removes them. Earlier ones can be settled, because the clean-up is pending or Redis fell back to an older state:
// AddUp compares each of them with MySQL and calls visit for it.
func (l *Ledger) AddUp(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, a Account,
	visit func(Entry)) (Account, coupon.Look, error) {
	look, err := l.Store.Observe(ctx, couponID, a.Sums.SettledUpTo)
	if err != nil {
		return Account{}, look, err
	}
	a, err = l.addUp(ctx, tx, couponID, a, look, visit)
	return a, look, err
}

// read takes over what Redis says.
func (a *Account) read(look coupon.Look) {
	a.Accepted, a.LastArrival, a.Sold, a.Line = look.Accepted, max(look.Last, a.Books.Highest()), look.Sold, look.Line
}

func (l *Ledger) addUp(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, a Account, look coupon.Look,
	visit func(Entry)) (Account, error) {
	a.read(look)
	a.Waiting, a.UnderReview = look.WaitingAfter, look.DLQAfter
	if look.Waiting == look.WaitingAfter && look.DLQ == look.DLQAfter {
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
