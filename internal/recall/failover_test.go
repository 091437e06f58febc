package recall

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

// The replica lacks the last three of nine. Three others apply to it before they are put back.
func TestLostApplicationsReturnAheadOfLaterOnes(t *testing.T) {
	t.Parallel()
	f := newFailing(t, servers(t, 2), "", 2)
	defer f.close()
	one, two := f.pods[0], f.pods[1]
	f.askEach(two, 1, 6)
	f.replicate()
	f.askEach(one, 101, 103)
	f.failover(false)
	f.follow(one)
	f.follow(two)
	f.askEach(two, 201, 203)

	f.ask(one, 204, false)
	f.check()
	require.Len(t, f.standing(1), 13)
	line := f.line(1)
	require.Equal(t, []coupon.UserID{1, 2, 3, 4, 5, 6, 101, 102, 103, 201, 202, 203, 204}, line)
}

// Even if no application is put back, the counts reveal a loss that later applications would hide in a single maximum.
func TestLossStaysCountedBesideLaterApplications(t *testing.T) {
	t.Parallel()
	f := newFailing(t, servers(t, 2), "", 2)
	defer f.close()
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
	f := newFailing(t, servers(t, 2), "", 2)
	defer f.close()
	one, two := f.pods[0], f.pods[1]
	f.ask(one, 1, false)
	f.replicate()
	f.ask(one, 2, false)
	f.ask(one, 3, false)
	f.failover(false)
	f.follow(two)
	f.ask(two, 4, false)
	f.ask(two, 2, false)
	require.Equal(t, []coupon.UserID{1, 4, 2}, f.line(1))
	f.check()
	require.Equal(t, []coupon.UserID{1, 2, 3, 4}, f.line(1))
}

// The new primary accepts a user, and then the old one does, for pods that have not noticed the failover. The memories return
// every answer of the old one, which counted the user once.
func TestApplicantOfTwoServersIsCountedTwiceOnce(t *testing.T) {
	t.Parallel()
	f := newFailing(t, servers(t, 2), "", 3)
	defer f.close()
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

// The first replica settles who was counted twice. The second one has the entry of before, and moves it without counting again.
func TestMoveAfterASecondFailoverIsNotCountedAgain(t *testing.T) {
	t.Parallel()
	f := newFailing(t, servers(t, 3), "", 2)
	defer f.close()
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

// The server that is gone may have accepted an application without a reply.
func TestUnansweredApplicationsLeaveNoGap(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"they ask again": true, "they do not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFailing(t, servers(t, 2), "", 2)
			defer f.close()
			one, two := f.pods[0], f.pods[1]
			f.ask(one, 1, false)
			f.replicate()
			f.ask(one, 2, true)
			f.ask(two, 3, false) // who is answered tells of the count before
			f.failover(false)
			if again {
				f.follow(two)
				f.ask(two, 2, false)
			}
			f.check()
			require.Len(t, f.standing(1), 3)
		})
	}
}

// Every application of a finalised coupon has an outcome.
func TestFinalisedCouponGetsNothingBack(t *testing.T) {
	t.Parallel()
	f := newFailing(t, servers(t, 2), "", 1)
	defer f.close()
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
	require.Empty(t, f.standing(1))
	require.Zero(t, p.memory.remembered.Load())
}

// Pods, failovers to replicas that lag, primaries that some pods still use, lost replies, lost states and settlements. Every
// answered application is in the queue, at its first arrival or earlier, while a pod lives that answered it. The gap equals the
// number of missing applications. After a hasty failover or loss it may be smaller, or larger by the users whom several servers
// accepted: twice may lack them.
func TestModelOfFailovers(t *testing.T) {
	t.Parallel()
	all := servers(t, 4)
	n := 0
	for range testenv.Rounds(1, 20) {
		rapid.Check(t, func(t *rapid.T) {
			n++
			f := newFailing(t, all, fmt.Sprint("model", n, ":"), rapid.IntRange(1, 4).Draw(t, "pods"))
			defer f.close()
			anyPod := func() *pod { return f.pods[rapid.IntRange(0, len(f.pods)-1).Draw(t, "pod")] }
			for range rapid.IntRange(1, 60).Draw(t, "steps") {
				switch rapid.SampledFrom([]string{"ask", "ask", "ask", "ask", "lose", "replicate", "replicate", "failover", "follow", "follow",
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
