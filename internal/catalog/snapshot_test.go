package catalog

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// An accepted snapshot has a time, all its coupons are found, and saving it again gives the same bytes.
func FuzzSnapshot(f *testing.F) {
	f.Fuzz(func(t *testing.T, snapshot []byte) {
		r, err := decodeSnapshot(snapshot)
		if err != nil {
			require.Nil(t, r)
			return
		}
		require.False(t, r.At.IsZero(), "%q has no time", snapshot)
		c := New(Options{})
		c.store(r, content{})
		for _, one := range r.Coupons {
			found, ok := c.Lookup(one.ID)
			require.True(t, ok && found.Free() <= found.TotalQuantity, "coupon %d of %q is %+v", one.ID, snapshot,
				found)
		}
		saved, err := json.Marshal(r)
		require.NoError(t, err, "%q cannot be saved again", snapshot)
		again, err := decodeSnapshot(saved)
		require.NoError(t, err, "%q came back as %q", snapshot, saved)
		require.True(t, again.At.Equal(r.At))
		require.Len(t, again.Coupons, len(r.Coupons))
		for i, one := range r.Coupons {
			other := again.Coupons[i]
			require.True(t, other.OpensAt.Equal(one.OpensAt) && other.ClosesAt.Equal(one.ClosesAt),
				"%+v came back as %+v", one, other)
			other.OpensAt, other.ClosesAt = one.OpensAt, one.ClosesAt
			require.True(t, reflect.DeepEqual(one, other), "%+v came back as %+v", one, other)
		}
	})
}
