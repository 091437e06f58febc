package ledger_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
)

func TestMain(m *testing.M) {
	candidates.PutBackTime = 200 * time.Millisecond // many tests lose promises
	testenv.Main(m)
}

// deployment is a database and a key prefix of a test's own, and a settlement that works on them. Its coupons are
// worlds apart: each has its own users and is settled and checked alone.
type deployment struct {
	db      *sql.DB
	rdb     redis.UniversalClient
	prefix  string
	store   *candidates.Store
	ledger  *ledger.Ledger
	settler settle.Settler
}

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	r, m := testenv.RedisFor(t), testenv.MySQLFor(t)
	d := &deployment{rdb: r.Client, prefix: r.Prefix}
	var err error
	d.db, err = (&connect.MySQLSettings{MySQLDSN: m.DSN}).Open(zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.db.Close() })
	_, err = connect.Migrate(t.Context(), d.db)
	require.NoError(t, err)
	d.store, err = candidates.NewStore(r.Client, candidates.Options{KeyPrefix: r.Prefix, TTL: candidates.MinTTL})
	require.NoError(t, err)
	d.ledger = &ledger.Ledger{Store: d.store}
	d.settler = settle.Settler{Config: settle.Config{
		DB: mysqltx.New(d.db), Clock: d.store, Line: d.store, Door: d.store, Auditor: d.ledger,
		Zone: time.UTC, Now: time.Now, Logger: zap.NewNop(), Metrics: settle.NewMetrics(time.Now), Parallel: 1,
	}}
	return d
}

// usersPerCoupon keeps the users of one coupon apart from those of the next.
const usersPerCoupon = 1_000_000

// fixture is one coupon of a deployment, with users of its own: they are counted from 1 in each.
type fixture struct {
	*deployment
	t       *testing.T
	id      uint64
	version int64
}

// newCoupon makes a coupon that is open from an hour ago to in an hour.
func (d *deployment) newCoupon(t *testing.T, seats int) *fixture {
	t.Helper()
	c := &fixture{deployment: d, t: t}
	now := c.now()
	done, err := d.db.Exec("INSERT INTO coupon (name, total_quantity, apply_opens_at, apply_closes_at) VALUES ('심야 쿠폰', ?, ?, ?)",
		seats, now.Add(-time.Hour), now.Add(time.Hour))
	require.NoError(t, err)
	id, err := done.LastInsertId()
	require.NoError(t, err)
	c.id = uint64(id)
	c.publish(now.Add(time.Hour))
	return c
}

func newCoupon(t *testing.T, seats int) *fixture {
	t.Helper()
	return newDeployment(t).newCoupon(t, seats)
}

func (c *fixture) publish(closes time.Time) {
	c.t.Helper()
	c.version++
	_, published, err := c.store.Publish(c.t.Context(), coupon.Window{
		Coupon: c.id, Version: c.version, Opens: c.now().Add(-time.Hour), Closes: closes}, coupon.Promise{})
	require.NoError(c.t, err)
	require.True(c.t, published)
}

// shut closes the door now.
func (c *fixture) shut() {
	c.t.Helper()
	now := c.now()
	c.exec("UPDATE coupon SET apply_closes_at = ? WHERE id = ?", now, c.id)
	c.publish(now)
}

// now is the Redis clock.
func (c *fixture) now() time.Time {
	c.t.Helper()
	now, err := c.store.Now(c.t.Context())
	require.NoError(c.t, err)
	return now
}

func (c *fixture) exec(query string, args ...any) {
	c.t.Helper()
	_, err := c.db.Exec(query, args...)
	require.NoError(c.t, err)
}

// change is an exec that must change that many rows.
func (c *fixture) change(rows int64, query string, args ...any) {
	c.t.Helper()
	done, err := c.db.Exec(query, args...)
	require.NoError(c.t, err)
	n, err := done.RowsAffected()
	require.NoError(c.t, err)
	require.Equal(c.t, rows, n, query)
}

// user is the id of the coupon's n-th user.
func (c *fixture) user(n uint64) uint64 { return c.id*usersPerCoupon + n }

func (c *fixture) member(n uint64) string { return fmt.Sprint(c.user(n)) }

// users makes the users numbered first to last.
func (c *fixture) users(status string, first, last uint64) {
	c.t.Helper()
	for first <= last {
		upTo := min(last, first+999)
		rows := make([]string, 0, 1000)
		for ; first <= upTo; first++ {
			rows = append(rows, fmt.Sprintf("(%d, '%s')", c.user(first), status))
		}
		c.exec("INSERT INTO `user` (id, status) VALUES " + strings.Join(rows, ","))
	}
}

// apply lets the users numbered first to last apply in this order; every one must be accepted.
func (c *fixture) apply(first, last uint64) {
	c.t.Helper()
	for n := first; n <= last; n++ {
		receipt, err := c.store.Apply(c.t.Context(), c.id, c.user(n))
		require.NoError(c.t, err)
		require.Equal(c.t, candidates.Accepted, receipt.Code)
	}
}

// give hands a coupon and a seat of its own to the n-th user.
func (c *fixture) give(n uint64) {
	c.t.Helper()
	c.change(1, "UPDATE coupon SET issued_count = issued_count + 1 WHERE id = ?", c.id)
	c.exec("INSERT INTO user_coupon (coupon_id, user_id) VALUES (?, ?)", c.id, c.user(n))
}

// settleNow settles all that has arrived; it must succeed.
func (c *fixture) settleNow() settle.Result {
	c.t.Helper()
	return c.settle(settle.Order{CutoffNow: true})
}

func (c *fixture) settle(order settle.Order) settle.Result {
	c.t.Helper()
	result := c.settleWith(c.settler, order)
	require.Empty(c.t, result.Error)
	return result
}

func (c *fixture) settleWith(s settle.Settler, order settle.Order) settle.Result {
	c.t.Helper()
	order.Trigger, order.Operator, order.Reason, order.Coupons = coupon.Manual, "kim", "test", []uint64{c.id}
	report, err := s.RunOnce(c.t.Context(), order)
	require.NoError(c.t, err)
	require.Len(c.t, report.Coupons, 1)
	return report.Coupons[0]
}

// runs are the runs that have a record of this coupon, in order.
func (c *fixture) runs() (ids []uint64) {
	c.t.Helper()
	rows, err := c.db.Query("SELECT run_id FROM settlement WHERE coupon_id = ? ORDER BY run_id", c.id)
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

func (c *fixture) number(query string, args ...any) (n int64) {
	c.t.Helper()
	require.NoError(c.t, c.db.QueryRow(query, args...).Scan(&n))
	return n
}

// appliedAt is when the n-th user's application that was settled had arrived.
func (c *fixture) appliedAt(n uint64) (at time.Time) {
	c.t.Helper()
	err := c.db.QueryRow("SELECT applied_at FROM user_coupon WHERE coupon_id = ? AND user_id = ?", c.id, c.user(n)).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		err = c.db.QueryRow("SELECT applied_at FROM application_outcome WHERE coupon_id = ? AND user_id = ?", c.id, c.user(n)).Scan(&at)
	}
	require.NoError(c.t, err)
	return at
}

// The keys of the coupon, as DESIGN.md names them.
func (c *fixture) queue() string    { return fmt.Sprintf("%scandidates:coupon:%d", c.prefix, c.id) }
func (c *fixture) state() string    { return "state:{" + c.queue() + "}" }
func (c *fixture) marks() string    { return "issued:{" + c.queue() + "}" }
func (c *fixture) rejected() string { return "rejected:{" + c.queue() + "}" }
func (c *fixture) dlq() string      { return "dlq:{" + c.queue() + "}" }
func (c *fixture) reasons() string  { return "dlq:reason:{" + c.queue() + "}" }

func (c *fixture) keys() []string {
	return []string{c.queue(), c.state(), c.marks(), c.rejected(), c.dlq(), c.reasons()}
}

// add writes a member into a sorted set by hand.
func (c *fixture) add(key, member string, arrival time.Time) {
	c.t.Helper()
	c.wrote(1)(c.rdb.ZAdd(c.t.Context(), key, redis.Z{Score: float64(arrival.UnixMicro()), Member: member}).Result())
}

// promised lifts the promise counter, so that so many more applications are expected.
func (c *fixture) promised(more int64) {
	c.t.Helper()
	require.NoError(c.t, c.rdb.HIncrBy(c.t.Context(), c.state(), "accepted", more).Err())
}

// wrote takes what a Redis write returns; it must have changed so many.
func (c *fixture) wrote(want int64) func(int64, error) {
	return func(n int64, err error) {
		c.t.Helper()
		require.NoError(c.t, err)
		require.Equal(c.t, want, n)
	}
}

func (c *fixture) check() *ledger.Verdict {
	c.t.Helper()
	v, err := c.ledger.Check(c.t.Context(), c.db, c.id)
	require.NoError(c.t, err)
	require.Equal(c.t, c.id, v.Coupon)
	v.Account.Past, v.Account.CountedSince = ledger.Past{}, 0 // it has a test of its own
	return v
}

// healthy demands that the checker finds nothing, not even a warning.
func (c *fixture) healthy() *ledger.Verdict {
	c.t.Helper()
	v := c.check()
	require.Empty(c.t, v.Findings)
	require.NotNil(c.t, v.Findings, "[] in JSON, not null")
	require.False(c.t, v.Violated())
	require.Zero(c.t, v.Gap)
	require.Equal(c.t, v.Account.Gap(), v.Gap)
	return v
}

// counts are what a verdict found: the code and how many. Each finding must name the invariant that its code breaks.
func counts(t *testing.T, v *ledger.Verdict) map[ledger.Code]int64 {
	t.Helper()
	found, violated := map[ledger.Code]int64{}, false
	for _, f := range v.Findings {
		require.Contains(t, codes, f.Code)
		require.Equal(t, codes[f.Code], kind{f.Invariant, f.Warning}, f.Code)
		require.NotEmpty(t, f.Detail)
		found[f.Code] += f.Count
		violated = violated || !f.Warning
	}
	require.Equal(t, violated, v.Violated())
	return found
}

type kind struct {
	invariant int
	warning   bool
}

// codes are all there are.
var codes = map[ledger.Code]kind{
	ledger.Oversold: {1, false}, ledger.CountWrong: {1, false}, ledger.SeatWrong: {1, false},
	ledger.HeldTwice: {2, false}, ledger.SettledTwice: {2, false},
	ledger.PassedOver: {3, false}, ledger.OrderWrong: {3, false},
	ledger.PromiseLost: {4, false}, ledger.Excess: {4, true},
	ledger.LineRewound: {5, false}, ledger.ArrivalWrong: {5, false}, ledger.ClockAhead: {5, true},
	ledger.RecordWrong: {6, false}, ledger.RecordMissing: {6, false}, ledger.StillStanding: {6, false},
	ledger.MarkedWithoutCoupon: {6, false}, ledger.RunMissing: {6, false}, ledger.CleanUpToDo: {6, true},
	ledger.NeverSettled: {4, false}, ledger.Expiring: {4, false}, ledger.MarkedWithoutRejection: {6, false}, ledger.ReasonMissing: {6, false},
	ledger.ValidityWrong: {6, false}, ledger.OutcomeWrong: {6, false}, ledger.RunWrong: {6, false}, ledger.DoorDiffers: {6, false},
	ledger.AuditChanged: {6, false}, ledger.AuditRemoved: {6, false}, ledger.AuditInserted: {6, false},
}

// Of the coupon that worldly makes: who is who. A run of its own settled each of the first three.
const (
	firstRun, firstRunEnds       = 1, 6
	secondRun, secondRunEnds     = 7, 12
	thirdRun, thirdRunEnds       = 13, 18
	notSelected, notSelectedEnds = 19, 24
	handGiven, handGivenAlone    = 31, 32 // the first of them applied besides: ALREADY_ISSUED
	waiting, waitingEnds         = 34, 39
	blocked                      = 41 // under review
	idle, idleEnds               = 51, 60
	unknown                      = 61 // no such user

	auditEvents = 12

	worldlySeats    = thirdRunEnds + 2
	worldlyAccepted = thirdRunEnds + 1 + 1 + (notSelectedEnds - notSelected + 1) + (waitingEnds - waiting + 1)
)

// worldly makes a sold-out coupon of which everything is in use: three runs, coupons given by hand, all that can become
// of an application, and some that arrived after the last cutoff.
func (d *deployment) worldly(t *testing.T) *fixture {
	t.Helper()
	c := d.newCoupon(t, worldlySeats)
	c.users("ACTIVE", 1, waitingEnds)
	c.users("ACTIVE", idle, idleEnds)
	c.users("BLOCKED", blocked, blocked)

	c.apply(firstRun, firstRunEnds-1)
	c.apply(blocked, blocked)
	c.apply(firstRunEnds, firstRunEnds)
	c.settleNow()
	c.apply(secondRun, secondRunEnds)
	c.settleNow()
	c.give(handGiven)
	c.give(handGivenAlone)
	c.apply(thirdRun, thirdRunEnds)
	c.apply(handGiven, handGiven)
	c.apply(notSelected, notSelectedEnds)
	cutoff := c.now()
	c.apply(waiting, waitingEnds)
	result := c.settle(settle.Order{Cutoff: cutoff})
	require.Equal(t, 6, result.Issued)
	require.Equal(t, 1, result.AlreadyIssued)
	require.Equal(t, 6, result.NotSelected)
	require.Len(t, c.runs(), 3)
	c.audit(auditEvents)
	return c
}
