// Package explain explains the state of one user's applications for one coupon: the facts of Redis and MySQL, a timeline, and a
// conclusion that contains only certain statements. It changes nothing. When a server is away, the explanation names it and has
// the facts of the other.
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

// Store is what an explanation reads of Redis; candidates.Store has it.
type Store interface {
	ledger.Store
	LookupUser(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (candidates.UserLookup, error)
}

type Explainer struct {
	DB        *sql.DB
	Redis     Store
	Users     *users.Directory
	Now       func() time.Time
	SettlesAt func(arrival time.Time) time.Time // the cutoff that settles an application of that instant
}

// Bounds of the rows about one user: more than a person reads.
const (
	maxOutcomes = 40
	maxRuns     = 60
	maxAudits   = 60
	// MaxEvents bounds a timeline.
	MaxEvents = 200
)

type Explanation struct {
	Facts      Facts      `json:"facts"`
	Events     []Event    `json:"events"`  // by time
	LeftOut    int        `json:"leftOut"` // older events, at least this many
	Conclusion Conclusion `json:"conclusion"`

	Unread []error `json:"-"` // why facts are missing
}

// Explain reads the facts. It reads them again when it finds no application, because an application that a settlement moves from
// NOT_SELECTED to the DLQ is in neither place for a moment. The error is text.NoSuchCoupon or that of ctx; failures of servers are in
// Unread.
func (e *Explainer) Explain(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (*Explanation, error) {
	x, err := e.explain(ctx, couponID, user)
	if err == nil && len(x.Unread) == 0 && len(x.Facts.Applications) == 0 && x.Facts.UserCoupon == nil {
		x, err = e.explain(ctx, couponID, user)
	}
	return x, err
}

func (e *Explainer) explain(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (*Explanation, error) {
	// Redis comes first: an application that leaves it is already in MySQL.
	found, err := e.Redis.LookupUser(ctx, couponID, user)
	withRedis := func() *Explanation {
		facts := Facts{Subject: Subject{couponID, user, e.Now().UTC()}, Applications: []Application{}, Runs: []RunFacts{}}
		x := &Explanation{Facts: facts, Events: []Event{}}
		if err != nil {
			x.Facts.NoRedis = x.unread(err)
		} else {
			x.Facts.addRedis(found, e.SettlesAt)
		}
		return x
	}
	x := withRedis()
	switch err := e.readMySQL(ctx, x); {
	case text.Is(err, text.NoSuchCoupon), ctx.Err() != nil && err != nil:
		return nil, err
	case err != nil:
		x = withRedis() // without the facts of a reading that failed half way
		x.Facts.NoMySQL = x.unread(err)
	case x.Facts.Published != nil:
		a, err := (&ledger.Ledger{Store: e.Redis, Users: e.Users}).AccountOf(ctx, e.DB, couponID)
		if err != nil {
			x.Facts.NoAccount = x.unread(err)
		} else {
			x.Facts.Account, x.Facts.Gap = &a, a.Gap()
		}
	}
	x.Facts.dropUncertainOrder()
	x.Conclusion = Conclude(&x.Facts)
	x.addEvents()
	return x, nil
}

// unread notes a failure and returns its text.
func (x *Explanation) unread(err error) string {
	x.Unread = append(x.Unread, err)
	return err.Error()
}
