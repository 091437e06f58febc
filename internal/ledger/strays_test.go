package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/ledger"
)

// Rows of coupons that do not exist are found in every table, and their applications in Redis.
func TestStraysFindsRowsAndKeys(t *testing.T) {
	t.Parallel()
	const nobodys = 77
	for name, test := range map[string]struct {
		do    func(c *fixture)
		codes map[ledger.Code]int64
	}{
		"nothing":                     {func(*fixture) {}, nil},
		"a coupon deleted, untouched": {func(c *fixture) { c.change(1, "DELETE FROM coupon WHERE id = ?", c.id) }, nil},
		"a coupon deleted while people wait": {func(c *fixture) {
			c.apply(1, 5)
			c.keepPromise(c.now())
			c.change(1, "DELETE FROM coupon WHERE id = ?", c.id)
		}, map[ledger.Code]int64{ledger.NeverSettled: 5, ledger.CouponMissing: 1}},
		"a queue of no coupon": {func(c *fixture) {
			key := fmt.Sprintf("%scandidates:coupon:%d", c.prefix, c.id+nobodys)
			c.wrote(2)(c.rdb.ZAdd(c.t.Context(), key, redis.Z{Score: 1, Member: "1"}, redis.Z{Score: 2, Member: "2"}).Result())
		}, map[ledger.Code]int64{ledger.NeverSettled: 2}},
		"a DLQ of no coupon": {func(c *fixture) {
			key := fmt.Sprintf("dlq:{%scandidates:coupon:%d}", c.prefix, c.id+nobodys)
			c.wrote(1)(c.rdb.ZAdd(c.t.Context(), key, redis.Z{Score: 1, Member: "1"}).Result())
		}, map[ledger.Code]int64{ledger.NeverSettled: 1}},
		"a queue of another deployment": {func(c *fixture) {
			for _, key := range []string{"x" + c.prefix + "candidates:coupon:42", c.prefix + "candidates:coupon:042", c.prefix + "candidates:coupon:42:old", c.prefix + "xcandidates:coupon:42"} {
				c.wrote(1)(c.rdb.ZAdd(c.t.Context(), key, redis.Z{Score: 1, Member: "1"}).Result())
			}
		}, nil},
		"an outcome of no coupon": {func(c *fixture) {
			c.exec("INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome) VALUES (?, 1, NOW(6), 'NOT_SELECTED'), (?, 2, NOW(6), 'NOT_SELECTED')", c.id+nobodys, c.id+nobodys)
		}, map[ledger.Code]int64{ledger.CouponMissing: 1}},
		"a record of no coupon": {func(c *fixture) {
			c.exec("INSERT INTO settlement (run_id, coupon_id) VALUES (1, ?)", c.id+nobodys)
		}, map[ledger.Code]int64{ledger.CouponMissing: 1}},
		"a promise of no coupon":           {func(c *fixture) { c.exec("INSERT INTO promise (coupon_id, accepted) VALUES (?, 1)", c.id+nobodys) }, map[ledger.Code]int64{ledger.CouponMissing: 1}},
		"a promise to nobody of no coupon": {func(c *fixture) { c.exec("INSERT INTO promise (coupon_id) VALUES (?)", c.id+nobodys) }, nil},
		"a coupon of no coupon": {func(c *fixture) {
			c.exec("ALTER TABLE user_coupon DROP FOREIGN KEY user_coupon_coupon")
			c.exec("INSERT INTO user_coupon (coupon_id, user_id) VALUES (?, 1)", c.id+nobodys)
		}, map[ledger.Code]int64{ledger.CouponMissing: 1}},
		"a finished night in the future": {endedAt(time.Hour, "SUCCEEDED"), one(ledger.NightAhead)},
		"a night that ended early":       {endedAt(4*time.Minute, "SUCCEEDED"), nil},
		"a night that ended as RUNNING":  {endedAt(-time.Hour, "RUNNING"), one(ledger.RunWrong)},
		"a night given up":               {endedAt(-time.Hour, "ABANDONED"), one(ledger.RunWrong)},
		"a night that ended unsaid": {func(c *fixture) {
			c.exec("INSERT INTO settlement_run (cutoff, status) VALUES (?, 'SUCCEEDED')", c.now())
		}, one(ledger.RunWrong)},
		"a night at work, early": {func(c *fixture) {
			c.exec("INSERT INTO settlement_run (cutoff) VALUES (?)", c.now().Add(4*time.Minute))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t, 5)
			test.do(c)
			strays, err := c.ledger.Strays(t.Context(), c.db)
			require.NoError(t, err)
			found := map[ledger.Code]int64{}
			for _, f := range strays {
				require.False(t, f.Warning)
				found[f.Code] += f.Count
			}
			if test.codes == nil {
				test.codes = map[ledger.Code]int64{}
			}
			require.Equal(t, test.codes, found, "%+v", strays)
		})
	}
}

func endedAt(ahead time.Duration, status string) func(*fixture) {
	return func(c *fixture) {
		c.exec("INSERT INTO settlement_run (cutoff, finished_at, status) VALUES (?, UTC_TIMESTAMP(6), ?)", c.now().Add(ahead), status)
	}
}
