package standing_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/standing"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	arrival := time.Date(2026, 11, 20, 5, 0, 0, 382_634_000, time.UTC)
	terms := standing.Terms{
		Zone:          func() *time.Location { return time.FixedZone("", 9*60*60) },
		IssueInterval: 100 * time.Millisecond,
	}
	nightly := coupon.Coupon{ID: 42, TotalQuantity: 100, IssuedCount: 90, Cadence: coupon.Nightly}
	immediate := coupon.Coupon{ID: 42, TotalQuantity: 100, IssuedCount: 90, Cadence: coupon.Immediate}
	describe := func(of coupon.Coupon, is coupon.Standing, position int64, waited time.Duration) standing.Document {
		waits := standing.Conclusion{Is: is, Arrival: coupon.ArrivalAt(arrival), Position: position}
		return terms.Describe(of, 7, waits, arrival.Add(waited))
	}
	const applied = `"appliedAt":"2026-11-20T14:00:00.382634+09:00"`
	for want, got := range map[string]standing.Document{
		`{"status":"PENDING","couponId":42,"userId":7,"position":10,"seats":10,"withinSeats":true,` + applied +
			`,"cadence":"NIGHTLY","settlesAt":"2026-11-21T00:00:00.000000+09:00"}`: describe(nightly,
			coupon.StandingPending, 10, time.Hour),
		`{"status":"PENDING","couponId":42,"userId":7,"position":11,"seats":10,"withinSeats":false,` + applied +
			`,"cadence":"IMMEDIATE","settlesAt":"2026-11-20T14:00:01.482634+09:00"}`: describe(immediate,
			coupon.StandingPending, 11, time.Second),
		`{"status":"PENDING","couponId":42,"userId":7,"position":11,"seats":10,"withinSeats":false,` + applied +
			`,"cadence":"IMMEDIATE","settlesAt":"2026-11-20T14:00:02.482634+09:00","delayed":true}`: describe(immediate,
			coupon.StandingPending, 11, 2*time.Second),
		`{"status":"UNDER_REVIEW","couponId":42,"userId":7,` + applied +
			`}`: describe(nightly, coupon.StandingUnderReview, 0, 0),
		`{"status":"ISSUED","couponId":42,"userId":7}`: terms.Describe(nightly, 7,
			standing.Conclusion{Is: coupon.StandingIssued}, arrival),
	} {
		text, err := json.Marshal(got)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}

	// With short looks, a second is the least that counts as delayed.
	terms.IssueInterval = 20 * time.Millisecond
	for waited, delayed := range map[time.Duration]bool{time.Second: false, time.Second + time.Microsecond: true} {
		require.Equal(t, delayed, describe(immediate, coupon.StandingPending, 1, waited).Delayed, waited)
	}
}
