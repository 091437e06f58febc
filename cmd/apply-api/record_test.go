package main

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

type result struct {
	status            int
	arrival, position int64  // of an accepted application or a duplicate
	problem           string // a violation of the API's contract by the response itself
}

func (w result) queued() bool { return w.status == http.StatusAccepted || w.status == http.StatusOK }

// record keeps the responses to the applicants of one coupon. Compared with Redis, it shows every broken promise.
type record struct {
	mu         sync.Mutex
	results    map[int][]result // by user, in order
	statuses   map[int]int
	problems   []string
	accepted   []int // users, in the order of the responses
	unanswered []int // users without a result, whose application no goroutine repeats at present
	recovered  int   // users whose first result was DUPLICATE: an earlier response was lost
}

func newRecord() *record { return &record{results: map[int][]result{}, statuses: map[int]int{}} }

func (l *record) add(user int, w result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.results[user]
	l.results[user] = append(before, w)
	l.statuses[w.status]++
	switch {
	case w.problem != "":
		l.problems = append(l.problems, fmt.Sprintf("user %d: %s", user, w.problem))
	case w.status == http.StatusAccepted:
		l.accepted = append(l.accepted, user)
	case w.status == http.StatusOK && !slices.ContainsFunc(before, result.queued):
		l.recovered++
	}
	if !w.queued() {
		l.unanswered = append(l.unanswered, user)
	}
}

func (l *record) count(status int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.statuses[status]
}

// recoveredUsers counts the users whose lost application was in the queue.
func (l *record) recoveredUsers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recovered
}

// someAccepted returns an accepted user, another one for each n.
func (l *record) someAccepted(n int) (user int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.accepted) == 0 {
		return 0, false
	}
	return l.accepted[n*7919%len(l.accepted)], true
}

// takeUnanswered removes and returns the first user without a result.
func (l *record) takeUnanswered() (user int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.unanswered) == 0 {
		return 0, false
	}
	user, l.unanswered = l.unanswered[0], l.unanswered[1:]
	return user, true
}

// firstArrivals are the lowest arrivals in the responses to each user.
func (l *record) firstArrivals() map[int]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := map[int]int64{}
	for user, all := range l.results {
		for _, w := range all {
			if before, ok := first[user]; w.queued() && (!ok || w.arrival < before) {
				first[user] = w.arrival
			}
		}
	}
	return first
}

type place struct {
	user    string
	arrival int64
}

type queueState struct {
	queue          []place
	accepted, last int64 // each application counted once; of accepted, those in the queue
}

const (
	queueKey = "candidates:coupon:1"
	stateKey = "state:{candidates:coupon:1}"
)

func readQueue(t *testing.T, rdb redis.Cmdable) (q queueState) {
	t.Helper()
	members, err := rdb.ZRangeWithScores(t.Context(), queueKey, 0, -1).Result()
	require.NoError(t, err)
	for _, z := range members {
		q.queue = append(q.queue, place{z.Member.(string), int64(z.Score)})
	}
	state, err := rdb.HMGet(t.Context(), stateKey, "accepted", "last").Result()
	require.NoError(t, err)
	for i, to := range []*int64{&q.accepted, &q.last} {
		if text, ok := state[i].(string); ok {
			*to, err = strconv.ParseInt(text, 10, 64)
			require.NoError(t, err)
		}
	}
	reviewed, err := rdb.ZCard(t.Context(), "dlq:{"+queueKey+"}").Result()
	require.NoError(t, err)
	q.accepted -= reviewed
	return q
}

// violations lists every broken promise.
func (l *record) violations(stored queueState) (violations []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	report := func(format string, args ...any) { violations = append(violations, fmt.Sprintf(format, args...)) }
	violations = append(violations, l.problems...)

	ranks := map[string]int{}
	for i, p := range stored.queue {
		if i > 0 && p.arrival <= stored.queue[i-1].arrival {
			report("user %s does not follow the previous user", p.user)
		}
		if user, err := strconv.Atoi(p.user); err != nil || len(l.results[user]) == 0 {
			report("user %s is queued without an application", p.user)
		}
		ranks[p.user] = i
	}
	if n := len(stored.queue); n > 0 && stored.last < stored.queue[n-1].arrival {
		report("last is %d, below the arrivals", stored.last)
	}
	if stored.accepted != int64(len(stored.queue)) {
		report("accepted is %d with %d queued", stored.accepted, len(stored.queue))
	}

	for user, all := range l.results {
		rank, found := ranks[strconv.Itoa(user)]
		n, accepted, promised := 0, 0, int64(0)
		for _, w := range all {
			switch {
			case !w.queued():
			case !found:
				report("user %d was accepted and is not queued", user)
			case w.arrival != stored.queue[rank].arrival:
				report("user %d has arrival %d in a response and %d in the queue", user, w.arrival,
					stored.queue[rank].arrival)
			case w.position != int64(rank)+1:
				report("user %d has position %d in a response and %d in the queue", user, w.position, rank+1)
			case w.status == http.StatusAccepted && promised > 0: // two goroutines may repeat a lost application
				report("user %d was accepted while queued", user)
			case w.status == http.StatusOK && n == 0:
				report("user %d was queued before the first application", user)
			}
			if w.queued() {
				promised = w.arrival
			}
			if w.status == http.StatusAccepted {
				accepted++
			}
			n++
		}
		if accepted > 1 {
			report("user %d was accepted %d times", user, accepted)
		}
	}
	slices.Sort(violations)
	return violations
}

func TestRecordFindsEveryBrokenPromise(t *testing.T) {
	t.Parallel()
	accepted := func(arrival, position int64) result { return result{http.StatusAccepted, arrival, position, ""} }
	duplicate := func(arrival, position int64) result { return result{http.StatusOK, arrival, position, ""} }
	unknown := result{status: http.StatusServiceUnavailable}
	recorded := func() *record {
		l := newRecord()
		l.add(7, accepted(100, 1))
		l.add(8, unknown)
		l.add(9, accepted(102, 3))
		l.add(8, duplicate(101, 2))
		l.add(7, duplicate(100, 1))
		l.add(10, unknown)
		return l
	}
	queued := func() queueState { return queueState{[]place{{"7", 100}, {"8", 101}, {"9", 102}}, 3, 102} }
	require.Empty(t, recorded().violations(queued()))
	require.Equal(t, 1, recorded().recoveredUsers())

	for _, c := range []struct {
		more       func(*record)
		change     func(*queueState)
		violations []string
	}{
		{change: func(h *queueState) { h.queue, h.accepted = h.queue[:2], 2 },
			violations: []string{"user 9 was accepted and is not queued"}},
		{change: func(h *queueState) { h.queue[2].arrival = 103; h.last = 103 },
			violations: []string{"user 9 has arrival 102 in a response and 103 in the queue"}},
		{change: func(h *queueState) { h.queue[1].arrival = 100 },
			violations: []string{"user 8 does not follow the previous user",
				"user 8 has arrival 101 in a response and 100 in the queue"}},
		{change: func(h *queueState) { h.last = 101 }, violations: []string{"last is 101, below the arrivals"}},
		{change: func(h *queueState) { h.accepted = 2 }, violations: []string{"accepted is 2 with 3 queued"}},
		{change: func(h *queueState) { h.accepted = 4 }, violations: []string{"accepted is 4 with 3 queued"}},
		{change: func(h *queueState) { h.queue, h.accepted, h.last = append(h.queue, place{"11", 103}), 4, 103 },
			violations: []string{"user 11 is queued without an application"}},
		{more: func(l *record) { l.add(9, accepted(102, 3)) },
			violations: []string{"user 9 was accepted 2 times", "user 9 was accepted while queued"}},
		{more: func(l *record) { l.add(9, duplicate(102, 2)) },
			violations: []string{"user 9 has position 2 in a response and 3 in the queue"}},
		{more: func(l *record) { l.add(9, duplicate(99, 3)) },
			violations: []string{"user 9 has arrival 99 in a response and 102 in the queue"}},
		{more: func(l *record) { l.add(12, duplicate(103, 4)) },
			change:     func(h *queueState) { h.queue, h.accepted, h.last = append(h.queue, place{"12", 103}), 4, 103 },
			violations: []string{"user 12 was queued before the first application"}},
		{more: func(l *record) { l.add(9, result{problem: "no answer"}) }, violations: []string{"user 9: no answer"}},
	} {
		l, stored := recorded(), queued()
		if c.more != nil {
			c.more(l)
		}
		if c.change != nil {
			c.change(&stored)
		}
		require.Equal(t, c.violations, l.violations(stored))
	}
}
