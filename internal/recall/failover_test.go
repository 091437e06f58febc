package recall

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

// Even if no application is put back, the counts reveal a loss that later applications would hide in a single maximum.
func TestLossStaysCountedBesideLaterApplications(t *testing.T) {
	t.Parallel()
	f := newFailing(t, servers(t, 2), 2)
	one, two := f.pods[0], f.pods[1]
	f.ask(one, 1, false)
	f.replicate()
	f.askEach(one, 101, 103)
	f.failover(false)
	f.follow(one)
	f.follow(two)
	f.askEach(two, 201, 203)
	one.forgetAnswers()
	f.refresh(one)
	counts, err := one.Counts(t.Context(), 42, 0)
	require.NoError(t, err)
	require.EqualValues(t, 3, counts.Accepted-counts.Twice-counts.Waiting)
}

func TestApplyingAgainAfterALossKeepsTheFirstArrival(t *testing.T) {
	t.Parallel()
	f := newFailing(t, servers(t, 2), 2)
	one, two := f.pods[0], f.pods[1]
	f.ask(one, 1, false)
	f.replicate()
	f.ask(one, 2, false)
	f.ask(one, 3, false)
	f.failover(false)
	f.follow(two)
	f.ask(two, 4, false)
	f.ask(two, 2, false)
	require.Equal(t, []coupon.UserID{1, 4, 2}, f.order(1))
	f.check()
	require.Equal(t, []coupon.UserID{1, 2, 3, 4}, f.order(1))
	require.EqualValues(t, 1, one.memory.putBack.Load(), "3")
	require.EqualValues(t, 1, one.memory.moved.Load(), "2")
}

// The new primary accepts a user. Then the old one does, for pods that have not noticed the failover: it counted the
// user once.
func TestApplicantOfTwoServersIsCountedTwiceOnce(t *testing.T) {
	t.Parallel()
	f := newFailing(t, servers(t, 2), 3)
	one, two, three := f.pods[0], f.pods[1], f.pods[2]
	f.ask(one, 1, false)
	f.replicate()
	f.failover(false)
	f.follow(three)
	f.ask(three, 5, false)
	f.ask(one, 5, false)
	f.ask(one, 5, false)
	f.ask(two, 5, false)
	f.check()
	counts, err := three.Counts(t.Context(), 42, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, counts.Twice)
}

// The first replica counts the user in twice. The second one lacks the move, and moves the user without counting again.
func TestMoveAfterASecondFailoverIsNotCountedAgain(t *testing.T) {
	t.Parallel()
	f := newFailing(t, servers(t, 3), 2)
	one, two := f.pods[0], f.pods[1]
	f.ask(one, 1, false)
	f.replicate()
	f.ask(one, 9, false)
	f.failover(false)
	f.follow(two)
	f.ask(two, 9, false)
	f.replicate()
	f.failover(false)
	f.check()
	counts, err := two.Counts(t.Context(), 42, 0)
	require.NoError(t, err)
	require.EqualValues(t, 1, counts.Twice)
}

// The lost server may have accepted an application without a reply.
func TestUnansweredApplicationsLeaveNoGap(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"with a repetition": true, "without a repetition": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFailing(t, servers(t, 2), 2)
			one, two := f.pods[0], f.pods[1]
			f.ask(one, 1, false)
			f.replicate()
			f.ask(one, 2, true)
			f.ask(two, 3, false) // the reply has the count
			f.failover(false)
			if again {
				f.follow(two)
				f.ask(two, 2, false)
			}
			f.check()
			require.Len(t, f.arrivals(1), 3)
		})
	}
}

// One server accepted the user without a reply, and the next one accepted the user again. Two servers counted the user,
// however often a process repeats a call whose reply is lost, and however many processes have an answer.
func TestLostReplyToRestoreCountsAnApplicantOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lost  int64 // replies to restore
		other bool  // another process got the answer of the first server
	}{
		"no lost reply": {}, "one lost reply": {lost: 1}, "three lost replies": {lost: 3},
		"another process":                  {other: true},
		"another process and lost replies": {lost: 2, other: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFailing(t, servers(t, 2), 3)
			one, two, three := f.pods[0], f.pods[1], f.pods[2]
			f.ask(one, 1, false)
			f.replicate()
			f.ask(one, 2, true)
			if tc.other {
				f.ask(three, 2, false)
			}
			f.failover(false)
			f.follow(two)
			f.ask(two, 2, false)
			one.restore.Store(tc.lost)
			f.follow(one)
			for range tc.lost + 1 {
				f.refresh(one)
			}
			require.LessOrEqual(t, one.restore.Load(), int64(0), "the replies were lost")
			f.check()
			counts, err := two.Counts(t.Context(), 42, 0)
			require.NoError(t, err)
			require.EqualValues(t, 1, counts.Twice)
			require.EqualValues(t, 2, counts.Accepted-counts.Twice)
		})
	}
}

// The process without a reply comes first, and puts the user at the end. The other one moves the user to the first
// arrival.
func TestApplicantPutAtTheEndIsNotCountedTwice(t *testing.T) {
	t.Parallel()
	f := newFailing(t, servers(t, 2), 2)
	one, two := f.pods[0], f.pods[1]
	f.ask(one, 1, false)
	f.replicate()
	f.ask(one, 2, false)
	f.ask(two, 2, true)
	f.failover(false)
	f.follow(two)
	f.refresh(two)
	require.Len(t, f.arrivals(1), 2)
	f.check()
	counts, err := two.Counts(t.Context(), 42, 0)
	require.NoError(t, err)
	require.Zero(t, counts.Twice)
	require.EqualValues(t, 2, counts.Accepted)
}

// Every application of a finalised coupon has an outcome.
func TestFinalisedCouponGetsNothingBack(t *testing.T) {
	t.Parallel()
	f := newFailing(t, servers(t, 2), 1)
	p := f.pods[0]
	f.ask(p, 1, false)
	f.settle(1)
	f.window.Closes, f.window.Version = f.window.Opens.Add(time.Second), 2
	f.refresh(p)
	swept, err := p.Sweep(t.Context(), 42, f.window.Closes)
	require.NoError(t, err)
	require.True(t, swept)
	f.replicate()
	f.failover(false)
	f.catchUp()
	require.Empty(t, f.arrivals(1))
	require.Zero(t, p.memory.remembered.Load())
}

// Pods, failovers to replicas that lag, primaries that some pods still use, lost replies, lost states and settlements.
// Every answered application is in the queue, at its first arrival or earlier, while a pod lives that answered it. The
// gap equals the number of missing applications. After a hasty failover or loss it may be smaller, or larger by users
// of several servers, which twice may lack.
func TestModelOfFailovers(t *testing.T) {
	t.Parallel()
	all := servers(t, 4)
	for range testenv.Rounds(1, 20) {
		rapid.Check(t, func(t *rapid.T) {
			f := newFailing(t, all, rapid.IntRange(1, 4).Draw(t, "pods"))
			anyPod := func() *pod { return f.pods[rapid.IntRange(0, len(f.pods)-1).Draw(t, "pod")] }
			for range rapid.IntRange(1, 60).Draw(t, "steps") {
				switch rapid.SampledFrom([]string{"ask", "ask", "ask", "ask", "lose", "replicate", "replicate",
					"failover", "follow", "follow",
					"refresh", "refresh", "settle", "forget", "die"}).Draw(t, "step") {
				case "ask":
					f.ask(anyPod(), coupon.UserID(rapid.Uint64Range(1, 20).Draw(t, "user")), false)
				case "lose":
					f.ask(anyPod(), coupon.UserID(rapid.Uint64Range(1, 20).Draw(t, "user")), true)
				case "replicate":
					f.replicate()
				case "failover":
					f.failover(rapid.Bool().Draw(t, "hasty"))
				case "follow":
					f.follow(anyPod())
				case "refresh":
					f.refresh(anyPod())
				case "settle":
					f.settle(rapid.IntRange(1, 5).Draw(t, "how many"))
				case "forget":
					if rapid.IntRange(0, 4).Draw(t, "really") == 0 && len(f.settled) == 0 {
						f.forget()
					}
				case "die":
					if len(f.pods) > 1 && rapid.IntRange(0, 4).Draw(t, "really") == 0 {
						f.pods, f.dead = f.pods[1:], true
					}
				}
			}
			f.check()
		})
	}
}
