package report_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/report"
)

// The report of a day reads the coupons of that day, whatever was settled before and since. Here a coupon opens each
// day for a week, and another is open all the time.
func TestReportOfADay_CostsTheDay(t *testing.T) {
	t.Parallel()
	cost := func(nights int) jajeongtest.Cost {
		d := jajeongtest.New(t)
		opens := at("2024-01-01 00:00:00")
		opened(d, 2, 100, opens, opens.AddDate(10, 0, 0))
		week := d.AddFinishedBetween(2, opens, 7*24*time.Hour, 1, 2, 3)
		d.AddHistory(jajeongtest.History{Of: week, Nights: nights, PerNight: 1})
		return d.CostOf(func(db *sql.DB) {
			r, err := (&report.Reporter{DB: db, Store: d.Store, Users: d.Users}).Report(t.Context(),
				day(t, "2024-01-21"), nil)
			require.NoError(t, err)
			require.Len(t, r.Coupons, 8)
			require.EqualValues(t, 3, r.Total.Applications)
			require.Zero(t, r.Total.Gap)
		})
	}
	jajeongtest.RequireAsCheap(t, "the report of a day", cost(40), cost(400))
}
