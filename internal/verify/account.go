package verify

import (
	"context"
	"database/sql"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// Account is where the accepted applications of one coupon are. An application both in Redis and settled in MySQL
// counts once.
type Account struct {
	// Applications ever accepted, as Redis counts them. While a restore is still to come, it is the higher count of
	// Redis and the journal, and at least what is accounted for.
	Accepted    int64 `json:"accepted"`
	Waiting     int64 `json:"waiting"`         // in the queue
	UnderReview int64 `json:"underReview"`     // in the DLQ
	Issued      int64 `json:"issued"`          // coupons that runs issued; coupons given by hand are not counted
	Outcomes    int64 `json:"outcomes"`        // rows of application_outcome
	InBoth      int64 `json:"inBoth"`          // applications that are settled in MySQL, but still in Redis
	WrittenOff  int64 `json:"writtenOff"`      // lost promises that an operator has accepted
	Erased      int64 `json:"erased,omitzero"` // outcomes of people who were forgotten; their rows were deleted

	LastArrival coupon.Arrival `json:"lastArrival"` // highest arrival that Redis, journal or settlements name
}

// found is how many of the accepted are known: decided, forgotten, written off, or still in Redis without a decision.
func (a Account) found() int64 {
	undecided := a.Waiting + a.UnderReview - a.InBoth
	return a.Issued + a.Outcomes + a.Erased + a.WrittenOff + undecided
}

// Gap is the number of lost promises; negative: of applications without a promise.
func (a Account) Gap() int64 { return a.Accepted - a.found() }

func (a Account) String() string {
	return audit.Figures{Accepted: a.Accepted, Waiting: a.Waiting, UnderReview: a.UnderReview, Issued: a.Issued,
		Outcomes: a.Outcomes, InBoth: a.InBoth, WrittenOff: a.WrittenOff, Erased: a.Erased}.In(text.English)
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

const outcomesSQL = "SELECT COUNT(*), MAX(applied_at) FROM application_outcome WHERE coupon_id = ?"

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
	if c.look, err = c.verifier.Store.Observe(ctx, c.Coupon, c.settledUpTo()); err != nil {
		return err
	}
	if last := &c.look.Last; *last < 0 || *last > coupon.MaxArrival {
		*last = coupon.MaxArrival // somebody wrote a number that Redis cannot return as it is
	}
	a.Accepted = c.look.Accepted
	a.LastArrival = max(c.look.Last, c.books.upTo, c.books.settledUpTo)
	a.Waiting, a.UnderReview = c.look.WaitingAfter, c.look.DLQAfter // checkRedis adds those up to settledUpTo
	return nil
}

// settledUpTo is the highest arrival that a row of MySQL has. Nothing above it is settled.
func (c *check) settledUpTo() coupon.Arrival { return max(c.lastIssued, c.lastOutcome) }
