package verify_test

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/verify"
)

// addImmediateRuns writes n immediate runs as `settle serve` does, each with the next user of the coupon as its winner.
func (c *fixture) addImmediateRuns(n int) {
	c.T.Helper()
	const numbers = `(SELECT 1 + a.n + 10 * b.n + 100 * c.n AS n FROM ` + digits + " a JOIN " + digits + " b JOIN " +
		digits + " c) x WHERE x.n <= ?"
	seated := c.Number("SELECT COALESCE(MAX(position), 0) FROM user_coupon WHERE coupon_id = ?", c.id)
	before := int64(c.user(uint64(seated))) // each coupon has ids of its own
	last := c.Now().UnixMicro() - int64(n)*1000 - 1_000_000
	at := "'1970-01-01' + INTERVAL (? + 1000 * x.n) MICROSECOND"
	c.Exec("INSERT INTO `user` (id) SELECT ? + x.n FROM "+numbers, c.user(uint64(seated)), n)
	c.Exec(`INSERT INTO settlement_run (id, trigger_kind, coupons, nonce, cutoff, started_at, heartbeat_at, finished_at,
		status)
		SELECT ? + x.n, 'IMMEDIATE', 1, UNHEX(LPAD(HEX(? + x.n), 32, '0')),
			`+at+" + INTERVAL 1 MICROSECOND, "+at+" + INTERVAL 100 MICROSECOND, NOW(6), "+at+
		" + INTERVAL 200 MICROSECOND, 'SUCCEEDED' FROM "+numbers, before, before, last, last, last, n)
	c.Exec(`INSERT INTO user_coupon (coupon_id, user_id, position, applied_at, issued_at, expires_at, run_id)
		SELECT ?, ? + x.n, ? + x.n, `+at+", "+at+" + INTERVAL 100 MICROSECOND, DATE("+at+
		" + INTERVAL 100 MICROSECOND) + INTERVAL 31 DAY, ? + x.n FROM "+numbers,
		c.id, c.user(uint64(seated)), seated, last, last, last, before, n)
	c.Exec(`INSERT INTO settlement (run_id, coupon_id, issued_count, first_arrival, last_arrival, winners_digest,
		settled_at, cleaned_at)
		SELECT ? + x.n, ?, 1, ? + 1000 * x.n, ? + 1000 * x.n, CONCAT('sha256:', SHA2(CONCAT(? + x.n, '\n'), 256)),
			`+at+` + INTERVAL 100 MICROSECOND, NOW(6)
		FROM `+numbers, before, c.id, last, last, c.user(uint64(seated)), last, n)
	end := last + 1000*int64(n)
	c.Exec("UPDATE coupon SET issued_count = issued_count + ? WHERE id = ?", n, c.id)
	c.Exec(`INSERT INTO settled (coupon_id, issued, settled_up_to, last_issued) VALUES (?, ?, ?, ?)
		ON DUPLICATE KEY UPDATE issued = issued + VALUES(issued), settled_up_to = GREATEST(settled_up_to,
			VALUES(settled_up_to)),
			last_issued = GREATEST(last_issued, VALUES(last_issued))`, c.id, n, end, end)
	c.AddPromises(c.id, int64(n))
	pipe := c.Redis.Pipeline()
	for i := int64(1); i <= int64(n); i++ {
		pipe.ZAdd(c.T.Context(), c.key("issued"), goredis.Z{Score: float64(last + 1000*i),
			Member: c.member(uint64(seated + i))})
	}
	_, err := pipe.Exec(c.T.Context())
	require.NoError(c.T, err)
}

const digits = "(SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL " +
	"SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"

// alterImmediate changes the second of three immediate runs.
func alterImmediate(set string) func(*fixture) { return alterRun(1, set) }

func TestCheckFindsCorruptionsOfImmediateRuns(t *testing.T) {
	t.Parallel()
	d := newUnguarded(t)
	for name, one := range map[string]corruption{
		"nothing":                     {do: func(*fixture) {}},
		"another cadence since":       {do: alterCoupon("cadence = 'NIGHTLY'")},
		"an end later than its start": {do: alterImmediate("finished_at = finished_at + INTERVAL 1 SECOND")},
		"a run that goes on": {do: alterImmediate("status = 'RUNNING', finished_at = NULL"),
			codes: found{verify.RunWrong: 1}},
		"a run that failed":    {do: alterImmediate("status = 'FAILED'"), codes: found{verify.RunWrong: 1}},
		"a run without an end": {do: alterImmediate("finished_at = NULL"), codes: found{verify.RunWrong: 1}},
		"a run of two coupons": {do: alterImmediate("coupons = 2"), codes: found{verify.RunWrong: 1}},
		"a cutoff as far ahead as can be": {do: alterImmediate(
			"started_at = cutoff - INTERVAL 5000001 MICROSECOND"),
			codes: found{verify.RecordWrong: 0, verify.ValidityWrong: 1}},
		"a cutoff ahead of the clock": {do: alterImmediate("started_at = cutoff - INTERVAL 5000002 MICROSECOND"),
			codes: found{verify.RunWrong: 1, verify.RecordWrong: 0, verify.ValidityWrong: 1}},
		"a cutoff at the arrival": {do: alterImmediate("cutoff = cutoff - INTERVAL 1 MICROSECOND"),
			codes: found{verify.ArrivalWrong: 1}},
		"a seat taken by the next run": {do: alter("user_coupon", 2, "position = 3"),
			codes: found{verify.SeatWrong: 1}},
		"a coupon of the next run": {do: exchange("run_id", 2, 3),
			codes: found{verify.RecordWrong: 0, verify.ValidityWrong: 2, verify.ArrivalWrong: 1}},
		"a sum without the last run": {do: alterSums("issued = issued - 1"), codes: found{verify.SumWrong: 1}},
		"a sum with a run twice":     {do: alterSums("issued = issued + 1"), codes: found{verify.SumWrong: 1}},
		"the last arrival of another run": {do: alterSums("last_issued = last_issued - 1000"),
			codes: found{verify.SumWrong: 1}},
		"a run with a record of another coupon": {do: func(c *fixture) {
			c.Exec("INSERT INTO settlement (run_id, coupon_id, settled_at, cleaned_at) VALUES (?, ?, NOW(6), NOW(6))",
				c.Runs(c.id)[1], d.AddCoupon(1))
		}, codes: found{verify.RunWrong: 1}},
		"a run without its record": {do: func(c *fixture) {
			c.change(1, "DELETE FROM settlement WHERE run_id = ?", c.Runs(c.id)[1])
		}, codes: found{verify.RecordMissing: 1}},
		"the last run without its record": {do: func(c *fixture) {
			c.change(1, "DELETE FROM settlement WHERE run_id = ?", c.Runs(c.id)[2])
		}, codes: found{verify.RecordMissing: 1, verify.SumWrong: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := d.newImmediate(t, 3)
			c.requireHealthy()
			one.do(c)
			requireFindings(t, expected(one), c.check())
		})
	}
}

// newImmediate adds an immediate coupon with so many seats, each issued by a run of its own.
func (c fixture) newImmediate(t *testing.T, runs int) *fixture {
	t.Helper()
	i := c.newCoupon(t, runs)
	alterCoupon("cadence = 'IMMEDIATE'")(i)
	i.addImmediateRuns(runs)
	return i
}

// Each immediate run is read in the same query. Nightly runs lie between them.
func TestCheckOfManyImmediateRuns(t *testing.T) {
	t.Parallel()
	const runs = 300
	c := newDeployment(t).newImmediate(t, runs)
	c.SetSeats(c.id, 3*runs)
	c.addUsers(10_001, 10_009)
	c.apply(10_001, 10_009)
	require.Equal(t, 9, c.settleNow().Issued)
	c.addImmediateRuns(runs)
	v := c.requireHealthy()
	require.EqualValues(t, 2*runs+9, v.Account.Issued)

	c.change(2, "UPDATE settlement SET winners_digest = 'x' WHERE coupon_id = ? AND run_id IN (?, ?)", c.id,
		c.Runs(c.id)[runs-1], c.Runs(c.id)[runs])
	requireFindings(t, found{verify.RecordWrong: 0}, c.check())
}
