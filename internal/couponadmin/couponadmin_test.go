package couponadmin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/userlist"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

// unreachable is a Redis that returns the time and nothing else.
type unreachable struct {
	*candidates.Store
	err error
}

func (u unreachable) StopApplying(context.Context, coupon.Window, coupon.Arrival, bool) (int64, time.Time, error) {
	return 0, time.Time{}, u.err
}

func (u unreachable) Announce(context.Context, coupon.Window, coupon.Arrival) (bool, error) {
	return false, u.err
}

func (u unreachable) CountMarked(context.Context, coupon.CouponID) (issued, rejected int64, err error) {
	return 0, 0, u.err
}

func TestUnreachableRedis(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddCoupon(1)
	away := errors.New("away")
	admin := d.CouponAdmin()
	admin.Redis = unreachable{d.Store, away}
	_, err := admin.Close(t.Context(), couponID)
	require.ErrorIs(t, err, away, "MySQL has no end that Redis does not apply")
	require.Zero(t, d.Number("SELECT COUNT(*) FROM audit_event WHERE coupon_id = ?", couponID))

	made, err := admin.Pause(t.Context(), couponID)
	require.NoError(t, err)
	require.True(t, made.Changed)
	require.ErrorIs(t, made.PublishErr, away)
	d.AddUsers(1)
	d.Apply(couponID, 1) // Redis does not have the pause yet
	d.Refresh()
	require.Equal(t, candidates.Paused, d.Answer(couponID, 2))
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1}, d.Issued(couponID))
	d.Verify()
}

func TestNew_RefusesAnIncompleteConfig(t *testing.T) {
	t.Parallel()
	_, err := couponadmin.New(couponadmin.Config{})
	require.Error(t, err)
}

// deployment is a deployment with an administrator.
type deployment struct {
	*jajeongtest.Deployment
	admin *couponadmin.Admin
}

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	d := jajeongtest.New(t)
	return &deployment{d, d.CouponAdmin()}
}

// done requires that a change was made and published.
func (d *deployment) done(change *couponadmin.Change, err error) *couponadmin.Change {
	d.T.Helper()
	require.NoError(d.T, err)
	require.NoError(d.T, change.PublishErr)
	return change
}

func (d *deployment) refused(why text.Message) func(*couponadmin.Change, error) {
	return func(_ *couponadmin.Change, err error) {
		d.T.Helper()
		require.True(d.T, text.Is(err, why), err)
	}
}

// audited are the payloads of the audit events of this action, in order.
func (d *deployment) audited(couponID coupon.CouponID, action audit.Action) []audit.Payload {
	d.T.Helper()
	require.Zero(d.T,
		d.Number(
			"SELECT COUNT(*) FROM audit_event WHERE coupon_id = ? AND action = ? AND (actor <> 'park' OR reason <> "+
				"'TICKET-9')", couponID, action))
	return d.Payloads(couponID, action)
}

// A coupon closes after a settlement and opens again: no arrival is before the settled ones.
func TestExtend_ContinuesAfterLastSettlement(t *testing.T) {
	t.Parallel()
	d, ctx := newDeployment(t), t.Context()
	couponID := d.AddCoupon(3)
	d.AddUsers(1, 2)
	d.Apply(couponID, 1, 99) // 99 goes to the DLQ, so that the coupon is not finalised
	d.done(d.admin.Close(ctx, couponID))
	report := d.SettleNow()
	require.NoError(t, d.Redis.Del(ctx, d.Key("state", couponID)).Err(), "even without its state")
	d.done(d.admin.Extend(ctx, couponID, d.Now().Add(time.Hour)))
	d.PodsDie()
	receipt, err := d.Store.Apply(ctx, couponID, 2)
	require.NoError(t, err)
	require.Equal(t, candidates.Accepted, receipt.Code)
	require.GreaterOrEqual(t, receipt.Arrival, coupon.ArrivalAt(report.Cutoff))
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(couponID))
	d.Verify()
}

// Seats added to a finalised coupon go to its applicants in the next nightly run.
func TestAddSeats_ToFinalisedCouponGoToNotSelectedUsers(t *testing.T) {
	t.Parallel()
	d, ctx := newDeployment(t), t.Context()
	now := d.Now()
	couponID := d.AddCouponBetween(2, now.Add(-96*time.Hour), now.Add(-72*time.Hour))
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, 6)...)
	for user := range 6 {
		d.ApplyAt(couponID, fmt.Sprint(6-user), now.Add(-80*time.Hour).Add(time.Duration(user)*time.Second))
	}
	night := func() { d.SettleAs(jajeongtest.Nightly(time.Time{})) }
	night()
	require.Equal(t, []coupon.UserID{6, 5}, d.Issued(couponID))
	finalised := func() int { return len(d.IDs("SELECT id FROM coupon WHERE finalised_at IS NOT NULL")) }
	require.Equal(t, 1, finalised())
	require.NoError(t, d.Redis.Del(ctx, d.Key("state", couponID)).Err(), "after ten minutes")

	far := time.Date(2249, 1, 1, 0, 0, 0, 0, time.UTC)
	isFinalised := d.refused(text.RefusedFinalised)
	isFinalised(d.admin.Close(ctx, couponID))
	isFinalised(d.admin.Pause(ctx, couponID))
	isFinalised(d.admin.Resume(ctx, couponID))
	isFinalised(d.admin.Extend(ctx, couponID, far))
	require.Equal(t, 4, d.done(d.admin.AddSeats(ctx, couponID, 2)).NotSelected)
	require.Zero(t, finalised())
	require.Len(t, d.audited(couponID, "COUPON_UNFINALISED"), 1)
	d.refused(text.RefusedSwept)(d.admin.Extend(ctx, couponID, far))
	d.Refresh()
	require.Equal(t, candidates.Closed, d.Answer(couponID, 9))

	night()
	require.Equal(t, []coupon.UserID{6, 5, 4, 3}, d.Issued(couponID), "by arrival, without applying again")
	require.Equal(t, []coupon.UserID{2, 1}, d.Outcome(couponID, "NOT_SELECTED"))
	require.Equal(t, 1, finalised(), "finalised again")
	d.Verify()

	d.done(d.admin.SetSeats(ctx, couponID, 4))
	require.Equal(t, 1, finalised(), "no seat, no run")
	d.done(d.admin.SetSeats(ctx, couponID, 9))
	night()
	require.Equal(t, []coupon.UserID{6, 5, 4, 3, 2, 1}, d.Issued(couponID))
	require.Equal(t, 1, finalised())
	require.Zero(t, d.done(d.admin.AddSeats(ctx, couponID, 1)).NotSelected)
	require.Equal(t, 1, finalised(), "no applicant is left")
	d.Verify()
}

// settled adds a coupon whose window is over, and that user 1 has. The unknown user 99 keeps it from being finalised.
func (d *deployment) settled() coupon.CouponID {
	d.T.Helper()
	now := d.Now()
	couponID := d.AddCouponBetween(5, now.Add(-2*time.Hour), now.Add(-time.Hour))
	d.ApplyAt(couponID, "1", now.Add(-90*time.Minute))
	d.ApplyAt(couponID, "99", now.Add(-80*time.Minute))
	d.SettleNow(couponID)
	return couponID
}

// A run sweeps Redis and dies before it commits that the coupon is finalised: users who were rejected could apply
// again, and those who were issued, if their marks are lost. A coupon with all marks in Redis can be opened again.
func TestExtend_RefusesCouponWithoutMarksInRedis(t *testing.T) {
	t.Parallel()
	d, ctx := newDeployment(t), t.Context()
	d.AddUsers(1, 2)
	later := d.Now().Add(time.Hour)
	for _, lost := range []string{"issued", "rejected"} {
		couponID := d.settled()
		d.Drop(couponID, "99")
		require.NoError(t, d.Redis.Del(ctx, d.Key(lost, couponID)).Err())
		d.refused(text.RefusedForgotten)(d.admin.Extend(ctx, couponID, later))
		require.Equal(t, candidates.Closed, d.Answer(couponID, 2))
	}
	pending := d.settled()
	d.Exec("UPDATE settlement SET cleaned_at = NULL WHERE coupon_id = ?", pending)
	require.NoError(t, d.Redis.Del(ctx, d.Key("issued", pending)).Err(), "as if the run had died before its clean-up")
	d.refused(text.RefusedUnfinished)(d.admin.Extend(ctx, pending, later))

	whole := d.settled()
	d.done(d.admin.Extend(ctx, whole, later))
	require.Equal(t, candidates.AlreadyIssued, d.Answer(whole, 1))
	require.Equal(t, candidates.Accepted, d.Answer(whole, 2))
}

// A holder by hand is marked anew, and does not hide that the mark of another holder is lost.
func TestExtend_TellsHoldersByHandFromLostMarks(t *testing.T) {
	t.Parallel()
	d, ctx := newDeployment(t), t.Context()
	later := d.Now().Add(time.Hour)
	d.AddUsers(1, 2, 3)
	couponID := d.settled()
	d.changed(d.grant(couponID, 2))
	d.changed(d.grant(couponID, 3))
	issued := d.Key("issued", couponID)
	require.EqualValues(t, 3, d.Redis.ZCard(ctx, issued).Val())

	one := redis.Z{Member: "1", Score: d.Redis.ZScore(ctx, issued, "1").Val()}
	require.NoError(t, d.Redis.ZRem(ctx, issued, "1").Err())
	d.refused(text.RefusedForgotten)(d.admin.Extend(ctx, couponID, later))

	require.NoError(t, d.Redis.ZAdd(ctx, issued, one).Err())
	require.NoError(t, d.Redis.ZRem(ctx, issued, "2", "3").Err())
	d.done(d.admin.Extend(ctx, couponID, later))
	for user := range coupon.UserID(3) {
		require.Equal(t, candidates.AlreadyIssued, d.Answer(couponID, user+1))
	}
}

// commitOfChange calls do at the first COMMIT of a change, and passes all others.
func commitOfChange(do func() faultproxy.Action) (rule faultproxy.Rule, found *atomic.Bool) {
	var inChange atomic.Bool // the proxy goes on after the change
	found = new(atomic.Bool)
	return func(turn faultproxy.Turn) faultproxy.Action {
		if bytes.Contains(turn.Request, []byte("INTO audit_event")) {
			inChange.Store(true)
		}
		if inChange.Load() && bytes.HasSuffix(turn.Request, []byte("\x03COMMIT")) && !found.Swap(true) {
			return do()
		}
		return faultproxy.Pass()
	}, found
}

// Whatever happens to a COMMIT, a coupon is created once. Other changes: TestVerbs_RepeatAfterALostConnection.
func TestCreate_IsMadeOnceAfterLostCommitReply(t *testing.T) {
	t.Parallel()
	d := jajeongtest.NewOnPrivateRedis(t)
	now := d.Now()
	made := couponadmin.NewCoupon{Name: "심야", Seats: 2, Opens: now, Closes: now.Add(time.Hour), ValidityDays: 30}
	for i, action := range []faultproxy.Action{faultproxy.DropRequest(nil), faultproxy.DropReply(nil)} {
		rule, lost := commitOfChange(func() faultproxy.Action { return action })
		_, proxied := d.Proxied(rule)
		done, err := proxied.CouponAdmin().Create(t.Context(), made)
		require.NoError(t, err)
		require.True(t, lost.Load())
		require.True(t, done.Changed)
		require.EqualValues(t, d.Number("SELECT MAX(id) FROM coupon"), done.After.ID)
		require.EqualValues(t, i+1, d.Number("SELECT COUNT(*) FROM coupon"))
		d.Verify(done.After.ID)
	}
}

// With the same key there is one coupon, whoever asks for it, and also when it was changed since.
func TestCreate_WithAKeyIsSafeToRepeat(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	now := d.Now()
	made := couponadmin.NewCoupon{Key: "BF-2026-1", Name: "심야", Seats: 2, Opens: now.Add(123 * time.Nanosecond),
		Closes: now.Add(time.Hour), ValidityDays: 30}
	var creations sync.WaitGroup
	var news atomic.Int64
	for range 50 {
		creations.Go(func() {
			done, err := d.CouponAdmin().Create(t.Context(), made)
			if assert.NoError(t, err) && done.Changed {
				news.Add(1)
			}
		})
	}
	creations.Wait()
	require.EqualValues(t, 1, news.Load())
	require.EqualValues(t, 1, d.Number("SELECT COUNT(*) FROM coupon"))
	id := coupon.CouponID(d.Number("SELECT id FROM coupon"))
	require.NoError(t, d.AddSeats(id, 5))
	d.SetWindow(id, now.Add(-2*time.Hour), now.Add(-time.Hour))
	again, err := d.CouponAdmin().Create(t.Context(), made)
	require.NoError(t, err)
	require.Equal(t, id, again.After.ID)
	require.False(t, again.Changed)
	require.Equal(t, 7, again.After.TotalQuantity)

	other := made
	other.Seats++
	_, err = d.CouponAdmin().Create(t.Context(), other)
	require.True(t, text.Is(err, text.KeyReused), err)
	other.Key = "bf-2026-1"
	done, err := d.CouponAdmin().Create(t.Context(), other)
	require.NoError(t, err)
	require.NotEqual(t, id, done.After.ID, "keys have upper and lower case")
	require.Len(t, d.Payloads(id, audit.CouponCreated), 1)
}

// MySQL has lost the last coupons, and gives their ids again. Their people stay where they are, and get nothing of
// another coupon.
func TestCreate_LeavesOutIDsThatRedisKnows(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	kept := d.AddQueue(1, 1)
	lost := d.AddQueue(1, 2, 3)
	d.AddCoupon(1) // nobody has applied for it
	for _, table := range []string{"journal", "line_journal", "settled"} {
		d.Exec("DELETE FROM "+table+" WHERE coupon_id >= ?", lost)
	}
	d.Exec("DELETE FROM coupon WHERE id >= ?", lost)
	d.Exec(fmt.Sprint("ALTER TABLE coupon AUTO_INCREMENT = ", lost))
	now := d.Now()
	made, err := d.CouponAdmin().Create(t.Context(), couponadmin.NewCoupon{Name: "심야", Seats: 2, Opens: now,
		Closes: now.Add(time.Hour), ValidityDays: 30})
	require.NoError(t, err)
	require.Equal(t, lost+2, made.After.ID)
	require.Equal(t, 2, made.Skipped)
	require.Equal(t, []string{"2", "3"}, d.Waiting(lost))
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1}, d.Issued(kept))
	require.Empty(t, d.Issued(made.After.ID))
}

// While MySQL lacks winners, nobody gets the seat that the first of them was told, and no seat of theirs is taken away
// before they have it again.
func TestChange_WaitsForWinnersThatMySQLHasLost(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(1, 2, 3)
	id := d.AddCoupon(2)
	before, err := d.CopyTables(t.Context())
	require.NoError(t, err)
	d.Apply(id, 1, 2)
	d.SettleNow()
	d.PutTablesBack(before)
	admin := d.CouponAdmin()
	_, err = admin.SetSeats(t.Context(), id, 1)
	require.True(t, text.Is(err, text.SeatsWait), err)
	_, err = admin.Grant(t.Context(), id, couponadmin.Grantee{User: 3, Users: d.Users, Zone: time.UTC})
	require.True(t, text.Is(err, text.GrantWaits), err)
	require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(err))
	listed := couponadmin.Grantees{List: userlist.List{Users: []coupon.UserID{1, 3}}, Users: d.Users, Zone: time.UTC}
	_, err = admin.GrantList(t.Context(), id, listed)
	require.True(t, text.Is(err, text.GrantWaits), err)
	d.Restore(id)
	_, err = admin.SetSeats(t.Context(), id, 1)
	require.True(t, text.Is(err, text.RefusedFewerSeats), err)
	d.SettleNow()
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(id))
	_, err = admin.SetSeats(t.Context(), id, 5)
	require.NoError(t, err)
	_, err = admin.SetSeats(t.Context(), id, 2)
	require.NoError(t, err)
	_, err = admin.Grant(t.Context(), id, couponadmin.Grantee{User: 3, Users: d.Users, Zone: time.UTC})
	require.NoError(t, err)
	require.EqualValues(t, 3, d.Number("SELECT COUNT(*) FROM user_coupon"))
	made, err := admin.GrantList(t.Context(), id, listed)
	require.NoError(t, err)
	require.Equal(t, 2, made.Held)
	d.Verify(id)
}
