package settle_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/explain"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verify"
)

// Only active users get coupons, in order, also of seats that are added later. No other user is rejected for good. The
// check of verify agrees: it finds the one active user who was passed over.
func TestSettle_IssuesOnlyToActiveUsersOfAnyTable(t *testing.T) {
	t.Parallel()
	for _, table := range jajeongtest.ReadableUserTables {
		t.Run(table.Name, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.NewWith(t, jajeongtest.Options{Users: &table})
			d.AddUsers(between(1, 9)...)
			d.SetStatus(jajeongtest.Blocked, 2, 5)
			d.SetStatus(jajeongtest.Withdrawn, 6)
			// 1, or the last, if a server cut them off.
			highest := []coupon.UserID{1<<8 + 1, 1<<16 + 1, 1<<24 + 1, 1<<32 + 1, math.MaxInt64, math.MaxUint64}
			couponID := d.AddCoupon(3)
			d.Apply(couponID, append(between(1, 9), highest...)...)

			d.SettleNow()
			require.Equal(t, []coupon.UserID{1, 3, 4}, d.Issued(couponID))
			require.Equal(t, []coupon.UserID{7, 8, 9}, d.Outcome(couponID, "NOT_SELECTED"))
			d.Verify()

			d.SetStatus(jajeongtest.Blocked, 8)
			d.SetSeats(couponID, 20)
			order := jajeongtest.Manual(couponID)
			order.List = true
			preview, err := d.Settler().Preview(t.Context(), order)
			require.NoError(t, err)
			require.Empty(t, preview.Classes())
			d.SettleNow()
			require.Equal(t, []coupon.UserID{1, 3, 4, 7, 9}, d.Issued(couponID))
			require.Equal(t, []coupon.UserID{8}, d.Outcome(couponID, "REJECTED"))
			causes := map[string]string{}
			for member := range d.UnderReview(couponID) {
				causes[member] = d.Reason(couponID, member).Cause
			}
			want := map[string]string{"2": "INACTIVE_USER", "5": "INACTIVE_USER", "6": "INACTIVE_USER"}
			for _, user := range highest {
				want[fmt.Sprint(user)] = "UNKNOWN_USER"
			}
			require.Equal(t, want, causes)
			d.Verify()

			x := explain.Explainer{DB: d.DB, Redis: d.Store, Users: d.Users, Now: time.Now,
				Zone: jajeongtest.InZone(time.UTC)}
			for user, want := range map[coupon.UserID][2]bool{5: {true, false}, 7: {true, true},
				math.MaxUint64: {false, false}} {
				explained, err := x.Explain(t.Context(), couponID, user)
				require.NoError(t, err)
				require.Equal(t, want, [2]bool{explained.Facts.UserKnown, explained.Facts.UserActive},
					"user %d is known, and active", user)
			}

			d.SetStatus(jajeongtest.Active, 5)
			d.Retry(couponID, "5")
			require.Equal(t, []coupon.UserID{1, 3, 4, 7, 9, 5}, d.Issued(couponID))
			d.Verify()

			passing := d.AddCoupon(2)
			d.Apply(passing, 1, 3, 4, 7)
			d.SettleNow()
			require.Equal(t, []coupon.UserID{4, 7}, d.Outcome(passing, "NOT_SELECTED"))
			d.Exec("UPDATE application_outcome SET applied_at = applied_at - INTERVAL 1 HOUR WHERE coupon_id = ?",
				passing)
			d.SetStatus(jajeongtest.Blocked, 4)
			found := map[verify.Code]int64{}
			for _, f := range d.Check(passing)[0].Findings {
				found[f.Code] = f.Count
			}
			require.EqualValues(t, 1, found[verify.PassedOver], found)
		})
	}
}

// The table may change while a scheduler runs.
func TestSettle_RefusesUserTableThatChanged(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(1, 1)
	s := d.Settler()
	s.Users = d.Users
	_, err := s.Users.Look(t.Context(), d.DB)
	require.NoError(t, err)
	d.Exec("ALTER TABLE `user` MODIFY status TINYINT NOT NULL DEFAULT 1")
	_, err = s.RunOnce(t.Context(), jajeongtest.Manual())
	require.True(t, text.Is(err, text.ValueNotANumber), err)
	require.Empty(t, d.Issued(couponID))
}
