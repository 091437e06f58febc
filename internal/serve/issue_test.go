package serve

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
)

var errAway = errors.New("connection refused")

func TestIssue_LooksOnceAnInterval(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		coupons := make([]Coupon, 1000)
		for i := range coupons {
			coupons[i] = open(coupon.CouponID(i + 1))
		}
		s := newServers(coupons...)
		s.start(t, 1)
		s.forget()
		pass(10 * time.Second)
		require.InDelta(t, 100, len(s.lookedSince()), 5)
		for _, l := range s.lookedSince() {
			require.Len(t, l.coupons, 1000)
		}
		require.Empty(t, s.ran())
	})
}

func TestIssue_SleepsOutsideWindows(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		later := Coupon{ID: 1, Opens: time.Now().Add(time.Minute), Closes: time.Now().Add(122 * time.Second)}
		s := newServers(later)
		r := s.start(t, 1)
		pass(58 * time.Second)
		require.Empty(t, s.lookedSince())
		require.InDelta(t, testutil.ToFloat64(r.measured.looked), float64(time.Now().Unix()), 5, "it lives")
		s.apply(1) // as the shard's clock is a little ahead
		pass(time.Second + 2*interval)
		require.Zero(t, s.waiting(), "it looks from a second before the opening")

		pass(time.Until(later.Closes))
		s.apply(1)
		pass(2 * interval)
		require.Zero(t, s.waiting(), "it looks until a second after the end")

		pass(time.Minute)
		s.forget()
		pass(time.Minute)
		require.Len(t, s.lookedSince(), 12, "a closed coupon is looked at once for each refresh")
		s.apply(1) // put back after a failover
		pass(refreshInterval + 2*interval)
		require.Zero(t, s.waiting())
	})
}

func TestIssue_RunsAgainAtOnceWhileMoreCame(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers(open(1), open(2))
		s.settle = func(_ context.Context, id coupon.CouponID) settle.Issuance {
			issued := result(coupon.Settled)
			s.change(func() { s.lines[id]-- })
			issued.More = s.lines[id] > 0
			return issued
		}
		s.change(func() { s.lines[1], s.lines[2] = 50, 1 })
		s.start(t, 1)
		synctest.Wait()
		require.Zero(t, s.waiting(), "in one interval")
		require.LessOrEqual(t, indexOf(s.ran(), 2), 1, "a long line does not delay another coupon")
	})
}

func indexOf(runs []run, couponID coupon.CouponID) int {
	for i, r := range runs {
		if r.coupon == couponID {
			return i
		}
	}
	return -1
}

func TestIssue_SlowCouponDelaysNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers(open(1), open(2))
		s.settle = func(_ context.Context, id coupon.CouponID) settle.Issuance {
			if id == 1 {
				<-time.After(10 * time.Second)
			}
			return s.issueAll(id)
		}
		s.apply(1)
		s.start(t, 2)
		for range 49 {
			s.apply(2)
			pass(2 * interval)
			require.Equal(t, 1, s.waiting())
			require.Len(t, s.ran(1), 1, "never two runs of one coupon")
		}
		pass(4 * interval)
		require.Zero(t, s.waiting())
	})
}

func TestIssue_BoundsParallelRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers()
		s.settle = func(_ context.Context, id coupon.CouponID) settle.Issuance {
			<-time.After(time.Second)
			return s.issueAll(id)
		}
		for id := range coupon.CouponID(10) {
			s.coupons = append(s.coupons, open(id+1))
			s.apply(id + 1)
		}
		s.start(t, 3)
		pass(5 * time.Second)
		require.Zero(t, s.waiting())
		require.Len(t, s.ran(), 10)
		require.Equal(t, 3, s.most)
	})
}

// A coupon that took longer than an interval is looked at as soon as its run has ended.
func TestIssue_LooksAtOnceAfterLongRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers(open(1))
		s.settle = func(_ context.Context, id coupon.CouponID) settle.Issuance {
			issued := s.issueAll(id)
			<-time.After(115 * time.Millisecond)
			return issued
		}
		s.apply(1)
		s.start(t, 1)
		pass(10 * time.Millisecond)
		s.apply(1)
		pass(106 * time.Millisecond)
		require.Len(t, s.ran(), 2)
	})
}

func TestIssue_PausesAfterRunsWithoutChange(t *testing.T) {
	t.Parallel()
	for _, status := range []coupon.ResultStatus{coupon.Failed, coupon.HeldBack, coupon.Unchanged, coupon.Frozen,
		coupon.NotDue} {
		requirePauses := func(t *testing.T, runs []run) {
			t.Helper()
			if status == coupon.Unchanged { // the first run may be the fault of another replica
				requirePauses(t, runs[1:], time.Second)
			} else {
				requirePauses(t, runs, maxPause)
			}
		}
		t.Run(string(status), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newServers(open(1), open(2))
				s.settle = func(_ context.Context, id coupon.CouponID) settle.Issuance {
					if id == 1 {
						return result(status)
					}
					return s.issueAll(id)
				}
				s.apply(1)
				s.start(t, 1)
				pass(time.Minute)
				requirePauses(t, s.ran(1))

				s.apply(2)
				pass(2 * interval)
				require.Equal(t, 1, s.waiting(), "the other coupon does not pause")

				s.change(func() { s.settle = nil })
				pass(maxPause + maxPause/5 + 2*interval)
				require.Zero(t, s.waiting())
				s.apply(1)
				pass(2 * interval)
				require.Zero(t, s.waiting(), "a run that changes something ends the pauses")

				s.change(func() {
					s.settle = func(context.Context, coupon.CouponID) settle.Issuance { return result(status) }
					s.runs = nil
				})
				s.apply(1)
				pass(time.Minute)
				requirePauses(t, s.ran(1))
			})
		})
	}
}

// requirePauses requires 0.2 s between the first two runs, doubling up to the longest pause.
func requirePauses(t *testing.T, runs []run, longest time.Duration) {
	t.Helper()
	want := firstPause
	for i := 1; i < len(runs); i++ {
		waited := runs[i].at.Sub(runs[i-1].at)
		require.GreaterOrEqual(t, waited, want-want/10)
		require.LessOrEqual(t, waited, want+want/10+2*interval)
		want = min(2*want, longest)
	}
	require.Greater(t, len(runs), 10)
}

// A look may fall between the commit of another replica and the clean-up of the queue.
func TestIssue_NoPauseAfterRunOfAnotherReplica(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers(open(1))
		s.settle = func(context.Context, coupon.CouponID) settle.Issuance {
			s.change(func() { s.lines[1] = 0 }) // the other replica cleans up
			return result(coupon.Unchanged)
		}
		s.start(t, 1)
		for range 10 {
			s.apply(1)
			pass(3 * interval)
			require.Zero(t, s.waiting())
		}
		s.apply(1)
		pass(interval + interval/10)
		require.Len(t, s.ran(), 11)
		s.change(func() { s.settle = nil }) // the other replica dies
		s.apply(1)
		pass(interval + interval/10)
		require.Zero(t, s.waiting())
	})
}

// A trigger that refuses every row must not move everybody to the DLQ.
func TestIssue_RestsWhileRowsAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, status := range []coupon.ResultStatus{coupon.Settled, coupon.Failed} {
			broken := open(1)
			broken.Total = 1000 // 110 rows may be refused
			s := newServers(broken, open(2))
			moved := 0
			s.settle = func(_ context.Context, id coupon.CouponID) settle.Issuance {
				if id == 2 {
					return s.issueAll(id)
				}
				refused := result(status)
				s.change(func() {
					refused.Causes = map[coupon.Cause]int{coupon.CauseBadRow: 60, coupon.CauseUnknownUser: 100}
					s.lines[id] -= 60
					moved += 60
					refused.More = s.lines[id] >= 60
				})
				return refused
			}
			s.change(func() { s.lines[1] = 1000 })
			r := s.start(t, 1)
			rests := func() int { return r.logs.FilterMessageSnippet("settle dlq retry").Len() }
			for minute := 1; minute <= 3; minute++ {
				pass(refusalPeriod - 5*time.Second)
				require.Equal(t, 120*minute, moved, "at most one run more than allowed")
				require.Equal(t, minute, rests())
				s.apply(2)
				pass(2 * interval)
				require.Zero(t, s.lines[2], "the other coupon does not rest")
				pass(5*time.Second - 2*interval)
			}
			entry := r.logs.FilterMessageSnippet("settle dlq retry").All()[0]
			require.Equal(t, zap.ErrorLevel, entry.Level)
			require.EqualValues(t, 1, entry.ContextMap()["coupon_id"])
			require.EqualValues(t, 120, entry.ContextMap()["refused"])
			s.change(func() { s.settle = nil }) // repaired
			pass(2 * refusalPeriod)
			require.Zero(t, s.waiting())
			r.end()
		}
	})
}

func TestIssue_FewRefusedRowsDelayNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers(open(1))
		s.settle = func(_ context.Context, id coupon.CouponID) settle.Issuance {
			issued := s.issueAll(id)
			issued.Causes = map[coupon.Cause]int{coupon.CauseBadRow: 1}
			return issued
		}
		r := s.start(t, 1)
		for range 300 {
			s.apply(1)
			pass(time.Second)
			require.Zero(t, s.waiting())
		}
		require.Empty(t, r.logs.All())
	})
}

func TestIssue_BusyCouponIsTriedAtEachLook(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers(open(1))
		s.settle = func(context.Context, coupon.CouponID) settle.Issuance { return result(coupon.Busy) }
		s.apply(1)
		r := s.start(t, 1)
		pass(10 * interval)
		require.InDelta(t, 10, len(s.ran()), 2)
		require.Empty(t, r.logs.All())
	})
}

func TestIssue_LogsCouponThatWaitsForARestore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers(open(1))
		waits := result(coupon.Busy)
		waits.Waits = true
		s.settle = func(context.Context, coupon.CouponID) settle.Issuance { return waits }
		s.apply(1)
		r := s.start(t, 1)
		pass(longWait - time.Second)
		require.Empty(t, r.logs.All())
		pass(longWait)
		require.Equal(t, 1, r.logs.FilterMessageSnippet("the task journal").Len())
		s.change(func() { s.settle = nil })
		pass(time.Second)
		s.change(func() {
			s.settle = func(context.Context, coupon.CouponID) settle.Issuance { return waits }
		})
		s.apply(1)
		pass(longWait + time.Second)
		require.Equal(t, 2, r.logs.FilterMessageSnippet("the task journal").Len(), "it waits again")
	})
}

func TestIssue_LogsChangesOfFailingCoupon(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers(open(1))
		failed := result(coupon.Failed)
		failed.Error = "connection refused"
		s.settle = func(context.Context, coupon.CouponID) settle.Issuance { return failed }
		s.apply(1)
		r := s.start(t, 1)
		pass(time.Minute)
		s.change(func() {
			s.settle = func(context.Context, coupon.CouponID) settle.Issuance { return result(coupon.HeldBack) }
		})
		pass(time.Minute)
		s.change(func() {
			s.settle = func(context.Context, coupon.CouponID) settle.Issuance { return result(coupon.Busy) }
		})
		pass(time.Minute)
		s.change(func() { s.settle = nil })
		pass(time.Minute)
		var logged []string
		for _, entry := range r.logs.All() {
			logged = append(logged, entry.Message+" "+entry.ContextMap()["status"].(string))
		}
		require.Equal(t, []string{"coupon not issued FAILED", "coupon not issued HELD",
			"coupon no longer fails SETTLED"}, logged)
		require.Equal(t, "connection refused", r.logs.All()[0].ContextMap()["error"])
	})
}

func TestIssue_StartsAnewAfterPanic(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers(open(1))
		panics := 1
		s.shardOf = func(coupon.CouponID) string {
			if panics--; panics >= 0 {
				panic("nil map")
			}
			return ""
		}
		s.apply(1)
		r := s.start(t, 1)
		pass(2 * firstPause)
		require.Zero(t, s.waiting())
		require.Equal(t, 1, r.logs.FilterMessage("task failed").Len())
	})
}

func TestIssue_BacksOffWhileRedisIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers(open(1))
		r := s.start(t, 1)
		s.forget()
		s.change(func() { s.looking = errAway })
		s.apply(1)
		pass(time.Minute)
		require.InDelta(t, 16, len(s.lookedSince()), 5)
		before := testutil.ToFloat64(r.measured.looked)
		require.Less(t, before, float64(time.Now().Unix())-50, "the task cannot look")
		s.change(func() { s.looking = nil })
		pass(maxPause + maxPause/5)
		require.Zero(t, s.waiting())
		s.apply(1)
		pass(2 * interval)
		require.Zero(t, s.waiting(), "the pauses have ended")
		s.forget()
		s.change(func() { s.looking = errAway })
		pass(time.Minute)
		require.Greater(t, len(s.lookedSince()), 13, "the first pause is short again")
	})
}

func TestIssue_HangingShard(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers(open(1), open(2))
		s.shardOf = func(id coupon.CouponID) string { return id.String() }
		s.hanging = "1"
		r := s.start(t, 1)
		for range 50 { // it delays its own coupons only
			s.apply(2)
			pass(2 * interval)
			require.Zero(t, s.waiting())
		}
		age := func() float64 { return float64(time.Now().UnixMicro())/1e6 - testutil.ToFloat64(r.measured.looked) }
		pass(time.Minute)
		require.Zero(t, testutil.ToFloat64(r.measured.looked), "one shard has never been looked at")
		s.change(func() { s.hanging = "" })
		pass(2 * maxPause)
		require.Less(t, age(), 1.0)
		s.change(func() { s.hanging = "2" })
		pass(time.Minute)
		require.Greater(t, age(), 59.0)
		s.change(func() { s.coupons = s.coupons[:1] })
		pass(2 * refreshInterval)
		require.Less(t, age(), 1.0, "the shard has no coupon any more")
	})
}

func TestIssue_PanicsFailOneRunOnly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers(open(1), open(2))
		s.settle = func(_ context.Context, id coupon.CouponID) settle.Issuance {
			if id == 1 {
				panic("nil map")
			}
			return s.issueAll(id)
		}
		s.apply(1)
		r := s.start(t, 2)
		pass(time.Second)
		s.apply(2)
		pass(2 * interval)
		require.Equal(t, 1, s.waiting())
		failures := r.logs.FilterMessage("coupon not issued").All()
		require.Len(t, failures, 1)
		require.Contains(t, failures[0].ContextMap()["error"], "TestIssue_PanicsFailOneRunOnly", "the stack")
	})
}

func TestIssue_StopFinishesRunsAndBeginsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers(open(1), open(2))
		stopped := make(chan struct{})
		s.settle = func(stop context.Context, id coupon.CouponID) settle.Issuance {
			<-stop.Done()
			close(stopped)
			<-time.After(3 * time.Second) // the grace
			issued := s.issueAll(id)
			issued.More = true
			return issued
		}
		s.apply(1)
		r := s.start(t, 1)
		pass(interval)
		s.apply(2)
		pass(2 * interval)
		s.forget()
		r.stop()
		<-stopped
		pass(2 * time.Second)
		require.Equal(t, 2, s.waiting())
		r.end()
		require.Equal(t, 1, s.waiting(), "the current run has ended")
		require.Empty(t, s.lookedSince())
		require.Empty(t, s.ran())
	})
}

// Two replicas share the coupons by the lock of each coupon.
func TestIssue_ReplicasShareCoupons(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServers(open(1))
		locked := false
		s.settle = func(_ context.Context, id coupon.CouponID) settle.Issuance {
			s.mu.Lock()
			if locked {
				s.mu.Unlock()
				return result(coupon.Busy)
			}
			locked = true
			s.mu.Unlock()
			<-time.After(20 * time.Millisecond)
			defer s.change(func() { locked = false })
			return s.issueAll(id)
		}
		first, second := s.start(t, 1), s.start(t, 1)
		for range 600 {
			s.apply(1)
			pass(10 * time.Millisecond)
			require.Less(t, s.waiting(), 20)
		}
		pass(2 * interval)
		require.Zero(t, s.waiting())
		for _, r := range []*replica{first, second} {
			require.Positive(t, testutil.ToFloat64(r.measured.runs.WithLabelValues("SETTLED")))
		}
		first.end()
		s.apply(1)
		pass(2*interval + firstPause)
		require.Zero(t, s.waiting(), "the other one goes on")
	})
}
