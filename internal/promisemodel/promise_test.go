package promisemodel

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
)

// with is a law that allows some acts of operators and faults.
func (l law) with(kinds ...action) *law {
	l.kinds = map[action]bool{}
	for _, kind := range kinds {
		l.kinds[kind] = true
	}
	return &l
}

// withAll is a law that allows every act and every fault, but for a former server that serves again or for long: it
// makes a world five times as large.
func (l law) withAll() *law {
	l.kinds = map[action]bool{}
	for kind := firstAct; kind < lastAction; kind++ {
		l.kinds[kind] = kind != formerReturns && kind != formerLasts
	}
	return &l
}

func tell(sequence []step) string {
	lines := make([]string, len(sequence))
	for i, s := range sequence {
		lines[i] = s.String()
	}
	return strings.Join(lines, "\n")
}

func requireNothing(t *testing.T, found map[string][]step) {
	t.Helper()
	for violation, sequence := range found {
		t.Errorf("%s:\n%s", violation, tell(sequence))
	}
}

// Every state is visited once. doc.go has the numbers.
func TestNoStateOfASmallWorldLosesAnybody(t *testing.T) {
	t.Parallel()
	one := law{users: 1, accepts: 1, faults: 1, settlements: 1, coarse: true}
	two := law{users: 2, accepts: 2, settlements: 1, coarse: true}
	ended := law{users: 1, accepts: 2, faults: 1, settlements: 2, coarse: true}.atNight().
		operated(2).withAll()
	ended.after = of(0, applies, replicaStops, closeWindow, settleNightly, checkAgain, cleanUp, closeOut, closeOut,
		finalise)
	forgotten := law{users: 1, accepts: 2, faults: 2, settlements: 2, coarse: true}.atNight().
		operated(2).with(podDies, databaseFalls, closeWindow, finalise)
	forgotten.after = of(0, databaseStops, applies, copyBegin, closeWindow, settleNightly, checkAgain, cleanUp,
		closeOut, closeOut, finalise)
	worlds := map[string]*law{"one user, any fault": one.withAll(), "two users": two.withAll(),
		"one user, the coupon is finalised, and the replica lacks it":    ended,
		"one user, the coupon is finalised, and MySQL forgets the night": forgotten}
	if testenv.Soaking() {
		worlds["one user, any fault, nightly"] = one.atNight().withAll()
		worlds["one user, small steps"] = one.fine().with(replyLost, podDies, podCutOff, replicaStops, failover,
			flushed, queueDeleted, databaseStops, databaseFalls)
		worlds["two users, Redis is flushed"] = two.faulty(1).with(flushed)
		worlds["one user, the former server serves again"] = one.with(failoverBoth, formerReturns, podDies, serveDies)
	}
	for name, l := range worlds {
		t.Run(name, func(t *testing.T) {
			x := explore(l, time.Hour, false) // one world after the other: each uses all processors
			t.Logf("%d states, %d steps deep", x.states, x.depth)
			require.True(t, x.whole)
			requireNothing(t, x.found)
		})
	}
}

// Larger worlds, with a choice of faults each. In most sequences few kinds of faults meet.
func TestNoRandomSequenceLosesAnybody(t *testing.T) {
	t.Parallel()
	for seed := range uint64(testenv.Rounds(40, 2000)) {
		l := randomLaw(rand.New(rand.NewPCG(seed, 1)))
		requireNothing(t, walk(l, seed, 300, 30, false).found)
	}
}

func randomLaw(random *rand.Rand) *law {
	l := law{users: 1 + int8(min(1, random.IntN(4))), accepts: 3, faults: 1 + int8(random.IntN(4)),
		acts: int8(max(0, random.IntN(4)-1)), both: random.IntN(2) == 0, coarse: random.IntN(2) == 0,
		afterJournal: random.IntN(6) == 0, early: random.IntN(4) == 0, kinds: map[action]bool{}}
	l.nightly = !l.both
	for act := firstAct; act < firstFault; act++ {
		l.kinds[act] = true
	}
	for range 4 {
		switch kind := firstFault + 1 + action(random.IntN(int(lastAction-firstFault-1))); kind {
		case formerReturns, formerLasts:
			l.kinds[kind], l.kinds[failoverBoth], l.kinds[podDies] = true, true, true
		case replicaStops, failover, failoverLate, failoverBoth, failoverBothLate, demoted:
			l.kinds[kind], l.kinds[replicaStops], l.kinds[failover] = true, true, true
		case databaseStops, databaseFalls:
			l.kinds[databaseStops], l.kinds[databaseFalls] = true, true
		default:
			l.kinds[kind] = true
		}
	}
	return &l
}
