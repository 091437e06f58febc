package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/catalog"
)

// A change of the zone alone reaches other processes, those without MySQL by the snapshot.
func TestRefresh_CarriesTheZone(t *testing.T) {
	w := newWorld(t)
	w.coupon(1)
	snapshot := catalog.Snapshot{Store: w.store}
	none, err := snapshot.Zone(t.Context())
	require.NoError(t, err)
	require.Nil(t, none)
	w.refresh()
	require.Equal(t, "Asia/Seoul", w.catalog.Zone().String())

	w.exec("UPDATE deployment SET zone = 'Europe/Berlin'")
	w.refresh()
	require.Equal(t, "Europe/Berlin", w.catalog.Zone().String())
	saved, err := snapshot.Zone(t.Context())
	require.NoError(t, err)
	require.Equal(t, "Europe/Berlin", saved.String())

	store, other := w.process()
	w.exec("DELETE FROM deployment")
	require.ErrorContains(t, other.Refresh(t.Context()), "run settle migrate")
	require.Equal(t, "Europe/Berlin", other.Zone().String())
	found, ok := other.Lookup(1)
	require.True(t, ok)
	require.Equal(t, 10, found.Free())
	require.NotNil(t, store)
}
