package candidates

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/stretchr/testify/require"
)

// act is what a client asks of a coupon.
type act string

const (
	toApply  act = "apply"  // Apply
	toLook   act = "look"   // Status
	toRead   act = "read"   // the whole line
	toSettle act = "settle" // Remove, as issued
)

// spot is one user's place in line.
type spot struct {
	user    coupon.UserID
	arrival coupon.Arrival
}

// asked is the input of an operation.
type asked struct {
	coupon coupon.CouponID
	act    act
	user   coupon.UserID // who applies or looks
	spots  []spot        // what is settled
	call   int64         // names the operation; no two have the same
}

// told is its output.
type told struct {
	code     string // the Code of Apply, the Standing of Status
	arrival  coupon.Arrival
	position int64
	spots    []spot // the line that was read
	removed  int64
	// lost: no reply came. The operation takes effect at any time after its call, or never.
	lost bool
	// ahead is how many arrivals of the coupon are lower than that of a lost application: see withoutDoubt.
	ahead int
}

func describe(in asked, out told) string {
	question, answer := fmt.Sprintf("coupon %d: %s", in.coupon, in.act), ""
	switch in.act {
	case toApply, toLook:
		question += fmt.Sprint(" ", in.user)
		answer = fmt.Sprintf("%s %d at %d", out.code, out.arrival, out.position)
	case toRead:
		answer = fmt.Sprint(out.spots)
	case toSettle:
		question += fmt.Sprint(" ", in.spots)
		answer = fmt.Sprint(out.removed, " removed")
	}
	switch {
	case out.lost && out.arrival != 0:
		answer = fmt.Sprintf("lost, but known as number %d with arrival %d", out.ahead+1, out.arrival)
	case out.lost:
		answer = "lost"
	}
	return question + " → " + answer
}

// queueOf is all that a coupon is, to who asks one thing after the other. It is never changed in place.
type queueOf struct {
	line   []spot
	issued map[coupon.UserID]bool
	last   coupon.Arrival // the highest arrival ever given
}

func (q queueOf) equal(o queueOf) bool {
	return q.last == o.last && slices.Equal(q.line, o.line) && maps.Equal(q.issued, o.issued)
}

// place is the position of a user, from 1; 0: not in the queue.
func (q queueOf) place(user coupon.UserID) int64 {
	return 1 + int64(slices.IndexFunc(q.line, func(s spot) bool { return s.user == user }))
}

func (q queueOf) accept(user coupon.UserID, arrival coupon.Arrival) queueOf {
	q.line = append(slices.Clip(q.line), spot{user, arrival})
	q.last = arrival
	return q
}

// settle leaves the line without those spots.
func (q queueOf) settle(spots []spot) queueOf {
	issued := maps.Clone(q.issued)
	if issued == nil {
		issued = map[coupon.UserID]bool{}
	}
	for _, s := range spots {
		issued[s.user] = true
	}
	q.issued = issued
	q.line = slices.DeleteFunc(slices.Clone(q.line), func(s spot) bool { return slices.Contains(spots, s) })
	return q
}

// step says whether the operation may be answered so, and what the coupon is then.
func (q queueOf) step(in asked, out told) (bool, queueOf) {
	place := q.place(in.user)
	switch in.act {
	case toApply:
		switch {
		case out.lost:
			given := len(q.line) + len(q.issued)
			return place == 0 && !q.issued[in.user] && given == out.ahead && out.arrival > q.last, q.accept(in.user, out.arrival)
		case place > 0:
			return out.is(string(Duplicate), q.line[place-1].arrival, place), q
		case q.issued[in.user]:
			return out.is(string(AlreadyIssued), 0, 0), q
		}
		return out.arrival > q.last && out.is(string(Accepted), out.arrival, int64(len(q.line))+1), q.accept(in.user, out.arrival)
	case toLook:
		switch {
		case q.issued[in.user]:
			return out.is(string(coupon.StandingIssued), 0, 0), q
		case place > 0:
			return out.is(string(coupon.StandingPending), q.line[place-1].arrival, place), q
		}
		return out.is(string(coupon.StandingNone), 0, 0), q
	case toRead:
		return slices.Equal(q.line, out.spots), q
	case toSettle:
		for _, s := range in.spots { // it settles what it has read, so they did stand there
			if q.place(s.user) == 0 && !q.issued[s.user] {
				return false, q
			}
		}
		then := q.settle(in.spots)
		return out.lost || int(out.removed) == len(q.line)-len(then.line), then
	}
	panic("no act: " + in.act)
}

func (a told) is(code string, arrival coupon.Arrival, position int64) bool {
	return a.code == code && a.arrival == arrival && a.position == position
}

// changes reports whether an answer implies a change.
func changes(in asked, out told) bool {
	return in.act == toSettle || in.act == toApply && (out.lost || out.code == string(Accepted))
}

// modelOf is the model of one coupon, for this history in the order of the calls.
//
// An answer that changes nothing is best explained as soon as it can be: that forbids nothing later. So there is one
// next step wherever such an answer fits, and Step refuses all others. Otherwise the checker would try all subsets of
// them whenever it has to go back, and many clients ask at once.
func modelOf(history []porcupine.Operation) porcupine.Model {
	type state struct {
		queueOf
		done []bool // by place in the history; never changed in place
	}
	numberOf := map[int64]int{} // by the call
	for i, op := range history {
		numberOf[op.Call] = i
	}
	// finding is the first answer that changes nothing and fits; false where there is none.
	finding := func(s state) (int, bool) {
		horizon := int64(never) // what was called later comes after something that is not done
		for i := slices.Index(s.done, false); i < len(history) && history[i].Call <= horizon; i++ {
			if s.done[i] {
				continue
			}
			horizon = min(horizon, history[i].Return)
			in, out := history[i].Input.(asked), history[i].Output.(told)
			if !changes(in, out) {
				if fits, _ := s.step(in, out); fits {
					return i, true
				}
			}
		}
		return 0, false
	}
	return porcupine.Model{
		Init: func() any { return state{done: make([]bool, len(history))} },
		Step: func(before, input, output any) (bool, any) {
			s, in := before.(state), input.(asked)
			number := numberOf[in.call]
			if first, found := finding(s); found && first != number {
				return false, nil
			}
			ok, next := s.step(in, output.(told))
			if !ok {
				return false, nil
			}
			done := slices.Clone(s.done)
			done[number] = true
			return true, state{next, done}
		},
		Equal:             func(a, b any) bool { return a.(state).equal(b.(state).queueOf) }, // the checker compares what is done
		DescribeOperation: func(in, out any) string { return describe(in.(asked), out.(told)) },
		DescribeState:     func(s any) string { return fmt.Sprintf("%v, issued %v", s.(state).line, s.(state).issued) },
	}
}

// withoutDoubt says of each lost application what became of it, since guessing would take the checker exponential time.
// The history must end with a reading of each coupon's line. Then whoever was ever put in line is named with the arrival,
// there or by a settlement, and users never stand in line a second time. So an application that was lost
//   - put nobody in line when another of that user was told ACCEPTED or when nobody ever heard of that user: it goes;
//   - put the user in line otherwise, with that arrival, and at its turn: after all that have a lower one. Of several by
//     one user it is the first, as good as any, for it may have come in at every moment when a later one may.
//
// A history is left as wrong, or as right, as it was.
func withoutDoubt(history []porcupine.Operation) (clear []porcupine.Operation) {
	type who struct {
		coupon coupon.CouponID
		user   coupon.UserID
	}
	arrivals := map[coupon.CouponID][]coupon.Arrival{}
	named, settled := map[who]coupon.Arrival{}, map[who]bool{}
	name := func(couponID coupon.CouponID, user coupon.UserID, arrival coupon.Arrival) {
		if arrival != 0 {
			named[who{couponID, user}] = arrival
			arrivals[couponID] = append(arrivals[couponID], arrival)
		}
	}
	for _, op := range history {
		in, out := op.Input.(asked), op.Output.(told)
		name(in.coupon, in.user, out.arrival)
		for _, s := range slices.Concat(in.spots, out.spots) {
			name(in.coupon, s.user, s.arrival)
		}
		if out.code == string(Accepted) {
			settled[who{in.coupon, in.user}] = true
		}
	}
	for couponID, all := range arrivals {
		slices.Sort(all)
		arrivals[couponID] = slices.Compact(all)
	}
	byCall := slices.SortedFunc(slices.Values(history), func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	for _, op := range byCall {
		in, out := op.Input.(asked), op.Output.(told)
		if in.act == toApply && out.lost {
			user := who{in.coupon, in.user}
			if named[user] == 0 || settled[user] {
				continue
			}
			settled[user] = true
			out.arrival = named[user]
			out.ahead, _ = slices.BinarySearch(arrivals[in.coupon], out.arrival)
			op.Output = out
		}
		clear = append(clear, op)
	}
	return clear
}

// never is when a reply that was lost came.
const never = math.MaxInt64

// checkWithin is far more than a check takes, which is milliseconds: the machine may be busy.
const checkWithin = 2 * time.Minute

// linearizable is Ok where the operations of each coupon can be put in one order that explains all answers. Otherwise
// show, unless it is nil, is given those of the coupon that cannot.
func linearizable(history []porcupine.Operation, show func(porcupine.Model, []porcupine.Operation)) porcupine.CheckResult {
	byCoupon := map[coupon.CouponID][]porcupine.Operation{}
	for _, op := range withoutDoubt(history) {
		in := op.Input.(asked)
		in.call = op.Call
		op.Input = in
		byCoupon[in.coupon] = append(byCoupon[in.coupon], op)
	}
	for _, id := range slices.Sorted(maps.Keys(byCoupon)) {
		model := modelOf(byCoupon[id])
		if result := porcupine.CheckOperationsTimeout(model, byCoupon[id], checkWithin); result != porcupine.Ok {
			if show != nil {
				show(model, byCoupon[id])
			}
			return result
		}
	}
	return porcupine.Ok
}

// requireLinearizable shows a history that is not: as a page to look at, kept when tests run with -artifacts, and in the
// log.
func requireLinearizable(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	page := filepath.Join(t.ArtifactDir(), "history.html")
	result := linearizable(history, func(model porcupine.Model, ops []porcupine.Operation) {
		_, info := porcupine.CheckOperationsVerbose(model, ops, checkWithin)
		require.NoError(t, porcupine.VisualizePath(model, info, page))
		t.Log(unexplained(ops, info.PartialLinearizationsOperations()[0]))
	})
	require.Equal(t, porcupine.Ok, result, "see %s", page)
}

// unexplained shows the longest order of operations that is possible, and the operations outside it.
func unexplained(history []porcupine.Operation, orders [][]porcupine.Operation) string {
	var longest []porcupine.Operation
	for _, order := range orders {
		if len(order) > len(longest) {
			longest = order
		}
	}
	var b strings.Builder
	show := func(op porcupine.Operation) {
		fmt.Fprintf(&b, "  %5d to %5d  client %2d  %s\n", op.Call, op.Return, op.ClientId,
			describe(op.Input.(asked), op.Output.(told)))
	}
	b.WriteString("could be put in order:\n")
	placed := map[int64]bool{} // by the call
	for _, op := range longest {
		placed[op.Call] = true
		show(op)
	}
	b.WriteString("could not:\n")
	for _, op := range history {
		if !placed[op.Call] {
			show(op)
		}
	}
	return b.String()
}
