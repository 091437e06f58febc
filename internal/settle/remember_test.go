package settle

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRemembered_HoldsAllWinnersOrNone(t *testing.T) {
	t.Parallel()
	m := new(memory)
	r := m.reserve(3)
	r.reset()
	r.add(threeInLine[:1])
	r.add(threeInLine[1:])
	require.Equal(t, []Winner{{1, 1000}, {2, 2000}, {3, 3000}}, r.all())
	require.True(t, r.complete)
	r.add(threeInLine[:1])
	require.False(t, r.complete, "seats were added")
	require.Empty(t, r.all())
	r.reset()
	require.True(t, r.complete)

	other := m.reserve(maxRemembered - 2)
	other.reset()
	other.add(threeInLine)
	require.False(t, other.complete, "the room is taken")
	other.release()
	r.release()
	other = m.reserve(maxRemembered - 2)
	other.reset()
	other.add(threeInLine)
	require.Len(t, other.all(), 3)
}
