package candidates

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

func TestApplyFailsOnKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]func(*fixture) string{
		"queue":    func(c *fixture) string { return c.queue },
		"state":    func(c *fixture) string { return c.state },
		"issued":   func(c *fixture) string { return c.issued },
		"rejected": func(c *fixture) string { return c.rejected },
		"dlq":      func(c *fixture) string { return c.dlq },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			c.open(t)
			require.NoError(t, c.rdb.Set(t.Context(), key(c), "in the way", 0).Err())
			before := c.content(t)
			_, err := c.Apply(t.Context(), c.id, 7)
			require.ErrorContains(t, err, "WRONGTYPE")
			require.Equal(t, before, c.content(t))
		})
	}
}

func TestApplyRejectsInvalidReplies(t *testing.T) {
	t.Parallel()
	h := testenv.RedisFor(t)
	c := couponOn(t, h.Client, h.Prefix, 42)
	recorded := c.record()
	good := []any{int64(4), int64(5), int64(3), "run:1", "ACCEPTED", int64(1), int64(2)}
	c.on.answer.Store(ptr(any(good)))
	require.Equal(t, Receipt{Code: Accepted, Arrival: 1, Position: 2, Now: time.UnixMicro(4).UTC(),
		OpensAt: time.UnixMicro(5).UTC()}, c.apply(t, 7))

	together := []any{int64(4), int64(5), int64(3), "run:1", int64(9), int64(3)}
	c.on.answer.Store(ptr(any(together)))
	both, err := c.ApplyAll(t.Context(), c.id, []coupon.UserID{7, 8})
	require.NoError(t, err)
	require.Equal(t, []Receipt{
		{Code: Accepted, Arrival: 9, Position: 3, Now: time.UnixMicro(4).UTC(), OpensAt: time.UnixMicro(5).UTC()},
		{Code: Accepted, Arrival: 10, Position: 4, Now: time.UnixMicro(4).UTC(), OpensAt: time.UnixMicro(5).UTC()},
	}, both)

	but := func(place int, value any) []any {
		bad := slices.Clone(good)
		bad[place] = value
		return bad
	}
	for name, answer := range map[string]any{
		"nothing":        nil,
		"one word":       "ACCEPTED",
		"unknown code":   but(4, "WELCOME"),
		"no code":        but(4, nil),
		"too many":       append(slices.Clone(good), int64(6)),
		"now text":       but(0, "4"),
		"arrival text":   but(5, "1"),
		"position nil":   but(6, nil),
		"restores float": but(2, 3.0),
		"no epoch":       but(3, nil),
		"together text":  append(slices.Clone(together[:4]), "9", int64(3)),
	} {
		t.Run(name, func(t *testing.T) {
			c.on.answer.Store(ptr(answer))
			receipt, err := c.Apply(t.Context(), c.id, 7)
			require.ErrorContains(t, err, "apply for coupon 42: ")
			require.Zero(t, receipt)
		})
	}
	require.Equal(t, []Reply{
		{Epoch: "run:1", Restores: 3, Answers: []coupon.Answer{{User: 7, Arrival: 1}}},
		{Epoch: "run:1", Restores: 3, Answers: []coupon.Answer{{User: 7, Arrival: 9}, {User: 8, Arrival: 10}}},
	}, recorded.replies, "an invalid reply is not recorded")
}

func TestOperationsRejectInvalidReplies(t *testing.T) {
	t.Parallel()
	h := testenv.RedisFor(t)
	c := couponOn(t, h.Client, h.Prefix, 42)
	ctx := t.Context()
	entry := coupon.Application{Member: "7", Arrival: 1}
	calls := map[string]func() error{
		"page":    func() error { _, _, err := c.Page(ctx, c.id, coupon.Cursor{}, noon); return err },
		"publish": func() error { _, _, err := c.Publish(ctx, coupon.Window{Coupon: c.id}, 0); return err },
		"look":    func() error { _, err := c.Look(ctx, c.id, coupon.Known{}); return err },
		"observe": func() error { _, err := c.Observe(ctx, c.id, 0); return err },
		"hand over": func() error {
			_, _, err := c.HandOver(ctx, c.id, "run:1", false, []coupon.Answer{{User: 7, Arrival: 1}})
			return err
		},
		"enter":       func() error { _, err := c.Enter(ctx, c.id, "run:1", nil); return err },
		"end restore": func() error { _, err := c.EndRestore(ctx, c.id, Ending{}); return err },
		"renew":       func() error { return c.Renew(ctx, c.id, noon) },
		"time":        func() error { _, err := c.Time(ctx, c.id); return err },
		"remove": func() error {
			_, err := c.Remove(ctx, c.id, noon, coupon.MarkNone, []coupon.Application{entry})
			return err
		},
		"review": func() error { _, err := c.moveToDLQ(ctx, c.id, []failed{{Application: entry}}); return err },
		"watch":  func() error { _, err := c.Watch(ctx, c.id, 0, 7); return err },
		"sold":   func() error { return c.SetSold(ctx, c.id, true) },
		"sweep":  func() error { _, err := c.Sweep(ctx, c.id, noon); return err },
	}
	for name, answer := range map[string]any{
		"nothing":       nil,
		"an empty list": []any{},
		"a word":        "OK",
		"a fraction":    []any{1.5},
		"a long list":   slices.Repeat([]any{int64(1)}, 20),
	} {
		c.on.answer.Store(ptr(answer))
		for call, run := range calls {
			require.ErrorContains(t, run(), "coupon 42", "%s answering %s", call, name)
		}
	}
	for name, answer := range map[string][]any{
		"half an entry":       {"1", "7", "0", "run:1", "Q", []any{"7"}},
		"not a number":        {"1", "7", "0", "run:1", "Q", []any{"7", "one"}},
		"unknown source":      {"1", "7", "0", "run:1", "X", []any{"7", "1"}},
		"two sources":         {"1", "7", "0", "run:1", "QR", []any{"7", "1"}},
		"no cursor":           {"0", "run:1", "Q", []any{"7", "1"}},
		"no epoch":            {"1", "7", "0", nil, "Q", []any{"7", "1"}},
		"member missing":      {"1", "7", "0", "run:1", "Q", []any{nil, "1"}},
		"entries are no list": {"1", "7", "0", "run:1", "Q", "7"},
		"more is a number":    {"1", "7", int64(0), "run:1", "Q", []any{"7", "1"}},
	} {
		c.on.answer.Store(ptr(any(answer)))
		require.Error(t, calls["page"](), name)
	}
	for name, answer := range map[string][]any{
		"place 0":           {int64(0), []any{"run:1"}},
		"a place too high":  {int64(2), []any{"run:1"}},
		"no epoch":          {int64(1)},
		"epoch is a number": {int64(1), []any{int64(1)}},
	} {
		c.on.answer.Store(ptr(any(answer)))
		require.Error(t, calls["hand over"](), name)
	}
	for name, answer := range map[string][]any{
		"unknown marks":     {int64(4), int64(-1), int64(0), int64(-1), "run:1"},
		"no reason":         {int64(0), int64(-1), int64(0), int64(9), "run:1"},
		"a reason too many": {int64(0), int64(-1), int64(0), int64(-1), "{}", "run:1"},
		"no epoch":          {int64(0), int64(-1), int64(0), int64(-1)},
	} {
		c.on.answer.Store(ptr(any(append(slices.Repeat([]any{int64(0)}, watchHead), answer...))))
		require.Error(t, calls["watch"](), name)
	}
}

func ptr[T any](v T) *T { return &v }

func TestApplyEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Apply(ctx, c.id, 7)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, c.scores(t, c.queue))
}
