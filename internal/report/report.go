// Package report counts the outcomes of the applications of a day, a month or the whole life of a campaign.
//
// A report selects applications by arrival, not by settlement: each belongs to exactly one day, and a month is the sum
// of its days. Outcomes are the present ones. If an application that was not selected later gets an added seat, it
// moves to another column of the same day.
//
// Each coupon is counted in a snapshot of MySQL and then in Redis. If the account does not balance, promises are lost,
// or a settlement has committed between the two reads. The coupon is then counted again under its row lock.
//
// At the end one snapshot of MySQL counts what has become of the issued coupons of all these coupons: see UserCoupons.
package report

import (
	"context"
	"database/sql"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/ahead"
	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/users"
)

// Store reads what a report needs from Redis. candidates.Store implements it.
type Store interface {
	ledger.Store
	CountByInterval(ctx context.Context, couponID coupon.CouponID,
		bounds []coupon.Arrival) (waiting, dlq []int64, err error)
}

type Reporter struct {
	DB    *sql.DB
	Store Store
	Users *users.Directory

	Parallel int               // how many coupons are counted at the same time; 0: one
	Progress func(name string) // is called after each coupon; nil: nobody looks
}

// Report has the outcomes of the applications of a period. It stays the same until an application is settled, or the
// seats, the promises or the price of a coupon change.
type Report struct {
	Coupons []Coupon `json:"coupons"`
	Total   Counts   `json:"total"`  // the sums of Coupons
	Unread  []Unread `json:"unread"` // the coupons that could not be read

	// Instant of Counts.UserCoupons, by the clock of MySQL: one snapshot for all coupons.
	AsOf      time.Time     `json:"asOf"`
	Campaigns []CampaignSum `json:"campaigns"`

	// Timeline counts the arrivals in each Bucket of the period.
	Timeline []int64 `json:"-"`
}

type Coupon struct {
	Coupon coupon.CouponID `json:"coupon"`
	Name   string          `json:"name"`
	coupon.Discount
	CampaignID uint64         `json:"campaignId,omitempty"` // 0: no campaign
	Cadence    coupon.Cadence `json:"cadence"`
	Frozen     bool           `json:"frozen"`
	Counts
	SettledBy
	// Applications of the whole coupon that were forgotten: no figure counts them.
	Erased    int64      `json:"erased,omitzero"`
	AuditHead audit.Head `json:"auditHead"` // end of the coupon's audit chain

	// The first maxAuditEntries audit entries from the beginning of the period until its end or, if later, its last
	// settlement.
	Audit        []AuditGroup `json:"deeds"`
	AuditLeftOut int64        `json:"deedsLeftOut"`

	// Who froze the coupon; nil: it is not frozen, or nothing records it.
	Freeze *history.AuditEntry `json:"freeze,omitempty"`
}

// Counts has the applications of a period by outcome, and the value of the issued coupons. Seats, SeatsLeft and Gap are
// about the coupon at present, and do not depend on the period.
type Counts struct {
	Outcomes
	ValueWon  *big.Int `json:"valueWon"` // the most that the coupons of Outcomes.Issued can give
	Seats     int64    `json:"seats"`
	SeatsLeft int64    `json:"seatsLeft"`
	Gap       int64    `json:"gap"` // lost promises of the whole coupon; their arrivals are unknown

	UserCoupons UserCoupons `json:"userCoupons"`
}

func noCounts() Counts { return Counts{ValueWon: new(big.Int), UserCoupons: noUserCoupons()} }

// Outcomes counts each application once. Applications is the sum of the other fields.
type Outcomes struct {
	Applications  int64 `json:"applications"`
	Issued        int64 `json:"issued"` // issued by runs; coupons given by hand have no application
	NotSelected   int64 `json:"notSelected"`
	Rejected      int64 `json:"rejected"`
	AlreadyIssued int64 `json:"alreadyIssued"`
	UnderReview   int64 `json:"underReview"` // in the DLQ
	Waiting       int64 `json:"waiting"`
}

// numbers returns all fields except ValueWon and UserCoupons, in the order of figures.
func (c *Counts) numbers() []*int64 {
	return []*int64{&c.Applications, &c.Issued, &c.NotSelected, &c.Rejected, &c.AlreadyIssued, &c.UnderReview,
		&c.Waiting, &c.Seats, &c.SeatsLeft, &c.Gap}
}

// add adds all fields except UserCoupons, which are read later.
func (c *Counts) add(b Counts) {
	for i, n := range b.numbers() {
		*c.numbers()[i] += *n
	}
	c.ValueWon.Add(c.ValueWon, b.ValueWon)
}

// SettledBy names the runs that settled the applications of a period.
type SettledBy struct {
	Runs           []coupon.RunID `json:"runs"`     // the first maxRunsNamed runs
	RunCount       int            `json:"runCount"` // the number of all runs
	FirstSettledAt *time.Time     `json:"firstSettledAt,omitempty"`
	LastSettledAt  *time.Time     `json:"lastSettledAt,omitempty"`
	Millis         *int64         `json:"durationMs,omitempty"` // total time of these runs; killed runs are not counted
}

// AuditGroup is one audit entry, or all entries of one change to several applications.
type AuditGroup struct {
	history.AuditEntry
	Count int64 `json:"count"` // number of entries; if it is not 1, Detail is empty
}

// Unread is a coupon that could not be read because another session holds its row.
type Unread struct {
	Coupon coupon.CouponID `json:"coupon"`
	Name   string          `json:"name"` // empty if unknown
	Error  string          `json:"error"`

	Err error `json:"-"`
}

const (
	maxUnread       = 10 // with more the report fails, because each costs a lock wait of ten seconds
	maxAuditEntries = 50 // per coupon; a person reads fewer
	couponsPerPage  = 1000
	maxRunsNamed    = 20
	maxCampaign     = 10_000 // coupons; the catalog holds no more
)

// Campaign is a group of coupons.
type Campaign struct {
	Coupons       []coupon.CouponID
	Opens, Closes time.Time // the first opening and the last closing
}

// notPurged leaves out coupons that are being purged: some of their rows are already deleted.
const notPurged = " AND NOT EXISTS (SELECT 1 FROM purged_coupon p WHERE p.coupon_id = c.id)"

const campaignSQL = "SELECT c.id, c.apply_opens_at, c.apply_closes_at FROM coupon c WHERE c.campaign_id = ?" +
	notPurged + " ORDER BY c.id LIMIT ?"

// Campaign returns a campaign with at least one coupon.
func (r *Reporter) Campaign(ctx context.Context, id uint64) (c Campaign, err error) {
	err = mysqltx.Each(ctx, r.DB, func(rows *sql.Rows) error {
		var id coupon.CouponID
		var opens, closes time.Time
		err := rows.Scan(&id, &opens, &closes)
		if len(c.Coupons) == 0 || opens.Before(c.Opens) {
			c.Opens = opens
		}
		if closes.After(c.Closes) {
			c.Closes = closes
		}
		c.Coupons = append(c.Coupons, id)
		return err
	}, campaignSQL, id, maxCampaign+1)
	switch {
	case err != nil:
		return c, fmt.Errorf("read campaign %d: %w", id, err)
	case len(c.Coupons) == 0:
		return c, r.noCampaign(ctx, id)
	case len(c.Coupons) > maxCampaign:
		return c, text.UsageErrorf(text.CampaignTooLarge, id, maxCampaign)
	}
	return c, nil
}

// noCampaign returns the error for a campaign without coupons.
func (r *Reporter) noCampaign(ctx context.Context, id uint64) error {
	purged := 0
	err := r.DB.QueryRowContext(ctx, "SELECT COUNT(*) FROM purged_coupon WHERE campaign_id = ?", id).Scan(&purged)
	switch {
	case err != nil:
		return mysqltx.Wrap(err, "count purged coupons of campaign %d", id)
	case purged > 0:
		return text.MissingErrorf(text.CampaignIsPurged, id, purged)
	default:
		return text.MissingErrorf(text.NoSuchCampaign, id)
	}
}

// lateArrivals is how much later than the end of its window the last application of a coupon can arrive: pods may not
// know of the end yet, and clocks differ.
const lateArrivals = 24 * time.Hour

// windowClasses is the number of values of coupon.window_class: no window is longer than 2^22 days.
const windowClasses = 22

// coupons returns the coupons that can have applications in a period: their windows overlap the period, or ended
// shortly before it and the coupon has late applications. addAll leaves out those without any.
//
// No index finds the windows that contain an instant. But a window of class n that reaches the period has opened within
// 2^n days before it, so that the coupons of a class are one range of coupon_window.
func (r *Reporter) coupons(ctx context.Context, p Period) ([]coupon.CouponID, error) {
	from, to := p.From.UTC(), p.To.UTC()
	args := []any{from, from.Add(-lateArrivals), p.From.UnixMicro()}
	var ranges []string
	for class := 1; class <= windowClasses; class++ {
		opens := from.Add(-lateArrivals).AddDate(0, 0, -1<<class)
		if opens.Before(time.Unix(0, 0)) {
			opens = time.Unix(0, 0).UTC() // every coupon opens after 1970
		}
		ranges = append(ranges, "c.window_class = ? AND c.apply_opens_at > ? AND c.apply_opens_at < ?")
		args = append(args, class, opens, to)
	}
	return mysqltx.Column[coupon.CouponID](ctx, r.DB, "SELECT c.id FROM coupon c FORCE INDEX (coupon_window)"+
		" WHERE (c.apply_closes_at > ? OR c.apply_closes_at > ? AND (c.finalised_at IS NULL OR"+
		" EXISTS (SELECT 1 FROM settled s WHERE s.coupon_id = c.id AND s.settled_up_to >= ?)))"+
		" AND ("+strings.Join(ranges, " OR ")+")"+notPurged+" ORDER BY c.id", args...)
}

const countPurgedSQL = `
SELECT COUNT(*) FROM purged_coupon WHERE apply_opens_at < ? AND apply_closes_at > ? AND (? = 0 OR campaign_id = ?)`

// CountPurged returns how many purged coupons were open in the period, of one campaign or, for 0, of all. No report has
// them.
func (r *Reporter) CountPurged(ctx context.Context, period Period, campaign uint64) (n int, err error) {
	err = r.DB.QueryRowContext(ctx, countPurgedSQL, period.To.UTC(), period.From.UTC(), campaign, campaign).Scan(&n)
	return n, mysqltx.Wrap(err, "count purged coupons")
}

// Report counts the given coupons. If none are given, it counts those that were open in the period or have applications
// of it: up to a day after the end of the window.
func (r *Reporter) Report(ctx context.Context, period Period, coupons []coupon.CouponID) (*Report, error) {
	report, err := r.applications(ctx, period, coupons)
	if err != nil {
		return nil, err
	}
	return report, r.addUserCoupons(ctx, report)
}

func (r *Reporter) applications(ctx context.Context, period Period, coupons []coupon.CouponID) (*Report, error) {
	buckets := (period.To.Sub(period.From) + period.Bucket - 1) / period.Bucket
	report := &Report{Coupons: []Coupon{}, Total: noCounts(), Unread: []Unread{}, Campaigns: []CampaignSum{},
		Timeline: make([]int64, buckets)}
	if len(coupons) > 0 {
		return report, r.addAll(ctx, report, period, slices.Compact(slices.Sorted(slices.Values(coupons))), true)
	}
	found, err := r.coupons(ctx, period)
	if err != nil {
		return nil, fmt.Errorf("read the coupons of the period: %w", err)
	}
	return report, r.addAll(ctx, report, period, found, false)
}

// addAll adds coupons to the report: all if named, else those that were open or have applications in the period.
func (r *Reporter) addAll(ctx context.Context, report *Report, period Period, coupons []coupon.CouponID,
	named bool) error {
	for c, err := range ahead.Items(ctx, r.Parallel, coupons,
		func(ctx context.Context, id coupon.CouponID) (*counter, error) {
			return r.count(ctx, id, period)
		}) {
		if r.Progress != nil && err == nil {
			r.Progress(c.Name)
		}
		switch {
		case mysqltx.IsLockWait(err) && len(report.Unread) < maxUnread:
			report.Unread = append(report.Unread, Unread{c.Coupon.Coupon, c.Name, err.Error(), err})
		case err != nil:
			return err
		case named || c.open || c.Applications > 0:
			report.Coupons = append(report.Coupons, c.Coupon)
			report.Total.add(c.Counts)
			for bucket, n := range c.timeline {
				report.Timeline[bucket] += n
			}
		}
	}
	return nil
}

// Period is the range of arrivals that begins with From and ends before To.
type Period struct {
	From, To time.Time
	Bucket   time.Duration // width of a bucket of the timeline; whole seconds
}

// edges returns the bounds of the buckets from an arrival to the end of the period.
func (p Period) edges(from coupon.Arrival) []coupon.Arrival {
	from = max(from, coupon.ArrivalAt(p.From))
	edges := []coupon.Arrival{from}
	for next := p.From.Add(time.Duration(p.bucket(from)+1) * p.Bucket); next.Before(p.To); next = next.Add(p.Bucket) {
		edges = append(edges, coupon.ArrivalAt(next))
	}
	return append(edges, max(from, coupon.ArrivalAt(p.To)))
}

func (p Period) bucket(arrival coupon.Arrival) int {
	return int(arrival.Time().Sub(p.From) / p.Bucket)
}

func (p Period) contains(arrival coupon.Arrival) bool {
	return coupon.ArrivalAt(p.From) <= arrival && arrival < coupon.ArrivalAt(p.To)
}
