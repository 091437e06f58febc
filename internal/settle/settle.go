package settle

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/users"
)

// Config has the parts of a Settler. Hook and Progress are optional.
type Config struct {
	DB       *mysqltx.DB
	Catalog  Catalog
	Clock    Clock
	Line     Line
	Door     Door
	Auditor  Auditor
	Users    *users.Directory
	Zone     *time.Location // its midnight is the default cutoff
	Now      func() time.Time
	Logger   *zap.Logger
	Observer Observer
	Grace    time.Duration // how long a transaction in hand may go on after a request to stop
	Parallel int           // coupons settled at the same time, from 1; each takes two connections to MySQL

	// Several goroutines call these:
	Progress func(c coupon.Coupon, applications int)   // as applications are decided
	Hook     func(couponID coupon.CouponID, step Step) // as a step begins; for tests
}

func (c *Config) validate() error {
	var problems []error
	for name, missing := range map[string]bool{
		"DB": c.DB == nil, "Catalog": c.Catalog == nil, "Clock": c.Clock == nil, "Line": c.Line == nil, "Door": c.Door == nil,
		"Auditor": c.Auditor == nil, "Users": c.Users == nil, "Zone": c.Zone == nil, "Now": c.Now == nil, "Logger": c.Logger == nil, "Observer": c.Observer == nil,
	} {
		if missing {
			problems = append(problems, fmt.Errorf("settle.Config.%s is missing", name))
		}
	}
	if c.Grace < 0 {
		problems = append(problems, fmt.Errorf("settle.Config.Grace is %s: want 0 or more", c.Grace))
	}
	if c.Parallel < 1 {
		problems = append(problems, fmt.Errorf("settle.Config.Parallel is %d: want 1 or more", c.Parallel))
	}
	return errors.Join(problems...)
}

// Settler settles coupons.
type Settler struct{ Config }

// New returns a Settler, or an error that names each problem of the Config.
func New(c Config) (*Settler, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Settler{c}, nil
}

// Clock is the clock of Redis, by which arrivals are recorded.
type Clock interface {
	Now(ctx context.Context) (time.Time, error)
}

// Line is the queue and the DLQ of every coupon. Every call is safe to repeat.
type Line interface {
	// Page reads the applications behind the cursor with an arrival before the cutoff, by arrival; none at the end.
	Page(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor, cutoff time.Time) ([]coupon.Application, coupon.Cursor, error)
	// Remove takes settled applications out and marks their users; it returns the number of applications removed.
	Remove(ctx context.Context, couponID coupon.CouponID, closes time.Time, mark coupon.Mark, settled []coupon.Application) (int64, error)
	// Review moves applications to the DLQ with their arrivals; it returns the number moved.
	Review(ctx context.Context, couponID coupon.CouponID, run coupon.RunID, at time.Time, failed []coupon.Failure) (int64, error)
	// UnderReview reads the DLQ entries behind the cursor, by arrival; none at the end.
	UnderReview(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor) ([]coupon.Application, coupon.Cursor, error)
	// Release makes DLQ entries retryable; it returns the number of entries found.
	Release(ctx context.Context, couponID coupon.CouponID, held []coupon.Application) (int64, error)
}

// Door decides in Redis which applications are accepted.
type Door interface {
	// Renew gives the coupon's keys their full life again.
	Renew(ctx context.Context, couponID coupon.CouponID, closes time.Time) error
	// Fence makes sure that nothing arrives below the cutoff any more, and that pods have put back the applications that a
	// failover lost, or returns how long to wait for the cutoff and for the pods. known is MySQL's promise, the zero Promise
	// for a finalised coupon.
	Fence(ctx context.Context, couponID coupon.CouponID, cutoff time.Time, known coupon.Promise) (wait, forPods time.Duration, err error)
	// SetSold makes the door answer SOLD_OUT, or accept applications again.
	SetSold(ctx context.Context, couponID coupon.CouponID, sold bool) error
	// Sweep removes the keys of a finished coupon; false when applications are left in them.
	Sweep(ctx context.Context, couponID coupon.CouponID, closes time.Time) (bool, error)
}

// Catalog lists the coupons when MySQL cannot be reached.
type Catalog interface {
	Coupons(ctx context.Context) ([]coupon.Coupon, error)
}

// Observer follows the progress of a run. Several goroutines call it.
type Observer interface {
	Begin()
	Progress(applications int)           // were processed; those of a repeated transaction count again
	Spend(step Step, took time.Duration) // adds the time of one coupon
	Note(r Result)                       // the state of a coupon; its status is empty until the run ends
	End(report *Report, err error)       // the report is nil when the run could not begin
}

// Auditor compares the accepted applications of a coupon with those that are found.
type Auditor interface {
	Account(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (ledger.Account, error)
}

// Order describes a run.
type Order struct {
	Trigger   coupon.Trigger
	Cutoff    time.Time         // zero: the default cutoff
	CutoffNow bool              // the cutoff is the start of the run by the Redis clock
	Coupons   []coupon.CouponID // nil: all that are due
	AcceptGap bool
	Operator  string
	Reason    string

	Canaries []string                   // the DLQ entries to try; nil: all
	Expect   map[coupon.CouponID]string // the digest that a coupon must have, else nothing is issued
	List     bool                       // a preview names every application, not only the first and the last

	MayBeGone bool // Retry and Drop ignore members that have left the DLQ; false: they are an error

	dryRun bool
}
