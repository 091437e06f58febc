package settle

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// numbers reads 1, 2, … up to last, then nothing or the failure.
func numbers(last int64, failure error) (read func() (*int64, error), reads *atomic.Int64) {
	reads = new(atomic.Int64)
	return func() (*int64, error) {
		if n := reads.Add(1); n <= last {
			return &n, nil
		}
		return nil, failure
	}, reads
}

func TestAheadGivesWhatIsReadInOrderAndThenItsEnd(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{nil, errors.New("broken")} {
		read, reads := numbers(100, failure)
		var got int64
		var last error
		for n, err := range ahead(read) {
			if last = err; err == nil {
				got++
				require.Equal(t, got, *n)
			}
		}
		require.EqualValues(t, 100, got)
		require.Equal(t, failure, last)
		require.EqualValues(t, 101, reads.Load(), "nothing is read behind the end")
	}
}

func TestAheadStopsAfterTheReadInHand(t *testing.T) {
	t.Parallel()
	read, reads := numbers(1_000_000, nil)
	for range ahead(read) {
		break
	}
	after := reads.Load()
	require.LessOrEqual(t, after, int64(4), "it is bounded how far it reads ahead")
	require.Never(t, func() bool { return reads.Load() != after }, 50*1e6, 1e6)
}

// It must be caught by whoever catches those of the settlement.
func TestAPanicAheadIsOneOfWhoeverAsks(t *testing.T) {
	t.Parallel()
	defer func() { require.Contains(t, recover(), "a bug, reading ahead:") }()
	for range ahead(func() (*int, error) { panic("a bug") }) {
		t.Error("nothing was read")
	}
}
