package events

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	want := []string{"a", "b", "c", "d"}
	events := func(ids ...string) (bodies [][]byte) {
		for _, id := range ids {
			bodies = append(bodies, fmt.Appendf(nil, `{"id":%q}`, id))
		}
		return bodies
	}
	for _, c := range []struct {
		partitions [][][]byte
		found      fault
	}{
		{[][][]byte{events("a", "b", "c", "d")}, fault{}},
		{[][][]byte{events("b", "d"), events("a", "c")}, fault{}},
		{[][][]byte{events("a", "c", "b", "d")}, fault{inversions: 1}},
		{[][][]byte{events("a", "b", "a", "d")}, fault{missing: 1, twice: 1}},
		{[][][]byte{events("a", "b"), events("b", "d", "c")}, fault{twice: 1, inversions: 1}},
		{nil, fault{missing: 4}},
	} {
		found, err := judge(want, c.partitions)
		require.NoError(t, err)
		require.Equal(t, c.found, found, "%s", c.partitions)
	}
	_, err := judge(want, [][][]byte{events("e")})
	require.ErrorContains(t, err, "no row")
}
