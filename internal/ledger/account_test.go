package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/promise"
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

// Everybody who was accepted is counted once, wherever they are.
func TestAccount_AddsUp(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2, 3)
	d.Apply(id, 9) // not a user: under review
	d.SettleNow()
	d.Exec("UPDATE settled SET written_off = 4, erased = 5")
	d.AddPromises(id, 9+2)
	d.ApplyAt(id, "7", d.Now())
	third := jajeongtest.Column[time.Time](d, "SELECT applied_at FROM application_outcome WHERE user_id = 3")[0]
	d.ApplyAt(id, "3", third) // an older state of Redis
	d.AddPromises(id, -1)
	d.InsertGranted(id, 8) // answers no application

	l := &ledger.Ledger{Store: d.Store}
	a, err := l.AccountOf(t.Context(), d.DB, id)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"accepted": 16, "waiting": 2, "reviewed": 1, "issued": 2, "outcomes": 1,
		"both": 1, "written off": 4, "erased": 5, "gap": 2}, map[string]int64{"accepted": a.Accepted,
		"waiting": a.Waiting, "reviewed": a.UnderReview, "issued": a.Issued, "outcomes": a.Outcomes, "both": a.InBoth,
		"written off": a.WrittenOff, "erased": a.Erased, "gap": a.Gap()})
	require.EqualValues(t, 12, a.Settled())
	require.Equal(t, promise.Missing, a.RestoreDue())
	require.False(t, a.LacksMarks())
	require.NoError(t, d.Redis.ZRem(t.Context(), d.Key("issued", id), "1").Err())
	a, err = l.AccountOf(t.Context(), d.DB, id)
	require.NoError(t, err)
	require.True(t, a.LacksMarks())
	d.Exec("UPDATE settlement SET cleaned_at = NULL")
	a, err = l.AccountOf(t.Context(), d.DB, id)
	require.NoError(t, err)
	require.False(t, a.LacksMarks(), "a clean-up is about to mark them")
}
