package promisemodel

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkTrace checks what a real system has recorded: applies says who was told which arrival in which epoch,
// commitSettlement who got a seat at which arrival. Other steps may stand between them. Who is lost for good is not
// known to a trace: give the users in except.
func checkTrace(trace []step, seats int, except users) error {
	told, issued := map[int8]instant{}, map[int8]bool{}
	highest := map[int8]instant{} // by pod
	for i, s := range trace {
		first, again := told[s.user]
		switch {
		case s.action == podDies || s.action == terminates:
			delete(highest, s.pod)
		case s.action == applies && again && s.arrival > first && !except.has(s.user) && !issued[s.user]:
			return fmt.Errorf("step %d: user %d was told %d before, and then %d", i, s.user, first, s.arrival)
		case s.action == applies && !again && s.arrival <= highest[s.pod]:
			return fmt.Errorf("step %d: arrival %d is not above %d", i, s.arrival, highest[s.pod])
		case s.action == applies:
			told[s.user] = s.arrival
			highest[s.pod] = max(highest[s.pod], s.arrival)
		case s.action == commitSettlement:
			for user, a := range told {
				if a < s.arrival && !issued[user] && !except.has(user) {
					return fmt.Errorf("step %d: user %d is passed over", i, user)
				}
			}
			if issued[s.user] || len(issued) == seats {
				return fmt.Errorf("step %d: user %d got a seat that was not free", i, s.user)
			}
			issued[s.user] = true
		}
	}
	return nil
}

func TestTraceThatBreaksAPromise(t *testing.T) {
	t.Parallel()
	first, second := epoch{run: 1, since: 1}, epoch{run: 2, since: 5}
	trace := []step{
		{action: applies, user: 0, pod: 0, arrival: 2, epoch: first},
		{action: applies, user: 1, pod: 1, arrival: 3, epoch: first},
		{action: failover},
		{action: applies, user: 1, pod: 0, arrival: 3, epoch: second},
		{action: restoreBegin, epoch: second},
		{action: commitSettlement, user: 0, arrival: 2},
	}
	require.NoError(t, checkTrace(trace, 1, 0))
	twice := append(trace, step{action: commitSettlement, user: 1, arrival: 3})
	require.ErrorContains(t, checkTrace(twice, 1, 0), "not free")
	trace[5] = step{action: commitSettlement, user: 1, arrival: 3}
	require.ErrorContains(t, checkTrace(trace, 1, 0), "user 0 is passed over")
	require.NoError(t, checkTrace(trace, 1, 1), "the user is lost")
	trace[3].arrival = 6
	require.ErrorContains(t, checkTrace(trace, 1, 0), "was told 3 before, and then 6")
	trace[3] = step{action: applies, user: 2, pod: 0, arrival: 2, epoch: second}
	require.ErrorContains(t, checkTrace(trace, 1, 0), "arrival 2 is not above 2")
}
