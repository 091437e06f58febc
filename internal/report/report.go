package report

import (
	"context"
	"database/sql"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/users"
)

// Store is what a report reads of Redis; candidates.Store has it.
type Store interface {
	ledger.Store
	CountByInterval(ctx context.Context, couponID coupon.CouponID, bounds []coupon.Arrival) (waiting, dlq []int64, err error)
}

// Reporter reads reports of one deployment.
type Reporter struct {
	DB    *sql.DB
	Store Store
	Users *users.Directory
}

// Report counts the outcomes of the applications of a period, coupon by coupon. It stays the same until an application is settled,
// or seats, promises or a price change.
type Report struct {
	Coupons []Coupon `json:"coupons"`
	Total   Counts   `json:"total"`  // the sums of Coupons
	Unread  []Unread `json:"unread"` // the coupons that are missing

	// Timeline counts the applications by arrival: one number for each Bucket of the period.
	Timeline []int64 `json:"-"`
}

// Coupon is one coupon in a period.
type Coupon struct {
	Coupon      coupon.CouponID `json:"coupon"`
	Name        string          `json:"name"`
	DiscountWon int64           `json:"discountWon"`
	Counts
	SettledBy
	AuditHead audit.Head `json:"auditHead"` // end of the coupon's audit chain

	// Audit are the audit entries from the beginning of the period until the last of its applications was settled: the
	// first maxAuditEntries of them.
	Audit        []AuditGroup `json:"deeds"`
	AuditLeftOut int64        `json:"deedsLeftOut"`
}

// Counts are the applications of a period by outcome, the value of the issued coupons, and the state of the coupon.
type Counts struct {
	Outcomes
	ValueWon *big.Int `json:"valueWon"` // of the issued coupons
	State
}

// Outcomes count each application once: Applications is the sum of the other fields.
type Outcomes struct {
	Applications  int64 `json:"applications"`
	Issued        int64 `json:"issued"` // by runs; coupons given by hand have no application
	NotSelected   int64 `json:"notSelected"`
	Rejected      int64 `json:"rejected"`
	AlreadyIssued int64 `json:"alreadyIssued"`
	UnderReview   int64 `json:"underReview"` // in the DLQ
	Waiting       int64 `json:"waiting"`
}

// State is the present state of the coupon. It does not depend on the period.
type State struct {
	Seats     int64 `json:"seats"`
	SeatsLeft int64 `json:"seatsLeft"`
	Gap       int64 `json:"gap"` // lost promises, whose arrivals are unknown
}

// numbers are all but ValueWon, in the order of figures.
func (c *Counts) numbers() []*int64 {
	return []*int64{&c.Applications, &c.Issued, &c.NotSelected, &c.Rejected, &c.AlreadyIssued, &c.UnderReview, &c.Waiting,
		&c.Seats, &c.SeatsLeft, &c.Gap}
}

func (c *Counts) add(b Counts) {
	for i, n := range b.numbers() {
		*c.numbers()[i] += *n
	}
	c.ValueWon.Add(c.ValueWon, b.ValueWon)
}

// SettledBy names the runs that settled the applications of a period.
type SettledBy struct {
	Runs           []coupon.RunID `json:"runs"`     // the first maxRunsNamed of them
	RunCount       int            `json:"runCount"` // all
	FirstSettledAt *time.Time     `json:"firstSettledAt,omitempty"`
	LastSettledAt  *time.Time     `json:"lastSettledAt,omitempty"`
	Millis         *int64         `json:"durationMs,omitempty"` // of these runs with the coupon, without runs that were killed
}

// AuditGroup is one audit entry, or those of one change to several applications.
type AuditGroup struct {
	history.AuditEntry
	Count int64 `json:"count"` // Detail is empty unless it is 1
}

// Unread is a coupon that could not be read because another session holds its row.
type Unread struct {
	Coupon coupon.CouponID `json:"coupon"`
	Name   string          `json:"name"` // empty: unknown
	Error  string          `json:"error"`

	Err error `json:"-"`
}

const (
	maxUnread       = 10 // each costs a lock wait of ten seconds
	maxAuditEntries = 50 // more than a person reads
	maxRunsNamed    = 20
	couponsPerPage  = 1000
)

// couponsSQL finds the coupons that can have applications of a period: those that were open in it, are not finalised, or were
// settled after its beginning. The counts decide, because a window can have changed since.
const couponsSQL = `
SELECT c.id FROM coupon c
WHERE c.id > ? AND ((c.apply_opens_at < ? AND c.apply_closes_at > ?) OR c.finalised_at IS NULL
      OR EXISTS (SELECT 1 FROM settlement s JOIN settlement_run r ON r.id = s.run_id WHERE s.coupon_id = c.id AND r.cutoff > ?))
ORDER BY c.id LIMIT ?`

// Report reports a period for the given coupons. Without any it reports all coupons that were open in the period or have
// applications of it.
func (r *Reporter) Report(ctx context.Context, period Period, coupons []coupon.CouponID) (*Report, error) {
	report := &Report{Coupons: []Coupon{}, Total: Counts{ValueWon: new(big.Int)}, Unread: []Unread{}, Timeline: make([]int64, period.buckets())}
	if len(coupons) > 0 {
		return report, r.addAll(ctx, report, period, slices.Compact(slices.Sorted(slices.Values(coupons))), true)
	}
	from := period.From.UTC()
	for after := coupon.CouponID(0); ; {
		page, err := mysqltx.Column[coupon.CouponID](ctx, r.DB, couponsSQL, after, period.To.UTC(), from, from, couponsPerPage)
		if err != nil {
			return nil, fmt.Errorf("read the coupons of the period: %w", err)
		}
		if err := r.addAll(ctx, report, period, page, false); err != nil {
			return nil, err
		}
		if len(page) < couponsPerPage {
			return report, nil
		}
		after = page[len(page)-1]
	}
}

// addAll adds coupons to the report: all when the caller named them, else those that were open in the period or have applications.
func (r *Reporter) addAll(ctx context.Context, report *Report, period Period, coupons []coupon.CouponID, named bool) error {
	for _, id := range coupons {
		f, err := r.count(ctx, id, period)
		if mysqltx.IsLockWait(err) && len(report.Unread) < maxUnread {
			report.Unread = append(report.Unread, Unread{id, f.Name, err.Error(), err})
			continue
		}
		if err != nil {
			return err
		}
		if !named && !f.open && f.Applications == 0 {
			continue
		}
		report.Coupons = append(report.Coupons, f.Coupon)
		report.Total.add(f.Counts)
		for bucket, n := range f.timeline {
			report.Timeline[bucket] += n
		}
	}
	return nil
}
