package privacy_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/privacy"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/seal"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verify"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

// erasing is the account that forgets and purges.
func erasing(d *jajeongtest.Deployment) *mysqltx.DB {
	d.T.Helper()
	db, err := (&connect.MySQLSettings{MySQLDSN: d.Accounts["jajeong_privacy"]}).Open(connect.Patient, zap.NewNop())
	testenv.Opened(d.T, db, err)
	return mysqltx.New(db)
}

var origin = audit.Origin{At: time.Date(2026, 11, 20, 5, 0, 0, 0, time.UTC), Actor: "kim", Reason: "P-1"}

// settles uses the programs' store of settlements, which may read all that pods have handed over.
func settles(d *jajeongtest.Deployment) *candidates.Store {
	d.T.Helper()
	servers, err := connect.Open(&d.Job.MySQLSettings, connect.Settling, &d.Job.RedisSettings, zap.NewNop())
	require.NoError(d.T, err)
	d.T.Cleanup(servers.Close)
	store, err := candidates.NewStore(servers.Redis, candidates.Options{KeyPrefix: d.Prefix})
	require.NoError(d.T, err)
	return store
}

// Pods have handed a person over, whom a restore will put into the journal and the queue. Until then, no other place
// has the person.
func TestForget_RefusesWhoWasHandedOver(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(7)
	id := d.AddQueue(5, 1, 2)
	store := settles(d)
	look, err := store.Observe(t.Context(), id, 0)
	require.NoError(t, err)
	handed := []coupon.Answer{{User: 0, Arrival: look.Last}, {User: 7, Arrival: look.Last}}
	_, places, err := d.Store.HandOver(t.Context(), id, look.Epoch, true, handed)
	require.NoError(t, err)
	require.Len(t, places, 2)

	read := func() []privacy.Undecided {
		t.Helper()
		p, redisErr, err := privacy.Read(t.Context(), d.DB, store, 7)
		require.NoError(t, redisErr)
		require.NoError(t, err)
		return p.Undecided
	}
	undecided := read()
	require.Len(t, undecided, 1)
	require.Equal(t, id, undecided[0].Coupon)
	require.True(t, undecided[0].Lost)
	require.Equal(t, []time.Time{look.Last.Time()}, undecided[0].AppliedAt)
	_, err = privacy.Forget(t.Context(), erasing(d), store, 7, origin)
	require.True(t, text.Is(err, text.UserStillWaits), err)
	require.ErrorContains(t, err, id.String())

	d.Restore(id)
	require.Contains(t, d.Waiting(id), "7")
	undecided = read()
	require.Len(t, undecided, 1)
	require.False(t, undecided[0].Lost)
	d.SettleNow()
	undecided = read()
	require.Len(t, undecided, 1)
	require.True(t, undecided[0].MarkedIssued)
	require.Empty(t, undecided[0].AppliedAt)
	_, err = privacy.Forget(t.Context(), erasing(d), store, 7, origin)
	require.NoError(t, err)
}

// finalise ends a coupon whose window closes.
func finalise(d *jajeongtest.Deployment, id coupon.CouponID) {
	d.T.Helper()
	d.Exec("UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6) - INTERVAL 6 MINUTE WHERE id = ?", id)
}

// Redis can lose the end of a coupon that was just finalised. Its people would be put back.
func TestForget_WaitsUntilTheEndIsSafe(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(1, 1, 2)
	d.SettleNow()
	finalise(d, id)
	d.Exec("UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6) - INTERVAL 4 MINUTE")
	done, err := privacy.Forget(t.Context(), erasing(d), settles(d), 2, origin)
	require.NoError(t, err)
	require.Zero(t, done.Applications)
	require.Equal(t, 1, done.Remains.NotFinalised)
	finalise(d, id)
	done, err = privacy.Forget(t.Context(), erasing(d), settles(d), 2, origin)
	require.NoError(t, err)
	require.Equal(t, 1, done.Applications)
	require.Equal(t, 5*time.Minute, coupon.EndGuard, "as the SQL says")
}

// What is erased is counted, so that nobody is missing afterwards.
func TestForget_CountsWhatIsErased(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(1, 1, 2, 3)
	d.MoveToReview(id, "3", coupon.Failure{Cause: coupon.CauseBadRow, Note: "test"})
	d.Drop(id, "3")
	d.Journal(id)
	d.SettleNow()
	d.Exec("INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES (?, 1, 2), (?, 1, 3)", id, id)
	before, err := promise.Read(t.Context(), d.DB, id)
	require.NoError(t, err)
	finalise(d, id)
	for _, user := range []coupon.UserID{2, 3} {
		done, err := privacy.Forget(t.Context(), erasing(d), settles(d), user, origin)
		require.NoError(t, err)
		require.Equal(t, 1, done.Applications)
		require.Zero(t, d.Number("SELECT COUNT(*) FROM line_journal WHERE user_id = ?", user))
	}
	require.EqualValues(t, 1, d.Number("SELECT erased_rejected FROM settled WHERE coupon_id = ?", id))
	after, err := promise.Read(t.Context(), d.DB, id)
	require.NoError(t, err)
	require.EqualValues(t, 2, after.Erased)
	require.Equal(t, before.Settled(), after.Settled())
}

// The summary has the accepted applications of people who were forgotten, and of promises that were written off.
func TestPurge_TakesEveryPlace(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(1, 1, 2, 3)
	d.Journal(id)
	d.SettleNow()
	d.Exec("INSERT IGNORE INTO line_journal (coupon_id, arrival, user_id) VALUES (?, 1, 2)", id)
	finalise(d, id)
	require.NoError(t, seal.List(t.Context(), d.DB, id))
	d.Exec("INSERT INTO user_application (user_id, coupon_id) VALUES (1, ?)", id) // got a seat that was added later
	_, err := privacy.Forget(t.Context(), erasing(d), settles(d), 2, origin)
	require.NoError(t, err)
	d.Exec("INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES (?, 1, 3)", id)
	long := d.Now().AddDate(-1, 0, 0).UTC()
	d.Exec("UPDATE settled SET written_off = 5 WHERE coupon_id = ?", id)
	d.Exec("UPDATE coupon SET finalised_at = ?, apply_opens_at = ?, apply_closes_at = ?", long, long.Add(-time.Hour),
		long)
	d.Exec("UPDATE user_coupon SET expires_at = ?", long)
	plan, err := privacy.PlanPurge(t.Context(), erasing(d), d.Store, d.Now().AddDate(0, -2, 0), d.Now())
	require.NoError(t, err)
	require.Len(t, plan.Taken, 1)
	d.Exec("INSERT INTO seal (coupon_id, sealed_at, checked_at, wrong) VALUES (?, NOW(6), NOW(6), TRUE)", id)
	stays, err := privacy.PlanPurge(t.Context(), erasing(d), d.Store, d.Now().AddDate(0, -2, 0), d.Now())
	require.NoError(t, err)
	require.Equal(t, privacy.FoundWrong, stays.Left[0].Why)
	d.Exec("UPDATE seal SET wrong = FALSE")
	d.Exec(`INSERT INTO settlement_run (id, trigger_kind, status, cutoff, started_at, heartbeat_at, nonce)
		SELECT id + 1, trigger_kind, 'ABANDONED', cutoff, started_at, heartbeat_at, UNHEX('00') FROM settlement_run`)
	d.Exec("INSERT INTO run_coupon (run_id, coupon_id) SELECT MAX(id), ? FROM settlement_run", id)
	done, err := (&privacy.Purger{DB: erasing(d), Queue: d.Store, Origin: origin}).Purge(t.Context(), plan)
	require.NoError(t, err)
	require.Equal(t, []coupon.CouponID{id}, done.Purged)
	require.Zero(t, d.Number("SELECT COUNT(*) FROM settlement_run"), "with the last of their coupons")
	summary, err := privacy.ReadPurged(t.Context(), d.DB, id)
	require.NoError(t, err)
	require.EqualValues(t, 3+5, summary.Accepted)
	require.EqualValues(t, 2, summary.NotSelected)
	for _, table := range jajeongtest.Column[string](d, `SELECT TABLE_NAME FROM information_schema.COLUMNS
		WHERE TABLE_SCHEMA = DATABASE() AND COLUMN_NAME = 'coupon_id' AND TABLE_NAME <> 'purged_coupon'`) {
		require.Zero(t, d.Number("SELECT COUNT(*) FROM `"+table+"` WHERE coupon_id = ?", id), table)
	}
}

// The task journal has not yet deleted the journal of a finalised coupon, which the user has.
func TestForget_TakesAWinnerOutOfTheJournal(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(1, 1, 2)
	d.Journal(id)
	d.SettleNow()
	finalise(d, id)
	done, err := privacy.Forget(t.Context(), erasing(d), settles(d), 1, origin)
	require.NoError(t, err)
	require.Empty(t, done.Coupons, "the coupon stays")
	require.Equal(t, 1, done.Remains.Coupons)
	require.Equal(t, []coupon.UserID{2}, jajeongtest.Column[coupon.UserID](d, "SELECT user_id FROM line_journal"))
}

// A seal that does not hold stays: forgetting somebody hides no change. No check looks at a coupon only because
// somebody was forgotten there.
func TestForget_SealsAgain(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddFinished(1, 1, 2, 3, 4)
	d.AddFinished(1, 5)
	check(t, d)
	l := &verify.Verifier{Store: d.Store, Users: d.Users}
	broken := func() bool {
		t.Helper()
		v, err := l.Check(t.Context(), d.DB, id)
		require.NoError(t, err)
		return slices.ContainsFunc(v.Findings, func(f verify.Finding) bool { return f.Code == verify.SealBroken })
	}
	forget := func(user coupon.UserID) (isPlanned bool) {
		t.Helper()
		done, err := privacy.Forget(t.Context(), erasing(d), settles(d), user, origin)
		require.NoError(t, err)
		require.Equal(t, 1, done.Applications)
		d.Exec("REPLACE INTO verify_progress (name, value) VALUES ('turn of coupon', ?)", id+1)
		plan, err := l.Plan(t.Context(), d.DB, false)
		require.NoError(t, err)
		return slices.Contains(plan.Coupons, id)
	}
	require.False(t, broken())
	require.False(t, forget(2))
	require.False(t, broken())

	require.NoError(t, d.Audit(origin, audit.CouponClosed, id, audit.Entry{}))
	require.True(t, forget(3), "no check has seen the other event")
	require.False(t, broken())

	d.Exec("UPDATE user_coupon SET position = position + 1 WHERE coupon_id = ?", id)
	forget(4)
	require.True(t, broken())
}
