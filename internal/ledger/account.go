package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/users"
)

// Store is what the ledger reads of Redis; candidates.Store has it.
type Store interface {
	Figures(ctx context.Context, couponID coupon.CouponID, behind int64) (candidates.Figures, error)
	Page(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor, cutoff time.Time) ([]coupon.Application, coupon.Cursor, error)
	Spans(ctx context.Context, couponID coupon.CouponID, bounds []int64) (waiting, dlq []int64, err error)
	MarkedIssued(ctx context.Context, couponID coupon.CouponID, after uint64) (users []string, next uint64, err error)
	MarkedRejected(ctx context.Context, couponID coupon.CouponID, after uint64) (users []string, next uint64, err error)
	Inspect(ctx context.Context, couponID coupon.CouponID) (candidates.Inspection, error)
	EachPage(ctx context.Context, visit func(coupons []coupon.CouponID) error) error
	Now(ctx context.Context) (time.Time, error)
	LoadCatalog(ctx context.Context) ([]byte, error)
}

// Ledger reads one deployment.
type Ledger struct {
	Store Store
	Users *users.Directory

	until atomic.Pointer[time.Time] // pods have had their time by then; see waitForPods
}

// Account is where the promises of one coupon are. Invariant 4: accepted = waiting + under review + issued by a run +
// recorded outcomes, where an application that stands in Redis and is settled in MySQL with the same arrival counts once.
type Account struct {
	Accepted    int64 `json:"accepted"`    // ever promised, by the higher of Redis's and MySQL's word
	Waiting     int64 `json:"waiting"`     // in the queue
	UnderReview int64 `json:"underReview"` // in the DLQ
	Issued      int64 `json:"issued"`      // coupons given by a run
	Outcomes    int64 `json:"outcomes"`    // recorded in application_outcome
	Twice       int64 `json:"twice"`       // both in Redis and settled in MySQL: a clean-up still to come
	WrittenOff  int64 `json:"writtenOff"`  // lost promises that an operator has accepted

	// AskedAgain is how many of Accepted were counted by two servers: the first was taken over from and took the application
	// with it, the user applied again, and the pod that had seen the first arrival gave it back.
	AskedAgain int64 `json:"askedAgain"`

	CountedSince coupon.Arrival `json:"-"` // when the server began to count that counted both, µs since 1970

	LastArrival coupon.Arrival `json:"lastArrival"` // highest ever given, µs since 1970

	Past Past `json:"-"`
}

// Past is what there is of a coupon in MySQL at all: of most nothing, when they are first settled.
type Past struct {
	Held     bool  // somebody holds the coupon, by a run or by hand
	Coupons  int64 // how many do: rows of user_coupon
	Recorded bool  // there are other outcomes
	Settled  bool  // there are records of settlements
}

// Gap is how many promises were lost; below zero, how many applications nobody promised.
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

// Account adds up one coupon inside tx, which must hold its lock: what is settled is read before Redis is.
func (l *Ledger) Account(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (Account, error) {
	a, _, err := l.count(ctx, tx, couponID)
	return a, err
}

const promisedSQL = `
SELECT COALESCE(MAX(accepted), 0), COALESCE(MAX(last_arrival), 0), COALESCE(MAX(written_off), 0), COALESCE(MAX(twice), 0), COALESCE(MAX(counted_since), 0),
       EXISTS (SELECT 1 FROM user_coupon WHERE coupon_id = ?), EXISTS (SELECT 1 FROM application_outcome WHERE coupon_id = ?),
       EXISTS (SELECT 1 FROM settlement WHERE coupon_id = ?)
FROM promise WHERE coupon_id = ?`

// settledSQL counts, and finds the highest arrival of each kind, for which there are indexes. All coupons and those of runs are
// counted on one walk.
const settledSQL = `
SELECT COUNT(*), COUNT(run_id),
       (SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ?),
       (SELECT COALESCE(MAX(last_arrival), 0) FROM settlement WHERE coupon_id = ?),
       (SELECT MAX(applied_at) FROM application_outcome WHERE coupon_id = ? AND outcome = 'NOT_SELECTED'),
       (SELECT MAX(applied_at) FROM application_outcome WHERE coupon_id = ? AND outcome = 'REJECTED'),
       (SELECT MAX(applied_at) FROM application_outcome WHERE coupon_id = ? AND outcome = 'ALREADY_ISSUED')
FROM user_coupon WHERE coupon_id = ?`

// recorded reads what MySQL holds of a coupon. settledUpTo is the highest arrival that it holds an outcome of: behind it
// nothing in Redis can be settled.
func recorded(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (a Account, settledUpTo coupon.Arrival, err error) {
	err = tx.QueryRowContext(ctx, promisedSQL, couponID, couponID, couponID, couponID).
		Scan(&a.Accepted, &a.LastArrival, &a.WrittenOff, &a.AskedAgain, &a.CountedSince, &a.Past.Held, &a.Past.Recorded, &a.Past.Settled)
	if err == nil && a.Past != (Past{}) {
		var outcomes [3]sql.NullTime
		err = tx.QueryRowContext(ctx, settledSQL, couponID, couponID, couponID, couponID, couponID, couponID).
			Scan(&a.Past.Coupons, &a.Issued, &a.Outcomes, &settledUpTo, &outcomes[0], &outcomes[1], &outcomes[2])
		for _, at := range outcomes {
			if at.Valid {
				settledUpTo = max(settledUpTo, at.Time.UnixMicro())
			}
		}
	}
	if err != nil {
		return Account{}, 0, fmt.Errorf("account for coupon %d: %w", couponID, err)
	}
	return a, settledUpTo, nil
}

// count adds up. The order matters, since the coupon's lock keeps what is settled as it is and no lock keeps applications
// from arriving: the promises that MySQL remembers first, then Redis. The catalog lifts the promise row at any time; read
// after Redis, it would name applications that Redis had not been asked for yet, and they would look lost.
//
// What stands in Redis may be settled already, before a clean-up or in a Redis that fell back to an older state. It is
// found by walking the line as far as anything is settled, and who stands there is counted on the way, since another
// run may clean up meanwhile. Nobody is taken away behind.
func (l *Ledger) count(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (a Account, f candidates.Figures, err error) {
	a, settled, err := recorded(ctx, tx, couponID)
	if err != nil {
		return Account{}, f, err
	}
	return l.addUp(ctx, tx, couponID, a, settled, func(standing) {})
}

// addUp adds what stands in Redis to what is recorded. seen is told of everybody who stands as far as anything is settled.
func (l *Ledger) addUp(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, a Account, settled int64, seen func(standing)) (Account, candidates.Figures, error) {
	f, err := l.Store.Figures(ctx, couponID, settled)
	if err != nil {
		return Account{}, f, err
	}
	a.Accepted, a.LastArrival = max(a.Accepted, f.Accepted), max(a.LastArrival, f.LastArrival)
	a.AskedAgain, a.CountedSince = max(a.AskedAgain, f.Twice), max(a.CountedSince, f.Since)
	a.Waiting, a.UnderReview = f.WaitingBehind, f.DLQBehind
	if f.Waiting == f.WaitingBehind && f.DLQ == f.DLQBehind {
		return a, f, nil
	}
	err = l.walk(ctx, tx, couponID, settled, func(s standing) {
		if s.Source == coupon.SourceQueue {
			a.Waiting++
		} else {
			a.UnderReview++
		}
		if s.settled() {
			a.Twice++
		}
		seen(s)
	})
	return a, f, err
}

// standing is one application in Redis and what MySQL says of it.
type standing struct {
	coupon.Application
	user     coupon.UserID
	active   bool // the user exists and is active
	holds    bool // the user holds the coupon, by whatever way
	issued   bool // MySQL holds a coupon of this very application
	recorded bool // MySQL holds another outcome of this very application

	notSelected bool // that outcome is NOT_SELECTED
}

func (s standing) settled() bool { return s.issued || s.recorded }

// takenBack: put under review while its NOT_SELECTED record was being taken back, which did not commit.
func (s standing) takenBack() bool { return s.notSelected && s.Source != coupon.SourceQueue }

// appliedAt is the arrival of a JSON_TABLE j as DATETIME(6); FROM_UNIXTIME would lose microseconds.
const appliedAt = `CAST('1970-01-01' AS DATETIME(6)) + INTERVAL j.arrival MICROSECOND`

// In standingSQL, users.Table puts the shop's table.
const standingSQL = `
SELECT j.n, {active},
       EXISTS (SELECT 1 FROM user_coupon h WHERE h.coupon_id = ? AND h.user_id = j.user_id),
       EXISTS (SELECT 1 FROM user_coupon c WHERE c.coupon_id = ? AND c.user_id = j.user_id AND c.run_id IS NOT NULL
               AND c.applied_at = ` + appliedAt + `),
       o.outcome IS NOT NULL, COALESCE(o.outcome = 'NOT_SELECTED', FALSE), COALESCE(o.reason, '')
FROM JSON_TABLE(?, '$[*]' COLUMNS (
	n FOR ORDINALITY, user_id BIGINT UNSIGNED PATH '$[0]', arrival BIGINT UNSIGNED PATH '$[1]')) AS j
LEFT JOIN {users} ON {id} = j.user_id AND j.user_id <= {last}
LEFT JOIN application_outcome o FORCE INDEX (PRIMARY) ON o.coupon_id = ? AND o.user_id = j.user_id
     AND o.applied_at = ` + appliedAt + `
ORDER BY j.n`

// Malformed is how the reason of a record begins that was made for a member that is no user id: all of them are user 0.
func Malformed(member string) string {
	const most = 400 // of the 500 letters of a reason
	text := []rune(strconv.Quote(strings.ToValidUTF8(member, "\uFFFD")))
	return string(text[:min(len(text), most)])
}

// walk visits everything that stands in Redis up to an arrival, with MySQL's word on it. A member that is no user id is
// user 0, whom MySQL knows from what was dropped.
func (l *Ledger) walk(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, upTo coupon.Arrival, visit func(standing)) error {
	directory, err := l.Users.Table(ctx, tx)
	if err != nil {
		return fmt.Errorf("walk the line of coupon %d: %w", couponID, err)
	}
	query, end := directory.SQL(standingSQL), time.UnixMicro(upTo+1)
	var cursor coupon.Cursor
	for {
		page, next, err := l.Store.Page(ctx, couponID, cursor, end)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return nil
		}
		cursor = next
		if err := visitPage(ctx, tx, query, couponID, page, visit); err != nil {
			return fmt.Errorf("walk the line of coupon %d: %w", couponID, err)
		}
	}
}

func visitPage(ctx context.Context, tx *sql.Tx, query string, couponID coupon.CouponID, page []coupon.Application, visit func(standing)) error {
	all := make([]standing, len(page))
	asked := []byte{'['}
	for i, e := range page {
		user, err := strconv.ParseUint(e.Member, 10, 64)
		if err != nil || strconv.FormatUint(user, 10) != e.Member {
			user = 0
		}
		all[i] = standing{Application: e, user: user}
		if i > 0 {
			asked = append(asked, ',')
		}
		asked = fmt.Appendf(asked, "[%d,%d]", user, e.Arrival)
	}
	rows, err := tx.QueryContext(ctx, query, couponID, couponID, string(append(asked, ']')), couponID)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		var reason string
		s := new(standing)
		if err := rows.Scan(&n, &s.active, &s.holds, &s.issued, &s.recorded, &s.notSelected, &reason); err != nil {
			return err
		}
		s.Application, s.user = all[n-1].Application, all[n-1].user
		if s.user == 0 {
			s.recorded = s.recorded && strings.HasPrefix(reason, Malformed(s.Member))
		}
		visit(*s)
	}
	return rows.Err()
}
