package settle_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/verify"
)

// crowd is a coupon of one seat with 400 applications, of which 20 are of users that do not exist.
type crowd struct {
	*jajeongtest.Deployment
	id coupon.CouponID
}

func newCrowd(d *jajeongtest.Deployment) crowd {
	d.T.Helper()
	finaliseAll(d)
	c := crowd{d, d.AddCoupon(1)}
	d.Apply(c.id, between(1, 400)...)
	d.Refresh()
	return c
}

// requireRecord demands the counts that the record of a run has of the coupon.
func (c crowd) requireRecord(run coupon.RunID, issued, underReview, notSelected int64) {
	c.T.Helper()
	coupons, err := history.Reader{DB: c.DB}.RunCoupons(c.T.Context(), run)
	require.NoError(c.T, err)
	require.Len(c.T, coupons, 1)
	require.Equal(c.T, history.Counts{Issued: issued, UnderReview: underReview, NotSelected: notSelected},
		coupons[0].Counts)
	require.Equal(c.T, issued+underReview+notSelected, coupons[0].Read)
}

// requireCountedOnce demands that all records together count each application once, and that the check finds nothing.
func (c crowd) requireCountedOnce() {
	c.T.Helper()
	require.Equal(c.T, []int{1, 20, 379}, []int{
		int(c.Number("SELECT SUM(issued_count) FROM settlement WHERE coupon_id = ?", c.id)),
		int(c.Number("SELECT SUM(under_review_count) FROM settlement WHERE coupon_id = ?", c.id)),
		int(c.Number("SELECT SUM(not_selected_count) FROM settlement WHERE coupon_id = ?", c.id)),
	})
	require.Len(c.T, c.UnderReview(c.id), 20)
	require.Empty(c.T, c.Waiting(c.id))
	c.Verify(c.id)
}

// A record is true when its run is killed in the close-out, and it still is when the next run has continued.
func TestCloseOut_RecordsWhatItDidBeforeInterruption(t *testing.T) {
	t.Parallel()
	d := jajeongtest.NewWith(t, jajeongtest.Options{MySQL: jajeongtest.DatabaseOn(t,
		testenv.PrivateMySQL(t, testenv.MySQLOptions{}))})
	d.AddUsers(between(21, 400)...)
	for name, at := range map[string]struct {
		proxy int
		said  string
		fate  func(func()) faultproxy.Action
		moved int64 // by the killed run
	}{
		"before the page is moved": {jajeongtest.ToRedis, "UNKNOWN_USER", faultproxy.DropRequest, 0},
		"after the page was moved": {jajeongtest.ToRedis, "UNKNOWN_USER", faultproxy.DropReply, 20},
		"before the end is recorded": {jajeongtest.ToMySQL, "UPDATE settlement SET under_review_count = ",
			faultproxy.DropRequest, 20},
	} {
		t.Run("killed "+name, func(t *testing.T) {
			c := newCrowd(d.For(t))
			p := (&scene{Deployment: c.Deployment}).start(1, func(p *process, turn faultproxy.Turn) faultproxy.Action {
				if turn.Proxy == at.proxy && bytes.Contains(turn.Request, []byte(at.said)) {
					return at.fate(p.kill)
				}
				return faultproxy.Pass()
			})
			_, killed := p.wait()
			require.True(t, killed)
			run := coupon.RunID(c.Number("SELECT MAX(id) FROM settlement_run"))
			c.requireRecord(run, 1, 20, 379)
			require.Equal(t, []verify.Code{verify.CleanUpToDo}, c.Findings(c.id))
			next := c.SettleNow()
			c.requireRecord(run, 1, at.moved, 379)
			require.Equal(t, int(20-at.moved), next.Total.UnderReview)
			c.requireCountedOnce()
		})
	}
	t.Run("MySQL read-only before the end is recorded", func(t *testing.T) {
		c := newCrowd(d.For(t))
		readOnly := func(on int) { c.Exec("SET GLOBAL read_only = ?", on) }
		t.Cleanup(func() { readOnly(0) })
		s := c.Settler(func(s *settle.Settler) {
			s.Hook = func(_ coupon.CouponID, step settle.Step) {
				if step == settle.StepFinish {
					readOnly(1)
				}
			}
		})
		report, err := s.RunOnce(t.Context(), jajeongtest.Manual())
		require.Error(t, err, "the end of the run could not be recorded")
		require.Equal(t, settle.Counts{Read: 400, Issued: 1, UnderReview: 20, NotSelected: 379}, report.Total.Counts)
		readOnly(0)
		c.requireRecord(report.Run, 1, 20, 379)
		c.SettleNow()
		c.requireRecord(report.Run, 1, 20, 379)
		c.requireCountedOnce()
	})
}
