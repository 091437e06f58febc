package runmetrics

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// A coupon without a result keeps its gap. A process that does not know the gaps exports none, so that the gateway
// keeps its value.
func TestMetrics_KeepGapUntilNextAccount(t *testing.T) {
	t.Parallel()
	type ended struct {
		coupons []settle.Result
		err     error
		gap     string // exported; "": none
	}
	held := func(couponID coupon.CouponID, gap int64) settle.Result {
		return settle.Result{Coupon: couponID, Status: coupon.HeldBack, Gap: gap}
	}
	as := func(couponID coupon.CouponID, status coupon.ResultStatus) settle.Result {
		return settle.Result{Coupon: couponID, Status: status}
	}
	for name, runs := range map[string][]ended{
		"found and gone": {{[]settle.Result{held(1, 3), held(2, 2)}, nil, "5"},
			{[]settle.Result{as(1, coupon.Settled), held(2, 2)}, nil, "2"},
			{[]settle.Result{as(2, coupon.Unchanged)}, nil, "0"}},
		"a coupon is busy, and fails": {
			{[]settle.Result{held(1, 3), as(2, coupon.Settled)}, nil, "3"},
			{[]settle.Result{as(1, coupon.Busy), as(2, coupon.Settled)}, nil, "3"},
			{[]settle.Result{as(1, coupon.Failed), as(2, coupon.Busy)}, nil, "3"},
			{[]settle.Result{as(1, coupon.Settled), as(2, coupon.Failed)}, nil, "0"},
		},
		"unknown before": {{[]settle.Result{as(1, coupon.Failed), as(2, coupon.Settled)}, nil,
			""}, {[]settle.Result{as(1, coupon.Busy), as(2, coupon.Settled)}, nil, ""},
			{[]settle.Result{as(1, coupon.Settled)}, nil, "0"}},
		"unknown, but one found": {{[]settle.Result{as(1, coupon.Failed), held(2, 4)}, nil, "4"}},
		"a run is stopped, or could not begin": {{nil, errors.New("stopped"), ""},
			{[]settle.Result{held(1, 3), as(2, coupon.Settled)}, nil, "3"},
			{[]settle.Result{as(2, coupon.Unchanged)}, errors.New("stopped"), "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := New(time.Now)
			exported := ""
			for _, run := range runs {
				m.Begin()
				requireGap(t, m, exported) // a run that is killed here has exported the last gap
				m.End(&settle.Report{Status: coupon.RunSucceeded, Coupons: run.coupons}, run.err)
				exported = run.gap
				requireGap(t, m, exported)
			}
			m.Begin()
			m.End(nil, errors.New("no database"))
			requireGap(t, m, exported)
		})
	}
}

func requireGap(t *testing.T, m *Metrics, gap string) {
	t.Helper()
	const name = "jajeong_run_gap_applications"
	want := ""
	if gap != "" {
		want = "# HELP " + name +
			" Accepted applications that cannot be found, of the coupons that are held because of that, once a run " +
			"has ended.\n" +
			"# TYPE " + name + " gauge\n" + name + " " + gap + "\n"
	}
	require.NoError(t, testutil.CollectAndCompare(m, strings.NewReader(want), name))
}
