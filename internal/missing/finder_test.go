package missing

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

// theCoupon is the coupon of these tests.
var theCoupon = coupon.Coupon{ID: 42}

// servers are Redis and MySQL in memory, with one coupon.
type servers struct {
	sync.Mutex
	line     candidates.Line
	sums     Books
	moves    func(s *servers) // called after the line was read
	after    func(s *servers) // called after the books were read
	readings []time.Time      // of the books
	away     bool             // MySQL
	takes    time.Duration    // a reading of the books
	doubts   int              // how often the memory was compared
	logs     *observer.ObservedLogs
	*Finder
	t *testing.T
}

func newServers(t *testing.T) *servers {
	core, logs := observer.New(zap.InfoLevel)
	s := &servers{t: t, logs: logs}
	s.Finder = New(Options{Store: s, Memory: s, Logger: zap.New(core), Now: time.Now})
	s.Finder.books = s.readBooks
	s.line.Window = true
	return s
}

func (s *servers) Doubt(coupon.CouponID, coupon.Arrival) {
	s.Lock()
	defer s.Unlock()
	s.doubts++
}

var errAway = errors.New("the server is away")

func (s *servers) LinesWithoutMarks(_ context.Context,
	coupons []coupon.CouponID) (map[coupon.CouponID]candidates.Line, error) {
	s.Lock()
	defer s.Unlock()
	if s.moves != nil {
		defer s.moves(s)
	}
	return map[coupon.CouponID]candidates.Line{theCoupon.ID: s.line}, nil
}

func (s *servers) readBooks(context.Context, ...coupon.CouponID) (map[coupon.CouponID]Books, error) {
	s.Lock()
	s.readings = append(s.readings, time.Now())
	books, err, takes := s.sums, error(nil), s.takes
	if s.away {
		err = errAway
	}
	if s.after != nil {
		s.after(s)
	}
	s.Unlock()
	time.Sleep(takes)
	return map[coupon.CouponID]Books{theCoupon.ID: books}, err
}

// look is a refresh that suspects the coupon. It must leave so many missing.
func (s *servers) look(want int64) {
	s.t.Helper()
	require.NoError(s.t, s.Find(s.t.Context(), []Look{{Coupon: theCoupon.ID, Suspected: true, Now: time.Now()}}))
	s.shows(want)
}

// shows demands a value of the metric; 0: there is no series.
func (s *servers) shows(want int64) {
	s.t.Helper()
	text := ""
	if want > 0 {
		text = "# HELP jajeong_promises_missing Accepted applications that are neither in Redis nor settled, by " +
			"coupon; " +
			"only of coupons that miss some.\n" +
			"# TYPE jajeong_promises_missing gauge\njajeong_promises_missing{coupon_id=\"42\"} " +
			coupon.UserID(want).Member() + "\n"
	}
	require.NoError(s.t, testutil.CollectAndCompare(s.Finder, strings.NewReader(text)))
}

// logged demands these log lines since the last call.
func (s *servers) logged(want ...string) {
	s.t.Helper()
	lines := []string{}
	for _, line := range s.logs.TakeAll() {
		lines = append(lines, line.Level.String())
	}
	require.ElementsMatch(s.t, want, lines)
}

func (s *servers) judges(want Verdict) {
	s.t.Helper()
	got, err := s.Judge(s.t.Context(), theCoupon, s.line, time.Now())
	require.NoError(s.t, err)
	require.Equal(s.t, want, got)
}

func TestFind_BelievesTwoReadings(t *testing.T) {
	t.Parallel()
	s := newServers(t)
	s.line.Accepted, s.line.Waiting = 10, 7
	s.look(0)
	require.True(t, s.Open())
	s.look(3)
	require.False(t, s.Open())
	s.look(3)
	s.logged("error")

	s.line.Waiting = 5
	s.look(3)
	s.line.Waiting = 6
	s.look(4)
	s.logged("error")
	s.line.Waiting = 9
	s.look(4)
	s.look(1)
	s.logged()
	require.False(t, s.Open())

	s.line.Waiting = 12 // more than were promised
	s.look(1)
	require.True(t, s.Open())
	s.line.Waiting = 9
	s.look(1)
	s.line.Waiting = 10
	s.look(1)
	s.logged()
	require.NoError(t, s.Find(t.Context(), []Look{{Coupon: theCoupon.ID}}), "nothing is suspected any longer")
	s.shows(0)
	s.logged("info")
	require.False(t, s.Open())
}

func TestFind_CountsWhatMySQLAccountsFor(t *testing.T) {
	t.Parallel()
	s := newServers(t)
	s.line = candidates.Line{Window: true, Accepted: 5, Twice: 1, Waiting: 10, DLQ: 20, Base: 3}
	s.sums = Books{Accepted: 1000, Twice: 2, WrittenOff: 30, Erased: 40, Issued: 50, Concluded: 60}
	s.look(0)
	s.look(1000 - 2 - 10 - 20 - 30 - 40 - 50 - 60)
}

func TestFind_NobodyIsMissingWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	s := newServers(t)
	s.line.Accepted = 10
	s.look(0)
	s.look(10)
	require.NoError(t, s.Find(t.Context(), []Look{{Coupon: theCoupon.ID, Unread: true}}))
	s.shows(10)
	s.away = true
	require.ErrorIs(t, s.Find(t.Context(), []Look{{Coupon: theCoupon.ID, Suspected: true}}), errAway)
	s.shows(10)
	s.logged("error")
	require.NoError(t, s.Find(t.Context(), nil), "the coupon is finalised")
	s.shows(0)
	s.logged("info")
}

// Processes put back what they remember, before it counts as missing.
func TestFind_WaitsForPutBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServers(t)
		s.line = candidates.Line{Window: true, Accepted: 10, Base: 10, Since: coupon.ArrivalAt(time.Now())}
		for range 4 {
			s.look(0)
			require.True(t, s.Open())
			time.Sleep(putBackTime / 4)
		}
		s.look(10)
	})
}

// A settlement that commits between the readings hides as many as it settles.
func TestFind_ReadsAgainWhileASettlementRuns(t *testing.T) {
	t.Parallel()
	s := newServers(t)
	s.line = candidates.Line{Window: true, Accepted: 10, Waiting: 8}
	moves := 0
	s.moves = func(s *servers) {
		if moves++; moves%2 == 1 {
			s.sums.Issued, s.line.Waiting = s.sums.Issued+4, s.line.Waiting-4
		}
	}
	s.look(0)
	s.look(2)
}

// A settlement may commit and clean up between any two readings: nobody seems to be missing then.
func TestFind_WhoIsSettledMeanwhileIsNotMissing(t *testing.T) {
	t.Parallel()
	s := newServers(t)
	s.line = candidates.Line{Window: true, Accepted: 1000, Waiting: 1000}
	s.after = func(s *servers) { s.sums.Issued, s.line.Waiting = s.sums.Issued+1, s.line.Waiting-1 }
	for range 20 {
		s.look(0)
	}
}

func TestJudge_KnowsWhenARestoreIsDue(t *testing.T) {
	t.Parallel()
	begun := coupon.Arrival(1)
	for name, c := range map[string]struct {
		line        candidates.Line
		now, minute Verdict // now, and after a minute
	}{
		"nobody has applied": {candidates.Line{Window: true}, NotApplied, NotApplied},
		"all wait": {candidates.Line{Window: true, Accepted: 5, Waiting: 4, DLQ: 1},
			NotApplied, NotApplied},
		"state lost": {candidates.Line{}, Restoring, NotApplied},
		"queue lost": {candidates.Line{Window: true, Accepted: 5, Since: begun}, Restoring,
			MayBeLost},
		"lost after a restore": {candidates.Line{Window: true, Accepted: 5, Since: begun, Restored: begun,
			Missing: 4}, Restoring, MayBeLost},
		"fewer lost than before the restore": {candidates.Line{Window: true, Accepted: 5, Since: begun, Restored: begun,
			Missing: 6}, Restoring, MayBeLost},
		"restored, some remain": {candidates.Line{Window: true, Accepted: 5, Since: begun, Restored: begun, Missing: 5},
			MayBeLost, MayBeLost},
		"all restored": {candidates.Line{Window: true, Accepted: 5, Waiting: 5, Base: 5, Since: begun, Restored: begun},
			NotApplied, NotApplied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newServers(t)
				s.line = c.line
				s.judges(c.now)
				time.Sleep(patience - time.Microsecond)
				s.judges(c.now)
				time.Sleep(time.Microsecond)
				s.judges(c.minute)
			})
		})
	}
}

// The clock of Redis says how long ago the server changed, whatever this process has seen.
func TestJudge_TakesTheTimeOfANewServerFromRedis(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServers(t)
		s.line = candidates.Line{Window: true, Accepted: 5, Waiting: 5, Base: 5, Since: coupon.ArrivalAt(time.Now())}
		time.Sleep(patience - time.Microsecond)
		s.judges(Restoring)
		time.Sleep(time.Microsecond)
		s.judges(NotApplied)
	})
}

// More losses begin another minute, and no loss ends it.
func TestJudge_WaitsAgainWhenMoreAreLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServers(t)
		s.line.Accepted, s.line.Waiting, s.line.Since = 10, 9, 1
		s.judges(Restoring)
		time.Sleep(patience)
		s.judges(MayBeLost)
		s.line.Waiting = 8
		s.judges(Restoring)
		time.Sleep(patience)
		s.judges(MayBeLost)
		s.line.Accepted, s.line.Waiting = 11, 9
		s.judges(MayBeLost)
		s.look(0)
		s.line.Waiting = 11
		s.look(0)
		s.judges(NotApplied)
		s.line.Waiting = 10
		s.judges(Restoring)
	})
}

func TestJudge_FinalisedCouponsHaveLostNobody(t *testing.T) {
	t.Parallel()
	s := newServers(t)
	verdict, err := s.Judge(t.Context(), coupon.Coupon{ID: 42, FinalisedAt: time.Unix(1, 0)}, candidates.Line{},
		time.Now())
	require.NoError(t, err)
	require.Equal(t, NotApplied, verdict)
}

func TestJudge_WithoutMySQLNothingIsKnown(t *testing.T) {
	t.Parallel()
	s := newServers(t)
	s.line.Accepted, s.away = 5, true
	_, err := s.Judge(t.Context(), theCoupon, s.line, time.Now())
	require.ErrorIs(t, err, errAway)
	s.line.Waiting = 5
	s.judges(NotApplied)
}

// A settlement that hides the missing promises for a moment does not hide the loss that the metric shows.
func TestJudge_RemembersWhatASettlementHides(t *testing.T) {
	t.Parallel()
	s := newServers(t)
	s.line = candidates.Line{Window: true, Accepted: 10, Waiting: 7, Since: 1, Restored: 1, Missing: 3}
	s.look(0)
	s.look(3)
	s.sums.Issued = 7 // they still wait in the line that was read
	s.judges(MayBeLost)
	s.line.Accepted = 7 // what MySQL accounts for already
	s.line.Waiting = 0
	s.judges(NotApplied)
}

// Everybody who asks shares readings, at most four a second. Each answer comes from a reading that began after the
// question.
func TestJudge_SharesReadings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServers(t)
		s.line.Accepted, s.sums.Issued, s.takes = 5, 0, 20*time.Millisecond
		const seconds, perSecond = 3, 500
		var asking sync.WaitGroup
		for range seconds * perSecond {
			asking.Go(func() {
				asked := time.Now()
				verdict, err := s.Judge(t.Context(), theCoupon, s.line, asked)
				assert.NoError(t, err)
				assert.Equal(t, Restoring, verdict)
				assert.LessOrEqual(t, time.Since(asked), freshEvery+2*s.takes)
				s.Lock()
				defer s.Unlock()
				assert.False(t, s.readings[len(s.readings)-1].Before(asked))
			})
			time.Sleep(time.Second / perSecond)
		}
		asking.Wait()
		require.LessOrEqual(t, len(s.readings), seconds*4+1)
		require.GreaterOrEqual(t, len(s.readings), seconds*3)
	})
}

// Who gives up leaves the reading to the others.
func TestJudge_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServers(t)
		s.line.Accepted, s.takes = 5, time.Second
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var patient sync.WaitGroup
		patient.Go(func() { s.judges(Restoring) })
		_, err := s.Judge(ctx, theCoupon, s.line, time.Now())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		patient.Wait()
	})
}

// A process compares its memory with Redis when another number is missing than before, and not again while as many are.
// A lower number may be a further loss, after the applications of the first one were put back.
func TestFind_DoubtsOnceForEachLoss(t *testing.T) {
	t.Parallel()
	s := newServers(t)
	s.line.Accepted = 5
	find := func(waiting int64) {
		s.line.Waiting = waiting
		require.NoError(t, s.Find(t.Context(), []Look{{Coupon: theCoupon.ID, Suspected: true, Now: time.Now()}}))
	}
	find(5)
	require.Zero(t, s.doubts)
	for _, waiting := range []int64{3, 3, 2, 2, 3, 5, 5, 4} {
		find(waiting)
	}
	require.Equal(t, 4, s.doubts)
}
