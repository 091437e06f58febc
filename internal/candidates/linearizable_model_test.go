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
	"pgregory.net/rapid"
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
	code              string // the Code of Apply, the Standing of Status
	arrival, position int64
	spots             []spot // the line that was read
	removed           int64
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
	issued map[uint64]bool
	last   int64 // the highest arrival ever given
}

func (q queueOf) equal(o queueOf) bool {
	return q.last == o.last && slices.Equal(q.line, o.line) && maps.Equal(q.issued, o.issued)
}

// place is the user's position, from 1; 0 for who does not stand in line.
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
		issued = map[uint64]bool{}
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

func (a told) is(code string, arrival, position int64) bool {
	return a.code == code && a.arrival == arrival && a.position == position
}

// changes says whether an answer tells of something that was done, not only of what was found.
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
	type who struct{ coupon, user uint64 }
	arrivals := map[uint64][]int64{}
	named, settled := map[who]int64{}, map[who]bool{}
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
	for coupon, all := range arrivals {
		slices.Sort(all)
		arrivals[coupon] = slices.Compact(all)
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
	byCoupon := map[uint64][]porcupine.Operation{}
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

// unexplained tells of one coupon how far the operations could be put in order, and which fit nowhere then.
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

// The model is tested too: small histories, right and wrong, each ended by a reading of the line.
func TestTheModelKnowsRightFromWrong(t *testing.T) {
	t.Parallel()
	// A history is written as operations of coupon 1 with the instants of call and return.
	type history = []porcupine.Operation
	op := func(from, to int64, in asked, out told) porcupine.Operation {
		in.coupon = max(in.coupon, 1)
		return porcupine.Operation{Input: in, Call: from, Output: out, Return: to}
	}
	apply := func(from, to int64, user coupon.UserID, code Code, arrival, position int64) porcupine.Operation {
		return op(from, to, asked{act: toApply, user: user}, told{code: string(code), arrival: arrival, position: position})
	}
	lost := func(from int64, user coupon.UserID) porcupine.Operation {
		return op(from, never, asked{act: toApply, user: user}, told{lost: true})
	}
	look := func(from, to int64, user coupon.UserID, standing coupon.Standing, arrival, position int64) porcupine.Operation {
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
func TestTheModelAgreesWithTryingEverything(t *testing.T) {
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

// smallHistory is what a few clients were told by a coupon that works, or by one that erred once.
func smallHistory(t *rapid.T) (history []porcupine.Operation) {
	draw := func(from, to int, what string) int { return rapid.IntRange(from, to).Draw(t, what) }
	var q queueOf
	n := draw(1, 6, "operations")
	const apart = 10 // between two instants at which something happens
	for i := 1; i <= n; i++ {
		in := asked{coupon: 1, act: rapid.SampledFrom([]act{toApply, toApply, toApply, toLook, toRead, toSettle}).Draw(t, "act")}
		in.user = uint64(draw(1, 3, "user"))
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
				out = told{code: string(Accepted), arrival: q.last + int64(draw(1, 2, "later")), position: int64(len(q.line)) + 1}
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
				out.arrival += by
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
