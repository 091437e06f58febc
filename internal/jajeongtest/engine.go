package jajeongtest

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/deployment"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/runmetrics"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/verify"
)

// Zone is the time zone of cutoffs.
var Zone, errZone = time.LoadLocation("Asia/Seoul")

// Manual is the order of a person for these coupons, or for all, up to now.
func Manual(coupons ...coupon.CouponID) settle.Order {
	return settle.Order{Trigger: coupon.Manual, CutoffNow: true, Coupons: coupons, Operator: "kim", Reason: "test"}
}

// InZone is the Zone of a settler whose nights are of a zone.
func InZone(zone *time.Location) func(context.Context) (*time.Location, error) {
	return func(context.Context) (*time.Location, error) { return zone, nil }
}

// Nightly is the order of the nightly run of that cutoff.
func Nightly(cutoff time.Time) settle.Order {
	return settle.Order{Trigger: coupon.Cron, Cutoff: cutoff}
}

// Settler is a settler with connections of its own under the account of the settlement, as of a new process. The test
// may replace parts of it.
func (d *Deployment) Settler(change ...func(*settle.Settler)) *settle.Settler {
	d.T.Helper()
	s, disconnect := d.settler(change)
	d.T.Cleanup(disconnect)
	return s
}

func (d *Deployment) settler(change []func(*settle.Settler)) (s *settle.Settler, disconnect func()) {
	d.T.Helper()
	require.NoError(d.T, errZone)
	servers, err := connect.Open(&d.Job.MySQLSettings, connect.Settling, &d.Job.RedisSettings, zap.NewNop())
	require.NoError(d.T, err)
	servers.RetryRefused()
	store := d.NewStore(servers.Redis)
	directory := d.UserTable.Settings().Directory()
	s, err = settle.New(settle.Config{
		DB: mysqltx.New(servers.MySQL), Clock: store, Door: store, Line: store,
		Catalog: catalog.Snapshot{Store: store}, Auditor: &ledger.Ledger{Store: store},
		Journal: &journal.Restorer{DB: mysqltx.New(servers.MySQL), Line: store, Ledger: &ledger.Ledger{Store: store},
			Now: time.Now, HandOverTime: HandOverTime}, Users: directory, Observer: runmetrics.New(time.Now),
		Zone: (&deployment.Zone{DB: servers.MySQL, Now: time.Now, Catalog: catalog.Snapshot{Store: store}.Zone}).Get,
		Now:  time.Now, Logger: zap.NewNop(), Grace: time.Second, Parallel: 4,
	})
	require.NoError(d.T, err)
	for _, c := range change {
		c(s)
	}
	return s, servers.Close
}

// Settle runs one settlement.
func (d *Deployment) Settle(order settle.Order) (*settle.Report, error) {
	d.T.Helper()
	s, disconnect := d.settler(nil)
	defer disconnect()
	return s.RunOnce(d.T.Context(), order)
}

// SettleNow settles everything that has arrived. The run must succeed for these coupons, or for all.
func (d *Deployment) SettleNow(coupons ...coupon.CouponID) *settle.Report {
	d.T.Helper()
	report, err := d.Settle(Manual(coupons...))
	d.requireSuccess(report, err)
	return report
}

// IssueNow does an immediate run.
func (d *Deployment) IssueNow(couponID coupon.CouponID) settle.Issuance {
	d.T.Helper()
	s, disconnect := d.settler(nil)
	defer disconnect()
	return s.IssueNow(d.T.Context(), couponID)
}

// SettleFailing settles everything that has arrived. Coupons must fail with exactly these classes.
func (d *Deployment) SettleFailing(classes ...coupon.Class) *settle.Report {
	d.T.Helper()
	return d.SettleAs(Manual(), classes...)
}

// SettleAs executes an order. Coupons must fail with exactly these classes, or none.
func (d *Deployment) SettleAs(order settle.Order, classes ...coupon.Class) *settle.Report {
	d.T.Helper()
	report, err := d.Settle(order)
	require.NoError(d.T, err)
	require.Equal(d.T, classes, report.Classes())
	return report
}

// AcceptGap settles everything that has arrived and accepts the gaps. The run must succeed.
func (d *Deployment) AcceptGap() *settle.Report {
	d.T.Helper()
	order := Manual()
	order.AcceptGap = true
	report, err := d.Settle(order)
	d.requireSuccess(report, err)
	return report
}

// Retry retries members of the DLQ, or all, and settles the coupon. The run must succeed.
func (d *Deployment) Retry(couponID coupon.CouponID, members ...string) *settle.Report {
	d.T.Helper()
	return d.RetryAs(Manual(), couponID, members...)
}

// RetryAs is Retry with an order.
func (d *Deployment) RetryAs(order settle.Order, couponID coupon.CouponID, members ...string) *settle.Report {
	d.T.Helper()
	return d.review((*settle.Settler).Retry, order, couponID, members)
}

// Drop drops members of the DLQ, or all. The run must succeed.
func (d *Deployment) Drop(couponID coupon.CouponID, members ...string) *settle.Report {
	d.T.Helper()
	return d.review((*settle.Settler).Drop, Manual(), couponID, members)
}

type decision func(s *settle.Settler, ctx context.Context, couponID coupon.CouponID, order settle.Order,
	members []string) (*settle.Report, error)

func (d *Deployment) review(decide decision, order settle.Order, couponID coupon.CouponID,
	members []string) *settle.Report {
	d.T.Helper()
	s, disconnect := d.settler(nil)
	defer disconnect()
	report, err := decide(s, d.T.Context(), couponID, order, members)
	d.requireSuccess(report, err)
	return report
}

func (d *Deployment) requireSuccess(report *settle.Report, err error) {
	d.T.Helper()
	require.NoError(d.T, err)
	for _, c := range report.Coupons {
		require.Empty(d.T, c.Error, "coupon %d", c.Coupon)
	}
	require.Equal(d.T, coupon.RunSucceeded, report.Status)
}

// CouponAdmin changes coupons in an operator's name, under the operators' account.
func (d *Deployment) CouponAdmin() *couponadmin.Admin {
	d.T.Helper()
	admin, err := couponadmin.New(couponadmin.Config{DB: mysqltx.New(d.open(d.Operator.MySQLDSN)), Redis: d.Store,
		Now: time.Now, Operator: "park", Reason: "TICKET-9"})
	require.NoError(d.T, err)
	return admin
}

// Catalog is the catalog of a pod with this store.
func (d *Deployment) Catalog() *catalog.Catalog {
	d.T.Helper()
	return catalog.New(catalog.Options{DB: d.open(d.API.MySQLDSN), Store: d.Store, Memory: d.Memory(),
		Logger: zap.NewNop(), Now: time.Now})
}

// Refresh refreshes the catalog of a pod, as every pod does every few seconds. A refresh that runs out of time is
// repeated.
func (d *Deployment) Refresh() {
	d.T.Helper()
	require.NoError(d.T, d.RefreshOf(d.Catalog()))
}

// RefreshOf is Refresh for any catalog. It may be called from any goroutine.
func (d *Deployment) RefreshOf(c *catalog.Catalog) error {
	d.T.Helper()
	return testenv.InTime(d.T, func() error { return c.Refresh(d.T.Context()) })
}

// Verify demands that every invariant holds for these coupons, or for all and for rows and keys of no coupon. It
// accepts no warning either.
func (d *Deployment) Verify(coupons ...coupon.CouponID) {
	d.T.Helper()
	for _, v := range d.Check(coupons...) {
		require.Empty(d.T, v.Findings, "coupon %d", v.Coupon)
	}
	if len(coupons) == 0 {
		l := &verify.Verifier{Store: d.Store, Users: d.Users}
		everything, err := l.Plan(d.T.Context(), d.DB, true)
		require.NoError(d.T, err)
		strays, err := l.Strays(d.T.Context(), d.DB, everything)
		require.NoError(d.T, err)
		require.Empty(d.T, strays)
	}
}

// Findings returns the codes of the findings of a check of these coupons, or of all.
func (d *Deployment) Findings(coupons ...coupon.CouponID) (codes []verify.Code) {
	d.T.Helper()
	for _, v := range d.Check(coupons...) {
		for _, f := range v.Findings {
			codes = append(codes, f.Code)
		}
	}
	return codes
}

// Check checks these coupons, or all. Tests insert their coupons by SQL: that warning is left out.
func (d *Deployment) Check(coupons ...coupon.CouponID) (verdicts []*verify.Verdict) {
	d.T.Helper()
	ctx, l := d.T.Context(), &verify.Verifier{Store: d.Store, Users: d.Users}
	if len(coupons) == 0 {
		coupons = Column[coupon.CouponID](d, "SELECT id FROM coupon ORDER BY id")
	}
	for _, couponID := range coupons {
		v, err := l.Check(ctx, d.DB, couponID)
		require.NoError(d.T, err, "coupon %d", couponID)
		v.Findings = slices.DeleteFunc(v.Findings, verify.Finding.OfCreation)
		verdicts = append(verdicts, v)
	}
	require.NoError(d.T, l.CheckWindows(ctx, d.DB, verdicts, func(context.Context) error { return nil }))
	return verdicts
}
