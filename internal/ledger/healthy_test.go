package ledger_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/settle"
)

// The account has the place of every application. Another test checks LastArrival.
func TestCheckFindsNothingInHealthyCoupons(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	for name, test := range map[string]struct {
		seats int
		live  func(*fixture)
		want  ledger.Account
	}{
		"nothing applied": {5, func(c *fixture) {}, ledger.Account{}},
		"never published": {5, func(c *fixture) { require.NoError(c.t, c.rdb.Del(c.t.Context(), c.keys()...).Err()) }, ledger.Account{}},
		"nothing applied, settled": {5, func(c *fixture) {
			require.Equal(c.t, coupon.Unchanged, c.settleNow().Status)
		}, ledger.Account{}},
		"applied only": {5, func(c *fixture) {
			c.users("ACTIVE", 1, 7)
			c.apply(1, 9) // two are no users
		}, ledger.Account{Accepted: 9, Waiting: 9}},
		"more than a page waits": {5, func(c *fixture) {
			c.users("ACTIVE", 1, 1100)
			c.apply(1, 1100)
		}, ledger.Account{Accepted: 1100, Waiting: 1100}},
		"seats free": {50, func(c *fixture) {
			c.users("ACTIVE", 1, 9)
			c.apply(1, 6)
			c.settleNow()
			c.apply(7, 9)
		}, ledger.Account{Accepted: 9, Waiting: 3, Issued: 6}},
		"sold out": {5, func(c *fixture) {
			c.users("ACTIVE", 1, 9)
			c.apply(1, 9)
			require.Equal(c.t, 4, c.settleNow().NotSelected)
		}, ledger.Account{Accepted: 9, Issued: 5, Outcomes: 4}},
		"sold out to the seat": {5, func(c *fixture) {
			c.users("ACTIVE", 1, 5)
			c.apply(1, 5)
			require.Zero(c.t, c.settleNow().SeatsLeft)
		}, ledger.Account{Accepted: 5, Issued: 5}},
		"settled again and again": {5, func(c *fixture) {
			c.users("ACTIVE", 1, 9)
			for n := uint64(1); n <= 9; n += 3 {
				c.apply(n, n+2)
				if n == 4 {
					c.exec("UPDATE coupon SET total_quantity = 20 WHERE id = ?", c.id) // or the door would say SOLD_OUT
				}
				c.settleNow()
				c.settleNow()
			}
		}, ledger.Account{Accepted: 9, Issued: 9}},
		"under review": {5, func(c *fixture) {
			c.users("BLOCKED", 1, 2)
			c.users("WITHDRAWN", 3, 3)
			c.users("ACTIVE", 5, 9)
			c.apply(1, 9)
			require.Equal(c.t, 4, c.settleNow().UnderReview)
		}, ledger.Account{Accepted: 9, UnderReview: 4, Issued: 5}},
		"under review, then active": {5, func(c *fixture) {
			c.users("BLOCKED", 1, 2)
			c.users("ACTIVE", 3, 9)
			c.apply(1, 9)
			c.settleNow()
			c.exec("UPDATE `user` SET status = 'ACTIVE' WHERE id IN (?, ?)", c.user(1), c.user(2))
		}, ledger.Account{Accepted: 9, UnderReview: 2, Issued: 5, Outcomes: 2}},
		"a member that is no user id": {5, func(c *fixture) {
			c.users("ACTIVE", 1, 3)
			c.apply(1, 1)
			c.add(c.queue(), "kim", c.now())
			c.add(c.queue(), "0", c.now())
			c.add(c.queue(), fmt.Sprintf("0%d", c.user(2)), c.now())
			c.promised(3)
			c.apply(3, 3)
			require.Equal(c.t, 3, c.settleNow().UnderReview)
		}, ledger.Account{Accepted: 5, UnderReview: 3, Issued: 2}},
		"the largest user ids": {5, func(c *fixture) {
			c.exec("INSERT INTO `user` (id) VALUES (18446744073709551614), (18446744073709551615)")
			for _, user := range []uint64{1<<64 - 1, 1<<64 - 2} {
				_, err := c.store.Apply(c.t.Context(), c.id, user)
				require.NoError(c.t, err)
			}
			require.Equal(c.t, 2, c.settleNow().Issued)
		}, ledger.Account{Accepted: 2, Issued: 2}},
		"given by hand": {3, func(c *fixture) {
			c.users("ACTIVE", 1, 9)
			c.give(1)
			c.apply(2, 5)
			c.settleNow()
		}, ledger.Account{Accepted: 4, Issued: 2, Outcomes: 2}},
		"given by hand to who applied": {3, func(c *fixture) {
			c.users("ACTIVE", 1, 9)
			c.apply(1, 5)
			c.give(1)
			c.give(5)
			require.Equal(c.t, 2, c.settleNow().AlreadyIssued)
		}, ledger.Account{Accepted: 5, Issued: 1, Outcomes: 4}},
		"given by hand to who was not selected": {3, func(c *fixture) {
			c.users("ACTIVE", 1, 9)
			c.apply(1, 7)
			c.settleNow()
			c.exec("UPDATE coupon SET total_quantity = 6 WHERE id = ?", c.id)
			c.give(4)
			c.settleNow()
			require.Equal(c.t, []uint64{c.user(1), c.user(2), c.user(3), c.user(4), c.user(5), c.user(6)}, c.holders())
		}, ledger.Account{Accepted: 7, Issued: 5, Outcomes: 2}},
		"seats added": {3, func(c *fixture) {
			c.users("ACTIVE", 1, 9)
			c.apply(1, 9)
			c.settleNow()
			c.exec("UPDATE coupon SET total_quantity = 5 WHERE id = ?", c.id)
		}, ledger.Account{Accepted: 9, Issued: 3, Outcomes: 6}},
		"seats added and settled": {3, func(c *fixture) {
			c.users("ACTIVE", 1, 9)
			c.apply(1, 9)
			c.settleNow()
			c.exec("UPDATE `user` SET status = 'BLOCKED' WHERE id = ?", c.user(4)) // REJECTED instead
			c.exec("UPDATE coupon SET total_quantity = 5 WHERE id = ?", c.id)
			c.settleNow()
			require.Equal(c.t, []uint64{c.user(1), c.user(2), c.user(3), c.user(5), c.user(6)}, c.holders())
		}, ledger.Account{Accepted: 9, Issued: 5, Outcomes: 4}},
		"more seats added than needed": {3, func(c *fixture) {
			c.users("ACTIVE", 1, 12)
			c.apply(1, 9)
			c.settleNow()
			c.exec("UPDATE coupon SET total_quantity = 20 WHERE id = ?", c.id)
			c.settleNow()
			c.apply(10, 12)
		}, ledger.Account{Accepted: 12, Waiting: 3, Issued: 9}},
		"a lost application accepted as lost": {9, func(c *fixture) {
			c.users("ACTIVE", 1, 9)
			c.apply(1, 9)
			c.wrote(2)(c.rdb.ZRem(c.t.Context(), c.queue(), c.member(3), c.member(4)).Result())
			c.settle(settle.Order{CutoffNow: true, AcceptGap: true})
		}, ledger.Account{Accepted: 9, Issued: 7, WrittenOff: 2}},
		"redeemed and revoked": {9, func(c *fixture) {
			c.users("ACTIVE", 1, 9)
			c.apply(1, 9)
			c.settleNow()
			c.exec("UPDATE user_coupon SET status = 'USED' WHERE user_id = ?", c.user(1))
			c.exec("UPDATE user_coupon SET status = 'REVOKED' WHERE user_id = ?", c.user(2))
		}, ledger.Account{Accepted: 9, Issued: 9}},
		"winners blocked and withdrawn": {3, func(c *fixture) {
			c.users("ACTIVE", 1, 9)
			c.apply(1, 9)
			c.settleNow()
			c.exec("UPDATE `user` SET status = 'BLOCKED' WHERE id BETWEEN ? AND ?", c.user(1), c.user(2))
			c.change(1, "DELETE FROM `user` WHERE id = ?", c.user(3))
		}, ledger.Account{Accepted: 9, Issued: 3, Outcomes: 6}},
		"finalised and swept": {3, func(c *fixture) {
			c.users("ACTIVE", 1, 9)
			c.apply(1, 9)
			c.shut()
			c.settleNow()
			require.EqualValues(c.t, 1, c.number("SELECT COUNT(*) FROM coupon WHERE id = ? AND finalised_at IS NOT NULL", c.id))
			c.wrote(1)(c.rdb.Exists(c.t.Context(), c.keys()...).Result()) // its state, for ten minutes
		}, ledger.Account{Accepted: 9, Issued: 3, Outcomes: 6}},
		"finalised, swept and the state gone": {3, func(c *fixture) {
			c.users("ACTIVE", 1, 9)
			c.apply(1, 9)
			c.shut()
			c.settleNow()
			c.wrote(1)(c.rdb.Del(c.t.Context(), c.state()).Result())
		}, ledger.Account{Accepted: 9, Issued: 3, Outcomes: 6}},
		"redis emptied after all was settled": {3, func(c *fixture) {
			c.users("ACTIVE", 1, 9)
			c.apply(1, 9)
			c.settleNow()
			c.wrote(2)(c.rdb.Del(c.t.Context(), c.keys()...).Result())
		}, ledger.Account{Accepted: 9, Issued: 3, Outcomes: 6}},
		"redis emptied, then applied again": {3, func(c *fixture) {
			c.users("ACTIVE", 1, 9)
			c.apply(1, 2)
			c.settleNow()
			c.wrote(2)(c.rdb.Del(c.t.Context(), c.keys()...).Result())
			c.publish(c.now().Add(1e12)) // and this process remembers the counter
			c.apply(1, 4)                // two of them again, who get their first arrivals back and are known by these
			require.Zero(c.t, c.settleNow().AlreadyIssued)
		}, ledger.Account{Accepted: 6, AskedAgain: 2, Issued: 3, Outcomes: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := d.newCoupon(t, test.seats)
			test.live(c)
			v := c.healthy()
			v.Account.LastArrival, v.Account.CountedSince = 0, 0
			require.Equal(t, test.want, v.Account)
			require.Equal(t, "심야 쿠폰", v.Name)
			require.Equal(t, c.number("SELECT total_quantity FROM coupon WHERE id = ?", c.id), v.TotalQuantity)
			require.Equal(t, c.number("SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ?", c.id), v.Coupons)
			require.Equal(t, v.Coupons, v.IssuedCount)
		})
	}
	t.Run("of everything something", func(t *testing.T) {
		t.Parallel()
		v := d.worldly(t).healthy()
		v.Account.LastArrival, v.Account.CountedSince = 0, 0
		require.Equal(t, ledger.Account{Accepted: worldlyAccepted, Waiting: 6, UnderReview: 1, Issued: 18, Outcomes: 7}, v.Account)
	})
}

// holders are who hold the coupon, by user id.
func (c *fixture) holders() (ids []uint64) {
	c.t.Helper()
	rows, err := c.db.Query("SELECT user_id FROM user_coupon WHERE coupon_id = ? ORDER BY user_id", c.id)
	require.NoError(c.t, err)
	defer rows.Close()
	for rows.Next() {
		var id uint64
		require.NoError(c.t, rows.Scan(&id))
		ids = append(ids, id)
	}
	require.NoError(c.t, rows.Err())
	return ids
}

// The coupon has more marks than one SSCAN returns and more applications than one page, some of them settled in every page.
func TestCheckReadsLongQueuesAndManyMarks(t *testing.T) {
	t.Parallel()
	const winners, losers = 2600, 300
	c := newCoupon(t, winners)
	c.users("ACTIVE", 1, winners+losers)
	c.apply(1, winners+losers)
	require.Equal(t, winners, c.settleNow().Issued)
	c.healthy()

	for n := uint64(1); n <= winners; n += 2 {
		c.add(c.queue(), c.member(n), c.appliedAt(n))
	}
	c.wrote(3)(c.rdb.SAdd(t.Context(), c.marks(), c.member(winners+1), c.member(winners+losers+1), "kim").Result())
	v := c.check()
	require.Equal(t, map[ledger.Code]int64{ledger.StillStanding: winners / 2, ledger.MarkedWithoutCoupon: 3}, counts(t, v))
	require.EqualValues(t, winners/2, v.Account.Twice)
}

func TestCheckOfAnUnknownCoupon(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 1)
	_, err := c.ledger.Check(t.Context(), c.db, c.id+1)
	require.ErrorIs(t, err, ledger.ErrNoCoupon)
	require.ErrorContains(t, err, fmt.Sprintf("coupon %d", c.id+1))
}

func TestCouponsArePaged(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	ctx := t.Context()
	page, err := d.ledger.Coupons(ctx, d.db, 0, 3)
	require.NoError(t, err)
	require.Empty(t, page)

	var want []uint64
	for range 7 {
		want = append(want, d.newCoupon(t, 1).id)
	}
	gone := want[3]
	want = append(want[:3], want[4:]...)
	_, err = d.db.Exec("DELETE FROM coupon WHERE id = ?", gone)
	require.NoError(t, err)

	for limit := 1; limit <= 8; limit++ {
		var all []uint64
		for after := uint64(0); ; {
			page, err := d.ledger.Coupons(ctx, d.db, after, limit)
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			require.Len(t, page, min(limit, len(want)-len(all)), "every page but the last is full")
			all, after = append(all, page...), page[len(page)-1]
		}
		require.Equal(t, want, all, "pages of %d", limit)
	}
	page, err = d.ledger.Coupons(ctx, d.db, gone, 2)
	require.NoError(t, err)
	require.Equal(t, want[3:5], page, "the coupon behind which to go on may be gone")
}

// A verdict depends neither on other coupons nor on another deployment in the same Redis.
func TestCheckLeavesOtherCouponsOut(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	healthy, sick := d.newCoupon(t, 3), d.newCoupon(t, 3)
	for _, c := range []*fixture{healthy, sick} {
		c.users("ACTIVE", 1, 5)
		c.apply(1, 5)
		c.settleNow()
	}
	sick.change(1, "DELETE FROM user_coupon WHERE coupon_id = ? AND user_id = ?", sick.id, sick.user(2))
	sick.change(1, "DELETE FROM settlement WHERE coupon_id = ?", sick.id)
	other, err := candidates.NewStore(d.rdb, candidates.Options{KeyPrefix: d.prefix + "other:", TTL: candidates.MinTTL})
	require.NoError(t, err)
	_, _, err = other.Publish(t.Context(), coupon.Window{Coupon: healthy.id, Version: 1, Opens: healthy.now(), Closes: healthy.now().Add(1e12)}, coupon.Promise{})
	require.NoError(t, err)
	_, err = other.Apply(t.Context(), healthy.id, healthy.user(5))
	require.NoError(t, err)
	healthy.healthy()
	require.True(t, sick.check().Violated())

	healthy.wrote(1)(d.rdb.SAdd(t.Context(), healthy.marks(), sick.member(1)).Result())
	require.Equal(t, map[ledger.Code]int64{ledger.MarkedWithoutCoupon: 1}, counts(t, healthy.check()), "who holds the other coupon")
}
