package settle

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/users"
)

// Config is what a Settler needs. Only Hook and Progress are optional.
type Config struct {
	DB      *mysqltx.DB
	Catalog Catalog
	Clock   Clock
	Line    Line
	Door    Door
	Auditor Auditor
	Journal Journal
	Users   *users.Directory
	// The zone of the nights, whose midnights are the cutoffs.
	Zone     func(ctx context.Context) (*time.Location, error)
	Now      func() time.Time
	Logger   *zap.Logger
	Observer Observer
	Grace    time.Duration // how long the current transaction may go on after a request to stop
	Parallel int           // number of coupons settled at the same time, at least 1; each takes two MySQL connections

	// Several goroutines call these two funcs:
	Progress func(c coupon.Coupon, applications int)   // called when applications have been decided
	Hook     func(couponID coupon.CouponID, step Step) // called when a step begins; for tests
}

func (c *Config) validate() error {
	var problems []error
	for name, missing := range map[string]bool{
		"DB": c.DB == nil, "Catalog": c.Catalog == nil, "Clock": c.Clock == nil, "Line": c.Line == nil,
		"Door":    c.Door == nil,
		"Auditor": c.Auditor == nil, "Journal": c.Journal == nil, "Users": c.Users == nil, "Zone": c.Zone == nil,
		"Now": c.Now == nil, "Logger": c.Logger == nil, "Observer": c.Observer == nil,
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

type Settler struct{ Config }

// New returns an error that names every problem of the Config.
func New(c Config) (*Settler, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Settler{c}, nil
}

// Clock is the clock of Redis, from which every arrival comes.
type Clock interface {
	Now(ctx context.Context) (time.Time, error)
}

// Line is the queue and the DLQ of every coupon. Every call is safe to repeat.
type Line interface {
	// Page reads, by arrival, the next applications after the cursor and before the cutoff. It returns none at the end.
	Page(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor,
		cutoff time.Time) ([]coupon.Application, coupon.Cursor, error)
	// Queue does what Page does, but reads only the queue.
	Queue(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor,
		cutoff time.Time) ([]coupon.Application, coupon.Cursor, error)
	// Remove removes settled applications from queue and DLQ, and marks their users. It returns how many it removed.
	Remove(ctx context.Context, couponID coupon.CouponID, closes time.Time, mark coupon.Mark,
		settled []coupon.Application) (int64, error)
	// Review moves applications to the DLQ and keeps their arrivals. It returns how many it moved.
	Review(ctx context.Context, couponID coupon.CouponID, run coupon.RunID, at time.Time,
		failed []coupon.Failure) (int64, error)
	// Moved returns how many applications a run has moved to the DLQ or tried again there, over all its attempts.
	Moved(ctx context.Context, couponID coupon.CouponID, run coupon.RunID, at time.Time) (int, error)
	// UnderReview reads, by arrival, the next DLQ entries after the cursor. It returns none at the end.
	UnderReview(ctx context.Context, couponID coupon.CouponID,
		after coupon.Cursor) ([]coupon.Application, coupon.Cursor, error)
	// FindUnderReview returns the DLQ entries of these members, by arrival.
	FindUnderReview(ctx context.Context, couponID coupon.CouponID, members []string) ([]coupon.Application, error)
	// Release makes DLQ entries retryable. It returns how many it found.
	Release(ctx context.Context, couponID coupon.CouponID, held []coupon.Application) (int64, error)
}

// Door is the part of Redis that decides which new applications are accepted.
type Door interface {
	// Renew gives the coupon's keys their full TTL again.
	Renew(ctx context.Context, couponID coupon.CouponID, closes time.Time) error
	// Look looks at the coupon. With a cutoff, nothing arrives below it once the shard's clock has passed it.
	Look(ctx context.Context, couponID coupon.CouponID, known coupon.Known) (coupon.Look, error)
	// AddExcess raises accepted to what is accounted for. It reports false if another epoch has begun.
	AddExcess(ctx context.Context, couponID coupon.CouponID, epoch string, settled int64) (done bool, err error)
	// SetSold makes Redis answer SOLD_OUT to new applications, or accept them again.
	SetSold(ctx context.Context, couponID coupon.CouponID, sold bool) error
	// Sweep removes the keys of a coupon whose window is over. If applications are left, it returns false.
	Sweep(ctx context.Context, couponID coupon.CouponID, closes time.Time) (bool, error)
}

// Catalog lists the coupons when MySQL cannot be reached.
type Catalog interface {
	Coupons(ctx context.Context) ([]coupon.Coupon, error)
}

// Observer follows the progress of a run. Several goroutines call its methods.
type Observer interface {
	Begin()
	Progress(applications int)           // number of applications processed; a repeated transaction counts them again
	Spend(step Step, took time.Duration) // adds the time that one coupon spent in the step
	Note(r Result)                       // the result of a coupon so far; its Status is empty until the run ends
	End(report *Report, err error)       // report is nil if the run could not begin
}

// Auditor compares the number of accepted applications with the number that can be found.
type Auditor interface {
	Account(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID) (ledger.Account, error)
	// AccountBySums does not count the rows of MySQL unless the sums of table settled do not add up.
	AccountBySums(ctx context.Context, tx *sql.Tx, couponID coupon.CouponID, seated int) (ledger.Account, error)
}

// Journal is the copy of the lines in MySQL.
type Journal interface {
	// RestoreCoupon enters again whom Redis has lost of a coupon. It takes the lock of the coupon's row.
	RestoreCoupon(ctx context.Context, couponID coupon.CouponID) error
}

type Order struct {
	Trigger   coupon.Trigger
	Cutoff    time.Time         // zero: the default cutoff
	CutoffNow bool              // the cutoff is the start of the run by the Redis clock
	Coupons   []coupon.CouponID // nil: all due coupons
	AcceptGap bool
	Operator  string
	Reason    string

	Canaries []string // members of the DLQ entries to try; nil: all entries
	// Digests that a preview has shown; of a coupon with another digest, nothing is issued or dropped.
	Expect map[coupon.CouponID]string
	List   bool // the preview lists every application, not only the first and the last winner

	Approvals map[coupon.CouponID]approval.ID // for a manual run or a drop, if the policy names these
	Person    approval.Person                 // who executes the order; empty: the program itself

	Chosen map[string]string // how the entries of a drop were chosen, for its approval

	MayBeGone bool // Retry and Drop skip members that have left the DLQ; false: such a member is an error

	dryRun bool
}
