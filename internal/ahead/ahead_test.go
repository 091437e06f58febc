package ahead

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// numbers reads 1, 2, … up to last, then nothing or the failure.
func numbers(last int64, failure error) (read func(context.Context) (*int64, error), reads *atomic.Int64) {
	reads = new(atomic.Int64)
	return func(context.Context) (*int64, error) {
		if n := reads.Add(1); n <= last {
			return &n, nil
		}
		return nil, failure
	}, reads
}

func TestPages_YieldsPagesInOrder(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{nil, errors.New("broken")} {
		read, reads := numbers(100, failure)
		var got int64
		var last error
		for n, err := range Pages(t.Context(), read) {
			if last = err; err == nil {
				got++
				require.Equal(t, got, *n)
			}
		}
		require.EqualValues(t, 100, got)
		require.Equal(t, failure, last)
		require.EqualValues(t, 101, reads.Load(), "nothing is read after the end")
	}
}

func TestPages_CancelsAndAwaitsCurrentRead(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(){"break": nil, "panic": func() { panic("of the consumer") }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var reads atomic.Int64
			reading := false // a data race unless Ahead waits for the reader
			read := func(ctx context.Context) (*int64, error) {
				n := reads.Add(1)
				if n <= 2 {
					return &n, nil
				}
				reading = true
				<-ctx.Done()
				reading = false
				return nil, ctx.Err()
			}
			func() {
				defer func() { _ = recover() }()
				for _, err := range Pages(t.Context(), read) {
					require.NoError(t, err)
					for reads.Load() < 3 {
						runtime.Gosched()
					}
					if leave != nil {
						leave()
					}
					break
				}
			}()
			require.False(t, reading)
			require.EqualValues(t, 3, reads.Load(), "reading ahead is bounded")
		})
	}
}

func TestPages_PanicsInConsumer(t *testing.T) {
	t.Parallel()
	defer func() { require.Contains(t, recover(), "a bug, beside the loop:") }()
	for _, err := range Pages(t.Context(), func(context.Context) (*int, error) { panic("a bug") }) {
		t.Error("nothing was read", err)
	}
}

func TestItems_YieldsResultsInOrder(t *testing.T) {
	t.Parallel()
	items := make([]int, 100)
	for i := range items {
		items[i] = i
	}
	for _, n := range []int{1, 8, 1000} {
		var running, most atomic.Int64
		want := 0
		for got, err := range Items(t.Context(), n, items, func(_ context.Context, item int) (int, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			runtime.Gosched()
			if item%10 == 3 {
				return item, errors.New("unreadable")
			}
			return item, nil
		}) {
			require.Equal(t, want, got)
			require.Equal(t, want%10 == 3, err != nil, "an error does not end the range")
			want++
		}
		require.Equal(t, len(items), want)
		require.LessOrEqual(t, most.Load(), int64(n))
	}
	for _, err := range Items(t.Context(), 4, nil, func(context.Context, int) (int, error) { panic("no item") }) {
		t.Error("nothing was given", err)
	}
}

func TestItems_CancelsAndAwaitsCurrentReads(t *testing.T) {
	t.Parallel()
	var reads, running atomic.Int64
	items := make([]bool, 1000)
	items[0] = true
	for _, err := range Items(t.Context(), 4, items, func(ctx context.Context, first bool) (int, error) {
		if reads.Add(1); first {
			return 0, nil
		}
		running.Add(1)
		defer running.Add(-1)
		<-ctx.Done()
		return 0, ctx.Err()
	}) {
		require.NoError(t, err)
		break
	}
	require.Zero(t, running.Load())
	require.LessOrEqual(t, reads.Load(), int64(6), "no item is read after the end")
}

func TestItems_PanicsInConsumer(t *testing.T) {
	t.Parallel()
	defer func() { require.Contains(t, recover(), "a bug, beside the loop:") }()
	for _, err := range Items(t.Context(), 2, make([]int, 3),
		func(context.Context, int) (int, error) { panic("a bug") }) {
		t.Error("nothing was read", err)
	}
}

func TestBeside_WaitsForTheResult(t *testing.T) {
	t.Parallel()
	failure := errors.New("broken")
	begun, end := make(chan bool), make(chan bool)
	wait := Beside(func() (int, error) {
		begun <- true
		<-end
		return 7, failure
	})
	<-begun // it does not wait for wait
	close(end)
	for range 2 {
		n, err := wait()
		require.Equal(t, 7, n)
		require.Equal(t, failure, err)
	}
	require.Panics(t, func() { _, _ = Beside(func() (int, error) { panic("a bug") })() })
}
