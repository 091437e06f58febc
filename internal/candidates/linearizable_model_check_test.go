package candidates

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

// The model is tested too: small histories, right and wrong, each ended by a reading of the line.
func TestModelJudgesKnownHistories(t *testing.T) {
	t.Parallel()
	// A history is written as operations of coupon 1 with the instants of call and return.
	type history = []porcupine.Operation
	op := func(from, to int64, in input, out output) porcupine.Operation {
		in.coupon = max(in.coupon, 1)
		return porcupine.Operation{Input: in, Call: from, Output: out, Return: to}
	}
	apply := func(from, to int64, user coupon.UserID, code Code, arrival coupon.Arrival,
		position int64) porcupine.Operation {
		return op(from, to, input{act: toApply, user: user},
			output{code: string(code), arrival: arrival, position: position})
	}
	lost := func(from int64, user coupon.UserID) porcupine.Operation {
		return op(from, never, input{act: toApply, user: user}, output{lost: true})
	}
	lookUp := func(from, to int64, user coupon.UserID, standing coupon.Standing, arrival coupon.Arrival,
		position int64) porcupine.Operation {
		return op(from, to, input{act: toLookUp, user: user},
			output{code: string(standing), arrival: arrival, position: position})
	}
	limited := func(limit int, o porcupine.Operation) porcupine.Operation {
		in := o.Input.(input)
		in.limit = limit
		o.Input = in
		return o
	}
	read := func(from, to int64, line ...queueEntry) porcupine.Operation {
		return op(from, to, input{act: toRead}, output{entries: line})
	}
	settle := func(from, to, removed int64, entries ...queueEntry) porcupine.Operation {
		return op(from, to, input{act: toSettle, entries: entries}, output{removed: removed})
	}
	settleLost := func(from int64, entries ...queueEntry) porcupine.Operation {
		return op(from, never, input{act: toSettle, entries: entries}, output{lost: true})
	}
	count := func(from, to int64, c counted) porcupine.Operation {
		return op(from, to, input{act: toCount}, output{counted: c})
	}
	switched := func(from, to int64) porcupine.Operation { return op(from, to, input{act: toSwitch}, output{}) }
	elsewhere := func(o porcupine.Operation) porcupine.Operation {
		in := o.Input.(input)
		in.coupon = 2
		o.Input = in
		return o
	}

	for name, c := range map[string]struct {
		history history
		want    porcupine.CheckResult
	}{
		"accepted in order": {history{apply(1, 2, 7, Accepted, 100, 1), apply(3, 4, 8, Accepted, 101, 2),
			read(5, 6, queueEntry{7, 100}, queueEntry{8, 101})}, porcupine.Ok},
		"duplicate": {history{apply(1, 2, 7, Accepted, 100, 1), apply(3, 4, 7, Duplicate, 100, 1),
			read(5, 6, queueEntry{7, 100})}, porcupine.Ok},
		"one user twice, concurrently": {history{apply(1, 9, 7, Duplicate, 100, 1), apply(2, 8, 7, Accepted, 100, 1),
			read(10, 11, queueEntry{7, 100})}, porcupine.Ok},
		"status before and after": {history{
			lookUp(1, 2, 7, coupon.StandingNone, 0, 0), apply(3, 4, 7, Accepted, 100, 1),
			lookUp(5, 6, 7, coupon.StandingPending, 100, 1), read(7, 8, queueEntry{7, 100})}, porcupine.Ok},
		"two coupons": {history{
			apply(1, 2, 7, Accepted, 100, 1), elsewhere(apply(3, 4, 7, Accepted, 50, 1)),
			read(5, 6, queueEntry{7, 100}), elsewhere(read(7, 8, queueEntry{7, 50}))}, porcupine.Ok},
		"empty queue": {history{read(1, 2)}, porcupine.Ok},

		"accepted twice": {history{apply(1, 2, 7, Accepted, 100, 1), apply(3, 4, 7, Accepted, 101, 1),
			read(5, 6, queueEntry{7, 101})}, porcupine.Illegal},
		"duplicate without an application": {history{apply(1, 2, 7, Duplicate, 100, 1), read(3, 4, queueEntry{7, 100})},
			porcupine.Illegal},
		"duplicate with another arrival": {history{apply(1, 2, 7, Accepted, 100, 1),
			apply(3, 4, 7, Duplicate, 101, 1), read(5, 6, queueEntry{7, 101})}, porcupine.Illegal},
		"duplicate with another position": {history{
			apply(1, 2, 7, Accepted, 100, 1), apply(3, 4, 7, Duplicate, 100, 2), read(5, 6, queueEntry{7, 100})},
			porcupine.Illegal},
		"two users with one arrival": {history{
			apply(1, 9, 7, Accepted, 100, 1), apply(2, 8, 8, Accepted, 100, 2),
			read(10, 11, queueEntry{7, 100}, queueEntry{8, 100})}, porcupine.Illegal},
		"arrivals fall": {history{
			apply(1, 2, 7, Accepted, 100, 1), apply(3, 4, 8, Accepted, 99, 2),
			read(5, 6, queueEntry{8, 99}, queueEntry{7, 100})}, porcupine.Illegal},
		"accepted and not queued":       {history{apply(1, 2, 7, Accepted, 100, 1), read(3, 4)}, porcupine.Illegal},
		"queued without an application": {history{read(1, 2, queueEntry{7, 100})}, porcupine.Illegal},
		"closed while open":             {history{apply(1, 2, 7, Closed, 0, 0), read(3, 4)}, porcupine.Illegal},

		"line full": {history{
			limited(1, apply(1, 2, 7, Accepted, 100, 1)), limited(1, apply(3, 4, 8, LineFull, 100, 0)),
			limited(1, apply(5, 6, 7, Duplicate, 100, 1)),
			settle(7, 8, 1, queueEntry{7, 100}), limited(1, apply(9, 10, 8, Accepted, 101, 1)),
			read(11, 12, queueEntry{8, 101})}, porcupine.Ok},
		"full without a limit": {history{apply(1, 2, 7, Accepted, 100, 1), apply(3, 4, 8, LineFull, 100, 0),
			read(5, 6, queueEntry{7, 100})}, porcupine.Illegal},
		"full with a free place": {history{limited(2, apply(1, 2, 7, Accepted, 100, 1)),
			limited(2, apply(3, 4, 8, LineFull, 100, 0)), read(5, 6, queueEntry{7, 100})}, porcupine.Illegal},
		"accepted beyond the limit": {history{
			limited(1, apply(1, 2, 7, Accepted, 100, 1)), limited(1, apply(3, 4, 8, Accepted, 101, 2)),
			read(5, 6, queueEntry{7, 100}, queueEntry{8, 101})}, porcupine.Illegal},
		"lost application beyond the limit": {history{
			limited(1, apply(1, 2, 7, Accepted, 100, 1)), limited(1, lost(3, 8)),
			read(5, 6, queueEntry{7, 100}, queueEntry{8, 101})}, porcupine.Illegal},

		"lost without an effect": {history{lost(1, 7), apply(2, 3, 8, Accepted, 100, 1),
			read(4, 5, queueEntry{8, 100})}, porcupine.Ok},
		"lost with a late effect": {history{lost(1, 7), apply(2, 3, 8, Accepted, 100, 1),
			read(4, 5, queueEntry{8, 100}, queueEntry{7, 101})}, porcupine.Ok},
		"lost and repeated": {history{lost(1, 7), apply(2, 3, 7, Duplicate, 100, 1),
			read(4, 5, queueEntry{7, 100})}, porcupine.Ok},
		"lost between two others": {history{
			apply(1, 2, 8, Accepted, 100, 1), lost(3, 7), apply(4, 5, 9, Accepted, 105, 3),
			apply(6, 7, 7, Duplicate, 103, 2),
			read(8, 9, queueEntry{8, 100}, queueEntry{7, 103}, queueEntry{9, 105})}, porcupine.Ok},
		"lost and in front of an earlier one": {history{
			apply(1, 2, 8, Accepted, 100, 1), lost(3, 7), read(4, 5, queueEntry{7, 99}, queueEntry{8, 100})},
			porcupine.Illegal},
		"effect before the lost call": {history{
			lookUp(1, 2, 7, coupon.StandingPending, 100, 1), lost(3, 7), read(4, 5, queueEntry{7, 100})},
			porcupine.Illegal},
		"lost with two effects": {history{
			lost(1, 7), apply(2, 3, 8, Accepted, 101, 2), apply(4, 5, 7, Accepted, 102, 2),
			read(6, 7, queueEntry{8, 101}, queueEntry{7, 102})}, porcupine.Illegal},

		"settled": {history{
			apply(1, 2, 7, Accepted, 100, 1), apply(3, 4, 8, Accepted, 101, 2), settle(5, 6, 1, queueEntry{7, 100}),
			lookUp(7, 8, 8, coupon.StandingPending, 101, 1),
			lookUp(9, 10, 7, coupon.StandingIssued, 0, 0), apply(11, 12, 7, AlreadyIssued, 0, 0),
			apply(13, 14, 9, Accepted, 102, 2), read(15, 16, queueEntry{8, 101}, queueEntry{9, 102})},
			porcupine.Ok},
		"settled with a lost response": {history{apply(1, 2, 7, Accepted, 100, 1),
			settleLost(3, queueEntry{7, 100}), lookUp(5, 6, 7, coupon.StandingIssued, 0, 0), read(7, 8)}, porcupine.Ok},
		"counted": {history{count(1, 2, counted{since: 9}), apply(3, 4, 7, Accepted, 100, 1),
			apply(5, 6, 8, Accepted, 101, 2), settle(7, 8, 1, queueEntry{7, 100}),
			count(9, 10, counted{9, 2, 1, 1, 101}), read(11, 12, queueEntry{8, 101})}, porcupine.Ok},
		"accepted and not counted": {history{apply(1, 2, 7, Accepted, 100, 1), count(3, 4, counted{9, 0, 1, 0, 100}),
			read(5, 6, queueEntry{7, 100})}, porcupine.Illegal},
		"one epoch, concurrently": {history{count(1, 9, counted{since: 9}), count(2, 8, counted{since: 9}),
			read(10, 11)}, porcupine.Ok},
		"another epoch on the same server": {history{count(1, 2, counted{since: 9}), count(3, 4, counted{since: 10}),
			read(5, 6)}, porcupine.Illegal},
		"each server with its epoch": {history{switched(1, 2), count(3, 4, counted{since: 9}), switched(5, 6),
			switched(7, 8), count(9, 10, counted{since: 10}), count(11, 12, counted{since: 10}), read(13, 14)},
			porcupine.Ok},
		"counted while servers switch": {history{count(1, 2, counted{since: 9}), count(3, 12, counted{since: 20}),
			count(4, 11, counted{since: 9}), switched(5, 6), count(7, 8, counted{since: 20}), read(13, 14)},
			porcupine.Ok},
		"the epoch of the server before": {history{count(1, 2, counted{since: 9}), switched(3, 4),
			count(5, 6, counted{since: 9}), read(7, 8)}, porcupine.Illegal},
		"an epoch of the past": {history{count(1, 2, counted{since: 9}), switched(3, 4), count(5, 6, counted{since: 8}),
			read(7, 8)}, porcupine.Illegal},
		"settled and counted twice": {history{apply(1, 2, 7, Accepted, 100, 1),
			settle(3, 4, 1, queueEntry{7, 100}), settle(5, 6, 1, queueEntry{7, 100}), read(7, 8)}, porcupine.Illegal},
		"settled and accepted again": {history{apply(1, 2, 7, Accepted, 100, 1),
			settle(3, 4, 1, queueEntry{7, 100}), apply(5, 6, 7, Accepted, 101, 1), read(7, 8, queueEntry{7, 101})},
			porcupine.Illegal},
		"settled and its arrival given again": {history{apply(1, 2, 7, Accepted, 100, 1),
			settle(3, 4, 1, queueEntry{7, 100}), apply(5, 6, 8, Accepted, 100, 1), read(7, 8, queueEntry{8, 100})},
			porcupine.Illegal},
	} {
		require.Equal(t, c.want, linearizable(c.history, nil), name)
	}
}
