package deployment_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/deployment"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/migrated"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestLoad(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{"", "Local", "Mars", "asia/../seoul", "Asia/../Asia/Seoul", "+09:00", "localtime",
		"posixrules", "posix/Asia/Seoul", "right/Asia/Seoul", "Factory", "asia/seoul", "Asia/Seoul ", "EST"} {
		_, err := deployment.Load("ZONE", wrong)
		require.ErrorContains(t, err, fmt.Sprintf("ZONE=%q is not a time zone", wrong))
	}
	zone, err := deployment.Load("ZONE", "Asia/Seoul")
	require.NoError(t, err)
	require.Equal(t, "Asia/Seoul", zone.String())
}

// The zone is that of MySQL; without MySQL, that of the catalog; without both, it is not known.
func TestZone_IsThatOfMySQL(t *testing.T) {
	t.Parallel()
	db := migrated.Open(t)
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	inCatalog, unread := berlin, error(nil)
	asked := 0
	fresh := func() *deployment.Zone {
		return &deployment.Zone{DB: db, Now: time.Now,
			Catalog: func(context.Context) (*time.Location, error) { asked++; return inCatalog, unread }}
	}
	zone := fresh()
	for range 2 {
		got, err := zone.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, "Asia/Seoul", got.String())
		_, err = db.Exec("UPDATE deployment SET zone = 'Asia/Tokyo'")
		require.NoError(t, err)
	}
	got, err := fresh().Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, "Asia/Tokyo", got.String())
	require.Zero(t, asked)

	_, err = db.Exec("DELETE FROM deployment")
	require.NoError(t, err)
	_, err = fresh().Get(t.Context())
	require.ErrorContains(t, err, "run settle migrate", "the catalog does not replace a migration")

	require.NoError(t, db.Close())
	got, err = fresh().Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, berlin, got)
	inCatalog = nil
	_, err = fresh().Get(t.Context())
	require.ErrorContains(t, err, "database is closed")
	inCatalog, unread = berlin, errors.New("redis is away")
	_, err = fresh().Get(t.Context())
	require.ErrorContains(t, err, "database is closed")
	require.ErrorContains(t, err, "redis is away")
	_, err = (&deployment.Zone{DB: db, Now: time.Now}).Get(t.Context())
	require.Error(t, err)
}
