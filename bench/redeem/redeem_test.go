package redeem

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// credulous grants everything to everybody.
func credulous(context.Context, want) (answer, error) { return granted, nil }

// exact grants a coupon to the first order that asks.
func exact() step {
	var mu sync.Mutex
	owners := map[want]string{}
	return func(_ context.Context, w want) (answer, error) {
		mu.Lock()
		defer mu.Unlock()
		key := want{coupon: w.coupon, user: w.user}
		if owners[key] == "" {
			owners[key] = w.order
		}
		if owners[key] != w.order {
			return refused, nil
		}
		return granted, nil
	}
}

func TestClients_CountContenderThatUsesTwice(t *testing.T) {
	t.Parallel()
	stopped := make(chan struct{})
	close(stopped)
	for _, c := range []struct {
		steps             []step
		hotTwice, stopped int
	}{{[]step{credulous, credulous}, 3, 4}, {[]step{exact(), credulous}, 0, 0}} {
		counts := func(r result) []int { return []int{len(r.latencies), r.used, r.twice, r.errors} }
		require.Equal(t, []int{50, 50, 0, 0}, counts(askDistinct(t.Context(), c.steps, 1, 50, 4)))
		require.Equal(t, []int{24, 3, c.hotTwice, 0}, counts(askHot(t.Context(), c.steps, 2, 3, 8)))
		holder := func() []step { return c.steps }
		require.Equal(t, []int{8, 4, c.stopped, 0}, counts(askPaused(t.Context(), holder, c.steps, 3, 4, stopped)))
	}
}

func TestClients_StepThatWasNotGrantedUsesNothing(t *testing.T) {
	t.Parallel()
	lost := func(context.Context, want) (answer, error) { return refused, nil }
	away := errors.New("away")
	fails := func(context.Context, want) (answer, error) { return granted, away }
	r := askDistinct(t.Context(), []step{credulous, lost}, 1, 5, 2)
	require.Equal(t, []int{0, 0}, []int{r.used, r.errors})
	r = askDistinct(t.Context(), []step{credulous, fails}, 1, 5, 2)
	require.Equal(t, []int{0, 5}, []int{r.used, r.errors})
	require.ErrorIs(t, r.failure, away)
}

func TestClients_TryAgainWhenBusy(t *testing.T) {
	t.Parallel()
	calls := 0
	later := func(context.Context, want) (answer, error) {
		if calls++; calls < 3 {
			return busy, nil
		}
		return granted, nil
	}
	r := askDistinct(t.Context(), []step{later}, 1, 1, 1)
	require.Equal(t, []int{1, 2}, []int{r.used, r.busy})
}

func TestWrites(t *testing.T) {
	t.Parallel()
	const query = "\x10\x00\x00\x00\x03"
	for text, want := range map[string]bool{
		query + "UPDATE user_coupon SET": true, query + "\nINSERT INTO coupon_order": true,
		query + "SELECT 1": false, query + "START TRANSACTION": false, "\x01\x00\x00\x00\x01": false, "": false,
	} {
		require.Equal(t, want, writes([]byte(text)), text)
	}
}
