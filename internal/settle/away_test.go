package settle_test

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
)

// nightNow is the order of a nightly run with the present as its cutoff.
var nightNow = settle.Order{Trigger: coupon.Cron, CutoffNow: true}

// requireAwayReview requires that the DLQ holds exactly these applications because MySQL was away, with that many
// attempts.
func requireAwayReview(d *jajeongtest.Deployment, couponID coupon.CouponID, attempts int,
	arrivals map[string]coupon.Arrival) {
	d.T.Helper()
	require.Equal(d.T, arrivals, d.UnderReview(couponID))
	for member := range arrivals {
		reason := d.Reason(couponID, member)
		require.Equal(d.T, "DATABASE_AWAY", reason.Cause, member)
		require.NotEmpty(d.T, reason.Note)
		require.True(d.T, reason.Retryable, member)
		require.Equal(d.T, attempts, reason.Attempts, member)
	}
}

// shorten gives a coupon's keys a short time to live.
func shorten(d *jajeongtest.Deployment, couponID coupon.CouponID) {
	d.T.Helper()
	for _, key := range []string{d.Queue(couponID), d.Key("state", couponID)} {
		require.NoError(d.T, d.Redis.Expire(d.T.Context(), key, 10*time.Minute).Err())
	}
}

// renewed reports whether a coupon's keys have their full time to live again.
func renewed(d *jajeongtest.Deployment, couponID coupon.CouponID) bool {
	d.T.Helper()
	for _, key := range []string{d.Queue(couponID), d.Key("state", couponID)} {
		ends, err := d.Redis.ExpireTime(d.T.Context(), key).Result()
		require.NoError(d.T, err)
		if time.Unix(int64(ends.Seconds()), 0).Before(d.Now().Add(candidates.MinTTL)) {
			return false
		}
	}
	return true
}

func TestSettle_MovesFirstToReviewWhileMySQLIsAway(t *testing.T) {
	t.Parallel()
	d, server := newOnPrivateMySQL(t)
	d.AddUsers(between(1, 9)...)
	short, long, sold, retried := d.AddCoupon(3), d.AddCoupon(10), d.AddCoupon(1), d.AddCoupon(2)
	d.Apply(short, 5, 4, 3, 2, 1)
	d.Apply(long, 1, 2)
	d.Apply(sold, 1)
	d.Apply(retried, 1, 2, 3, 4, 5)
	d.SettleNow(sold)
	d.ApplyAt(sold, "2", d.Now().Add(-time.Millisecond)) // in time for the last seat, by a slow pod
	page, _, err := d.Store.Page(t.Context(), retried, coupon.Cursor{}, d.Now())
	require.NoError(t, err)
	_, err = d.Store.Review(t.Context(), retried, 0, time.Time{}, []coupon.Failure{
		{Application: page[0], Cause: "UNKNOWN_USER"},
		{Application: page[2], Cause: "BAD_ROW", Note: "once before", Retryable: true},
	})
	require.NoError(t, err)
	d.Refresh()
	unknown := d.AddCoupon(3) // after the refresh of the catalog
	d.Apply(unknown, 1, 2)
	all := []coupon.CouponID{short, long, sold, retried}
	for _, couponID := range append(all, unknown) {
		shorten(d, couponID)
	}
	arrivals := map[coupon.CouponID]map[string]coupon.Arrival{
		short: arrivalsOf(d, short, 5, 4, 3), long: arrivalsOf(d, long, 1, 2), sold: {},
		retried: arrivalsOf(d, retried, 2),
	}
	held := d.UnderReview(retried)
	require.NoError(t, server.Kill())

	s := oneByOne(d)
	for attempt := range 2 { // a second run changes nothing but the number of attempts
		report, err := s.RunOnce(t.Context(), nightNow)
		require.ErrorContains(t, err, "refused")
		require.Equal(t, settle.Total{Coupons: 4, Counts: settle.Counts{Read: 7, UnderReview: 7}, Unsettled: 4},
			counts(report.Total))
		require.Equal(t, []coupon.Class{coupon.Infrastructure}, slices.Compact(report.Classes()))
		for _, couponID := range []coupon.CouponID{short, long, sold} {
			requireAwayReview(d, couponID, attempt+1, arrivals[couponID])
		}
		require.Equal(t, []string{"2", "1"}, d.Waiting(short), "as many as there are seats, and no more")
		require.Equal(t, []string{"2"}, d.Waiting(sold), "no application, without a free seat")
		require.Equal(t, []string{"4", "5"}, d.Waiting(retried))
		require.Equal(t, map[string]coupon.Arrival{"1": held["1"], "2": arrivals[retried]["2"], "3": held["3"]},
			d.UnderReview(retried), "two seats: 2 and 3, as 1 is held")
		require.Equal(t, candidates.Reason{Cause: "UNKNOWN_USER", Attempts: 1}, d.Reason(retried, "1"))
		why := d.Reason(retried, "3")
		require.Equal(t, []any{"BAD_ROW", "once before", 2 + attempt}, []any{why.Cause, why.Note, why.Attempts},
			"the cause stays")
		require.Equal(t, []string{"1", "2"}, d.Waiting(unknown), "how many seats it has is not known")
		for _, couponID := range all {
			require.Equal(t, len(d.Waiting(couponID)) > 0, d.Redis.Exists(t.Context(), d.Queue(couponID)).Val() == 1)
			if couponID != long { // an empty queue
				require.True(t, renewed(d, couponID), "coupon %d", couponID)
			}
		}
	}
	require.Equal(t, candidates.UnderReview, d.Answer(short, 5))
	require.Equal(t, candidates.Duplicate, d.Answer(short, 1))

	require.NoError(t, server.Restart(t.Context()))
	d.SettleNow()
	requireResults(d, short, results{issued: []coupon.UserID{5, 4, 3}, notSelected: []coupon.UserID{2, 1}})
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(long))
	require.Equal(t, []coupon.UserID{1}, d.Issued(sold))
	require.Equal(t, []coupon.UserID{2, 3}, d.Issued(retried))
	require.Equal(t, []coupon.UserID{4, 5}, d.Outcome(retried, "NOT_SELECTED"))
	require.Equal(t, map[string]coupon.Arrival{"1": held["1"]}, d.UnderReview(retried))
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(unknown))
	for _, couponID := range []coupon.CouponID{short, long, unknown} {
		require.Empty(t, d.UnderReview(couponID))
	}
	d.Verify()
}

// The server refuses everything from the middle of the second of three coupons on. The third is tried once.
func TestSettle_MovesFirstToReviewAfterMySQLDied(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(between(1, 6)...)
	before, hurt, behind := d.AddCoupon(2), d.AddCoupon(2), d.AddCoupon(3)
	for _, couponID := range []coupon.CouponID{before, hurt, behind} {
		d.Apply(couponID, 6, 5, 4, 3, 2, 1)
	}
	wantHurt, wantBehind := arrivalsOf(d, hurt, 6, 5), arrivalsOf(d, behind, 6, 5, 4)
	d.Refresh()
	shorten(d, hurt)
	shorten(d, behind)

	b := newBarrier(d)
	s := oneByOne(d)
	s.Hook = onStep(func(step settle.Step, times int) {
		if step == settle.StepCount && times == 2 { // after the inserts of the second coupon
			b.set(true)
		}
	})
	report, err := s.RunOnce(t.Context(), nightNow)
	require.Error(t, err, "the end of the run could not be recorded")
	require.LessOrEqual(t, b.turned.Load(), int64(maxAttempts+1+1+1),
		"one series of attempts and the question whether it refuses everything; one attempt each for the third "+
			"coupon and the end of the run")
	require.Equal(t, []coupon.ResultStatus{coupon.Settled, coupon.Failed, coupon.Failed},
		[]coupon.ResultStatus{report.Coupons[0].Status, report.Coupons[1].Status, report.Coupons[2].Status})
	require.Equal(t, settle.Total{Coupons: 3,
		Counts: settle.Counts{Read: 11, Issued: 2, UnderReview: 5, NotSelected: 4}, Unsettled: 2}, counts(report.Total))
	require.Equal(t, []coupon.Class{coupon.Infrastructure}, slices.Compact(report.Classes()))
	requireAwayReview(d, hurt, 1, wantHurt)
	requireAwayReview(d, behind, 1, wantBehind)
	require.Equal(t, []string{"4", "3", "2", "1"}, d.Waiting(hurt))
	require.Equal(t, []string{"3", "2", "1"}, d.Waiting(behind))
	require.True(t, renewed(d, hurt))
	require.True(t, renewed(d, behind))
	require.NotContains(t, d.Reason(behind, "6").Note, fmt.Sprintf("coupon %d ", hurt), "the result of another coupon")

	b.set(false)
	d.SettleNow()
	require.Equal(t, []coupon.UserID{6, 5}, d.Issued(before))
	requireResults(d, hurt, results{issued: []coupon.UserID{6, 5}, notSelected: []coupon.UserID{4, 3, 2, 1}})
	requireResults(d, behind, results{issued: []coupon.UserID{6, 5, 4}, notSelected: []coupon.UserID{3, 2, 1}})
	require.Empty(t, d.UnderReview(hurt))
	require.Empty(t, d.UnderReview(behind))
	d.Verify()
}

// The settlement stays committed. The next run cleans up.
func TestSettle_StaysCommittedWhenRedisDies(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true})
	shared := jajeongtest.NewWith(t, jajeongtest.Options{Redis: jajeongtest.RedisAt(t, server.Addr())})
	shared.AddUsers(1, 2, 3)
	for _, at := range []settle.Step{settle.StepCleanUp, settle.StepCloseOut, settle.StepSweep} {
		t.Run(string(at), func(t *testing.T) {
			d := shared.For(t)
			now := d.Now()
			couponID := d.AddCoupon(2)
			d.Apply(couponID, 3, 1, 2)
			d.SetWindow(couponID, now.Add(-time.Hour), now.Add(-time.Minute))

			s := oneByOne(d)
			s.Hook = onStep(func(step settle.Step, times int) {
				if step == at && times == 1 {
					require.NoError(t, server.Kill())
				}
			})
			report, err := s.RunOnce(t.Context(), jajeongtest.Manual(couponID))
			require.NoError(t, err)
			require.Equal(t, []coupon.Class{coupon.Infrastructure}, report.Classes())
			require.Equal(t, coupon.Failed, report.Coupons[0].Status)
			require.Equal(t, 2, report.Total.Issued)
			require.Contains(t, report.Coupons[0].Error, "refused")
			require.Equal(t, []coupon.UserID{3, 1}, d.Issued(couponID))

			require.NoError(t, server.Restart(t.Context()))
			d.SettleNow(couponID)
			requireResults(d, couponID, results{issued: []coupon.UserID{3, 1}, notSelected: []coupon.UserID{2}})
			require.Empty(t, d.IDs("SELECT run_id FROM settlement WHERE cleaned_at IS NULL"))
			require.Len(t, d.IDs("SELECT id FROM coupon WHERE id = ? AND finalised_at IS NOT NULL", couponID), 1)
			d.Verify(couponID)
		})
	}
}

// barrier is a proxy of MySQL. When it is shut, it closes all connections, and counts and closes new ones.
type barrier struct {
	listener net.Listener
	server   string
	mu       sync.Mutex
	shut     bool
	through  []net.Conn
	turned   atomic.Int64
}

// newBarrier puts a barrier between the settlement and MySQL.
func newBarrier(d *jajeongtest.Deployment) *barrier {
	d.T.Helper()
	config, err := mysql.ParseDSN(d.Job.MySQLDSN)
	require.NoError(d.T, err)
	b := &barrier{server: config.Addr}
	b.listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(d.T, err)
	config.Addr = b.listener.Addr().String()
	d.Job.MySQLDSN = config.FormatDSN()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := b.listener.Accept()
			if err != nil {
				return
			}
			b.admit(conn)
		}
	}()
	d.T.Cleanup(func() { b.listener.Close(); b.set(true); <-done })
	return b
}

func (b *barrier) admit(conn net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shut {
		b.turned.Add(1)
		conn.Close()
		return
	}
	server, err := net.Dial("tcp", b.server)
	if err != nil {
		conn.Close()
		return
	}
	b.through = append(b.through, conn, server)
	go func() { _, _ = io.Copy(server, conn); server.Close() }()
	go func() { _, _ = io.Copy(conn, server); conn.Close() }()
}

func (b *barrier) set(shut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shut = shut; shut {
		for _, conn := range b.through {
			conn.Close()
		}
		b.through = nil
	}
}

// maxAttempts bounds the attempts at a transaction, each on a connection of its own.
const maxAttempts = 7

func TestManualRun_LeavesQueueAsItIsWhileMySQLIsAway(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(2, 3, 1, 2)
	d.Refresh()
	b := newBarrier(d)
	s := oneByOne(d)
	s.Hook = onStep(func(step settle.Step, _ int) { b.set(step == settle.StepCount) })
	report, err := s.RunOnce(t.Context(), jajeongtest.Manual())
	require.Error(t, err, "the end of the run could not be recorded")
	require.Equal(t, []coupon.Class{coupon.Infrastructure}, report.Classes())
	require.ErrorContains(t, report.Coupons[0].Err(), "nothing was moved")
	requireUnchanged(d, couponID, 3, 1, 2)

	b.set(true)
	report, err = s.RunOnce(t.Context(), jajeongtest.Manual())
	require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(err))
	require.Equal(t, []coupon.Class{coupon.Infrastructure}, report.Classes())
	requireUnchanged(d, couponID, 3, 1, 2)
	b.set(false)
	settleThree(d, couponID)
}

// Without a readable snapshot of the catalog, the first applications cannot be determined.
func TestSettle_NeedsReadableSnapshotWhileMySQLIsAway(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(2, 3, 1, 2)
	arrivals := arrivalsOf(d, couponID, 3, 1)
	b := newBarrier(d)
	b.set(true)
	_, err := d.Settle(nightNow)
	require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(err))
	require.LessOrEqual(t, b.turned.Load(), int64(maxAttempts+2),
		"the look at how it logs, one series of attempts, and the question whether it refuses everything")
	requireUnchanged(d, couponID, 3, 1, 2)

	require.NoError(t, d.Store.SaveCatalog(t.Context(), []byte("{")))
	s := oneByOne(d)
	_, err = s.RunOnce(t.Context(), nightNow)
	require.ErrorContains(t, err, "snapshot")
	requireUnchanged(d, couponID, 3, 1, 2)

	d.Refresh()
	report, err := s.RunOnce(t.Context(), nightNow)
	require.True(t, mysqltx.IsAway(err), err)
	require.Equal(t, 2, report.Total.UnderReview)
	require.LessOrEqual(t, b.turned.Load(), int64(3*(maxAttempts+1)+1),
		"three series of attempts, each with the question whether it refuses everything, and the look at how it logs")
	requireAwayReview(d, couponID, 1, arrivals)
	require.Equal(t, []string{"2"}, d.Waiting(couponID))
	b.set(false)
	settleThree(d, couponID)
}
