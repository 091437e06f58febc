package settle_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// commit finds the COMMIT of one transaction of a run that settles one coupon after another.
type commit struct {
	after string // a statement that no other transaction has
	index int    // of the coupon in the scene

	unknownApplied bool // which of the two slow cases a short test has

	said   bool
	passed int
}

var transactions = map[string]commit{
	"those issued":        {after: "INTO user_coupon", unknownApplied: true},
	"a page of the rest":  {after: "INSERT INTO application_outcome"},
	"the end of a coupon": {after: "UPDATE coupon SET finalised_at", index: 2, unknownApplied: true},
}

// passes is whether this turn is the COMMIT, the first time.
func (c *commit) passes(turn faultproxy.Turn) bool {
	switch {
	case turn.Proxy != jajeongtest.ToMySQL:
	case bytes.Contains(turn.Request, []byte("START TRANSACTION")):
		c.said = false
	case bytes.Contains(turn.Request, []byte(c.after)):
		c.said = true
	case bytes.HasSuffix(turn.Request, []byte("\x03COMMIT")) && c.said:
		c.said = false
		c.passed++
		return c.passed == 1
	}
	return false
}

// settleOneByOne settles one coupon after the other.
func settleOneByOne(proxied *jajeongtest.Deployment, coupons ...coupon.CouponID) (*settle.Report, error) {
	return proxied.Settler(func(s *settle.Settler) { s.Parallel = 1 }).RunOnce(proxied.T.Context(),
		jajeongtest.Manual(coupons...))
}

// undisturbedTotal is what a run on a scene reports.
var undisturbedTotal = settle.Total{Coupons: 3,
	Counts: settle.Counts{Read: 3 + 43 + 4 + 3, Issued: 12 + 3 + 2, UnderReview: 7, Rejected: 1, AlreadyIssued: 3,
		NotSelected: 24 + 1}}

// mustReport demands the counts of an undisturbed run, in the report and in the run's records.
func (s *scene) mustReport(report *settle.Report) {
	s.T.Helper()
	require.Empty(s.T, report.Classes())
	require.Equal(s.T, undisturbedTotal, counts(report.Total))
	var recorded settle.Total
	require.NoError(s.T, s.DB.QueryRow(`SELECT COUNT(*), SUM(issued_count), SUM(under_review_count), SUM(ended_count),
		SUM(already_issued_count), SUM(not_selected_count)
		FROM settlement WHERE run_id = ? AND cleaned_at IS NOT NULL`, report.Run).
		Scan(&recorded.Coupons, &recorded.Issued, &recorded.UnderReview, &recorded.Rejected, &recorded.AlreadyIssued,
			&recorded.NotSelected))
	recorded.Read = undisturbedTotal.Read // is not recorded
	require.Equal(s.T, undisturbedTotal, recorded)
}

func TestSettle_DeterminesResultOfLostCommit(t *testing.T) {
	t.Parallel()
	st := newStage(t, runtime.GOMAXPROCS(0), jajeongtest.NewOnPrivateRedis)
	for name, c := range transactions {
		t.Run(name+", applied", func(t *testing.T) {
			t.Parallel()
			goesOn(t, st.scene(t), c, faultproxy.DropReply(nil))
		})
		t.Run(name+", never delivered", func(t *testing.T) {
			t.Parallel()
			goesOn(t, st.scene(t), c, faultproxy.DropRequest(nil))
		})
		t.Run(name+", applied only when the job already looks for it", func(t *testing.T) {
			t.Parallel()
			waitsForTheLost(t, st.scene(t), c)
		})
		if testenv.Soaking() || c.unknownApplied {
			t.Run(name+", applied, and MySQL gone", func(t *testing.T) {
				t.Parallel()
				movesNothing(t, st.scene(t), c, faultproxy.DropReply)
			})
		}
		if testenv.Soaking() || !c.unknownApplied {
			t.Run(name+", never delivered, and MySQL gone", func(t *testing.T) {
				t.Parallel()
				movesNothing(t, st.scene(t), c, faultproxy.DropRequest)
			})
		}
	}
}

// The run determines whether the COMMIT was applied, continues, and counts nothing twice.
func goesOn(t *testing.T, s *scene, c commit, fate faultproxy.Action) {
	proxies, proxied := s.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
		if c.passes(turn) {
			return fate
		}
		return faultproxy.Pass()
	})
	report, err := settleOneByOne(proxied)
	require.NoError(t, err)
	require.NotZero(t, proxies[jajeongtest.ToMySQL].Turns())
	require.NotZero(t, c.passed, "a reply was lost")
	s.mustBeSettled()
	s.mustReport(report)
}

// The run reports the same for two equal coupons, although the reply to the COMMIT of the second is lost.
func TestSettle_ReportsWhatLostCommitDid(t *testing.T) {
	t.Parallel()
	shared := jajeongtest.NewOnPrivateRedis(t)
	shared.AddUsers(between(1, 9)...)
	shared.RefuseRows("user_coupon", 2)
	for name, users := range map[string][]coupon.UserID{"gap alone": nil,
		"winners, a refused row and a gap": between(1, 9)} {
		t.Run(name, func(t *testing.T) {
			d := shared.For(t)
			coupons := []coupon.CouponID{d.AddCoupon(5), d.AddCoupon(5)}
			for _, couponID := range coupons {
				d.Apply(couponID, users...)
				d.AddPromises(couponID, 3)
			}
			lost := commit{after: "written_off + VALUES"}
			writesOff := 0
			_, proxied := d.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
				if bytes.Contains(turn.Request, []byte(lost.after)) {
					writesOff++
				}
				if writesOff == 2 && lost.passes(turn) {
					return faultproxy.DropReply(nil)
				}
				return faultproxy.Pass()
			})
			order := jajeongtest.Manual(coupons...)
			order.AcceptGap = true
			report, err := proxied.Settler(func(s *settle.Settler) { s.Parallel = 1 }).RunOnce(t.Context(), order)
			require.NoError(t, err)
			require.Equal(t, 1, lost.passed, "a reply was lost")
			want, got := report.Coupons[0], report.Coupons[1]
			require.EqualValues(t, 3, want.Gap)
			require.Equal(t, coupon.Settled, want.Status)
			got.Coupon, got.Name, got.Millis, got.FirstArrival, got.LastArrival = want.Coupon, want.Name, want.Millis,
				want.FirstArrival, want.LastArrival
			require.Equal(t, want, got)
			require.Equal(t, []int{3, 3}, jajeongtest.Column[int](d,
				"SELECT gap FROM run_coupon WHERE run_id = ? ORDER BY coupon_id", report.Run))
			d.Verify(coupons...)
		})
	}
}

// A malformed member has no row that a later attempt could find it by.
func TestDrop_RemovesMalformedMemberAfterLostCommit(t *testing.T) {
	t.Parallel()
	d := jajeongtest.NewOnPrivateRedis(t)
	couponID := d.AddCoupon(5)
	d.ApplyAt(couponID, "seven", d.Now().Add(-time.Minute))
	d.SettleNow()
	lost := commit{after: "INSERT INTO application_outcome"}
	_, proxied := d.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
		if lost.passes(turn) {
			return faultproxy.DropReply(nil)
		}
		return faultproxy.Pass()
	})
	require.Equal(t, 1, proxied.Drop(couponID, "seven").Total.Rejected)
	require.Equal(t, 1, lost.passed, "a reply was lost")
	require.Empty(t, d.Redis.ZRange(t.Context(), d.Key("dlq", couponID), 0, -1).Val())
	d.Verify()
}

// The lost transaction is still open when the run looks for its result. Its lock makes the run wait until the COMMIT
// has arrived.
func waitsForTheLost(t *testing.T, s *scene, c commit) {
	late := make(chan struct{})
	_, proxied := s.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
		if c.passes(turn) {
			return faultproxy.DelayRequest(late)
		}
		return faultproxy.Pass()
	})
	var report *settle.Report
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		report, err = settleOneByOne(proxied)
	}()
	s.AwaitLockWait()
	close(late)
	<-ended
	require.NoError(t, err)
	s.mustBeSettled()
	s.mustReport(report)
}

// While the result of the COMMIT is not known, no application of the coupon moves. The next run determines it.
func movesNothing(t *testing.T, s *scene, c commit, fate func(func()) faultproxy.Action) {
	couponID := s.coupons()[c.index]
	var proxies []*faultproxy.Proxy
	var before places
	proxies, proxied := s.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
		if c.passes(turn) {
			return fate(func() {
				before = placesOf(s.Deployment, couponID)
				proxies[jajeongtest.ToMySQL].Down()
			})
		}
		return faultproxy.Pass()
	})
	_, err := settleOneByOne(proxied, couponID)
	require.Error(t, err, "the end of the run could not be recorded")
	require.NotZero(t, proxies[jajeongtest.ToMySQL].Turns())
	require.NotZero(t, c.passed, "a reply was lost")
	require.NoError(t, before.err)
	require.Equal(t, before, placesOf(s.Deployment, couponID))
	s.SettleNow()
	s.mustBeSettled()
}

// A run repeats each operation on another connection. Nothing is done or counted twice.
func TestSettle_RepeatsOperationAfterLostConnection(t *testing.T) {
	t.Parallel()
	st := newStage(t, runtime.GOMAXPROCS(0), jajeongtest.NewOnPrivateRedis)
	turns := 0
	t.Run("undisturbed", func(t *testing.T) {
		s := st.scene(t)
		_, proxied := s.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
			if turn.Proxy == jajeongtest.ToMySQL {
				turns++
			}
			return faultproxy.Pass()
		})
		report, err := settleOneByOne(proxied)
		require.NoError(t, err)
		s.mustReport(report)
	})
	blows := everyBlow(turns, 1, 0)
	blows = spread(blows, testenv.Rounds(6, len(blows)))
	t.Run("lost", func(t *testing.T) {
		for _, b := range blows {
			t.Run(b.String(), func(t *testing.T) {
				t.Parallel()
				s := st.scene(t)
				lose := b.at(func(*process) {})
				asked := 0
				_, proxied := s.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
					if turn.Proxy != jajeongtest.ToMySQL {
						return faultproxy.Pass()
					}
					asked++
					turn.Number = asked
					return lose(nil, turn)
				})
				report, err := settleOneByOne(proxied)
				require.NoError(t, err)
				s.mustBeSettled()
				s.mustReport(report)
				require.Empty(t, s.IDs("SELECT id FROM settlement_run WHERE status = 'RUNNING'"))
			})
		}
	})
	t.Logf("the connection to MySQL was lost at %d of its operations", len(blows))
}

// places are the queue and the DLQ of a coupon, with arrivals.
type places struct {
	queue, dlq []redis.Z
	err        error
}

func placesOf(d *jajeongtest.Deployment, couponID coupon.CouponID) (p places) {
	ctx := context.Background() // also from a rule, where no test can be failed
	var queueErr, dlqErr error
	p.queue, queueErr = d.Redis.ZRangeWithScores(ctx, d.Queue(couponID), 0, -1).Result()
	p.dlq, dlqErr = d.Redis.ZRangeWithScores(ctx, d.Key("dlq", couponID), 0, -1).Result()
	p.err = errors.Join(queueErr, dlqErr)
	return p
}
