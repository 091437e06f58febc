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

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

// act is the kind of an operation.
type act string

const (
	toApply  act = "apply"  // Apply
	toLookUp act = "look"   // Status
	toRead   act = "read"   // Page: the whole queue
	toSettle act = "settle" // Remove, as issued
	toCount  act = "count"  // Look
	toSwitch act = "switch" // another server has written the state
)

// queueEntry is an entry of the queue.
type queueEntry struct {
	user    coupon.UserID
	arrival coupon.Arrival
}

// input is the input of an operation.
type input struct {
	coupon  coupon.CouponID
	act     act
	user    coupon.UserID // of toApply and toLookUp
	limit   int           // of toApply: the line limit of the coupon; 0: none
	entries []queueEntry  // of toSettle: the entries to remove
	call    int64         // when it was called: identifies the operation
}

// output is the output of an operation.
type output struct {
	code     string // the Code of Apply, the standing of Watch
	arrival  coupon.Arrival
	position int64
	entries  []queueEntry // of toRead: the queue
	removed  int64
	counted  counted // of toCount
	// lost: no response came. The operation takes effect at any time after its call, or never.
	lost bool
	// ahead is the number of lower arrivals of the coupon, for a lost application: see resolveLost.
	ahead int
}

// counted is what a Look says.
type counted struct {
	since                     coupon.Arrival // start of the epoch
	accepted, waiting, issued int64
	last                      coupon.Arrival
}

func describe(in input, out output) string {
	question, answer := fmt.Sprintf("coupon %d: %s", in.coupon, in.act), ""
	switch in.act {
	case toApply, toLookUp:
		question += fmt.Sprint(" ", in.user)
		answer = fmt.Sprintf("%s %d at %d", out.code, out.arrival, out.position)
	case toRead:
		answer = fmt.Sprint(out.entries)
	case toSettle:
		question += fmt.Sprint(" ", in.entries)
		answer = fmt.Sprint(out.removed, " removed")
	case toCount:
		answer = fmt.Sprintf("%+v", out.counted)
	}
	switch {
	case out.lost && out.arrival != 0:
		answer = fmt.Sprintf("lost, but later seen as number %d with arrival %d", out.ahead+1, out.arrival)
	case out.lost:
		answer = "lost"
	}
	return question + " → " + answer
}

// couponState is the state of a coupon for sequential operations. It is never changed in place.
type couponState struct {
	line   []queueEntry
	issued map[coupon.UserID]bool
	last   coupon.Arrival // the highest arrival ever given
	since  coupon.Arrival // start of the last epoch that a client has seen; 0: none has
	fresh  bool           // another server serves the coupon since, and nobody has seen its epoch
}

func (q couponState) equal(o couponState) bool {
	return q.last == o.last && q.since == o.since && q.fresh == o.fresh && slices.Equal(q.line, o.line) &&
		maps.Equal(q.issued, o.issued)
}

// place is the position of a user, from 1; 0: not in the queue.
func (q couponState) place(user coupon.UserID) int64 {
	return 1 + int64(slices.IndexFunc(q.line, func(s queueEntry) bool { return s.user == user }))
}

func (q couponState) accept(user coupon.UserID, arrival coupon.Arrival) couponState {
	q.line = append(slices.Clip(q.line), queueEntry{user, arrival})
	q.last = arrival
	return q
}

// settle removes entries and marks their users as issued.
func (q couponState) settle(entries []queueEntry) couponState {
	issued := maps.Clone(q.issued)
	if issued == nil {
		issued = map[coupon.UserID]bool{}
	}
	for _, s := range entries {
		issued[s.user] = true
	}
	q.issued = issued
	q.line = slices.DeleteFunc(slices.Clone(q.line), func(s queueEntry) bool { return slices.Contains(entries, s) })
	return q
}

// step reports whether an operation may have this output, and returns the next state.
func (q couponState) step(in input, out output) (bool, couponState) {
	place := q.place(in.user)
	switch in.act {
	case toApply:
		full := in.limit > 0 && len(q.line) >= in.limit
		switch {
		case out.lost:
			given := len(q.line) + len(q.issued)
			return place == 0 && !q.issued[in.user] && !full && given == out.ahead && out.arrival > q.last,
				q.accept(in.user, out.arrival)
		case place > 0:
			return out.is(string(Duplicate), q.line[place-1].arrival, place), q
		case q.issued[in.user]:
			return out.is(string(AlreadyIssued), 0, 0), q
		case full:
			return out.is(string(LineFull), q.line[0].arrival, 0), q
		}
		return out.arrival > q.last && out.is(string(Accepted), out.arrival, int64(len(q.line))+1),
			q.accept(in.user, out.arrival)
	case toLookUp:
		switch {
		case q.issued[in.user]:
			return out.is(string(coupon.StandingIssued), 0, 0), q
		case place > 0:
			return out.is(string(coupon.StandingPending), q.line[place-1].arrival, place), q
		}
		return out.is(string(coupon.StandingNone), 0, 0), q
	case toRead:
		return slices.Equal(q.line, out.entries), q
	case toSettle:
		for _, s := range in.entries { // the client has read these entries
			if q.place(s.user) == 0 && !q.issued[s.user] {
				return false, q
			}
		}
		then := q.settle(in.entries)
		return out.lost || int(out.removed) == len(q.line)-len(then.line), then
	case toCount:
		return q.count(out.counted)
	case toSwitch:
		q.fresh = true
		return true, q
	}
	panic("no act: " + in.act)
}

// count judges a Look. All of one server see one epoch, and each later server a later one.
func (q couponState) count(c counted) (bool, couponState) {
	fits := c.since == q.since
	if q.fresh {
		fits = c.since > q.since
	}
	q.since, q.fresh = c.since, false
	waiting, issued := int64(len(q.line)), int64(len(q.issued))
	return fits && c == counted{q.since, waiting + issued, waiting, issued, q.last}, q
}

func (a output) is(code string, arrival coupon.Arrival, position int64) bool {
	return a.code == code && a.arrival == arrival && a.position == position
}

// changes reports whether an answer implies a change.
func changes(in input, out output) bool {
	return in.act == toSettle || in.act == toSwitch || in.act == toApply && (out.lost || out.code == string(Accepted))
}

// modelOf is the model of one coupon, for this history in the order of the calls.
//
// An operation without an effect takes its place as early as possible, since it forbids nothing later: Step refuses
// every other operation meanwhile. Otherwise the checker would try all subsets of such operations each time it goes
// back.
func modelOf(history []porcupine.Operation) porcupine.Model {
	type state struct {
		couponState
		done []bool // by index in the history; never changed in place
	}
	numberOf := map[int64]int{} // by the call
	for i, op := range history {
		numberOf[op.Call] = i
	}
	// nextEffectless returns the first operation without an effect whose output fits.
	nextEffectless := func(s state) (int, bool) {
		horizon := int64(never) // later calls follow an operation that is not done
		for i := slices.Index(s.done, false); i < len(history) && history[i].Call <= horizon; i++ {
			if s.done[i] {
				continue
			}
			horizon = min(horizon, history[i].Return)
			in, out := history[i].Input.(input), history[i].Output.(output)
			if !changes(in, out) && !(in.act == toCount && s.fresh) { // else it tells the epoch
				if fits, _ := s.step(in, out); fits {
					return i, true
				}
			}
		}
		return 0, false
	}
	return porcupine.Model{
		Init: func() any { return state{couponState{fresh: true}, make([]bool, len(history))} },
		Step: func(before, called, returned any) (bool, any) {
			s, in := before.(state), called.(input)
			number := numberOf[in.call]
			if first, found := nextEffectless(s); found && first != number {
				return false, nil
			}
			ok, next := s.step(in, returned.(output))
			if !ok {
				return false, nil
			}
			done := slices.Clone(s.done)
			done[number] = true
			return true, state{next, done}
		},
		// The checker compares done.
		Equal:             func(a, b any) bool { return a.(state).equal(b.(state).couponState) },
		DescribeOperation: func(in, out any) string { return describe(in.(input), out.(output)) },
		DescribeState:     func(s any) string { return fmt.Sprintf("%v, issued %v", s.(state).line, s.(state).issued) },
	}
}

// resolveLost resolves lost applications, since trying both outcomes would take the checker exponential time. A history
// ends with a read of each queue, and no user is queued twice. So each queued user appears with the arrival in that
// read or in a removal. A lost application
//   - had no effect if the user never appears, or if another application of the user was accepted: it is left out;
//   - otherwise has that arrival, after all lower ones. Of several lost applications of a user the first one has it: it
//     may have taken effect whenever a later one may.
//
// The verdict on a history stays the same.
func resolveLost(history []porcupine.Operation) (clear []porcupine.Operation) {
	type userKey struct {
		coupon coupon.CouponID
		user   coupon.UserID
	}
	arrivals := map[coupon.CouponID][]coupon.Arrival{}
	named, settled := map[userKey]coupon.Arrival{}, map[userKey]bool{}
	name := func(couponID coupon.CouponID, user coupon.UserID, arrival coupon.Arrival) {
		if arrival != 0 {
			named[userKey{couponID, user}] = arrival
			arrivals[couponID] = append(arrivals[couponID], arrival)
		}
	}
	for _, op := range history {
		in, out := op.Input.(input), op.Output.(output)
		if out.code != string(LineFull) { // the arrival of another user
			name(in.coupon, in.user, out.arrival)
		}
		for _, s := range slices.Concat(in.entries, out.entries) {
			name(in.coupon, s.user, s.arrival)
		}
		if out.code == string(Accepted) {
			settled[userKey{in.coupon, in.user}] = true
		}
	}
	for couponID, all := range arrivals {
		slices.Sort(all)
		arrivals[couponID] = slices.Compact(all)
	}
	byCall := slices.SortedFunc(slices.Values(history),
		func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	for _, op := range byCall {
		in, out := op.Input.(input), op.Output.(output)
		if in.act == toApply && out.lost {
			user := userKey{in.coupon, in.user}
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

// never is the return of an operation whose response was lost.
const never = math.MaxInt64

// unlimited is the time for a check, which takes milliseconds on an idle machine.
const unlimited = 0

// linearizable is Ok if one order of the operations of each coupon explains all outputs. Otherwise it calls show,
// unless nil, with the operations of a coupon that has no such order.
func linearizable(history []porcupine.Operation,
	show func(porcupine.Model, []porcupine.Operation)) porcupine.CheckResult {
	byCoupon := map[coupon.CouponID][]porcupine.Operation{}
	for _, op := range resolveLost(history) {
		in := op.Input.(input)
		in.call = op.Call
		op.Input = in
		byCoupon[in.coupon] = append(byCoupon[in.coupon], op)
	}
	for _, id := range slices.Sorted(maps.Keys(byCoupon)) {
		model := modelOf(byCoupon[id])
		if result := porcupine.CheckOperationsTimeout(model, byCoupon[id], unlimited); result != porcupine.Ok {
			if show != nil {
				show(model, byCoupon[id])
			}
			return result
		}
	}
	return porcupine.Ok
}

// requireLinearizable shows a wrong history in the log and as a page, which -artifacts keeps.
func requireLinearizable(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	page := filepath.Join(t.ArtifactDir(), "history.html")
	result := linearizable(history, func(model porcupine.Model, ops []porcupine.Operation) {
		_, info := porcupine.CheckOperationsVerbose(model, ops, unlimited)
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
			describe(op.Input.(input), op.Output.(output)))
	}
	b.WriteString("possible order:\n")
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
