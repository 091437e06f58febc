package candidates

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is remembered of a coupon begins once, lasts while the coupon is in use, and is forgotten when many others came since.
func TestWhatIsRememberedIsBounded(t *testing.T) {
	t.Parallel()
	forgotten := 0
	cache := remembering(func(*memory) { forgotten++ })
	begin := func() *memory { return new(memory) }
	used, unused := remembered(cache, 1, begin), remembered(cache, 2, begin)
	for coupon := uint64(3); coupon < 3+MaxRemembered; coupon++ {
		remembered(cache, coupon, begin)
		require.Same(t, used, remembered(cache, 1, begin))
	}
	require.Equal(t, MaxRemembered, cache.Len())
	require.Equal(t, 2, forgotten)
	require.NotSame(t, unused, remembered(cache, 2, begin))
}
