package line

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

func TestAhead_YieldsPagesInOrder(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{nil, errors.New("broken")} {
		read, reads := numbers(100, failure)
		var got int64
		var last error
		for n, err := range Ahead(t.Context(), read) {
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

func TestAhead_CancelsAndAwaitsCurrentRead(t *testing.T) {
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
				for _, err := range Ahead(t.Context(), read) {
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

func TestAhead_PanicsInConsumer(t *testing.T) {
	t.Parallel()
	defer func() { require.Contains(t, recover(), "a bug, reading ahead:") }()
	for _, err := range Ahead(t.Context(), func(context.Context) (*int, error) { panic("a bug") }) {
		t.Error("nothing was read", err)
	}
}
