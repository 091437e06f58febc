package couponadmin_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/wallet"
)

// inTwoYears is a midnight.
// inTwoYears is the same in all tests, also after midnight.
var inTwoYears = time.Now().UTC().AddDate(2, 0, 0).Truncate(24 * time.Hour)

// Each seat goes to exactly the next in line, while a run issues at the same time.
func TestRevoke_FreesASeatBesideARun(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*settle.Settler, *jajeongtest.Deployment, coupon.CouponID) error{
		"nightly": func(s *settle.Settler, d *jajeongtest.Deployment, couponID coupon.CouponID) error {
			_, err := s.RunOnce(d.T.Context(), jajeongtest.Manual(couponID))
			return err
		},
		"immediate": func(s *settle.Settler, d *jajeongtest.Deployment, couponID coupon.CouponID) error {
			if made := s.IssueNow(d.T.Context(), couponID); made.Status != coupon.Busy { // it does not wait for the coupon's lock
				return made.Err()
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDeployment(t)
			const seats, rounds = 5, 5
			users := jajeongtest.Between[coupon.UserID](1, 20)
			var couponID coupon.CouponID
			if name == "immediate" {
				couponID = d.AddImmediate(seats, users...)
			} else {
				couponID = d.AddQueue(seats, users...)
			}
			settler := d.Settler()
			require.NoError(t, run(settler, d.Deployment, couponID))
			for i := range rounds {
				var together sync.WaitGroup
				var ran, revoked error
				together.Go(func() { ran = run(settler, d.Deployment, couponID) })
				together.Go(func() { _, revoked = d.admin.Revoke(t.Context(), couponID, users[i], true) })
				together.Wait()
				require.NoError(t, ran)
				require.NoError(t, revoked)
			}
			d.SettleNow()
			require.Equal(t, users[:seats+rounds], d.Issued(couponID), "the next in line, in order")
			require.EqualValues(t, seats, d.Number("SELECT COUNT(*) FROM user_coupon WHERE status = 'ISSUED'"))
			require.EqualValues(t, seats+rounds, d.Number("SELECT total_quantity FROM coupon"))
			d.Verify()
		})
	}
}

func TestRevoke_UnfinalisesForTheNextInLine(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	now := d.Now()
	couponID := d.AddCouponBetween(1, now.Add(-96*time.Hour), now.Add(-72*time.Hour))
	d.AddUsers(1, 2, 3)
	for user := range 3 {
		d.ApplyAt(couponID, fmt.Sprint(user+1), now.Add(-80*time.Hour).Add(time.Duration(user)*time.Second))
	}
	night := func() { d.SettleAs(jajeongtest.Nightly(time.Time{})) }
	finalised := func() bool { return d.Number("SELECT finalised_at IS NOT NULL FROM coupon") == 1 }
	night()
	require.True(t, finalised())
	require.Equal(t, []coupon.UserID{2, 3}, d.Outcome(couponID, "NOT_SELECTED"))

	d.changed(d.admin.Revoke(t.Context(), couponID, 1, false))
	require.True(t, finalised(), "no seat, no run")
	d.changed(d.admin.Reissue(t.Context(), couponID, 1))
	d.changed(d.admin.ExtendUser(t.Context(), couponID, 1, inTwoYears))
	require.True(t, finalised())
	d.changed(d.admin.Revoke(t.Context(), couponID, 1, true))
	require.False(t, finalised())
	require.Len(t, d.audited(couponID, "COUPON_UNFINALISED"), 1)
	night()
	require.True(t, finalised())
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(couponID))
	require.Equal(t, []coupon.UserID{3}, d.Outcome(couponID, "NOT_SELECTED"))
	d.Verify()
}

// A pause and a freeze concern applications and runs, not the coupons that users have.
func TestHolders_ChangeWhileTheCouponIsPausedOrFrozen(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*couponadmin.Admin) change{
		"paused": func(a *couponadmin.Admin) change { return a.Pause },
		"frozen": func(a *couponadmin.Admin) change { return a.Freeze },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDeployment(t)
			couponID := d.AddQueue(2, 1)
			d.SettleNow()
			d.done(stop(d.admin)(t.Context(), couponID))
			was := jajeongtest.Column[string](d.Deployment, "SELECT CONCAT(status, frozen, cadence, apply_closes_at) FROM coupon")
			require.True(t, d.changed(d.admin.Revoke(t.Context(), couponID, 1, true)).Changed)
			require.True(t, d.changed(d.admin.Reissue(t.Context(), couponID, 1)).Changed)
			require.True(t, d.changed(d.admin.ExtendUser(t.Context(), couponID, 1, inTwoYears)).Changed)
			require.Equal(t, was, jajeongtest.Column[string](d.Deployment, "SELECT CONCAT(status, frozen, cadence, apply_closes_at) FROM coupon"))
			d.Verify()
		})
	}
}

// Checkout uses the coupon, or an operator revokes it; never both.
func TestRevoke_BesideOrdersOfAStore(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	couponID := d.AddQueue(1, 1)
	d.SettleNow()
	pool, err := d.Wallet.Open(connect.Patient, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { _ = pool.Close() })
	store := wallet.NewStore(pool)
	call := func(verb wallet.Verb, order string) (wallet.Code, error) {
		done, err := store.Redeem(t.Context(), couponID, wallet.Call{Verb: verb, Actor: "checkout", OrderID: order, User: 1, AmountWon: 9000, TTL: time.Hour})
		return done.Code, err
	}
	for round := range 15 {
		const orders = 3
		var together sync.WaitGroup
		var confirmed [orders]wallet.Code
		var failed [orders]error
		var revoked error
		for i := range orders {
			order := fmt.Sprintf("A-%d-%d", round, i)
			together.Go(func() {
				code, err := call(wallet.Reserve, order)
				if err == nil && code == wallet.Done {
					confirmed[i], err = call(wallet.Confirm, order)
				}
				failed[i] = err
			})
		}
		together.Go(func() { _, revoked = d.admin.Revoke(t.Context(), couponID, 1, false) })
		together.Wait()
		used := ""
		for i := range orders {
			require.NoError(t, failed[i])
			if confirmed[i] == wallet.Done {
				require.Empty(t, used, "two orders")
				used = fmt.Sprintf("A-%d-%d", round, i)
			}
		}
		require.Equal(t, used == "", revoked == nil, "order %q, revoke: %v", used, revoked)
		if used == "" {
			d.changed(d.admin.Reissue(t.Context(), couponID, 1))
			continue
		}
		require.True(t, text.Is(revoked, text.RefusedUsed) || text.Is(revoked, text.RefusedReserved), revoked)
		code, err := call(wallet.Refund, used)
		require.NoError(t, err)
		require.Equal(t, wallet.Done, code)
	}
	d.Verify()
}

// Each verb takes effect once, if the reply to COMMIT is lost and if the operator runs it again.
func TestHolders_ChangeOnceAfterLostCommitReply(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	couponID := d.AddQueue(1, 1)
	d.SettleNow()
	users := coupon.UserID(10)
	for name, action := range map[string]faultproxy.Action{"applied": faultproxy.DropReply(nil), "not applied": faultproxy.DropRequest(nil)} {
		users++
		user := users
		d.AddUsers(user)
		for _, verb := range []struct {
			name        string
			seats, logs int64
			do          func(d *deployment) (*couponadmin.HolderChange, error)
		}{
			{"grant", 1, 1, func(d *deployment) (*couponadmin.HolderChange, error) { return d.grant(couponID, user) }},
			{"extend-user", 0, 1, func(d *deployment) (*couponadmin.HolderChange, error) {
				return d.admin.ExtendUser(d.T.Context(), couponID, user, inTwoYears)
			}},
			{"revoke", 1, 1, func(d *deployment) (*couponadmin.HolderChange, error) {
				return d.admin.Revoke(d.T.Context(), couponID, user, true)
			}},
			{"reissue", -1, 1, func(d *deployment) (*couponadmin.HolderChange, error) {
				return d.admin.Reissue(d.T.Context(), couponID, user)
			}},
		} {
			if name == "not applied" && verb.name != "grant" {
				continue // all verbs repeat a transaction in the same way
			}
			t.Run(verb.name+", "+name, func(t *testing.T) {
				rule, lost := commitOfChange(func() faultproxy.Action { return action })
				_, proxied := d.For(t).Proxied(rule)
				seats := func() int64 { return d.Number("SELECT total_quantity FROM coupon WHERE id = ?", couponID) }
				count := func(of string) int64 { return d.Number("SELECT COUNT(*) FROM " + of) }
				wasSeats, wasLogs, wasEvents := seats(), count("coupon_log"), count("audit_event")
				made, err := verb.do(&deployment{proxied, proxied.CouponAdmin()})
				require.NoError(t, err)
				require.True(t, lost.Load())
				require.True(t, made.Changed)
				require.EqualValues(t, wasSeats+verb.seats, made.After.TotalQuantity)
				require.False(t, d.changed(verb.do(d)).Changed, "a second run")
				require.Equal(t, []int64{wasSeats + verb.seats, wasLogs + verb.logs, wasEvents + 1}, []int64{seats(), count("coupon_log"), count("audit_event")})
			})
		}
	}
	d.Verify()
}
