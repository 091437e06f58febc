package handover

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/promise"
)

func TestRemembersEachAnswerOnce(t *testing.T) {
	t.Parallel()
	_, p := onePod(t, answer(7, 100), answer(8, 101))
	p.apply(answer(7, 100))
	p.remembers(answer(7, 100), answer(8, 101))
	p.apply(answer(7, 105)) // another place of the same user
	p.remembers(answer(7, 100), answer(8, 101), answer(7, 105))
	require.EqualValues(t, 105, p.Seen(id))
	require.Zero(t, p.Seen(43))
	p.told("", answer(9, 110)) // a server that is not known
	require.EqualValues(t, 105, p.Seen(id))
}

func TestForgetsWhatTheJournalIsKnownToHaveForTenSeconds(t *testing.T) {
	t.Parallel()
	_, p := onePod(t, answer(7, 100), answer(8, 101), answer(9, 102))
	p.reads("b:1", 900) // of another server
	p.clock = p.clock.Add(keep)
	p.reads("a:1", 101)
	p.clock = p.clock.Add(keep - time.Microsecond)
	p.reads("a:1", 102)
	p.remembers(answer(7, 100), answer(8, 101), answer(9, 102))
	p.clock = p.clock.Add(time.Microsecond)
	p.reads("a:1", 102)
	p.remembers(answer(9, 102))
	p.apply(answer(7, 100), answer(9, 102)) // DUPLICATE
	p.remembers(answer(9, 102))
	require.EqualValues(t, 102, p.Seen(id))
}

// A reply that came a moment after a change of servers may be of either.
func TestInJournal(t *testing.T) {
	t.Parallel()
	r, p := onePod(t)
	require.False(t, p.InJournal(id, 100))
	p.apply(answer(7, 100))
	p.reads("a:1", 100)
	require.False(t, p.InJournal(id, 100), "MySQL may fall back")
	p.mark("a:1", 100)
	require.True(t, p.InJournal(id, 100))
	require.False(t, p.InJournal(id, 101))
	r.failover("b:2")
	p.told("b:2")
	require.False(t, p.InJournal(id, 100))
	p.mark("b:2", 100)
	require.True(t, p.InJournal(id, 100))
	p.told("a:1", answer(8, 90))
	p.told("b:2")
	require.False(t, p.InJournal(id, 90))
	p.clock = p.clock.Add(replyTimeout)
	require.True(t, p.InJournal(id, 100))
}

// MySQL that falls back has lost the rows of the last seconds.
func TestMarkThatFallsBackCountsNoEarlierMark(t *testing.T) {
	t.Parallel()
	_, p := onePod(t, answer(7, 100), answer(8, 101))
	p.reads("a:1", 101)
	p.clock = p.clock.Add(keep / 2)
	p.reads("a:1", 100)
	p.clock = p.clock.Add(keep / 2)
	p.reads("a:1", 101)
	p.remembers(answer(7, 100), answer(8, 101))
	p.clock = p.clock.Add(keep / 2)
	p.reads("a:1", 101)
	p.remembers(answer(8, 101))
}

func TestAnotherServerGetsWhoIsMissingThere(t *testing.T) {
	t.Parallel()
	r, p := onePod(t, answer(7, 100), answer(8, 101), answer(9, 102))
	r.failover("b:2", 8)
	r.queue[9] = 103 // asked again at the new server
	p.looks()
	require.Equal(t, map[coupon.UserID]coupon.Arrival{8: 101, 9: 102}, r.returned)
	require.EqualValues(t, 2, p.Memory.handed.Load())

	// Who stands is of the new epoch; who was handed over is kept until nobody has been for ten seconds.
	p.mark("a:1", 900)
	p.remembers(answer(7, 100), answer(8, 101), answer(9, 102))
	p.mark("b:2", 900)
	p.remembers(answer(8, 101), answer(9, 102))
	p.waits()
	p.remembers(answer(8, 101), answer(9, 102)) // `returned` is not empty
	r.restore()
	require.EqualValues(t, 102, r.queue[9])
	p.looks() // a restore has ended: they stand now
	require.Empty(t, r.returned)
	p.mark("b:2", 900)
	p.remembers()
}

// Nobody stands whom the restore has found settled.
func TestHandedOverIsForgottenOnceNobodyWasForTenSeconds(t *testing.T) {
	t.Parallel()
	r, p := onePod(t, answer(7, 100), answer(8, 101))
	r.failover("b:2", 7)
	p.looks()
	clear(r.returned)
	p.looks()
	p.clock = p.clock.Add(keep - time.Microsecond)
	p.looks()
	p.remembers(answer(7, 100), answer(8, 101))
	r.returned[99] = 99 // another process hands over
	p.looks()
	clear(r.returned)
	p.clock = p.clock.Add(time.Second)
	p.waits()
	p.remembers(answer(8, 101))
	p.mark("b:2", 100)
	p.remembers(answer(8, 101))
	require.Len(t, p.line().told, 1)
}

// A restore may deal with those handed over between two looks.
func TestTimeBeforeHandingOverDoesNotCount(t *testing.T) {
	t.Parallel()
	r, p := onePod(t, answer(7, 100))
	p.looks()
	p.clock = p.clock.Add(keep)
	clear(r.queue)
	r.restore()
	p.told("a:1")
	require.Len(t, r.returned, 1)
	clear(r.returned)
	p.waits()
	p.mark("a:1", 900)
	p.remembers()
	p.apply(answer(8, 1000))
	clear(r.queue)
	r.restore()
	p.told("a:1")
	clear(r.returned)
	p.looks()
	p.mark("a:1", 900)
	p.remembers(answer(8, 1000))
}

// A user with a coupon has got the answer, unless another server says so: its mark may be of a settlement that MySQL
// has lost.
func TestMarksAreAnswersWithinAnEpoch(t *testing.T) {
	t.Parallel()
	r, p := onePod(t, answer(7, 100), answer(8, 101))
	r.marked[7] = 100
	r.marked[8] = 0 // by hand
	clear(r.queue)
	r.restore()
	p.looks()
	require.Equal(t, map[coupon.UserID]coupon.Arrival{8: 101}, r.returned)

	r.restore()
	r.failover("b:2", 7, 8)
	p.looks()
	require.Equal(t, map[coupon.UserID]coupon.Arrival{7: 100, 8: 101}, r.returned)
}

// A restore that ends before another server was compared makes no mark an answer.
func TestRestoreBeforeTheComparisonWithAnotherServer(t *testing.T) {
	t.Parallel()
	r, p := onePod(t, answer(7, 100))
	r.marked[7] = 100
	r.failover("b:2", 7)
	r.silentOn = 1
	p.looks()
	r.restore()
	p.looks()
	r.silentOn = 0
	p.looks()
	require.Equal(t, map[coupon.UserID]coupon.Arrival{7: 100}, r.returned)
}

// A queue that somebody has deleted is noticed by the restore that finds the gap.
func TestRestoreThatHasEndedComparesAgainAndForgetsNobodyBefore(t *testing.T) {
	t.Parallel()
	r, p := onePod(t, answer(7, 100), answer(8, 101))
	clear(r.queue)
	p.looks()
	require.Empty(t, r.returned)
	p.reads("a:1", 900)
	p.clock = p.clock.Add(keep)
	r.restore()
	r.away = true
	p.told("a:1") // a reply that came before
	p.reads("a:1", 900)
	p.remembers(answer(7, 100), answer(8, 101))
	r.away = false
	p.looks()
	require.Len(t, r.returned, 2)
	p.redis.restores-- // a reply of an earlier call comes late
	p.told("a:1")
	require.False(t, p.line().todo)
}

// A call of the server before may last longer than the failover.
func TestLateReplyOfTheServerBefore(t *testing.T) {
	t.Parallel()
	r, p := onePod(t, answer(7, 100))
	r.failover("b:2")
	p.apply(answer(8, 200))
	p.told("a:1", answer(9, 101))
	p.looks()
	p.looks()
	require.Equal(t, coupon.Arrival(101), r.returned[9])
	require.NotContains(t, r.returned, coupon.UserID(7))
	require.NotContains(t, r.returned, coupon.UserID(8))
	require.Equal(t, "b:2", p.line().epoch)
	require.False(t, p.line().todo)
	p.mark("b:2", 900)
	p.remembers(answer(9, 101))
}

// The server that takes over may have had fewer restores than the one before: its next one is noticed all the same.
func TestServerWithFewerRestores(t *testing.T) {
	t.Parallel()
	r, p := onePod(t)
	for range 5 {
		r.restore()
	}
	p.apply(answer(7, 100))
	r.failover("b:2")
	r.restores = 2
	require.NoError(t, p.compare(t.Context(), id, p.line())) // it is the first that notices
	require.Equal(t, "b:2", p.line().epoch)
	p.looks()
	p.looks()
	require.False(t, p.line().todo)
	clear(r.queue)
	r.restore()
	p.looks()
	require.Contains(t, r.returned, coupon.UserID(7))
}

func TestSecondFailoverDuringAComparison(t *testing.T) {
	t.Parallel()
	r, p := onePod(t, answersFrom(1000, 600)...)
	r.failover("b:2", 1000)
	r.during = func() {
		if r.calls == 2 {
			r.failover("c:3", 1001, 1599)
			clear(r.returned)
		}
	}
	p.looks()
	require.Empty(t, r.returned)
	p.reads("b:2", 9000)
	p.clock = p.clock.Add(keep)
	p.reads("b:2", 9000)
	require.EqualValues(t, 600, p.remembered.Load())
	p.looks()
	require.Equal(t, map[coupon.UserID]coupon.Arrival{1000: 1000, 1001: 1001, 1599: 1599}, r.returned)
	p.mark("c:3", 9000)
	require.EqualValues(t, 600, p.remembered.Load(), "the first one is handed over; the others follow it")
	r.restore()
	p.looks()
	p.waits()
	p.mark("c:3", 9000)
	require.Zero(t, p.remembered.Load())
}

// Applicants come while the answers before them are compared.
func TestAnswersDuringAComparison(t *testing.T) {
	t.Parallel()
	r, p := onePod(t, answersFrom(1000, 600)...)
	r.failover("b:2", 1001)
	r.during = func() {
		if r.calls == 1 {
			r.mu.Lock()
			r.queue[5000] = 5000
			r.mu.Unlock()
			p.Answered(id, candidates.Reply{Epoch: "b:2", Answers: []coupon.Answer{answer(5000, 5000)}})
		}
	}
	p.looks()
	require.Equal(t, 600, r.asked)
	require.Equal(t, map[coupon.UserID]coupon.Arrival{1001: 1001}, r.returned)
	require.EqualValues(t, 601, p.remembered.Load())
	p.mark("b:2", 9000)
	require.EqualValues(t, 600, p.remembered.Load())
}

func TestRedisThatIsSilentForAWhile(t *testing.T) {
	t.Parallel()
	r, p := onePod(t, answersFrom(1000, 600)...)
	r.failover("b:2", 1000, 1599)
	r.silentOn = 2
	p.looks()
	require.True(t, p.line().todo)
	require.EqualValues(t, 1, p.Memory.handed.Load())
	p.mark("b:2", 9000)
	require.EqualValues(t, 600, p.remembered.Load(), "not all were compared")
	r.silentOn, r.away = 0, true
	p.looks()
	r.away = false
	p.looks()
	require.Equal(t, map[coupon.UserID]coupon.Arrival{1000: 1000, 1599: 1599}, r.returned)
}

// Without room, the oldest answers go. Many coupons and two limits.
func TestOldestAnswersGoIfThereIsNoRoom(t *testing.T) {
	t.Parallel()
	_, p := onePod(t)
	p.limit = 1000
	for n := range int64(3) {
		p.Answered(coupon.CouponID(n+1), candidates.Reply{Epoch: "a:1", Answers: answersFrom(1000*n+1, 400)})
		p.work.Wait()
	}
	require.LessOrEqual(t, p.remembered.Load(), int64(1000))
	require.GreaterOrEqual(t, p.remembered.Load(), int64(1000-1000/roomShare-1))
	require.Equal(t, 1200-p.remembered.Load(), p.dropped.Load())
	first := p.lines[1]
	require.Len(t, p.lines[3].told, 400)
	require.Equal(t, coupon.Arrival(p.dropped.Load()+1), first.told[0].Arrival)
	require.Len(t, first.known, len(first.told))
	p.Answered(4, candidates.Reply{Epoch: "a:1", Answers: answersFrom(4001, 400)})
	p.work.Wait()
	require.LessOrEqual(t, p.remembered.Load(), int64(1000), "again")
}

// Room is made while answers are compared.
func TestRoomIsMadeDuringAComparison(t *testing.T) {
	t.Parallel()
	r, p := onePod(t)
	p.limit = 1000
	p.apply(answersFrom(1000, 1000)...)
	r.failover("b:2", 1000, 1260, 1999)
	r.during = func() {
		if r.calls == 2 {
			p.mu.Lock()
			p.drop(p.line(), 270)
			p.mu.Unlock()
		}
	}
	p.looks()
	require.Equal(t, map[coupon.UserID]coupon.Arrival{1000: 1000, 1260: 1260, 1999: 1999}, r.returned)
	require.Equal(t, 1, p.line().handed, "two of them went")
	require.Equal(t, handed, p.line().told[len(p.line().told)-1].place)
	require.Equal(t, standing, p.line().told[0].place)
}

func TestFinalisedCouponsAreForgotten(t *testing.T) {
	t.Parallel()
	_, p := onePod(t, answer(7, 100))
	p.Forget(id)
	require.Zero(t, p.remembered.Load())
	p.apply(answer(8, 101))
	p.remembers(answer(8, 101))
}

// The last call of a comparison may come before a restore ends.
func TestRestoreAtTheEndOfAComparison(t *testing.T) {
	t.Parallel()
	r, p := onePod(t, answer(7, 100))
	r.failover("b:2")
	r.during = func() {
		if r.calls == 1 {
			p.Answered(id, candidates.Reply{Epoch: "b:2", Restores: 1})
		}
	}
	p.looks()
	require.Equal(t, 1, r.calls)
	require.True(t, p.line().todo)
}

func TestFinalisedDuringAComparison(t *testing.T) {
	t.Parallel()
	r, p := onePod(t, answersFrom(1000, 600)...)
	r.failover("b:2", 1000)
	r.during = func() { p.Forget(id) }
	p.looks()
	require.Equal(t, 1, r.calls)
	require.Zero(t, p.remembered.Load())
	require.Empty(t, p.lines)
}

// A reply may come late, after the coupon was forgotten.
func TestCouponsWithoutAnswersAreForgottenOnceTheyAreUnused(t *testing.T) {
	t.Parallel()
	_, p := onePod(t)
	for other := range coupon.CouponID(3) {
		p.Answered(other, candidates.Reply{Epoch: "a:1"})
	}
	p.apply(answer(7, 100))
	p.clock = p.clock.Add(unusedAfter)
	p.Answered(1, candidates.Reply{Epoch: "a:1", Answers: []coupon.Answer{answer(8, 101)}})
	p.Journalled(1, promise.Mark{Epoch: "a:1", UpTo: 101})
	p.looks()
	require.Len(t, p.lines, 4)
	p.clock = p.clock.Add(time.Microsecond)
	p.looks()
	require.Len(t, p.lines, 2)
	p.clock = p.clock.Add(unusedAfter)
	p.Journalled(1, promise.Mark{Epoch: "a:1", UpTo: 101})
	p.looks()
	require.Len(t, p.lines, 1, "only 7 is remembered")
	p.remembers(answer(7, 100))
}

// Whom a restore has taken MySQL may lose once more. A later restore that counts has them handed over again; one that
// only takes them has not, or restores would follow each other.
func TestHandsOverAgainWhomMySQLMayHaveLost(t *testing.T) {
	t.Parallel()
	r, p := onePod(t, answer(7, 100))
	clear(r.queue) // the user was settled, not selected
	r.restore()
	p.looks()
	require.Contains(t, r.returned, coupon.UserID(7))
	r.takes()
	clear(r.queue)
	p.looks()
	require.Empty(t, r.returned)
	r.restore() // MySQL has fallen back
	p.looks()
	require.Contains(t, r.returned, coupon.UserID(7))
}
