package promisemodel

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

func at(second int) time.Time { return time.Unix(int64(second), 0) }

func an(user coupon.UserID, arrival coupon.Arrival) coupon.Answer {
	return coupon.Answer{User: user, Arrival: arrival}
}

func seat(user coupon.UserID, arrival coupon.Arrival) Outcome {
	return Outcome{Answer: an(user, arrival), Kind: "ISSUED", Below: coupon.MaxArrival + 1}
}

// The events of goodTrace, by what they are.
const (
	begins = iota
	tellsOne
	tellsTwo
	copies
	looksBefore
	tellsAgain
	loses
	dies
	compares
	adopts
	restores
	tellsNewcomer
	settles
	looksAfter
	lastEvent
)

// goodTrace has three users and two seats. Pod 1 tells 1 and 2, of whom the journal has 1 when the server changes. Pod
// 1 hands 2 over. Pod 2, which told 3, dies with the server: nobody knows 3, who is lost.
func goodTrace() Trace {
	places := func(all ...coupon.Answer) map[coupon.UserID]coupon.Arrival {
		found := map[coupon.UserID]coupon.Arrival{}
		for _, a := range all {
			found[a.User] = a.Arrival
		}
		return found
	}
	row := []coupon.Answer{an(1, 10)}
	rows := []coupon.Answer{an(1, 10), an(2, 20)}
	return Trace{Seats: 2, Keep: 10 * time.Second, Events: []Event{
		begins:   Committed{At: at(0)},
		tellsOne: Told{Answer: an(1, 10), Pod: 1, Epoch: "a:1", New: true, Asked: at(1), At: at(2)},
		tellsTwo: Told{Answer: an(2, 20), Pod: 1, Epoch: "a:1", New: true, Asked: at(3), At: at(4)},
		copies:   Committed{Epoch: "a:1", UpTo: 15, Rows: row, At: at(5)},
		looksBefore: Looked{Server: "a", Epoch: "a:1", Restored: true, Accepted: 2, Places: places(rows...),
			At: at(6)},
		tellsAgain: Told{Answer: an(3, 25), Pod: 2, Epoch: "a:1", New: true, Asked: at(7), At: at(8)},
		loses:      Lost{},
		dies:       Died{Pod: 2},
		compares:   Compared{Pod: 1, Epoch: "b:9", Answers: rows, HandedOver: []int{0, 1}, At: at(9)},
		adopts:     Committed{Epoch: "b:9", UpTo: 5, Rows: rows, At: at(20)},
		restores: Looked{Server: "b", Epoch: "b:9", Restored: true, Accepted: 2, Places: places(rows...),
			At: at(21)},
		tellsNewcomer: Told{Answer: an(4, 40), Pod: 1, Epoch: "b:9", New: true, Asked: at(22), At: at(23)},
		settles: Committed{Epoch: "b:9", UpTo: 50, Rows: append(rows, an(4, 40)), At: at(30),
			Outcomes: []Outcome{seat(1, 10), seat(2, 20), {Answer: an(4, 40), Kind: "NOT_SELECTED", Below: 60}}},
		looksAfter: Looked{Server: "b", Epoch: "b:9", Restored: true, Accepted: 3, At: at(31)},
	}}
}

// corrupt changes one event.
func corrupt[E Event](trace Trace, n int, change func(e *E)) Trace {
	e := trace.Events[n].(E)
	change(&e)
	trace.Events[n] = e
	return trace
}

func TestTrace_IsAccepted(t *testing.T) {
	t.Parallel()
	require.Len(t, goodTrace().Events, lastEvent)
	require.NoError(t, goodTrace().Check())
	moreMissing := corrupt(goodTrace(), restores, func(l *Looked) { l.Accepted, l.Places = 5, nil })
	require.NoError(t, moreMissing.Check(), "while a restore is due, nobody needs to stand")
}

// One event is corrupted in each trace, or is missing.
func TestTrace_WithACorruptedEventIsRefused(t *testing.T) {
	t.Parallel()
	good := goodTrace
	without := func(n int) Trace {
		trace := good()
		trace.Events = slices.Delete(trace.Events, n, n+1)
		return trace
	}
	for want, trace := range map[string]Trace{
		"arrival 9 is not above 10": corrupt(good(), tellsTwo, func(e *Told) { e.Arrival = 9 }),
		"user 3 was told 25, and the pod's memory does not know": corrupt(good(), tellsAgain,
			func(e *Told) { e.Epoch = "" }),
		"user 1 stood at 10, and was told 25 in the same epoch": corrupt(good(), tellsAgain,
			func(e *Told) { e.User, e.New = 1, false }),
		"user 2 is standing at arrival 20, which nobody was told": without(tellsTwo),
		"complete up to 20, and lacks user 2 at arrival 20": corrupt(good(), copies,
			func(e *Committed) { e.UpTo = 20 }),
		"user 1 at arrival 10 has left the journal": corrupt(good(), adopts,
			func(e *Committed) { e.Rows = e.Rows[1:] }),
		"user 2 is in the journal at arrival 19, which nobody was told": corrupt(good(), adopts,
			func(e *Committed) { e.Rows = []coupon.Answer{an(1, 10), an(2, 19)} }),
		"2 users have one of 1 seats": func() Trace { trace := good(); trace.Seats = 1; return trace }(),
		"user 1 is ISSUED at arrival 11, which nobody was told": corrupt(good(), settles,
			func(e *Committed) { e.Outcomes[0].Arrival = 11 }),
		"user 1 was told 10, and is passed over: the last seat is at 20": corrupt(good(), settles,
			func(e *Committed) { e.Outcomes[0].Kind = "NOT_SELECTED" }),
		"user 3 was told 25, and is passed over: the last seat is at 40": func() Trace { // a living pod knew 3
			trace := corrupt(good(), settles, func(e *Committed) { e.Outcomes[2].Kind = "ISSUED" })
			trace.Seats, trace.Events = 3, slices.Delete(trace.Events, dies, dies+1)
			return trace
		}(),
		"pod 1 did not compare user 2 at arrival 20 in epoch b:9": corrupt(good(), compares,
			func(e *Compared) { e.Answers, e.HandedOver = e.Answers[:1], e.HandedOver[:1] }),
		"pod 1 did not compare user 1 at arrival 10 in epoch b:9": corrupt(good(), compares, // too early to forget
			func(e *Compared) { e.Answers, e.HandedOver = e.Answers[1:], e.HandedOver[:1] }),
		"user 7 is remembered at arrival 20, which nobody was told": corrupt(good(), compares,
			func(e *Compared) { e.Answers = []coupon.Answer{an(1, 10), an(7, 20)} }),
		"user 2 of the journal, arrival 20, is nowhere": corrupt(good(), restores,
			func(e *Looked) { delete(e.Places, 2); e.Left = 1 }),
		"user 2, handed over at arrival 20, is nowhere": func() Trace { // and not in the journal either
			trace := corrupt(good(), adopts, func(e *Committed) { e.Rows = e.Rows[:1] })
			return corrupt(trace, restores, func(e *Looked) { delete(e.Places, 2); e.Accepted = 1 })
		}(),
		"user 2 is standing at arrival 19, which nobody was told": corrupt(good(), restores,
			func(e *Looked) { e.Places[2] = 19 }),
	} {
		trace.Events = append(trace.Events, Unanswered{User: 9})
		require.ErrorContains(t, trace.Check(), want)
	}
}

// A request without an answer may have been accepted.
func TestTrace_OfARequestWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	trace := goodTrace()
	trace.Events[tellsTwo] = Unanswered{User: 2}
	trace = corrupt(trace, compares, func(e *Compared) { e.Answers, e.HandedOver = e.Answers[:1], e.HandedOver[:1] })
	require.NoError(t, trace.Check())
}

// A pod may forget what it may have known for ten seconds to be in the journal.
func TestTrace_OfAPodThatForgets(t *testing.T) {
	t.Parallel()
	forgets := func(when int) Trace {
		trace := goodTrace()
		trace.Events = slices.Insert(trace.Events, loses, Event(Committed{Epoch: "a:1", UpTo: 15,
			Rows: []coupon.Answer{an(1, 10)}, At: at(when - 1)}))
		return corrupt(trace, compares+1, func(e *Compared) {
			e.At, e.Answers, e.HandedOver = at(when), e.Answers[1:], e.HandedOver[:1]
		})
	}
	require.NoError(t, forgets(13).Check())
	require.ErrorContains(t, forgets(9).Check(), "did not compare user 1")
}

// After a loss in the same epoch, a user may be told another place, and no copy can have read who is gone.
func TestTrace_OfALossWithinAnEpoch(t *testing.T) {
	t.Parallel()
	trace := corrupt(goodTrace(), tellsAgain, func(e *Told) { e.User = 2 })
	require.ErrorContains(t, trace.Check(), "user 2 stood at 20, and was told 25")
	trace.Events = slices.Insert(trace.Events, tellsAgain, Event(Lost{}))
	require.NoError(t, trace.Check())
	trace = corrupt(goodTrace(), adopts, func(e *Committed) { e.Epoch, e.UpTo, e.Rows = "a:1", 20, e.Rows[:1] })
	require.NoError(t, trace.Check())
	trace.Events = slices.Delete(trace.Events, loses, loses+1)
	require.ErrorContains(t, trace.Check(), "complete up to 20, and lacks user 2")
}
