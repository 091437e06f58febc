package verify_test

import (
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verify"
	"github.com/jajeong/jajeong/internal/wallet"
)

// setSeats changes the seats after the last run.
func setSeats(seats int) func(*fixture) { return func(c *fixture) { c.SetSeats(c.id, seats) } }

func addApplicants(n uint64) func(*fixture) { return func(c *fixture) { c.addApplicants(n) } }

func settleNow(c *fixture) { c.settleNow() }

// acceptGap settles the coupon and accepts its gap.
func acceptGap(c *fixture) {
	order := jajeongtest.Manual(c.id)
	order.AcceptGap = true
	require.Empty(c.T, c.run(order).Error)
}

func TestCheckFindsNothingInHealthyCoupons(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	for name, test := range map[string]struct {
		seats int
		do    func(*fixture)
		want  verify.Account
	}{
		"no application":  {5, func(*fixture) {}, verify.Account{}},
		"never published": {5, func(c *fixture) { c.redis(1, "DEL", c.keys()...) }, verify.Account{}},
		"no application, settled": {5, func(c *fixture) {
			require.Equal(c.T, coupon.Unchanged,
				c.settleNow().Status)
		}, verify.Account{}},
		"waiting, two of unknown users": {5, func(c *fixture) { c.addUsers(1, 7); c.apply(1, 9) },
			verify.Account{Accepted: 9, Waiting: 9}},
		"more than one page waiting": {5, addApplicants(1100), verify.Account{Accepted: 1100, Waiting: 1100}},
		"free seats": {50, all(addApplicants(6), settleNow, func(c *fixture) { c.apply(7, 9) }),
			verify.Account{Accepted: 9, Waiting: 3, Issued: 6}},
		"sold out": {5, func(c *fixture) {
			c.addApplicants(9)
			require.Equal(c.T, 4, c.settleNow().NotSelected)
		}, verify.Account{Accepted: 9, Issued: 5, Outcomes: 4}},
		"as many applications as seats": {5, func(c *fixture) {
			c.addApplicants(5)
			require.Zero(c.T, c.settleNow().SeatsLeft)
		}, verify.Account{Accepted: 5, Issued: 5}},
		"settled repeatedly": {20, func(c *fixture) {
			c.addUsers(1, 9)
			for n := uint64(1); n <= 9; n += 3 {
				c.apply(n, n+2)
				c.settleNow()
				c.settleNow()
			}
		}, verify.Account{Accepted: 9, Issued: 9}},
		"in the DLQ": {5, func(c *fixture) {
			c.addUsers(1, 3)
			c.addUsers(5, 9)
			c.setStatus(jajeongtest.Blocked, 1, 2)
			c.setStatus(jajeongtest.Withdrawn, 3, 3)
			c.apply(1, 9)
			require.Equal(c.T, 4, c.settleNow().UnderReview)
		}, verify.Account{Accepted: 9, UnderReview: 4, Issued: 5}},
		"in the DLQ, active since": {5, func(c *fixture) {
			c.addUsers(1, 9)
			c.setStatus(jajeongtest.Blocked, 1, 2)
			c.apply(1, 9)
			c.settleNow()
			c.setStatus(jajeongtest.Active, 1, 2)
		}, verify.Account{Accepted: 9, UnderReview: 2, Issued: 5, Outcomes: 2}},
		"members that are no user ids": {5, func(c *fixture) {
			c.addUsers(1, 3)
			c.apply(1, 1)
			for _, member := range []string{"kim", "0", "0" + c.member(2)} {
				c.ApplyAt(c.id, member, c.Now())
			}
			c.apply(3, 3)
			require.Equal(c.T, 3, c.settleNow().UnderReview)
		}, verify.Account{Accepted: 5, UnderReview: 3, Issued: 2}},
		"the largest user ids": {5, func(c *fixture) {
			line := []coupon.UserID{math.MaxUint64, math.MaxUint64 - 1, 1 << 63, 1<<53 + 1}
			c.AddUsers(line...)
			c.Apply(c.id, line...)
			require.Equal(c.T, 4, c.settleNow().Issued)
			require.Equal(c.T, line, c.Issued(c.id))
		}, verify.Account{Accepted: 4, Issued: 4}},
		"by hand": {3, func(c *fixture) {
			c.addUsers(1, 9)
			c.giveByHand(1)
			c.apply(2, 5)
			c.settleNow()
		}, verify.Account{Accepted: 4, Issued: 2, Outcomes: 2}},
		"by hand to applicants": {3, func(c *fixture) {
			all(addApplicants(5), giveByHand(1), giveByHand(5))(c)
			require.Equal(c.T, 2, c.settleNow().AlreadyIssued)
		}, verify.Account{Accepted: 5, Issued: 1, Outcomes: 4}},
		"by hand to a user not selected": {3, func(c *fixture) {
			all(addApplicants(7), settleNow, setSeats(6), giveByHand(4), settleNow)(c)
			require.Equal(c.T, []coupon.UserID{c.user(1), c.user(2), c.user(3), c.user(4), c.user(5), c.user(6)},
				c.holders())
		}, verify.Account{Accepted: 7, Issued: 5, Outcomes: 2}},
		"seats added": {3, all(addApplicants(9), settleNow, setSeats(5)),
			verify.Account{Accepted: 9, Issued: 3, Outcomes: 6}},
		"seats added and settled": {3, func(c *fixture) {
			all(addApplicants(9), settleNow)(c)
			c.setStatus(jajeongtest.Blocked, 4, 4) // becomes REJECTED
			all(setSeats(5), settleNow)(c)
			require.Equal(c.T, []coupon.UserID{c.user(1), c.user(2), c.user(3), c.user(5), c.user(6)}, c.holders())
		}, verify.Account{Accepted: 9, Issued: 5, Outcomes: 4}},
		"more seats added than needed": {3, func(c *fixture) {
			all(addApplicants(9), settleNow, setSeats(20), settleNow)(c)
			c.apply(10, 12)
		}, verify.Account{Accepted: 12, Waiting: 3, Issued: 9}},
		"issued by immediate runs": {7, func(c *fixture) {
			alterCoupon("cadence = 'IMMEDIATE'")(c)
			c.addUsers(1, 9)
			c.setStatus(jajeongtest.Blocked, 3, 3)
			for n := uint64(1); n <= 9; n += 3 {
				c.apply(n, n+2)
				require.Empty(c.T, c.IssueNow(c.id).Error)
			}
			require.Len(c.T, c.Runs(c.id), 3)
			alterCoupon("cadence = 'NIGHTLY'")(c)
		}, verify.Account{Accepted: 9, UnderReview: 1, Issued: 7, Outcomes: 1}},
		"immediate and nightly in turn": {3, func(c *fixture) {
			c.addApplicants(5)
			c.settleNow()
			alterCoupon("cadence = 'IMMEDIATE'")(c)
			setSeats(4)(c)
			c.settleNow() // the sum of outcomes falls
			c.addUsers(6, 7)
			setSeats(9)(c)
			c.settleNow()
			c.apply(6, 7)
			require.Equal(c.T, 2, c.IssueNow(c.id).Issued)
		}, verify.Account{Accepted: 7, Issued: 7}},
		"a gap accepted": {9, all(addApplicants(9), redis(2, "ZREM", "queue", 3, 4), acceptGap),
			verify.Account{Accepted: 9, Issued: 7, WrittenOff: 2}},
		"used and revoked": {9, all(addApplicants(9), settleNow, redeemed(1, reserve, confirm),
			func(c *fixture) { c.byOperator(2, wallet.Call{Verb: wallet.Revoke}) }),
			verify.Account{Accepted: 9, Issued: 9}},
		"winners blocked and removed": {3, func(c *fixture) {
			all(addApplicants(9), settleNow)(c)
			c.setStatus(jajeongtest.Blocked, 1, 2)
			c.RemoveUser(c.user(3))
		}, verify.Account{Accepted: 9, Issued: 3, Outcomes: 6}},
		"finalised": {3, func(c *fixture) {
			all(addApplicants(9), (*fixture).close, settleNow)(c)
			require.True(c.T, c.finalised())
			c.redis(2, "EXISTS", c.keys()...) // its state, for ten minutes, and the marks
		}, verify.Account{Accepted: 9, Issued: 3, Outcomes: 6}},
		"finalised, its state expired": {3, all(addApplicants(9), (*fixture).close, settleNow,
			redis(1, "DEL", "state")),
			verify.Account{Accepted: 9, Issued: 3, Outcomes: 6}},
		"Redis emptied after the settlement": {3, func(c *fixture) {
			all(addApplicants(9), settleNow)(c)
			c.redis(2, "DEL", c.keys()...)
		}, verify.Account{Accepted: 9, Issued: 3, Outcomes: 6}},
		"Redis emptied, then users apply again": {3, func(c *fixture) {
			c.addUsers(1, 9)
			c.apply(1, 2)
			asPod := func(s *settle.Settler) { s.Line, s.Door = c.Store, c.Store }
			require.Empty(c.T, c.run(jajeongtest.Manual(c.id), asPod).Error)
			c.redis(2, "DEL", c.keys()...)
			c.SetWindow(c.id, c.Now().Add(-time.Hour), c.Now().Add(time.Hour))
			_, err := c.Store.ApplyAll(c.T.Context(), c.id, jajeongtest.Between(c.user(1), c.user(4)))
			require.NoError(c.T, err)
			require.Equal(c.T, 2, c.settleNow().AlreadyIssued)
		}, verify.Account{Accepted: 6, Issued: 3, Outcomes: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := d.newCoupon(t, test.seats)
			test.do(c)
			v := c.requireHealthy()
			v.Account.LastArrival = 0
			require.Equal(t, test.want, v.Account)
			require.Equal(t, "심야 쿠폰", v.Name)
			require.Equal(t, c.Number("SELECT total_quantity FROM coupon WHERE id = ?", c.id), v.TotalQuantity)
			require.Equal(t, c.Number("SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ?", c.id), v.Coupons)
			require.Equal(t, v.Coupons, v.IssuedCount)
		})
	}
	t.Run("everything", func(t *testing.T) {
		t.Parallel()
		v := d.populated(t).requireHealthy()
		v.Account.LastArrival = 0
		require.Equal(t, populatedAccount, v.Account)
	})
}

// holders are the holders of the coupon, by user id.
func (c *fixture) holders() []coupon.UserID {
	c.T.Helper()
	return jajeongtest.Column[coupon.UserID](c.Deployment,
		"SELECT user_id FROM user_coupon WHERE coupon_id = ? ORDER BY user_id", c.id)
}

func (c *fixture) finalised() bool {
	c.T.Helper()
	return c.Number("SELECT finalised_at IS NOT NULL FROM coupon WHERE id = ?", c.id) == 1
}

// The coupon has more marks than one SSCAN returns and more applications than one page, with settled ones in every
// page.
func TestCheckReadsLongQueuesAndManyMarks(t *testing.T) {
	t.Parallel()
	const winners, losers = 1200, 20
	c := newCoupon(t, winners)
	c.addApplicants(winners + losers)
	require.Equal(t, winners, c.settleNow().Issued)
	c.requireHealthy()

	pipe := c.Redis.Pipeline()
	rows, err := c.DB.Query("SELECT user_id, applied_at FROM user_coupon WHERE coupon_id = ? AND position % 2 = 1",
		c.id)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var user coupon.UserID
		var at time.Time
		require.NoError(t, rows.Scan(&user, &at))
		pipe.Do(t.Context(), "ZADD", c.queue(), at.UnixMicro(), user.Member())
	}
	require.NoError(t, rows.Err())
	_, err = pipe.Exec(t.Context())
	require.NoError(t, err)
	redis(3, "ZADD", "issued", "0", winners+1, "0", winners+losers+1, "0", "kim")(c)
	v := c.check()
	requireFindings(t, found{verify.StillStanding: winners / 2, verify.MarkedWithoutCoupon: 3}, v)
	require.EqualValues(t, winners/2, v.Account.InBoth)
}

// The audit events explain the seats: of a coupon that an operator created from the first, of another since its first
// event.
func TestCheckAddsUpSeats(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	verdict := func(c *fixture) *verify.Verdict {
		v, err := c.verifier.Check(t.Context(), c.DB, c.id)
		require.NoError(t, err)
		return v
	}
	must := func(_ any, err error) { require.NoError(t, err) }
	admin := d.CouponAdmin()
	created, err := admin.Create(t.Context(),
		couponadmin.NewCoupon{Name: "created", Seats: 3, ValidityDays: 1, Opens: d.Now(),
			Closes: d.Now().Add(time.Hour)})
	require.NoError(t, err)
	bySQL, silent := d.newCoupon(t, 3), d.newCoupon(t, 3)
	byAdmin := *bySQL
	byAdmin.id = created.After.ID

	requireFindings(t, found{verify.CreatedBySQL: 1}, verdict(silent))
	alterCoupon("total_quantity = 4")(silent) // nothing tells that it was another number
	bySQL.addApplicants(5)                    // two are not selected: more seats reopen the coupon
	bySQL.run(settle.Order{Trigger: coupon.Cron, CutoffNow: true, Coupons: []coupon.CouponID{bySQL.id}})
	bySQL.close()
	alterCoupon("finalised_at = apply_closes_at")(bySQL)
	for _, c := range []*fixture{&byAdmin, bySQL, silent} {
		c.addUsers(7, 7)
		must(admin.AddSeats(t.Context(), c.id, 2))
		must(admin.Grant(t.Context(), c.id, couponadmin.Grantee{User: c.user(7), Users: c.Users,
			Zone: jajeongtest.Zone}))
		must(admin.Revoke(t.Context(), c.id, c.user(7), true))
		must(admin.Reissue(t.Context(), c.id, c.user(7)))
		must(admin.Revoke(t.Context(), c.id, c.user(7), true))
		warnings := found{}
		if c != &byAdmin {
			warnings = found{verify.CreatedBySQL: 1}
		}
		requireFindings(t, warnings, verdict(c))
		alterCoupon("total_quantity = total_quantity + 7")(c)
		require.NoError(t, c.Audit(auditOrigin, audit.DLQDropped, c.id, audit.Entry{})) // no later event covers it up
		with := maps.Clone(warnings)
		with[verify.SeatsUnexplained] = 7
		requireFindings(t, with, verdict(c))
		alterCoupon("total_quantity = total_quantity - 7")(c)
		requireFindings(t, warnings, verdict(c))
	}
}

func TestCheckOfAnUnknownCoupon(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 1)
	_, err := c.verifier.Check(t.Context(), c.DB, c.id+1)
	require.True(t, text.Is(err, text.NoSuchCoupon))
	require.EqualError(t, err, fmt.Sprintf("coupon %d does not exist", c.id+1))
}

func TestCheckIgnoresOtherCoupons(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	healthy, sick := d.newCoupon(t, 3), d.newCoupon(t, 3)
	for _, c := range []*fixture{healthy, sick} {
		c.addApplicants(5)
		c.settleNow()
	}
	remove("user_coupon", 2)(sick)
	sick.change(1, "DELETE FROM settlement WHERE coupon_id = ?", sick.id)
	other, err := candidates.NewStore(d.Redis, candidates.Options{KeyPrefix: d.Prefix + "other:"})
	require.NoError(t, err)
	_, _, err = other.Publish(t.Context(), coupon.Window{Coupon: healthy.id, Version: 1, Opens: healthy.Now(),
		Closes: healthy.Now().Add(time.Hour)}, 0)
	require.NoError(t, err)
	_, err = other.Apply(t.Context(), healthy.id, healthy.user(5))
	require.NoError(t, err)
	healthy.requireHealthy()
	require.True(t, sick.check().Violated())

	redis(1, "ZADD", "issued", "0", sick.member(1))(healthy)
	requireFindings(t, found{verify.MarkedWithoutCoupon: 1}, healthy.check()) // the user holds the other coupon
}
