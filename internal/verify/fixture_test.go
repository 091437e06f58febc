package verify_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/verify"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

// fixture is one coupon of a deployment. Its users are its own and numbered from 1, so that each coupon of a deployment
// is settled and checked alone.
type fixture struct {
	*jajeongtest.Deployment
	verifier *verify.Verifier
	id       coupon.CouponID
}

func newDeployment(t *testing.T) *fixture {
	t.Helper()
	d := jajeongtest.New(t)
	return &fixture{Deployment: d, verifier: &verify.Verifier{Store: d.Store, Users: d.Users}}
}

func newCoupon(t *testing.T, seats int) *fixture {
	t.Helper()
	return newDeployment(t).newCoupon(t, seats)
}

// newCoupon adds a coupon for a subtest.
func (c fixture) newCoupon(t *testing.T, seats int) *fixture {
	t.Helper()
	c.Deployment = c.For(t)
	c.id = c.AddCoupon(seats)
	return &c
}

// user is the id of the coupon's n-th user.
func (c *fixture) user(n uint64) coupon.UserID { return coupon.UserID(uint64(c.id)*1_000_000 + n) }

func (c *fixture) member(n uint64) string { return fmt.Sprint(c.user(n)) }

func (c *fixture) addUsers(first, last uint64) {
	c.T.Helper()
	c.AddUsers(jajeongtest.Between(c.user(first), c.user(last))...)
}

func (c *fixture) setStatus(status string, first, last uint64) {
	c.T.Helper()
	c.SetStatus(status, jajeongtest.Between(c.user(first), c.user(last))...)
}

// apply lets the users numbered first to last apply in this order.
func (c *fixture) apply(first, last uint64) {
	c.T.Helper()
	c.Apply(c.id, jajeongtest.Between(c.user(first), c.user(last))...)
}

// addApplicants adds the users numbered 1 to last and lets them apply in this order.
func (c *fixture) addApplicants(last uint64) {
	c.T.Helper()
	c.addUsers(1, last)
	c.apply(1, last)
}

// giveByHand gives the n-th user a coupon outside any run.
func (c *fixture) giveByHand(n uint64) {
	c.T.Helper()
	alterCoupon("issued_count = issued_count + 1")(c)
	c.InsertGranted(c.id, c.user(n))
}

// close ends the coupon's window now.
func (c *fixture) close() {
	c.T.Helper()
	c.SetWindow(c.id, c.Now().Add(-time.Hour), c.Now())
}

// settleNow settles everything that has arrived. The run must succeed.
func (c *fixture) settleNow() settle.Result {
	c.T.Helper()
	return c.SettleNow(c.id).Coupons[0]
}

// run runs one settlement of the coupon.
func (c *fixture) run(order settle.Order, change ...func(*settle.Settler)) settle.Result {
	c.T.Helper()
	report, err := c.Settler(change...).RunOnce(c.T.Context(), order)
	require.NoError(c.T, err)
	require.Len(c.T, report.Coupons, 1)
	return report.Coupons[0]
}

// change executes a statement that must change that many rows.
func (c *fixture) change(rows int64, query string, args ...any) {
	c.T.Helper()
	done, err := c.DB.Exec(query, args...)
	require.NoError(c.T, err)
	changed, err := done.RowsAffected()
	require.NoError(c.T, err)
	require.Equal(c.T, rows, changed, query)
}

// write executes a statement that must change that many rows. Its last placeholder is the coupon.
func write(rows int64, statement string, args ...any) func(*fixture) {
	return func(c *fixture) { c.change(rows, statement, append(slices.Clone(args), c.id)...) }
}

// alterCoupon changes the coupon's row.
func alterCoupon(set string, args ...any) func(*fixture) {
	return write(1, "UPDATE coupon SET "+set+" WHERE id = ?", args...)
}

// alter changes the row of the n-th user.
func alter(table string, n uint64, set string, args ...any) func(*fixture) {
	return func(c *fixture) {
		c.change(1, "UPDATE "+table+" SET "+set+" WHERE coupon_id = ? AND user_id = ?",
			append(args, c.id, c.user(n))...)
	}
}

// appliedAt is the arrival of the n-th user's application that was settled.
func (c *fixture) appliedAt(n uint64) (at time.Time) {
	c.T.Helper()
	require.NoError(c.T, c.DB.QueryRow(`SELECT applied_at FROM user_coupon WHERE coupon_id = ? AND user_id = ?
		AND run_id IS NOT NULL
		UNION SELECT applied_at FROM application_outcome WHERE coupon_id = ? AND user_id = ?`, c.id, c.user(n), c.id,
		c.user(n)).Scan(&at))
	return at
}

func (c *fixture) queue() string { return c.Queue(c.id) }

func (c *fixture) key(kind string) string { return c.Key(kind, c.id) }

// keys are all keys of the coupon.
func (c *fixture) keys() []any {
	return []any{c.queue(), c.key("state"), c.key("issued"), c.key("rejected"), c.key("dlq"), c.key("dlq:reason"),
		c.key("returned")}
}

// redis executes a command that must return this number: of keys, members or fields that it changed.
func (c *fixture) redis(want int64, command string, args ...any) {
	c.T.Helper()
	changed, err := c.Redis.Do(c.T.Context(), append([]any{command}, args...)...).Int64()
	require.NoError(c.T, err)
	require.Equal(c.T, want, changed, command)
}

// add writes a member into the queue or the DLQ by hand.
func (c *fixture) add(key, member string, arrival time.Time) {
	c.T.Helper()
	c.redis(1, "ZADD", key, arrival.UnixMicro(), member)
}

// look is what Redis says of the coupon.
func (c *fixture) look() coupon.Look {
	c.T.Helper()
	look, err := c.Store.Observe(c.T.Context(), c.id, 0)
	require.NoError(c.T, err)
	return look
}

// journal copies the coupon's line to the journal.
func (c *fixture) journal() {
	c.T.Helper()
	c.Journal(c.id)
}

// arrival is the arrival at which the n-th user is in the journal.
func (c *fixture) arrival(n uint64) coupon.Arrival {
	c.T.Helper()
	return jajeongtest.Column[coupon.Arrival](c.Deployment,
		"SELECT arrival FROM line_journal WHERE coupon_id = ? AND user_id = ?", c.id, c.user(n))[0]
}

// tables are the tables that hold data of a deployment.
func (c *fixture) tables() []string {
	c.T.Helper()
	return jajeongtest.Column[string](c.Deployment, `SELECT table_name FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_name NOT IN ('jajeong_db_version', 'policy')`)
}

// withoutForeignKeys executes statements in a session that checks no foreign keys.
func (c *fixture) withoutForeignKeys(do func(exec func(query string))) {
	c.T.Helper()
	ctx := context.Background() // also in a cleanup
	session, err := c.DB.Conn(ctx)
	require.NoError(c.T, err)
	defer session.Close()
	exec := func(query string) {
		_, err := session.ExecContext(ctx, query)
		require.NoError(c.T, err, query)
	}
	exec("SET foreign_key_checks = 0")
	do(exec)
	exec("SET foreign_key_checks = 1")
}

// check checks the coupon.
func (c *fixture) check() *verify.Verdict {
	c.T.Helper()
	v := c.checkWith(c.verifier)
	require.Equal(c.T, c.id, v.Coupon)
	return v
}

// requireHealthy demands a verdict without findings and warnings.
func (c *fixture) requireHealthy() *verify.Verdict {
	c.T.Helper()
	v := c.check()
	require.Empty(c.T, v.Findings)
	require.NotNil(c.T, v.Findings, "[] in JSON, not null")
	require.False(c.T, v.Violated())
	require.Zero(c.T, v.Gap)
	require.Equal(c.T, v.Account.Gap(), v.Gap)
	return v
}

// found is the sum of counts by finding code.
type found map[verify.Code]int64

// requireFindings demands exactly these findings, each with the invariant and severity of its code.
func requireFindings(t testing.TB, want found, v *verify.Verdict) {
	t.Helper()
	got, violated := found{}, false
	for _, f := range v.Findings {
		require.Contains(t, codes, f.Code)
		want := codes[f.Code]
		if f.Code == verify.ClockAhead { // TestCheckTellsAWrittenLastArrivalFromAClock
			want.warning = f.Warning
		}
		require.Equal(t, want, kind{f.Invariant, f.Warning}, f.Code)
		require.NotEmpty(t, f.Detail)
		got[f.Code] += f.Count
		violated = violated || !f.Warning
	}
	require.Equal(t, want, got, "%+v", v.Findings)
	require.Equal(t, violated, v.Violated())
}

// strays are the findings outside any coupon.
func (c *fixture) strays() *verify.Verdict {
	c.T.Helper()
	everything, err := c.verifier.Plan(c.T.Context(), c.DB, true)
	require.NoError(c.T, err)
	findings, err := c.verifier.Strays(c.T.Context(), c.DB, everything)
	require.NoError(c.T, err)
	return &verify.Verdict{Findings: findings}
}

type kind struct {
	invariant int
	warning   bool
}

// codes are all codes.
var codes = map[verify.Code]kind{
	verify.Oversold: {1, false}, verify.CountWrong: {1, false}, verify.SeatWrong: {1, false},
	verify.HeldTwice: {2, false}, verify.SettledTwice: {2, false},
	verify.PassedOver: {3, false}, verify.OrderWrong: {3, false},
	verify.PromiseLost: {4, false}, verify.NeverSettled: {4, false}, verify.Expiring: {4, false},
	verify.Excess: {4, true}, verify.PromiseUnknown: {4, true},
	verify.LineRewound: {5, false}, verify.ArrivalWrong: {5, false}, verify.NightAhead: {5, false},
	verify.ClockAhead:  {5, true},
	verify.RecordWrong: {6, false}, verify.RecordMissing: {6, false}, verify.ReviewUncounted: {6, false},
	verify.StillStanding:       {6, false},
	verify.MarkWrong:           {6, false},
	verify.MarkedWithoutCoupon: {6, false}, verify.MarkedWithoutRejection: {6, false}, verify.RunMissing: {6, false},
	verify.CleanUpToDo:   {6, true},
	verify.ReasonMissing: {6, false}, verify.ValidityWrong: {6, false}, verify.OutcomeWrong: {6, false},
	verify.RunWrong:         {6, false},
	verify.SeatsUnexplained: {6, false}, verify.CouponUnexplained: {6, false}, verify.CreatedBySQL: {6, true},
	verify.SumWrong: {6, false}, verify.CouponMissing: {6, false}, verify.DoorDiffers: {6, false},
	verify.AuditChanged: {6, false}, verify.AuditRemoved: {6, false}, verify.AuditInserted: {6, false},
	verify.SealBroken: {6, false},
	verify.UsedTwice:  {7, false}, verify.OrderMismatch: {8, false}, verify.LogMissing: {9, false},
	verify.LogWrong: {9, false},
}

// The users of the coupon that populated makes. A run of its own settled each of the first three groups.
const (
	firstRun, firstRunEnds       = 1, 6
	secondRun, secondRunEnds     = 7, 12
	thirdRun, thirdRunEnds       = 13, 18
	notSelected, notSelectedEnds = 19, 24
	byHand, byHandAlone          = 31, 32 // byHand applied as well: ALREADY_ISSUED
	waiting, waitingEnds         = 34, 39
	blocked                      = 41 // in the DLQ
	idle, idleEnds               = 51, 60
	unknown                      = 61 // not in the table of users

	auditEvents = 12

	populatedSeats    = thirdRunEnds + 2
	populatedAccepted = thirdRunEnds + 1 + 1 + (notSelectedEnds - notSelected + 1) + (waitingEnds - waiting + 1)
)

// populatedAccount is the account of the coupon that populated makes.
var populatedAccount = verify.Account{Accepted: populatedAccepted, Waiting: 6, UnderReview: 1, Issued: 18, Outcomes: 7}

// populated makes a sold-out coupon with three runs, coupons given by hand, every outcome, and applications after the
// last cutoff.
func (c *fixture) populated(t *testing.T) *fixture {
	t.Helper()
	c = c.newCoupon(t, populatedSeats)
	c.addUsers(1, waitingEnds)
	c.addUsers(idle, idleEnds)
	c.addUsers(blocked, blocked)
	c.setStatus(jajeongtest.Blocked, blocked, blocked)

	c.apply(firstRun, firstRunEnds-1)
	c.apply(blocked, blocked)
	c.apply(firstRunEnds, firstRunEnds)
	c.journal()
	c.settleNow()
	c.apply(secondRun, secondRunEnds)
	c.journal()
	c.settleNow()
	c.giveByHand(byHand)
	c.giveByHand(byHandAlone)
	c.apply(thirdRun, thirdRunEnds)
	c.apply(byHand, byHand)
	c.apply(notSelected, notSelectedEnds)
	order := jajeongtest.Manual(c.id)
	order.Cutoff, order.CutoffNow = c.Now(), false
	c.apply(waiting, waitingEnds)
	c.journal()
	result := c.run(order)
	require.Equal(t, [3]int{6, 1, 6}, [3]int{result.Issued, result.AlreadyIssued, result.NotSelected}, result.Error)
	require.Len(t, c.Runs(c.id), 3)
	require.EqualValues(t, populatedAccepted, c.Number("SELECT COUNT(*) FROM line_journal WHERE coupon_id = ?", c.id))
	c.audit(auditEvents)
	return c
}

// auditOrigin is the origin of the audit events that the tests write. Its run does not exist.
var auditOrigin = audit.Origin{At: time.UnixMicro(1795143600000000).UTC(), Actor: "kim", Run: 1_000_000_001,
	Reason: "TICKET-7"}

// event is the n-th event of the chain if it has auditOrigin.
func (c *fixture) event(n uint64) audit.Event {
	o := auditOrigin
	return audit.Event{Seq: n, At: o.At, Actor: o.Actor, Action: audit.DLQDropped, Coupon: c.id, Run: &o.Run,
		Reason: o.Reason, Detail: `{"arrival":0}`}
}

// audit appends events of auditOrigin until the chain has n.
func (c *fixture) audit(n uint64) {
	c.T.Helper()
	head, err := audit.ReadHead(c.T.Context(), c.DB, c.id)
	require.NoError(c.T, err)
	require.NoError(c.T, c.Audit(auditOrigin, audit.DLQDropped, c.id, make([]audit.Entry, n-head.Seq)...))
}

// writeEvent writes a row of audit_event past the chain.
func (c *fixture) writeEvent(n uint64, hash string) {
	c.T.Helper()
	e := c.event(n)
	c.Exec("INSERT INTO audit_event (account, seq, at, actor, action, coupon_id, run_id, reason, hash) VALUES ('', "+
		"?, ?, ?, ?, ?, ?, ?, ?)",
		e.Seq, e.At, e.Actor, e.Action, e.Coupon, e.Run, e.Reason, cmp.Or(hash, "sha256:0"))
}

// hashAfter is the hash of an event behind the n-th.
func (c *fixture) hashAfter(n uint64, e audit.Event) string {
	c.T.Helper()
	var previous string
	require.NoError(c.T, c.DB.QueryRow("SELECT hash FROM audit_event WHERE coupon_id = ? AND seq = ?", c.id,
		n).Scan(&previous))
	return e.Hash(previous)
}
