package overview_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/overview"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

// The page of tonight reads what is open, whatever was settled before.
func TestTonight_CostsWhatIsOpen(t *testing.T) {
	t.Parallel()
	cost := func(nights int) jajeongtest.Cost {
		d := jajeongtest.New(t)
		open := d.AddQueue(2, 1, 2, 3)
		past := d.AddFinished(2, 4, 5, 6)
		d.AddHistory(jajeongtest.History{Of: past, Nights: nights, PerNight: 4})
		return d.CostOf(func(db *sql.DB) {
			reader := &overview.Reader{DB: db, Store: d.Store, Users: d.Users, Now: time.Now,
				Zone: func(context.Context) (*time.Location, error) { return time.UTC, nil },
				Next: func(after time.Time, _ *time.Location) time.Time { return after }}
			tonight, err := reader.Tonight(t.Context())
			require.NoError(t, err)
			require.NoError(t, tonight.Unread)
			require.Len(t, tonight.Coupons, 1)
			require.Equal(t, open, tonight.Coupons[0].ID)
		})
	}
	jajeongtest.RequireAsCheap(t, "the page of tonight", cost(30), cost(300))
}
