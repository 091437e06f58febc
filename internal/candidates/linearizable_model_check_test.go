package candidates

import (
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The model is tested too: small histories, right and wrong, each ended by a reading of the line.
func TestModelJudgesKnownHistories(t *testing.T) {
	t.Parallel()
	// A history is written as operations of coupon 1 with the instants of call and return.
	type history = []porcupine.Operation
	op := func(from, to int64, in asked, out told) porcupine.Operation {
		in.coupon = max(in.coupon, 1)
		return porcupine.Operation{Input: in, Call: from, Output: out, Return: to}
	}
	apply := func(from, to int64, user coupon.UserID, code Code, arrival coupon.Arrival, position int64) porcupine.Operation {
		return op(from, to, asked{act: toApply, user: user}, told{code: string(code), arrival: arrival, position: position})
	}
	lost := func(from int64, user coupon.UserID) porcupine.Operation {
		return op(from, never, asked{act: toApply, user: user}, told{lost: true})
	}
	look := func(from, to int64, user coupon.UserID, standing coupon.Standing, arrival coupon.Arrival, position int64) porcupine.Operation {
		return op(from, to, asked{act: toLook, user: user}, told{code: string(standing), arrival: arrival, position: position})
	}
	read := func(from, to int64, line ...spot) porcupine.Operation {
		return op(from, to, asked{act: toRead}, told{spots: line})
	}
	settle := func(from, to, removed int64, spots ...spot) porcupine.Operation {
		return op(from, to, asked{act: toSettle, spots: spots}, told{removed: removed})
	}
	settleLost := func(from int64, spots ...spot) porcupine.Operation {
		return op(from, never, asked{act: toSettle, spots: spots}, told{lost: true})
	}
	elsewhere := func(o porcupine.Operation) porcupine.Operation {
		in := o.Input.(asked)
		in.coupon = 2
		o.Input = in
		return o
	}

	for name, c := range map[string]struct {
		history history
		want    porcupine.CheckResult
	}{
		"one after the other": {history{apply(1, 2, 7, Accepted, 100, 1), apply(3, 4, 8, Accepted, 101, 2), read(5, 6, spot{7, 100}, spot{8, 101})}, porcupine.Ok},
		"asking again":        {history{apply(1, 2, 7, Accepted, 100, 1), apply(3, 4, 7, Duplicate, 100, 1), read(5, 6, spot{7, 100})}, porcupine.Ok},
		"at once, in either order": {history{
			apply(1, 9, 7, Accepted, 101, 2), apply(2, 8, 8, Accepted, 100, 1), read(10, 11, spot{8, 100}, spot{7, 101})}, porcupine.Ok},
		"one user twice at once": {history{apply(1, 9, 7, Duplicate, 100, 1), apply(2, 8, 7, Accepted, 100, 1), read(10, 11, spot{7, 100})}, porcupine.Ok},
		"looking before and after": {history{
			look(1, 2, 7, coupon.StandingNone, 0, 0), apply(3, 4, 7, Accepted, 100, 1), look(5, 6, 7, coupon.StandingPending, 100, 1), read(7, 8, spot{7, 100})}, porcupine.Ok},
		"two coupons": {history{
			apply(1, 2, 7, Accepted, 100, 1), elsewhere(apply(3, 4, 7, Accepted, 50, 1)), read(5, 6, spot{7, 100}), elsewhere(read(7, 8, spot{7, 50}))}, porcupine.Ok},
		"nobody came": {history{read(1, 2)}, porcupine.Ok},

		"accepted twice":            {history{apply(1, 2, 7, Accepted, 100, 1), apply(3, 4, 7, Accepted, 101, 1), read(5, 6, spot{7, 101})}, porcupine.Illegal},
		"accepted twice at once":    {history{apply(1, 9, 7, Accepted, 100, 1), apply(2, 8, 7, Accepted, 100, 1), read(10, 11, spot{7, 100})}, porcupine.Illegal},
		"a duplicate of nothing":    {history{apply(1, 2, 7, Duplicate, 100, 1), read(3, 4, spot{7, 100})}, porcupine.Illegal},
		"a duplicate of the future": {history{apply(1, 2, 7, Duplicate, 100, 1), apply(3, 4, 7, Accepted, 100, 1), read(5, 6, spot{7, 100})}, porcupine.Illegal},
		"a duplicate arrives anew":  {history{apply(1, 2, 7, Accepted, 100, 1), apply(3, 4, 7, Duplicate, 101, 1), read(5, 6, spot{7, 101})}, porcupine.Illegal},
		"a duplicate is told another place": {history{
			apply(1, 2, 7, Accepted, 100, 1), apply(3, 4, 7, Duplicate, 100, 2), read(5, 6, spot{7, 100})}, porcupine.Illegal},
		"one arrival for two": {history{
			apply(1, 9, 7, Accepted, 100, 1), apply(2, 8, 8, Accepted, 100, 2), read(10, 11, spot{7, 100}, spot{8, 100})}, porcupine.Illegal},
		"arrivals fall": {history{
			apply(1, 2, 7, Accepted, 100, 1), apply(3, 4, 8, Accepted, 99, 2), read(5, 6, spot{8, 99}, spot{7, 100})}, porcupine.Illegal},
		"who came later goes ahead": {history{
			apply(1, 2, 7, Accepted, 101, 2), apply(3, 4, 8, Accepted, 100, 1), read(5, 6, spot{8, 100}, spot{7, 101})}, porcupine.Illegal},
		"a place left out": {history{
			apply(1, 2, 7, Accepted, 100, 1), apply(3, 4, 8, Accepted, 101, 3), read(5, 6, spot{7, 100}, spot{8, 101})}, porcupine.Illegal},
		"one place for two": {history{
			apply(1, 9, 7, Accepted, 100, 1), apply(2, 8, 8, Accepted, 101, 1), read(10, 11, spot{7, 100}, spot{8, 101})}, porcupine.Illegal},
		"answers swapped": {history{
			apply(1, 9, 7, Accepted, 101, 2), apply(2, 8, 8, Accepted, 100, 1), read(10, 11, spot{7, 100}, spot{8, 101})}, porcupine.Illegal},
		"told, and not in line":     {history{apply(1, 2, 7, Accepted, 100, 1), read(3, 4)}, porcupine.Illegal},
		"in line, and never came":   {history{read(1, 2, spot{7, 100})}, porcupine.Illegal},
		"gone again":                {history{apply(1, 2, 7, Accepted, 100, 1), look(3, 4, 7, coupon.StandingNone, 0, 0), read(5, 6, spot{7, 100})}, porcupine.Illegal},
		"seen before it came":       {history{look(1, 2, 7, coupon.StandingPending, 100, 1), apply(3, 4, 7, Accepted, 100, 1), read(5, 6, spot{7, 100})}, porcupine.Illegal},
		"closed, though it is open": {history{apply(1, 2, 7, Closed, 0, 0), read(3, 4)}, porcupine.Illegal},
		"one of two coupons wrong": {history{
			apply(1, 2, 7, Accepted, 100, 1), read(3, 4, spot{7, 100}), elsewhere(apply(5, 6, 7, Accepted, 50, 2)), elsewhere(read(7, 8, spot{7, 50}))}, porcupine.Illegal},

		"lost, and never happened":      {history{lost(1, 7), apply(2, 3, 8, Accepted, 100, 1), read(4, 5, spot{8, 100})}, porcupine.Ok},
		"lost, and happened at once":    {history{lost(1, 7), apply(2, 3, 8, Accepted, 101, 2), read(4, 5, spot{7, 100}, spot{8, 101})}, porcupine.Ok},
		"lost, and happened later":      {history{lost(1, 7), apply(2, 3, 8, Accepted, 100, 1), read(4, 5, spot{8, 100}, spot{7, 101})}, porcupine.Ok},
		"lost, and asked again":         {history{lost(1, 7), apply(2, 3, 7, Duplicate, 100, 1), read(4, 5, spot{7, 100})}, porcupine.Ok},
		"lost, and asked again in vain": {history{lost(1, 7), apply(2, 3, 7, Accepted, 100, 1), read(4, 5, spot{7, 100})}, porcupine.Ok},
		"lost twice":                    {history{lost(1, 7), lost(2, 7), apply(3, 4, 7, Duplicate, 100, 1), read(5, 6, spot{7, 100})}, porcupine.Ok},
		"lost while another came": {history{
			apply(1, 2, 8, Accepted, 100, 1), lost(3, 7), apply(4, 5, 9, Accepted, 105, 3), apply(6, 7, 7, Duplicate, 103, 2),
			read(8, 9, spot{8, 100}, spot{7, 103}, spot{9, 105})}, porcupine.Ok},
		"many lost, in another order than they called": {history{
			lost(1, 1), lost(2, 2), lost(3, 3), lost(4, 4), lost(5, 5), apply(6, 7, 8, Accepted, 103, 4),
			read(8, 9, spot{3, 100}, spot{5, 101}, spot{1, 102}, spot{8, 103}, spot{2, 104})}, porcupine.Ok},
		"lost, and ahead of who came before": {history{
			apply(1, 2, 8, Accepted, 100, 1), lost(3, 7), read(4, 5, spot{7, 99}, spot{8, 100})}, porcupine.Illegal},
		"lost, and ahead without a place": {history{
			lost(1, 7), apply(2, 3, 8, Accepted, 101, 1), read(4, 5, spot{7, 100}, spot{8, 101})}, porcupine.Illegal},
		"lost, and between two with no room": {history{
			apply(1, 2, 8, Accepted, 100, 1), lost(3, 7), apply(4, 5, 9, Accepted, 101, 3), read(6, 7, spot{8, 100}, spot{7, 100}, spot{9, 101})}, porcupine.Illegal},
		"lost, and happened before it was called": {history{
			look(1, 2, 7, coupon.StandingPending, 100, 1), lost(3, 7), read(4, 5, spot{7, 100})}, porcupine.Illegal},
		"lost, and happened twice": {history{
			lost(1, 7), apply(2, 3, 8, Accepted, 101, 2), apply(4, 5, 7, Accepted, 102, 2), read(6, 7, spot{8, 101}, spot{7, 102})}, porcupine.Illegal},
		"lost, and another is told the arrival": {history{
			lost(1, 7), apply(2, 3, 7, Duplicate, 100, 1), read(4, 5, spot{7, 101})}, porcupine.Illegal},
		"lost, and gone again": {history{
			lost(1, 7), look(2, 3, 7, coupon.StandingPending, 100, 1), look(4, 5, 7, coupon.StandingNone, 0, 0), read(6, 7, spot{7, 100})}, porcupine.Illegal},

		"settled": {history{
			apply(1, 2, 7, Accepted, 100, 1), apply(3, 4, 8, Accepted, 101, 2), settle(5, 6, 1, spot{7, 100}), look(7, 8, 8, coupon.StandingPending, 101, 1),
			look(9, 10, 7, coupon.StandingIssued, 0, 0), apply(11, 12, 7, AlreadyIssued, 0, 0), apply(13, 14, 9, Accepted, 102, 2), read(15, 16, spot{8, 101}, spot{9, 102})}, porcupine.Ok},
		"settled twice":                          {history{apply(1, 2, 7, Accepted, 100, 1), settle(3, 4, 1, spot{7, 100}), settle(5, 6, 0, spot{7, 100}), read(7, 8)}, porcupine.Ok},
		"settled, and the reply lost":            {history{apply(1, 2, 7, Accepted, 100, 1), settleLost(3, spot{7, 100}), look(5, 6, 7, coupon.StandingIssued, 0, 0), read(7, 8)}, porcupine.Ok},
		"settled in vain":                        {history{apply(1, 2, 7, Accepted, 100, 1), settleLost(3, spot{7, 100}), read(7, 8, spot{7, 100})}, porcupine.Ok},
		"settled out of a lost application":      {history{lost(1, 7), settle(3, 4, 1, spot{7, 100}), apply(5, 6, 8, Accepted, 101, 1), read(7, 8, spot{8, 101})}, porcupine.Ok},
		"settled and counted twice":              {history{apply(1, 2, 7, Accepted, 100, 1), settle(3, 4, 1, spot{7, 100}), settle(5, 6, 1, spot{7, 100}), read(7, 8)}, porcupine.Illegal},
		"settled, and accepted again":            {history{apply(1, 2, 7, Accepted, 100, 1), settle(3, 4, 1, spot{7, 100}), apply(5, 6, 7, Accepted, 101, 1), read(7, 8, spot{7, 101})}, porcupine.Illegal},
		"settled, and still in line":             {history{apply(1, 2, 7, Accepted, 100, 1), settle(3, 4, 1, spot{7, 100}), read(5, 6, spot{7, 100})}, porcupine.Illegal},
		"settled, and the arrival given anew":    {history{apply(1, 2, 7, Accepted, 100, 1), settle(3, 4, 1, spot{7, 100}), apply(5, 6, 8, Accepted, 100, 1), read(7, 8, spot{8, 100})}, porcupine.Illegal},
		"settled, and nobody moves up":           {history{apply(1, 2, 7, Accepted, 100, 1), settle(3, 4, 1, spot{7, 100}), apply(5, 6, 8, Accepted, 101, 2), read(7, 8, spot{8, 101})}, porcupine.Illegal},
		"settled, and duplicate of what is gone": {history{apply(1, 2, 7, Accepted, 100, 1), settle(3, 4, 1, spot{7, 100}), apply(5, 6, 7, Duplicate, 100, 1), read(7, 8)}, porcupine.Illegal},
	} {
		require.Equal(t, c.want, linearizable(c.history, nil), name)
	}
}

// Trying everything out, with nothing known of what was lost, comes to the same verdict: on small histories, right ones
// and such as have one answer changed.
func TestModelAgreesWithExhaustiveSearch(t *testing.T) {
	t.Parallel()
	verdicts := map[porcupine.CheckResult]int{}
	rapid.Check(t, func(t *rapid.T) {
		history := smallHistory(t)
		want := porcupine.Illegal
		var arrivals []coupon.Arrival
		for _, op := range history {
			in, out := op.Input.(asked), op.Output.(told)
			arrivals = append(arrivals, out.arrival)
			for _, s := range slices.Concat(in.spots, out.spots) {
				arrivals = append(arrivals, s.arrival)
			}
		}
		slices.Sort(arrivals)
		if explicable(queueOf{}, history, slices.Compact(arrivals)) {
			want = porcupine.Ok
		}
		verdicts[want]++
		if got := linearizable(history, nil); got != want {
			t.Fatalf("%s, want %s:\n%s", got, want, unexplained(history, nil))
		}
	})
	require.NotZero(t, verdicts[porcupine.Ok])
	require.NotZero(t, verdicts[porcupine.Illegal])
}

// explicable tries every order that the instants allow, and for what was lost every outcome.
func explicable(q queueOf, open []porcupine.Operation, arrivals []coupon.Arrival) bool {
	if len(open) == 0 {
		return true
	}
	for i, op := range open {
		if slices.ContainsFunc(open, func(o porcupine.Operation) bool { return o.Return < op.Call }) {
			continue
		}
		rest := slices.Delete(slices.Clone(open), i, i+1)
		in, out := op.Input.(asked), op.Output.(told)
		if out.lost && explicable(q, rest, arrivals) {
			return true // it never happened
		}
		if out.lost && in.act == toApply {
			if q.place(in.user) > 0 || q.issued[in.user] {
				continue // as if it had not
			}
			for _, arrival := range arrivals {
				if arrival > q.last && explicable(q.accept(in.user, arrival), rest, arrivals) {
					return true
				}
			}
			continue
		}
		if fits, next := q.step(in, out); fits && explicable(next, rest, arrivals) {
			return true
		}
	}
	return false
}

// smallHistory is the history of a few clients of a correct coupon, or of one with a single error.
func smallHistory(t *rapid.T) (history []porcupine.Operation) {
	draw := func(from, to int, what string) int { return rapid.IntRange(from, to).Draw(t, what) }
	var q queueOf
	n := draw(1, 6, "operations")
	const apart = 10 // between two instants at which something happens
	for i := 1; i <= n; i++ {
		in := asked{coupon: 1, act: rapid.SampledFrom([]act{toApply, toApply, toApply, toLook, toRead, toSettle}).Draw(t, "act")}
		in.user = coupon.UserID(draw(1, 3, "user"))
		var out told
		next := q
		switch place := q.place(in.user); in.act {
		case toApply:
			switch {
			case place > 0:
				out = told{code: string(Duplicate), arrival: q.line[place-1].arrival, position: place}
			case q.issued[in.user]:
				out = told{code: string(AlreadyIssued)}
			default:
				out = told{code: string(Accepted), arrival: q.last + coupon.Arrival(draw(1, 2, "later")), position: int64(len(q.line)) + 1}
				next = q.accept(in.user, out.arrival)
			}
		case toLook:
			switch {
			case q.issued[in.user]:
				out = told{code: string(coupon.StandingIssued)}
			case place > 0:
				out = told{code: string(coupon.StandingPending), arrival: q.line[place-1].arrival, position: place}
			default:
				out = told{code: string(coupon.StandingNone)}
			}
		case toRead:
			out.spots = q.line
		case toSettle:
			in.spots = q.line[:draw(0, len(q.line), "settled")]
			next, out.removed = q.settle(in.spots), int64(len(in.spots))
		}
		at := int64(i * apart)
		// The fractions keep instants apart from each other.
		op := porcupine.Operation{Input: in, Call: (at-int64(draw(0, 3, "before")*apart))*100 - int64(i), Output: out, Return: (at+int64(draw(0, 3, "after")*apart))*100 + int64(i)}
		if (in.act == toApply || in.act == toSettle) && draw(0, 2, "lost") == 0 {
			op.Return, op.Output = never, told{lost: true}
			if rapid.Bool().Draw(t, "before it happened") {
				next = q
			}
		}
		q = next
		history = append(history, op)
	}
	if erring := draw(-n, n-1, "erring"); erring >= 0 {
		in, out := history[erring].Input.(asked), history[erring].Output.(told)
		by := int64(rapid.SampledFrom([]int{-1, 1}).Draw(t, "by"))
		switch {
		case out.lost:
		case in.act == toSettle:
			out.removed += by
		case out.arrival > 0:
			switch draw(0, 2, "wrong") {
			case 0:
				out.arrival += coupon.Arrival(by)
			case 1:
				out.position += by
			default:
				out.code = string(rapid.SampledFrom([]Code{Accepted, Duplicate, AlreadyIssued}).Draw(t, "code"))
			}
		}
		history[erring].Output = out
	}
	return append(history, porcupine.Operation{
		Input: asked{coupon: 1, act: toRead}, Call: int64(n+4) * apart * 100, Output: told{spots: q.line}, Return: int64(n+5) * apart * 100,
	})
}
