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

type word struct {
	status            int
	arrival, position int64  // where the answer is that the application stands
	trouble           string // what is wrong with the answer itself
}

func (w word) stands() bool { return w.status == http.StatusAccepted || w.status == http.StatusOK }

// record is what applicants for one coupon were told. Compared with what Redis holds, it shows every promise broken.
type record struct {
	mu       sync.Mutex
	told     map[int][]word // by user, in order
	statuses map[int]int
	trouble  []string
	accepted []int // users, in the order they were told
	unsure   []int // users who do not know whether they stand, and whom nobody is asking for
	cleared  int   // users who did not know, and stood in line all the same
}

func newRecord() *record { return &record{told: map[int][]word{}, statuses: map[int]int{}} }

func (l *record) note(user int, w word) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.told[user]
	l.told[user] = append(before, w)
	l.statuses[w.status]++
	switch {
	case w.trouble != "":
		l.trouble = append(l.trouble, fmt.Sprintf("user %d: %s", user, w.trouble))
	case w.status == http.StatusAccepted:
		l.accepted = append(l.accepted, user)
	case w.status == http.StatusOK && !slices.ContainsFunc(before, word.stands):
		l.cleared++
	}
	if !w.stands() {
		l.unsure = append(l.unsure, user)
	}
}

func (l *record) count(status int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.statuses[status]
}

// clearedUp is how many did not know whether they stand, and were told at last that they did from the first.
func (l *record) clearedUp() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cleared
}

// someAccepted is one of those who were accepted, another for each n.
func (l *record) someAccepted(n int) (user int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.accepted) == 0 {
		return 0, false
	}
	return l.accepted[n*7919%len(l.accepted)], true
}

// takeUnsure is one who does not know, the first of them.
func (l *record) takeUnsure() (user int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.unsure) == 0 {
		return 0, false
	}
	user, l.unsure = l.unsure[0], l.unsure[1:]
	return user, true
}

// firstArrivals are the lowest arrivals that users were told. Users without a place are left out.
func (l *record) firstArrivals() map[int]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := map[int]int64{}
	for user, words := range l.told {
		for _, w := range words {
			if before, ok := first[user]; w.stands() && (!ok || w.arrival < before) {
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

type line struct {
	queue          []place
	accepted, last int64 // each application counted once; of accepted, those in the queue
}

const (
	queueKey = "candidates:coupon:1"
	stateKey = "state:{candidates:coupon:1}"
)

func readLine(t *testing.T, rdb redis.Cmdable) (l line) {
	t.Helper()
	members, err := rdb.ZRangeWithScores(t.Context(), queueKey, 0, -1).Result()
	require.NoError(t, err)
	for _, z := range members {
		l.queue = append(l.queue, place{z.Member.(string), int64(z.Score)})
	}
	state, err := rdb.HMGet(t.Context(), stateKey, "accepted", "last", "twice").Result()
	require.NoError(t, err)
	var twice int64
	for i, to := range []*int64{&l.accepted, &l.last, &twice} {
		if text, ok := state[i].(string); ok {
			*to, err = strconv.ParseInt(text, 10, 64)
			require.NoError(t, err)
		}
	}
	reviewed, err := rdb.ZCard(t.Context(), "dlq:{"+queueKey+"}").Result()
	require.NoError(t, err)
	l.accepted -= twice + reviewed
	return l
}

// wrong lists every broken promise. A failover may have lost some arrivals: then the counter must still include them, and no
// later application may have a lower arrival.
func (l *record) wrong(held line, lost map[int]int64) (wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	wrong = append(wrong, l.trouble...)

	ranks := map[string]int{}
	for i, p := range held.queue {
		if i > 0 && p.arrival <= held.queue[i-1].arrival {
			say("user %s does not come after the one before", p.user)
		}
		if user, err := strconv.Atoi(p.user); err != nil || len(l.told[user]) == 0 {
			say("user %s stands and never asked", p.user)
		}
		ranks[p.user] = i
	}
	if n := len(held.queue); n > 0 && held.last < held.queue[n-1].arrival {
		say("last is %d, below the arrivals", held.last)
	}
	if promised := int64(len(held.queue) + len(lost)); held.accepted < promised || len(lost) == 0 && held.accepted != promised {
		say("accepted is %d of %d who stand and %d lost", held.accepted, len(held.queue), len(lost))
	}
	highestLost := int64(0)
	for _, arrival := range lost {
		highestLost = max(highestLost, arrival)
	}

	for user, words := range l.told {
		rank, standing := ranks[strconv.Itoa(user)]
		_, forgotten := lost[user]
		asked, accepted, promised := 0, 0, int64(0)
		for _, w := range words {
			switch {
			case !w.stands():
			case w.arrival == lost[user]: // told before the loss
			case !standing:
				say("user %d was told to stand, and does not", user)
			case w.arrival != held.queue[rank].arrival:
				say("user %d was told arrival %d, and stands with %d", user, w.arrival, held.queue[rank].arrival)
			case w.position != int64(rank)+1:
				say("user %d was told position %d, and stands at %d", user, w.position, rank+1)
			case w.status == http.StatusAccepted && promised > 0 && !forgotten: // who is may be asked for twice at once
				say("user %d was accepted after standing in line", user)
			case w.status == http.StatusOK && asked == 0:
				say("user %d stood in line before asking", user)
			}
			if w.stands() && w.arrival != lost[user] {
				promised = w.arrival
			}
			if w.status == http.StatusAccepted {
				accepted++
			}
			asked++
		}
		if forgotten && promised > 0 && promised <= highestLost {
			say("user %d was accepted anew with %d, not behind what was lost", user, promised)
		}
		if accepted > 2 || accepted > 1 && !forgotten {
			say("user %d was accepted %d times", user, accepted)
		}
	}
	slices.Sort(wrong)
	return wrong
}

func TestTheRecordFindsEveryBrokenPromise(t *testing.T) {
	t.Parallel()
	accepted := func(arrival, position int64) word { return word{http.StatusAccepted, arrival, position, ""} }
	duplicate := func(arrival, position int64) word { return word{http.StatusOK, arrival, position, ""} }
	unknown := word{status: http.StatusServiceUnavailable}
	tell := func() *record {
		l := newRecord()
		l.note(7, accepted(100, 1))
		l.note(8, unknown)
		l.note(9, accepted(102, 3))
		l.note(8, duplicate(101, 2))
		l.note(7, duplicate(100, 1))
		l.note(10, unknown)
		return l
	}
	stand := func() line { return line{[]place{{"7", 100}, {"8", 101}, {"9", 102}}, 3, 102} }
	require.Empty(t, tell().wrong(stand(), nil))
	require.Equal(t, 1, tell().clearedUp())

	for _, c := range []struct {
		told  func(*record)
		held  func(*line)
		lost  map[int]int64
		wrong []string
	}{
		{held: func(h *line) { h.queue, h.accepted = h.queue[:2], 2 }, wrong: []string{"user 9 was told to stand, and does not"}},
		{held: func(h *line) { h.queue[2].arrival = 103; h.last = 103 }, wrong: []string{"user 9 was told arrival 102, and stands with 103"}},
		{held: func(h *line) { h.queue[1].arrival = 100 }, wrong: []string{"user 8 does not come after the one before", "user 8 was told arrival 101, and stands with 100"}},
		{held: func(h *line) { h.last = 101 }, wrong: []string{"last is 101, below the arrivals"}},
		{held: func(h *line) { h.accepted = 2 }, wrong: []string{"accepted is 2 of 3 who stand and 0 lost"}},
		{held: func(h *line) { h.accepted = 4 }, wrong: []string{"accepted is 4 of 3 who stand and 0 lost"}},
		{held: func(h *line) { h.queue, h.accepted, h.last = append(h.queue, place{"11", 103}), 4, 103 }, wrong: []string{"user 11 stands and never asked"}},
		{told: func(l *record) { l.note(9, accepted(102, 3)) }, wrong: []string{"user 9 was accepted 2 times", "user 9 was accepted after standing in line"}},
		{told: func(l *record) { l.note(9, duplicate(102, 2)) }, wrong: []string{"user 9 was told position 2, and stands at 3"}},
		{told: func(l *record) { l.note(9, duplicate(99, 3)) }, wrong: []string{"user 9 was told arrival 99, and stands with 102"}},
		{told: func(l *record) { l.note(12, duplicate(103, 4)) }, held: func(h *line) { h.queue, h.accepted, h.last = append(h.queue, place{"12", 103}), 4, 103 },
			wrong: []string{"user 12 stood in line before asking"}},
		{told: func(l *record) { l.note(9, word{trouble: "no answer"}) }, wrong: []string{"user 9: no answer"}},
		// After a failover that lost user 9.
		{held: func(h *line) { h.queue, h.last = h.queue[:2], 102 }, lost: map[int]int64{9: 102}},
		{held: func(h *line) { h.queue, h.accepted = h.queue[:2], 2 }, lost: map[int]int64{9: 102}, wrong: []string{"accepted is 2 of 2 who stand and 1 lost"}},
		{told: func(l *record) { l.note(9, accepted(103, 3)) }, held: func(h *line) { h.queue[2].arrival, h.last, h.accepted = 103, 103, 4 }, lost: map[int]int64{9: 102}},
		{told: func(l *record) {
			l.note(9, duplicate(103, 3))
			l.note(9, accepted(103, 3))
			l.note(9, accepted(103, 3))
		},
			held: func(h *line) { h.queue[2].arrival, h.last, h.accepted = 103, 103, 4 }, lost: map[int]int64{9: 102}, wrong: []string{"user 9 was accepted 3 times"}},
		{told: func(l *record) { l.note(10, accepted(110, 4)); l.note(9, accepted(105, 3)) },
			held: func(h *line) { h.queue, h.last, h.accepted = []place{{"7", 100}, {"8", 101}, {"9", 105}}, 110, 5 },
			lost: map[int]int64{9: 102, 10: 110}, wrong: []string{"user 9 was accepted anew with 105, not behind what was lost"}},
	} {
		l, held := tell(), stand()
		if c.told != nil {
			c.told(l)
		}
		if c.held != nil {
			c.held(&held)
		}
		require.Equal(t, c.wrong, l.wrong(held, c.lost))
	}
}
