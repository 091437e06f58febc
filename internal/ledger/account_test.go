package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/ledger"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

func TestAccountReadsThePast(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	for name, test := range map[string]struct {
		insert string
		want   ledger.Past
	}{
		"nothing": {"", ledger.Past{}},
		"a coupon by hand": {"INSERT INTO user_coupon (coupon_id, user_id, expires_at) VALUES (?, 1, '2038-01-01')",
			ledger.Past{Held: true, Coupons: 1}},
		"an outcome": {
			"INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome, run_id, recorded_at) VALUES " +
				"(?, 1, NOW(), 'REJECTED', 1, NOW(6))", ledger.Past{Recorded: true}},
		"a run without issues": {
			"INSERT INTO settlement (run_id, coupon_id, settled_at, cleaned_at) VALUES (1, ?, NOW(6), NOW(6))",
			ledger.Past{Settled: true}},
		"a pending clean-up": {"INSERT INTO settlement (run_id, coupon_id, settled_at) VALUES (1, ?, NOW(6))",
			ledger.Past{Settled: true, Pending: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := d.AddCoupon(5)
			if test.insert != "" {
				d.Exec(test.insert, id)
			}
			tx, err := d.DB.Begin()
			require.NoError(t, err)
			defer func() { require.NoError(t, tx.Rollback()) }()
			a, err := (&ledger.Ledger{Store: d.Store}).Account(t.Context(), tx, id)
			require.NoError(t, err)
			require.Equal(t, test.want, a.Past)
		})
	}
}

// A run has recorded user 1, and has not removed the entry of the DLQ yet. The DLQ has not changed since the last
// account, but it is read again: or else user 2 would not be missed.
func TestAccountBySums_ReadsTheDLQAgainWhileACleanUpIsPending(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(5, 1, 2)
	first := d.Arrivals(id)["1"]
	d.MoveToReview(id, "1", coupon.Failure{Cause: "BY_HAND"})
	l := &ledger.Ledger{Store: d.Store}
	gap := func() int64 {
		tx, err := d.DB.Begin()
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback()) }()
		a, err := l.AccountBySums(t.Context(), tx, id, 0)
		require.NoError(t, err)
		return a.Gap()
	}
	require.Zero(t, gap())
	d.Exec("INSERT INTO settlement (run_id, coupon_id, settled_at) VALUES (1, ?, NOW(6))", id)
	d.Exec("INSERT INTO settled (coupon_id, concluded, settled_up_to) VALUES (?, 1, ?)", id, int64(first))
	d.Exec(`INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome, run_id, recorded_at)
		VALUES (?, 1, ?, 'NOT_SELECTED', 1, NOW(6))`, id, first.Time())
	require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(id), "2").Err())
	require.EqualValues(t, 1, gap())
}
