package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/schedule"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
)

// awayReview demands that exactly these are under review because the database was away, for so many times.
func (w *world) awayReview(couponID uint64, attempts int, arrivals map[string]int64) {
	w.t.Helper()
	require.Equal(w.t, arrivals, w.underReview(couponID))
	for member := range arrivals {
		reason := w.reason(couponID, member)
		require.Equal(w.t, "DATABASE_AWAY", reason.Cause, member)
		require.NotEmpty(w.t, reason.Message)
		require.True(w.t, reason.Retryable, member)
		require.Equal(w.t, attempts, reason.Attempts, member)
	}
}

// shorten gives a coupon's keys little time to live.
func (w *world) shorten(couponID uint64) {
	w.t.Helper()
	for _, key := range []string{w.queue(couponID), "state:{" + w.queue(couponID) + "}"} {
		require.NoError(w.t, w.rdb.Expire(w.t.Context(), key, 10*time.Minute).Err())
	}
}

// renewed is whether a coupon's keys have their full life again.
func (w *world) renewed(couponID uint64) bool {
	w.t.Helper()
	for _, key := range []string{w.queue(couponID), "state:{" + w.queue(couponID) + "}"} {
		ends, err := w.rdb.ExpireTime(w.t.Context(), key).Result()
		require.NoError(w.t, err)
		if time.Unix(int64(ends.Seconds()), 0).Before(w.now().Add(candidates.MinTTL)) {
			return false
		}
	}
	return true
}

func TestMySQLIsAwayFromTheStart(t *testing.T) {
	t.Parallel()
	w, server := newOwnWorld(t)
	w.users(between(1, 9)...)
	short, long, sold, retried := w.coupon(3), w.coupon(10), w.coupon(1), w.coupon(2)
	w.apply(short, 5, 4, 3, 2, 1)
	w.apply(long, 1, 2)
	w.apply(sold, 1)
	w.apply(retried, 1, 2, 3, 4, 5)
	w.settleNow(fmt.Sprintf("--coupon=%d", sold))
	w.stand(sold, "2", w.now().Add(-time.Millisecond)) // in time for the last seat, by a slow pod
	page, _, err := w.store.Page(t.Context(), retried, coupon.Cursor{}, w.now())
	require.NoError(t, err)
	_, err = w.store.Review(t.Context(), retried, 0, time.Time{}, []coupon.Failure{
		{Application: page[0], Cause: "UNKNOWN_USER"},
		{Application: page[2], Cause: "BAD_ROW", Message: "once before", Retryable: true},
	})
	require.NoError(t, err)
	w.refresh()
	unknown := w.coupon(3) // since the catalog looked last
	w.apply(unknown, 1, 2)
	all := []uint64{short, long, sold, retried}
	for _, couponID := range append(all, unknown) {
		w.shorten(couponID)
	}
	arrivals := map[uint64]map[string]int64{
		short: w.arrivalsOf(short, 5, 4, 3), long: w.arrivalsOf(long, 1, 2), sold: {}, retried: w.arrivalsOf(retried, 2),
	}
	held := w.underReview(retried)
	require.NoError(t, server.Kill())

	s := w.settlerOfItsOwn()
	for attempt := range 2 { // a second run changes nothing but the number of attempts
		report, err := s.RunOnce(t.Context(), settle.Order{Trigger: coupon.Manual, CutoffNow: true})
		require.ErrorContains(t, err, "refused")
		require.Equal(t, settle.Total{Coupons: 4, Counts: settle.Counts{UnderReview: 7}, Failed: 4}, withoutTime(report.Total))
		require.Equal(t, exitError(exitInfrastructure), worst(report.Classes()))
		for _, couponID := range []uint64{short, long, sold} {
			w.awayReview(couponID, attempt+1, arrivals[couponID])
		}
		require.Equal(t, []string{"2", "1"}, w.waiting(short), "as many as there are seats, and no more")
		require.Equal(t, []string{"2"}, w.waiting(sold), "nobody, where no seat is free")
		require.Equal(t, []string{"4", "5"}, w.waiting(retried))
		require.Equal(t, map[string]int64{"1": held["1"], "2": arrivals[retried]["2"], "3": held["3"]}, w.underReview(retried), "two seats: 2 and 3, as 1 is held")
		require.Equal(t, candidates.Reason{Cause: "UNKNOWN_USER", Attempts: 1}, w.reason(retried, "1"))
		why := w.reason(retried, "3")
		require.Equal(t, []any{"BAD_ROW", "once before", 2 + attempt}, []any{why.Cause, why.Message, why.Attempts}, "why it is there stays")
		require.Equal(t, []string{"1", "2"}, w.waiting(unknown), "how many seats it has is not known")
		for _, couponID := range all {
			require.Equal(t, len(w.waiting(couponID)) > 0, w.rdb.Exists(t.Context(), w.queue(couponID)).Val() == 1)
			if couponID != long { // whose line is empty
				require.True(t, w.renewed(couponID), "coupon %d", couponID)
			}
		}
	}
	require.Equal(t, candidates.UnderReview, w.answer(short, 5))
	require.Equal(t, candidates.Duplicate, w.answer(short, 1))

	require.NoError(t, server.Restart(t.Context()))
	w.settleNow()
	require.Equal(t, []uint64{5, 4, 3}, w.issued(short))
	require.Equal(t, []uint64{2, 1}, w.outcome(short, "NOT_SELECTED"))
	require.Equal(t, []uint64{1, 2}, w.issued(long))
	require.Equal(t, []uint64{1}, w.issued(sold))
	require.Equal(t, []uint64{2, 3}, w.issued(retried))
	require.Equal(t, []uint64{4, 5}, w.outcome(retried, "NOT_SELECTED"))
	require.Equal(t, map[string]int64{"1": held["1"]}, w.underReview(retried))
	require.Equal(t, []uint64{1, 2}, w.issued(unknown))
	for _, couponID := range []uint64{short, long, unknown} {
		require.Empty(t, w.underReview(couponID))
	}
	w.verify()
}

// The server dies in the middle of the second of three coupons and stays down.
func TestMySQLDiesInTheMiddleOfACoupon(t *testing.T) {
	t.Parallel()
	w, server := newOwnWorld(t)
	w.users(between(1, 6)...)
	before, hurt, behind := w.coupon(2), w.coupon(2), w.coupon(3)
	for _, couponID := range []uint64{before, hurt, behind} {
		w.apply(couponID, 6, 5, 4, 3, 2, 1)
	}
	wantHurt, wantBehind := w.arrivalsOf(hurt, 6, 5), w.arrivalsOf(behind, 6, 5, 4)
	w.shorten(hurt)
	w.shorten(behind)

	s := w.settlerOfItsOwn()
	s.Hook = onStep(func(step settle.Step, times int) {
		if step == settle.StepCount && times == 2 { // the seats of the second coupon are given, and not yet counted
			require.NoError(t, server.Kill())
		}
	})
	report, err := s.RunOnce(t.Context(), settle.Order{Trigger: coupon.Manual, CutoffNow: true})
	require.Error(t, err, "how the run ended could not be recorded")
	require.Equal(t, []coupon.ResultStatus{coupon.Settled, coupon.Failed, coupon.Failed}, []coupon.ResultStatus{report.Coupons[0].Status, report.Coupons[1].Status, report.Coupons[2].Status})
	require.Equal(t, settle.Total{Coupons: 3, Counts: settle.Counts{Read: 6, Issued: 2, UnderReview: 5, NotSelected: 4}, Failed: 2}, withoutTime(report.Total))
	require.Equal(t, exitError(exitInfrastructure), worst(report.Classes()))
	w.awayReview(hurt, 1, wantHurt)
	w.awayReview(behind, 1, wantBehind)
	require.Equal(t, []string{"4", "3", "2", "1"}, w.waiting(hurt))
	require.Equal(t, []string{"3", "2", "1"}, w.waiting(behind))
	require.True(t, w.renewed(hurt))
	require.True(t, w.renewed(behind))
	require.NotContains(t, w.reason(behind, "6").Message, fmt.Sprintf("coupon %d ", hurt), "what became of another coupon")

	require.NoError(t, server.Restart(t.Context()))
	w.settleNow()
	require.Equal(t, []uint64{6, 5}, w.issued(before))
	require.Equal(t, []uint64{6, 5}, w.issued(hurt))
	require.Equal(t, []uint64{4, 3, 2, 1}, w.outcome(hurt, "NOT_SELECTED"))
	require.Equal(t, []uint64{6, 5, 4}, w.issued(behind))
	require.Equal(t, []uint64{3, 2, 1}, w.outcome(behind, "NOT_SELECTED"))
	require.Empty(t, w.underReview(hurt))
	require.Empty(t, w.underReview(behind))
	w.verify()
}

func withoutTime(t settle.Total) settle.Total {
	return settle.Total{Coupons: t.Coupons, Counts: t.Counts, Failed: t.Failed}
}

// Whatever Redis is to be told when it goes away: what is committed is committed, and the next run tells it.
func TestRedisGoesAwayAfterTheCommit(t *testing.T) {
	t.Parallel()
	for _, at := range []settle.Step{settle.StepCleanUp, settle.StepCloseOut, settle.StepSweep} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			server := testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true})
			w := newWorldOn(t, handle(t, server.Addr()))
			now := w.now()
			couponID := w.coupon(2)
			w.users(1, 2, 3)
			w.apply(couponID, 3, 1, 2)
			w.exec("UPDATE coupon SET apply_closes_at = ? WHERE id = ?", now.Add(-time.Minute), couponID)
			w.publish(couponID, now.Add(-time.Hour), now.Add(-time.Minute))

			s := w.settler()
			s.Parallel = 1
			s.Hook = onStep(func(step settle.Step, times int) {
				if step == at && times == 1 {
					require.NoError(t, server.Kill())
				}
			})
			code, report, stdout, stderr := w.settleWith(s)
			require.Equal(t, 1, code)
			require.Equal(t, 2, report.Total.Issued)
			require.Contains(t, stdout, "FAILED")
			require.Contains(t, stderr, "refused")
			require.Equal(t, []uint64{3, 1}, w.issued(couponID), "what is committed is committed")

			require.NoError(t, server.Restart(t.Context()))
			w.settleNow()
			require.Equal(t, []uint64{3, 1}, w.issued(couponID))
			require.Equal(t, []uint64{2}, w.outcome(couponID, "NOT_SELECTED"))
			require.Empty(t, w.waiting(couponID))
			require.Empty(t, w.ids("SELECT run_id FROM settlement WHERE cleaned_at IS NULL"))
			require.Equal(t, []uint64{couponID}, w.ids("SELECT id FROM coupon WHERE finalised_at IS NOT NULL"))
			w.verify()
		})
	}
}

// A Redis that hangs is given up after its timeout.
func TestRedisHangsAfterTheCommit(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	w := newWorldOn(t, handle(t, server.Addr()))
	couponID := w.lineOfThree()
	s := w.settler()
	s.Hook = onStep(func(step settle.Step, _ int) {
		if step == settle.StepCleanUp {
			require.NoError(t, server.Freeze())
		}
	})
	code, report, _, stderr := w.settleWith(s)
	require.Equal(t, 1, code)
	require.Equal(t, 2, report.Total.Issued)
	require.Contains(t, stderr, "timeout")
	require.NoError(t, server.Thaw())
	w.threeSettled(couponID)
}

// barrier stands before MySQL. Open, it leads there; shut, it breaks what leads through it, and counts and hangs up on
// whoever comes.
type barrier struct {
	listener net.Listener
	server   string
	mu       sync.Mutex
	shut     bool
	through  []net.Conn
	turned   atomic.Int64
}

// newBarrier puts a barrier before the world's MySQL and lets its program go through it.
func newBarrier(w *world) *barrier {
	w.t.Helper()
	config, err := mysql.ParseDSN(strings.TrimPrefix(w.servers[0], "--mysql-dsn="))
	require.NoError(w.t, err)
	b := &barrier{server: config.Addr}
	b.listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(w.t, err)
	config.Addr = b.listener.Addr().String()
	w.servers = append([]string{"--mysql-dsn=" + config.FormatDSN()}, w.servers[1:]...)
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
	w.t.Cleanup(func() { b.listener.Close(); b.set(true); <-done })
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

// mostAttempts is how often one thing is tried, each on a connection of its own.
const mostAttempts = 7

func TestAServerThatRefusesIsNotAskedByEveryCoupon(t *testing.T) {
	t.Parallel()
	const coupons = 12
	w := newWorld(t)
	w.users(1, 2)
	for range coupons {
		w.apply(w.coupon(1), 1, 2)
	}
	w.refresh()
	b := newBarrier(w)
	s := w.settlerOfItsOwn()
	s.Hook = onStep(func(step settle.Step, times int) {
		if step == settle.StepCount && times == 1 {
			b.set(true)
		}
	})
	report, err := s.RunOnce(t.Context(), settle.Order{Trigger: coupon.Manual, CutoffNow: true})
	require.Error(t, err, "how the run ended could not be recorded")
	require.Equal(t, coupons, report.Total.Failed)
	require.Equal(t, coupons, report.Total.UnderReview, "the other coupons are tried: one seat each")
	inRun := b.turned.Load()
	require.LessOrEqual(t, inRun, int64(mostAttempts+1+coupons-1+1), "one series of attempts and the question whether it refuses everything; one attempt each for the other coupons and the end of the run")

	b.set(false)
	w.settleNow()
	for couponID := range uint64(coupons) {
		require.Equal(t, []uint64{1}, w.issued(couponID+1))
	}
	w.verify()
}

// Without a snapshot of the catalog, or with one that nobody can read, it is not known who the first are.
func TestARunThatCannotBegin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.lineOfThree()
	arrivals := w.arrivalsOf(couponID, 3, 1)
	b := newBarrier(w)
	b.set(true)
	code, stdout, stderr := w.runAtOnce()
	require.Equal(t, 1, code, stderr)
	require.NotContains(t, stdout, "no coupon is due")
	require.Contains(t, stderr, "safe to run again")
	require.LessOrEqual(t, b.turned.Load(), int64(mostAttempts+2), "the look at how it logs, one series of attempts, and the question whether it refuses everything")
	w.nothingMoved(couponID, 3, 1, 2)

	require.NoError(t, w.store.SaveCatalog(t.Context(), []byte("{")))
	s := w.settlerOfItsOwn()
	order := settle.Order{Trigger: coupon.Cron, CutoffNow: true}
	_, err := s.RunOnce(t.Context(), order)
	require.ErrorContains(t, err, "snapshot")
	w.nothingMoved(couponID, 3, 1, 2)

	w.refresh()
	report, err := s.RunOnce(t.Context(), order)
	require.True(t, mysqltx.IsAway(err), err)
	require.Equal(t, 2, report.Total.UnderReview)
	require.LessOrEqual(t, b.turned.Load(), int64(3*(mostAttempts+1)+1), "three series of attempts, each with the question whether it refuses everything, and the look at how it logs")
	w.awayReview(couponID, 1, arrivals)
	require.Equal(t, []string{"2"}, w.waiting(couponID))
	b.set(false)
	w.threeSettled(couponID)
}

// At midnight MySQL is away. The first in line are put under review, the night is tried again from time to time, with a
// connection each rather than a series, and settled when MySQL is back.
func TestMySQLIsAwayAtMidnight(t *testing.T) {
	t.Parallel()
	w, server := newOwnWorld(t)
	s := w.settlerOfItsOwn()
	midnight := calendar.DefaultCutoff(w.now(), s.Zone)
	couponID := w.couponBetween(2, midnight.Add(-time.Hour), midnight.Add(48*time.Hour))
	w.users(1, 2, 3)
	for i, user := range []string{"3", "1", "2"} {
		w.stand(couponID, user, midnight.Add(time.Duration(i-10)*time.Minute))
	}
	w.refresh()
	w.shorten(couponID)
	arrivals := w.arrivalsOf(couponID, 3, 1)
	require.NoError(t, server.Kill())

	timetable, err := schedule.Parse("0 0 * * *", s.Zone)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var waits []time.Duration
	scheduler, err := schedule.New(schedule.Config{
		Timetable: timetable, Zone: s.Zone, Clock: s.Clock, LastNight: s.LastNight, Logger: zap.NewNop(),
		Settle: func(ctx context.Context, cutoff time.Time) (bool, error) {
			report, err := s.RunOnce(ctx, settle.Order{Trigger: coupon.Cron, Cutoff: cutoff})
			if err != nil {
				return false, err
			}
			return true, report.Err()
		},
		Wait: func(ctx context.Context, d time.Duration) error {
			waits = append(waits, d)
			switch {
			case len(waits) == 1:
				w.awayReview(couponID, 1, arrivals)
				require.Equal(t, []string{"2"}, w.waiting(couponID))
				require.True(t, w.renewed(couponID))
				require.NoError(t, server.Restart(ctx))
			case len(w.issued(couponID)) > 0:
				stop()
			}
			return settle.Wait(ctx, min(d, 500*time.Millisecond))
		},
	})
	require.NoError(t, err)
	scheduler.Run(ctx)
	require.Equal(t, time.Minute, waits[0])
	require.True(t, slices.IsSorted(waits[:len(waits)-1]))
	require.Equal(t, []uint64{3, 1}, w.issued(couponID))
	require.Equal(t, []uint64{2}, w.outcome(couponID, "NOT_SELECTED"))
	require.Empty(t, w.underReview(couponID))
	w.verify()
}
