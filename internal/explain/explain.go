// Package explain explains the state of one user's applications for one coupon. It reads Redis and MySQL and writes
// nothing. If one of them cannot be reached, the explanation says so and has the facts from the other.
package explain

import (
	"context"
	"database/sql"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/users"
)

// Store reads what an explanation needs from Redis. candidates.Store implements it.
type Store interface {
	ledger.Store
	Watch(ctx context.Context, couponID coupon.CouponID, upTo coupon.Arrival,
		users ...coupon.UserID) (candidates.Watch, error)
}

type Explainer struct {
	DB    *sql.DB
	Redis Store
	Users *users.Directory
	Now   func() time.Time
	Zone  func(ctx context.Context) (*time.Location, error) // time zone of the nights

	IssueInterval time.Duration // time between the looks of settle serve
}

// Limits of the rows about one user. A person reads fewer.
const (
	maxOutcomes = 40
	maxRuns     = 60
	maxAudits   = 60
	maxLog      = 100
	MaxEvents   = 200 // events in a timeline
)

type Explanation struct {
	Facts      Facts      `json:"facts"`
	Events     []Event    `json:"events"`  // in order of time
	LeftOut    int        `json:"leftOut"` // at least this many older events are left out
	Conclusion Conclusion `json:"conclusion"`

	Unread []error `json:"-"` // the errors because of which facts are missing
}

// Explain reads the facts. If it finds no application, it reads them again: an application that a settlement moves from
// NOT_SELECTED to the DLQ is in neither place for a moment, and one that came meanwhile may be in the journal already.
// Failures of Redis and MySQL are in Unread.
func (e *Explainer) Explain(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (*Explanation, error) {
	x, err := e.explain(ctx, couponID, user)
	if err != nil || len(x.Unread) > 0 {
		return x, err
	}
	if is := x.Facts.standing().Is; is == coupon.StandingNone || is == coupon.StandingLost {
		x, err = e.explain(ctx, couponID, user)
	}
	return x, err
}

func (e *Explainer) explain(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (*Explanation, error) {
	// Redis is read before MySQL, because an application that leaves Redis is already in MySQL.
	zone, noZone := e.Zone(ctx)
	found, err := e.Redis.Watch(ctx, couponID, 0, user)
	withRedis := func() *Explanation {
		facts := Facts{Subject: Subject{couponID, user, e.Now().UTC()}, Applications: []Application{},
			Runs: []RunFacts{}}
		x := &Explanation{Facts: facts, Events: []Event{}}
		if err != nil {
			x.Facts.NoRedis = x.unread(err)
		} else {
			x.Facts.addRedis(found, zone)
		}
		return x
	}
	x := withRedis()
	unread := noZone // without the zone, MySQL is away
	if unread == nil {
		unread = e.readMySQL(ctx, x)
	}
	switch err := unread; {
	case text.Is(err, text.NoSuchCoupon), ctx.Err() != nil && err != nil:
		return nil, err
	case err != nil:
		x = withRedis() // drops the facts that the failed read of MySQL has added
		x.Facts.NoMySQL = x.unread(err)
	case x.Facts.Published != nil:
		a, err := (&ledger.Ledger{Store: e.Redis}).AccountOf(ctx, e.DB, couponID)
		if err != nil {
			x.Facts.NoAccount = x.unread(err)
		} else {
			x.Facts.Account, x.Facts.Gap = &a, a.Gap()
		}
	}
	x.Facts.dropUncertainOrder()
	x.Facts.dropPlans(e.IssueInterval)
	x.Conclusion = Conclude(&x.Facts)
	x.addEvents()
	return x, nil
}

func (x *Explanation) unread(err error) string {
	x.Unread = append(x.Unread, err)
	return err.Error()
}
