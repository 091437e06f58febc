package serve

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/settle"
)

func TestIssue_SettlesWhatIsDueWithoutLine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		due := open(1)
		due.Closes = time.Now().Add(-time.Minute)
		due.Due = true
		s := newServers(due)
		s.start(t, 1)
		require.Len(t, s.ran(), 1)
		pass(refreshInterval - interval)
		require.Len(t, s.ran(), 1, "only the next refresh knows whether it is still due")
		pass(2 * interval)
		require.Len(t, s.ran(), 2)

		s.change(func() {
			s.settle = func(context.Context, coupon.CouponID) settle.Issuance { return result(coupon.Failed) }
		})
		pass(refreshInterval)
		s.change(func() { s.settle, s.runs = nil, nil })
		pass(firstPause * 5)
		require.NotEmpty(t, s.ran(), "a failed run is repeated before the next refresh")
	})
}

// After seats were added, Redis may still answer SOLD_OUT, so that nobody comes into the queue.
func TestIssue_RunsOnceForChangedSeats(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		some := open(1)
		some.Seats = 10
		s := newServers(some)
		s.settle = func(context.Context, coupon.CouponID) settle.Issuance { return result(coupon.Failed) }
		s.start(t, 1)
		pass(refreshInterval * 2)
		require.Greater(t, len(s.ran()), 2, "until a run succeeds")
		s.change(func() { s.settle = nil })
		pass(refreshInterval * 2)
		s.forget()
		pass(refreshInterval * 5)
		require.Empty(t, s.ran())
		s.change(func() { s.coupons[0].Seats = 0 }) // sold out
		pass(refreshInterval * 2)
		require.Empty(t, s.ran())
		s.change(func() { s.coupons[0].Seats = 10 }) // a seat was freed
		pass(refreshInterval * 5)
		require.Len(t, s.ran(), 1)
	})
}

// While a run is under way, its settlement is not cleaned up: the list says due. That is no work for another run.
func TestIssue_RunIsNotDueToItself(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers(open(1))
		s.settle = func(_ context.Context, id coupon.CouponID) settle.Issuance {
			s.change(func() { s.coupons[0].Due = true })
			<-time.After(refreshInterval + time.Second)
			s.change(func() { s.coupons[0].Due = false })
			return s.issueAll(id)
		}
		s.apply(1)
		s.start(t, 1)
		pass(time.Minute)
		require.Len(t, s.ran(), 1)
	})
}

// The reply to a look may be older than a run.
func TestIssue_IgnoresLookFromBeforeRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers(open(1))
		s.start(t, 1)
		pass(refreshInterval - interval)
		s.change(func() { s.replies, s.coupons[0].Due, s.lines[1] = 4*interval, true, 1 })
		pass(interval + interval/2) // the look before the refresh has seen the line, the refresh what is due
		s.change(func() { s.replies, s.coupons[0].Due = 0, false })
		pass(5 * interval)
		require.Zero(t, s.waiting())
		require.Len(t, s.ran(), 1)
	})
}

func TestIssue_LeavesFrozenCouponThatIsReady(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers(open(1), open(2))
		s.settle = func(_ context.Context, id coupon.CouponID) settle.Issuance {
			<-time.After(2 * refreshInterval)
			return s.issueAll(id)
		}
		s.apply(1)
		s.start(t, 1)
		s.apply(2)
		pass(2 * interval)
		s.change(func() { s.coupons = s.coupons[:1] }) // 2 is frozen while 1 is settled
		pass(time.Minute)
		require.Len(t, s.ran(1), 1)
		require.Empty(t, s.ran(2))
	})
}

func TestIssue_KeepsListWhileMySQLIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers(open(1))
		r := s.start(t, 1)
		s.change(func() { s.listing = errAway })
		pass(time.Minute)
		s.apply(1)
		pass(2 * interval)
		require.Zero(t, s.waiting())
		s.change(func() { s.listing, s.coupons = nil, append(s.coupons, open(2)) })
		s.apply(2)
		pass(maxPause + maxPause/5)
		require.Zero(t, s.waiting())
		require.Equal(t, 1, r.logs.FilterMessage("immediate coupons not listed; the last list stays").Len())
		require.Equal(t, 1, r.logs.FilterMessage("immediate coupons listed again").Len())
	})
}

func TestIssue_FollowsTheList(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers(open(1))
		var begun []coupon.CouponID
		s.settle = func(_ context.Context, id coupon.CouponID) settle.Issuance {
			s.change(func() { begun = append(begun, id) })
			<-time.After(20 * time.Second)
			return s.issueAll(id)
		}
		s.apply(1)
		s.start(t, 2)
		s.change(func() { s.coupons = nil }) // frozen while it is settled
		pass(refreshInterval)
		s.change(func() { s.coupons = []Coupon{open(1)} })
		pass(refreshInterval)
		require.Len(t, begun, 1, "the run of the list before is still under way")
		pass(20 * time.Second)
		require.Zero(t, s.waiting())
		s.change(func() { s.coupons = nil })
		pass(refreshInterval)
		s.apply(1)
		s.forget()
		pass(time.Minute)
		require.Empty(t, s.lookedSince(), "a frozen coupon is left alone")
	})
}

// A run reads nothing that a refresh writes: the race detector sees it.
func TestIssue_RefreshDuringRunIsNoRace(t *testing.T) {
	t.Parallel()
	s := newServers()
	task, err := New(Config{Coupons: s, Store: s, Issuer: s, Locks: mysqltx.NewBrief(nil), Interval: interval,
		Parallel: 1, Now: time.Now,
		Logger: zap.NewNop()})
	require.NoError(t, err)
	l := newLoop(task)
	l.alarm = time.NewTimer(time.Hour)
	defer l.alarm.Stop()
	due := open(1)
	due.Due = true
	found := &list{coupons: []Coupon{due}, redis: time.Now(), at: time.Now()}
	l.adopt(t.Context(), found)
	require.Equal(t, 1, l.running)
	l.adopt(t.Context(), found)
	(<-l.reports)()
	require.Len(t, s.ran(), 1)
}

func TestIssue_LogsOnceThatCouponsAreLeftOut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers()
		for id := range coupon.CouponID(MaxCoupons + 1) {
			c := open(id + 1)
			c.Closes = time.Now().Add(-time.Hour) // cheap
			s.coupons = append(s.coupons, c)
		}
		r := s.start(t, 1)
		pass(3 * refreshInterval)
		require.Equal(t, 1, r.logs.Len())
		require.Equal(t, zap.ErrorLevel, r.logs.All()[0].Level)
		s.change(func() { s.coupons = s.coupons[:MaxCoupons] })
		pass(3 * refreshInterval)
		require.Equal(t, 2, r.logs.Len())
		require.Equal(t, zap.InfoLevel, r.logs.All()[1].Level)
	})
}
