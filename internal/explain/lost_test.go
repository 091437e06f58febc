package explain_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/explain"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

// The journal has rows of everybody. A row counts only if no run has decided the user since.
func TestExplain_LostAreThoseAccountedForNowhere(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(3, 5)
	id := d.AddQueue(1, 1, 2, 4)
	d.MoveToReview(id, "4", coupon.Failure{Cause: coupon.CauseBadRow, Note: "test"})
	d.Drop(id, "4")
	first := d.Arrivals(id)["1"]
	d.SettleNow(id)
	cutoff := coupon.ArrivalAt(jajeongtest.Column[time.Time](d, `SELECT r.cutoff FROM settlement_run r
		JOIN application_outcome o ON o.run_id = r.id WHERE o.user_id = 2`)[0])
	explainer := &explain.Explainer{DB: d.DB, Redis: d.Store, Users: d.Users, Now: time.Now,
		Zone: func(context.Context) (*time.Location, error) { return time.UTC, nil }, IssueInterval: time.Second}
	tells := func(user coupon.UserID, state explain.State) {
		t.Helper()
		x, err := explainer.Explain(t.Context(), id, user)
		require.NoError(t, err)
		require.Empty(t, x.Unread)
		require.Equal(t, state, x.Conclusion.State)
		if state == explain.StateLost {
			require.Equal(t, cutoff, x.Conclusion.Application.Arrival)
		}
	}
	journal := func(user coupon.UserID, arrival coupon.Arrival) {
		d.Exec("INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES (?, ?, ?)", id, arrival, user)
	}
	for _, user := range []coupon.UserID{1, 2, 4} {
		journal(user, first-1)
		journal(user, cutoff-1)
	}
	tells(1, explain.StateIssued)
	tells(2, explain.StateNotSelected)
	tells(3, explain.StateNeverSoldOut)
	tells(4, explain.StateRejectedByPerson)
	for user := range coupon.UserID(4) {
		journal(user+1, cutoff)
	}
	require.NoError(t, d.Redis.ZAdd(t.Context(), d.Key("issued", id), redis.Z{Member: "3", Score: 1}).Err())
	tells(1, explain.StateIssued)
	tells(2, explain.StateLost)
	tells(3, explain.StateLost) // a mark that MySQL does not confirm accounts for nobody
	tells(4, explain.StateRejectedByPerson)

	d.Exec("UPDATE journal SET unfound = 1 WHERE coupon_id = ?", id)
	d.Exec("INSERT IGNORE INTO journal (coupon_id, unfound) VALUES (?, 1)", id)
	tells(5, explain.StateMaybeLost)
}

// Redis forgets a coupon some days after it was finalised. Where an application stood is then still known.
func TestExplain_OrderAfterRedisHasForgottenTheCoupon(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(1, 1, 2)
	d.SettleNow(id)
	explainer := &explain.Explainer{DB: d.DB, Redis: d.Store, Users: d.Users, Now: time.Now,
		Zone: func(context.Context) (*time.Location, error) { return time.UTC, nil }, IssueInterval: time.Second}
	order := func() int64 {
		t.Helper()
		x, err := explainer.Explain(t.Context(), id, 2)
		require.NoError(t, err)
		require.Zero(t, x.Facts.Gap)
		require.Len(t, x.Facts.Applications, 1)
		return x.Facts.Applications[0].Order
	}
	require.EqualValues(t, 2, order())
	require.NoError(t, d.Redis.Del(t.Context(), d.Key("state", id), d.Key("issued", id)).Err())
	require.Zero(t, order(), "a restore may enter others before")
	d.Exec("UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6) WHERE id = ?", id)
	require.EqualValues(t, 2, order())
}
