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

// Explainer explains the users of one deployment.
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

// Explanation explains one user's applications for one coupon.
type Explanation struct {
	Facts      Facts      `json:"facts"`
	Events     []Event    `json:"events"`  // by time
	LeftOut    int        `json:"leftOut"` // older events, at least this many
	Conclusion Conclusion `json:"conclusion"`

	Unread []error `json:"-"` // why facts are missing
}

// Explain reads the facts. It reads them again when it finds no application, because a settlement that moves a NOT_SELECTED
// application to the DLQ has it in neither place for a moment. The error is text.NoSuchCoupon or that of ctx; failures of servers are
// in Unread.
func (e *Explainer) Explain(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (*Explanation, error) {
	x, err := e.explain(ctx, couponID, user)
	if err == nil && len(x.Unread) == 0 && len(x.Facts.Applications) == 0 && x.Facts.UserCoupon == nil {
		x, err = e.explain(ctx, couponID, user)
	}
	return x, err
}

func (e *Explainer) explain(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (*Explanation, error) {
	x := &Explanation{Facts: Facts{Subject: Subject{couponID, user, e.Now().UTC()}, Applications: []Application{}, Runs: []RunFacts{}}}
	f := &x.Facts
	// Redis comes first: an application that leaves it is already in MySQL.
	if traces, err := e.Redis.LookupUser(ctx, couponID, user); err != nil {
		f.NoRedis = x.unread(err)
	} else {
		f.addTraces(traces, e.SettlesAt)
	}
	audits, leftOut, err := e.read(ctx, f)
	switch {
	case text.Is(err, text.NoSuchCoupon), ctx.Err() != nil && err != nil:
		return nil, err
	case err != nil:
		f.NoMySQL = x.unread(err)
		f.forgetMySQL()
	case f.Door != nil:
		a, err := (&ledger.Ledger{Store: e.Redis, Users: e.Users}).AccountOf(ctx, e.DB, couponID)
		if err != nil {
			f.NoAccount = x.unread(err)
		} else {
			f.Account, f.Gap = &a, a.Gap()
		}
	}
	f.dropUncertainOrder()
	x.Conclusion = Conclude(f)
	x.setEvents(events(f, audits), leftOut)
	return x, nil
}

// unread notes a failure and returns its text.
func (x *Explanation) unread(err error) string {
	x.Unread = append(x.Unread, err)
	return err.Error()
}

// setEvents keeps the newest events; leftOut more were not read.
func (x *Explanation) setEvents(all []Event, leftOut int) {
	more := max(0, len(all)-MaxEvents)
	x.Events, x.LeftOut = all[more:], leftOut+more
}
