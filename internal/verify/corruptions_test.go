package verify_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/verify"
)

// corruption is one corruption of a populated coupon and its findings. Differences between two counts are numbers of
// their own, because several corruptions can cancel out: a lost row and an extra one leave the count right.
type corruption struct {
	do func(c *fixture)

	codes found // in addition to those that follow from the numbers below
	gap   int64 // lost promises; negative: applications without a promise
	// Users whom the journal has and who are accounted for nowhere, and those who stand at a later arrival.
	lost, behind int64
	unaudited    int64 // sums in table settled that the audit events do not explain

	// DLQ entries without a reason; negative: reasons without an entry, which are found only when no entry lacks its
	// reason.
	unexplained             int64
	coupons, counted, seats int64 // rows of user_coupon, issued_count and total_quantity, more than before

	issued, concluded int64 // coupons of runs and outcomes, more than table settled counts
	later             bool  // an outcome after every arrival that table settled knows

	alone bool // affects or hides others, and is not mixed
}

// expected are the codes and counts that follow from all of the corruptions.
func expected(all ...corruption) found {
	want := found{}
	var sum corruption
	var reasonsAlone int64
	for _, one := range all {
		for code, n := range one.codes {
			want[code] += n
		}
		sum.lost, sum.behind, sum.unaudited = sum.lost+one.lost, sum.behind+one.behind, sum.unaudited+one.unaudited
		sum.gap, sum.coupons, sum.counted, sum.seats = sum.gap+one.gap, sum.coupons+one.coupons,
			sum.counted+one.counted, sum.seats+one.seats
		sum.issued, sum.concluded, sum.later = sum.issued+one.issued, sum.concluded+one.concluded, sum.later ||
			one.later
		sum.unexplained += max(0, one.unexplained)
		reasonsAlone += min(0, one.unexplained)
	}
	if n := cmp.Or(sum.unexplained, reasonsAlone); n != 0 {
		want[verify.ReasonMissing] = n
	}
	for _, wrong := range []bool{sum.issued != 0, sum.concluded != 0, sum.later} {
		if wrong {
			want[verify.SumWrong]++
		}
	}
	if n := max(sum.gap, sum.lost) + sum.behind; n > 0 {
		want[verify.PromiseLost] = n
	}
	if sum.gap < 0 {
		want[verify.Excess] = -sum.gap
	}
	if sum.counted != sum.coupons {
		want[verify.CountWrong] = sum.counted - sum.coupons
	}
	whole := want[verify.AuditChanged]+want[verify.AuditRemoved] == 0
	if sum.seats != 0 && whole {
		want[verify.SeatsUnexplained] = sum.seats
	}
	if sum.unaudited > 0 && whole {
		want[verify.SumWrong] += sum.unaudited
	}
	if sum.coupons > sum.seats { // a populated coupon is sold out
		want[verify.Oversold] = sum.coupons - sum.seats
	}
	return want
}

var corruptions = func() map[string]corruption {
	all := maps.Clone(plainCorruptions)
	maps.Copy(all, columnCorruptions)
	maps.Copy(all, orderCorruptions)
	maps.Copy(all, promiseCorruptions)
	return all
}()

// newUnguarded is a deployment without the constraints that prevent corruptions.
func newUnguarded(t *testing.T) *fixture {
	t.Helper()
	d := newDeployment(t)
	d.Exec("ALTER TABLE user_coupon ADD KEY not_once (coupon_id, user_id), DROP KEY user_coupon_once")
	d.Exec("ALTER TABLE coupon DROP CONSTRAINT coupon_never_oversold")
	d.Exec("ALTER TABLE audit_event DROP KEY audit_event_chain")
	return d
}

// kept are populated coupons in unguarded deployments of their own. Each corruption finds its coupon as it was made: a
// restoration is much faster than another coupon.
type kept chan *keptCoupon

type keptCoupon struct {
	made   *fixture
	tables map[string]string // columns by table. Each has a copy, kept_…
	keys   map[string]keptKey
}

type keptKey struct {
	value string
	ttl   time.Duration
}

// storedColumnsSQL leaves out the columns that the server computes.
const storedColumnsSQL = `
SELECT GROUP_CONCAT(CONCAT(CHAR(96), column_name, CHAR(96))) FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = ? AND COALESCE(generation_expression, '') = ''`

// keep makes n coupons, for as many subtests of t at a time.
func keep(t *testing.T, n int) kept {
	t.Helper()
	all := make(kept, n)
	for range n {
		c := newUnguarded(t).populated(t)
		c.requireHealthy()
		k := &keptCoupon{c, map[string]string{}, map[string]keptKey{}}
		for _, table := range c.tables() {
			var columns string
			require.NoError(t, c.DB.QueryRowContext(t.Context(), storedColumnsSQL, table).Scan(&columns))
			k.tables[table] = columns
			c.Exec("CREATE TABLE kept_" + table + " AS SELECT " + columns + " FROM `" + table + "`")
		}
		for _, key := range c.keys() {
			if ttl := c.Redis.PTTL(t.Context(), key.(string)).Val(); ttl != -2 { // -2: there is no such key
				value, err := c.Redis.Dump(t.Context(), key.(string)).Result()
				require.NoError(t, err)
				k.keys[key.(string)] = keptKey{value, max(0, ttl)}
			}
		}
		all <- k
	}
	return all
}

// coupon is a coupon as it was made, until the end of the test.
func (all kept) coupon(t *testing.T) *fixture {
	t.Helper()
	k := <-all
	t.Cleanup(func() { all <- k })
	c := *k.made
	c.Deployment = c.For(t)
	c.PodsDie()
	c.verifier = &verify.Verifier{Store: c.Store, Users: c.Users}
	c.withoutForeignKeys(func(exec func(string)) {
		for table, columns := range k.tables {
			exec("DELETE FROM `" + table + "`")
			exec("INSERT INTO `" + table + "` (" + columns + ") SELECT " + columns + " FROM kept_" + table)
		}
	})
	for _, key := range c.keys() {
		require.NoError(t, c.Redis.Del(t.Context(), key.(string)).Err())
	}
	for key, is := range k.keys {
		require.NoError(t, c.Redis.Restore(t.Context(), key, is.ttl, is.value).Err())
	}
	return &c
}

func TestCheckFindsEachCorruption(t *testing.T) {
	t.Parallel()
	coupons := keep(t, 2)
	covered := map[verify.Code]bool{
		verify.DoorDiffers: true, verify.NightAhead: true, verify.CouponMissing: true, // TestCheckWindows…, TestStrays…
		verify.CreatedBySQL: true, // TestCheckAddsUpSeats
		verify.SealBroken:   true, // TestChangeOfSealedRowsIsFound
	}
	for name, one := range corruptions {
		for code := range expected(one) {
			covered[code] = true
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := coupons.coupon(t)
			one.do(c)
			v := c.check()
			requireFindings(t, expected(one), v)
			require.Equal(t, one.gap, v.Gap)
		})
	}
	require.Len(t, covered, len(codes), "a code that no corruption shows")
}

func TestCheckFindsMixedCorruptions(t *testing.T) {
	t.Parallel()
	coupons := keep(t, 1)
	var mixable []string
	for name, one := range corruptions {
		if !one.alone {
			mixable = append(mixable, name)
		}
	}
	slices.Sort(mixable)
	mixtures := map[string][]string{"all": mixable}
	random := testenv.Random(t)
	for n := 2; n < 10; n++ {
		names := slices.Clone(mixable)
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		mixtures[fmt.Sprint(n)] = names[:n]
	}
	for name, names := range mixtures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := coupons.coupon(t)
			var mixed []corruption
			var gap int64
			for _, name := range names {
				corruptions[name].do(c)
				mixed, gap = append(mixed, corruptions[name]), gap+corruptions[name].gap
			}
			t.Log(strings.Join(names, ", "))
			v := c.check()
			requireFindings(t, expected(mixed...), v)
			require.Equal(t, gap, v.Gap)
			requireFindings(t, expected(mixed...), c.check()) // checking changes nothing
		})
	}
}

// longAgo is before every arrival of a populated coupon.
func (c *fixture) longAgo() time.Time { return c.Now().Add(-30 * time.Minute) }

// justBefore is an arrival before the last that got a seat.
func (c *fixture) justBefore() time.Time { return c.appliedAt(thirdRunEnds).Add(-time.Microsecond) }

// all runs steps in order.
func all(steps ...func(*fixture)) func(*fixture) {
	return func(c *fixture) {
		for _, step := range steps {
			step(c)
		}
	}
}

func addPromises(n int64) func(*fixture) { return func(c *fixture) { c.AddPromises(c.id, n) } }

func giveByHand(n uint64) func(*fixture) { return func(c *fixture) { c.giveByHand(n) } }

// remove deletes the row of the n-th user.
func remove(table string, n uint64) func(*fixture) {
	return func(c *fixture) {
		c.change(1, "DELETE FROM "+table+" WHERE coupon_id = ? AND user_id = ?", c.id, c.user(n))
	}
}

// enqueue adds waiting applications with this arrival, each with a promise.
func enqueue(at func(*fixture) time.Time, users ...uint64) func(*fixture) {
	return func(c *fixture) {
		for _, n := range users {
			c.ApplyAt(c.id, c.member(n), at(c))
		}
	}
}

// returned adds settled applications to the queue or the DLQ again.
func returned(kind string, users ...uint64) func(*fixture) {
	return func(c *fixture) {
		for _, n := range users {
			redis(1, "ZADD", kind, c.appliedAt(n).UnixMicro(), int(n))(c)
		}
	}
}

// moveOutcome gives the n-th user's outcome another arrival.
func moveOutcome(n uint64, at func(*fixture) time.Time) func(*fixture) {
	return func(c *fixture) { alter("application_outcome", n, "applied_at = ?", at(c))(c) }
}

// recordToo records an outcome, of no run, of an application that has a coupon.
func recordToo(n uint64, outcome string) func(*fixture) {
	return func(c *fixture) {
		c.Exec("INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome, run_id, recorded_at) "+
			"VALUES (?, ?, ?, ?, 0, NOW(6))", c.id, c.user(n), c.appliedAt(n), outcome)
	}
}

// exchange swaps a column of two users' coupons.
func exchange(column string, a, b uint64) func(*fixture) {
	return func(c *fixture) {
		c.change(2, fmt.Sprintf(`UPDATE user_coupon x JOIN (SELECT user_id, %[1]s AS other FROM user_coupon
			WHERE coupon_id = ? AND user_id IN (?, ?)) y
			ON y.user_id <> x.user_id SET x.%[1]s = y.other WHERE x.coupon_id = ? AND x.user_id IN (?, ?)`, column),
			c.id, c.user(a), c.user(b), c.id, c.user(a), c.user(b))
	}
}

// alterRun changes the n-th run, from 0.
func alterRun(n int, set string) func(*fixture) {
	return func(c *fixture) { c.change(1, "UPDATE settlement_run SET "+set+" WHERE id = ?", c.Runs(c.id)[n]) }
}

// alterRecord changes the record of the third run.
func alterRecord(set string) func(*fixture) {
	return func(c *fixture) {
		c.change(1, "UPDATE settlement SET "+set+" WHERE coupon_id = ? AND run_id = ?", c.id, c.Runs(c.id)[2])
	}
}

// alterSums changes the sums of the coupon.
func alterSums(set string) func(*fixture) {
	return write(1, "UPDATE settled SET "+set+" WHERE coupon_id = ?")
}

// alterEvents changes audit events by their numbers.
func alterEvents(set string, numbers ...uint64) func(*fixture) {
	return func(c *fixture) {
		for _, n := range numbers {
			c.change(1, "UPDATE audit_event SET "+set+" WHERE coupon_id = ? AND seq = ?", c.id, n)
		}
	}
}

// removeEvents deletes a range of audit events.
func removeEvents(first, last uint64) func(*fixture) {
	return func(c *fixture) {
		c.change(int64(last-first+1), "DELETE FROM audit_event WHERE coupon_id = ? AND seq BETWEEN ? AND ?", c.id,
			first, last)
	}
}

// rewriteEvent changes an audit event together with its hash.
func rewriteEvent(n uint64) func(*fixture) {
	return func(c *fixture) {
		e := c.event(n)
		e.Reason = "for a friend"
		c.change(1, "UPDATE audit_event SET reason = ?, account = '', hash = ? WHERE coupon_id = ? AND seq = ?",
			e.Reason, c.hashAfter(n-1, e), c.id, n)
	}
}

// redis executes a command on a key of the coupon, which must return this number. An int is the member of that user.
func redis(want int64, command, kind string, args ...any) func(*fixture) {
	return func(c *fixture) {
		full := []any{c.key(kind)}
		if kind == "queue" {
			full[0] = c.queue()
		}
		for _, arg := range args {
			if n, ok := arg.(int); ok {
				arg = c.member(uint64(n))
			}
			full = append(full, arg)
		}
		c.redis(want, command, full...)
	}
}
