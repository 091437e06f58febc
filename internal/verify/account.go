package verify

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// Account is where the accepted applications of one coupon are. An application both in Redis and settled in MySQL
// counts once.
type Account struct {
	// Applications ever accepted; if Redis and MySQL differ, the higher count.
	Accepted    int64 `json:"accepted"`
	Waiting     int64 `json:"waiting"`         // in the queue
	UnderReview int64 `json:"underReview"`     // in the DLQ
	Issued      int64 `json:"issued"`          // coupons that runs issued; coupons given by hand are not counted
	Outcomes    int64 `json:"outcomes"`        // rows of application_outcome
	InBoth      int64 `json:"twice"`           // applications that are settled in MySQL, but still in Redis
	WrittenOff  int64 `json:"writtenOff"`      // lost promises that an operator has accepted
	Erased      int64 `json:"erased,omitzero"` // outcomes of people who were forgotten; their rows were deleted

	AskedAgain  int64          `json:"askedAgain"`  // how many applications two servers of Redis have counted
	LastArrival coupon.Arrival `json:"lastArrival"` // highest arrival that the coupon has ever given
}

// people is how many were accepted. A user whom two servers counted is one.
func (a Account) people() int64 { return a.Accepted - a.AskedAgain }

// found is how many of them are known: decided, forgotten, written off, or still in Redis without a decision.
func (a Account) found() int64 {
	undecided := a.Waiting + a.UnderReview - a.InBoth
	return a.Issued + a.Outcomes + a.Erased + a.WrittenOff + undecided
}

// Gap is the number of lost promises; negative: of applications without a promise.
func (a Account) Gap() int64 { return a.people() - a.found() }

func (a Account) String() string {
	return audit.Figures{Accepted: a.Accepted, Waiting: a.Waiting, UnderReview: a.UnderReview, Issued: a.Issued,
		Outcomes: a.Outcomes, InBoth: a.InBoth, WrittenOff: a.WrittenOff, AskedAgain: a.AskedAgain,
		Erased: a.Erased}.In(text.English)
}

func (a *Account) add(b Account) {
	a.Accepted += b.Accepted
	a.Waiting += b.Waiting
	a.UnderReview += b.UnderReview
	a.Issued += b.Issued
	a.Outcomes += b.Outcomes
	a.InBoth += b.InBoth
	a.WrittenOff += b.WrittenOff
	a.Erased += b.Erased
	a.AskedAgain += b.AskedAgain
	a.LastArrival = max(a.LastArrival, b.LastArrival)
}

// count adds an application that is in Redis.
func (a *Account) count(e entry) {
	if e.Source == coupon.SourceQueue {
		a.Waiting++
	} else {
		a.UnderReview++
	}
	if e.settled() {
		a.InBoth++
	}
}

const (
	promiseSQL  = "SELECT accepted, last_arrival, written_off, twice, erased FROM promise WHERE coupon_id = ?"
	outcomesSQL = "SELECT COUNT(*), MAX(applied_at) FROM application_outcome WHERE coupon_id = ?"
)

// readPromise reads what the coupon has promised. A coupon without a row has promised nothing that MySQL knows of.
func (c *check) readPromise(ctx context.Context) error {
	a := &c.Account
	err := c.tx.QueryRowContext(ctx, promiseSQL, c.Coupon).Scan(&a.Accepted, &a.LastArrival, &a.WrittenOff,
		&a.AskedAgain, &a.Erased)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return mysqltx.Wrap(err, "read promise")
}

// countOutcomes counts what MySQL has decided. checkIssued has counted the coupons.
func (c *check) countOutcomes(ctx context.Context) error {
	var last sql.NullTime
	c.Account.Issued = c.byRuns
	err := c.tx.QueryRowContext(ctx, outcomesSQL, c.Coupon).Scan(&c.Account.Outcomes, &last)
	c.lastOutcome = arrivalOf(last)
	return mysqltx.Wrap(err, "count outcomes")
}

// countRedis counts what is in Redis. It comes after what MySQL has promised and decided: an application that arrives
// meanwhile has raised the count of Redis, and one that leaves Redis meanwhile looks lost. The check is then repeated
// under the lock.
func (c *check) countRedis(ctx context.Context) (err error) {
	a := &c.Account
	if c.counts, err = c.verifier.Store.Counts(ctx, c.Coupon, c.settledUpTo()); err != nil {
		return err
	}
	a.Accepted, a.LastArrival = max(a.Accepted, c.counts.Accepted), max(a.LastArrival, c.counts.LastArrival)
	a.AskedAgain = max(a.AskedAgain, c.counts.Twice)
	a.Waiting, a.UnderReview = c.counts.WaitingAfter, c.counts.DLQAfter // checkRedis adds those up to settledUpTo
	return nil
}

// settledUpTo is the highest arrival that a row of MySQL has. Nothing above it is settled.
func (c *check) settledUpTo() coupon.Arrival { return max(c.lastIssued, c.lastOutcome) }
