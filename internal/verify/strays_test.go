package verify_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/verify"
)

func TestStraysFindsRowsAndKeys(t *testing.T) {
	t.Parallel()
	// insert inserts a row of a coupon that does not exist.
	insert := func(table, columns, values string) func(*fixture) {
		return func(c *fixture) {
			c.Exec("INSERT INTO "+table+" (coupon_id"+columns+") VALUES (?"+values+")", c.id+77)
		}
	}
	key := func(name func(c *fixture) string) func(*fixture) {
		return func(c *fixture) {
			c.redis(2, "ZADD", name(c), 0, "1", 2, "2") // as a mark, the first one was given by hand
			c.T.Cleanup(func() { require.NoError(c.T, c.Redis.Del(context.Background(), name(c)).Err()) })
		}
	}
	remove := write(1, "DELETE FROM coupon WHERE id = ?")
	run := func(cutoff time.Duration, columns, values string) func(*fixture) {
		return func(c *fixture) {
			c.Exec("INSERT INTO settlement_run (started_at, heartbeat_at, nonce, cutoff"+columns+
				") VALUES (NOW(6), NOW(6), 'n', ?"+values+")", c.Now().Add(cutoff))
		}
	}
	events := func(c *fixture) {
		c.Exec("INSERT INTO audit_event (account, actor, action, seq) VALUES ('', 'kim', 'IMPORT', NULL), ('', " +
			"'kim', 'IMPORT', 1)")
	}
	chain := func(c *fixture) {
		c.audit(3)
		require.NoError(c.T, c.Audit(auditOrigin, audit.DLQDropped, c.id+77, make([]audit.Entry, 4)...))
		c.requireHealthy()
	}
	removeChain := func(c *fixture) { c.change(4, "DELETE FROM audit_event WHERE coupon_id = ?", c.id+77) }
	shared := newDeployment(t)
	for name, test := range map[string]struct {
		do    func(c *fixture)
		found found
	}{
		"nothing":             {func(*fixture) {}, found{}},
		"a coupon never used": {remove, found{}},
		"applications": {func(c *fixture) {
			c.apply(1, 5)
			c.journal() // its rows are deleted before long
			remove(c)
		}, found{verify.NeverSettled: 5}},
		"a queue": {key(func(c *fixture) string { return c.Queue(c.id + 77) }),
			found{verify.NeverSettled: 2}},
		"a DLQ": {key(func(c *fixture) string { return c.Key("dlq", c.id+77) }),
			found{verify.NeverSettled: 2}},
		"marks": {key(func(c *fixture) string { return c.Key("issued", c.id+77) }),
			found{verify.CouponMissing: 2}},
		"a longer prefix": {key(func(c *fixture) string { return "x" + c.Prefix + "candidates:coupon:42" }),
			found{}},
		"another name": {key(func(c *fixture) string { return c.Prefix + "xcandidates:coupon:42" }),
			found{}},
		"an id with a leading zero": {key(func(c *fixture) string { return c.Prefix + "candidates:coupon:042" }),
			found{}},
		"an id with a suffix": {key(func(c *fixture) string { return c.Prefix + "candidates:coupon:42:old" }),
			found{}},
		"outcomes": {all(insert("application_outcome", ", user_id, applied_at, outcome, run_id, recorded_at",
			", 1, NOW(6), 'NOT_SELECTED', 1, NOW(6)"),
			insert("application_outcome", ", user_id, applied_at, outcome, run_id, recorded_at",
				", 2, NOW(6), 'NOT_SELECTED', 1, NOW(6)")), found{verify.CouponMissing: 1}},
		"a record": {insert("settlement", ", run_id, settled_at", ", 1, NOW(6)"),
			found{verify.CouponMissing: 1}},
		"sums": {insert("settled", ", concluded", ", 1"), found{verify.CouponMissing: 1}},
		"a coupon of a user": {func(c *fixture) {
			c.withoutForeignKeys(func(exec func(string)) {
				exec(fmt.Sprintf(
					"INSERT INTO user_coupon (coupon_id, user_id, expires_at) VALUES (%d, 1, '2038-01-01')", c.id+77))
			})
		}, found{verify.CouponMissing: 1}},
		"audit events without a coupon": {events, found{verify.AuditInserted: 2}},
		"audit events":                  {chain, found{verify.AuditInserted: 4}},
		"audit events, also removed": {all(events, chain, removeChain),
			found{verify.AuditInserted: 2, verify.AuditRemoved: 4}},

		"a run that ended before its cutoff": {run(time.Hour, ", finished_at, status",
			", UTC_TIMESTAMP(6), 'SUCCEEDED'"), found{verify.NightAhead: 1}},
		"a run that started and ended early": {run(4*time.Minute, ", finished_at, status",
			", UTC_TIMESTAMP(6), 'SUCCEEDED'"), found{}},
		"a RUNNING run with an end": {run(-time.Hour, ", finished_at, status",
			", UTC_TIMESTAMP(6), 'RUNNING'"), found{verify.RunWrong: 1}},
		"an ABANDONED run with an end": {run(-time.Hour, ", finished_at, status",
			", UTC_TIMESTAMP(6), 'ABANDONED'"), found{verify.RunWrong: 1}},
		"a SUCCEEDED run without an end": {run(0, ", status", ", 'SUCCEEDED'"), found{verify.RunWrong: 1}},
		"an immediate run of no coupon": {run(-time.Hour, ", trigger_kind, coupons, finished_at, status",
			", 'IMMEDIATE', 1, UTC_TIMESTAMP(6), 'SUCCEEDED'"),
			found{verify.RunWrong: 1}},
		"a nightly run of no coupon": {run(-time.Hour, ", finished_at, status", ", UTC_TIMESTAMP(6), 'SUCCEEDED'"),
			found{}},
		"a run with more records than coupons": {func(c *fixture) {
			run(-time.Hour, ", id, coupons", ", 5, 1")(c)
			c.Exec("INSERT INTO settlement (run_id, coupon_id, settled_at) VALUES (5, ?, NOW(6)), (5, ?, NOW(6))", c.id,
				c.AddCoupon(1))
		}, found{verify.RunWrong: 1}},
		"a run with more results than coupons": {func(c *fixture) {
			run(-time.Hour, ", id", ", 5")(c)
			c.Exec("INSERT INTO run_coupon (run_id, coupon_id) VALUES (5, ?)", c.id)
		}, found{verify.RunWrong: 1}},
		"a run under way, before its cutoff": {run(4*time.Minute, "", ""), found{}},
	} {
		t.Run(name, func(t *testing.T) {
			c := shared.newCoupon(t, 5)
			t.Cleanup(func() {
				c.withoutForeignKeys(func(exec func(string)) {
					for _, table := range c.tables() {
						if table != "policy" && table != "deployment" { // settle migrate has filled them
							exec("DELETE FROM `" + table + "`")
						}
					}
				})
				for _, key := range c.keys() {
					require.NoError(t, c.Redis.Del(context.Background(), key.(string)).Err())
				}
			})
			test.do(c)
			requireFindings(t, test.found, c.strays())
		})
	}
}
