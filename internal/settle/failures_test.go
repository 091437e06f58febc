package settle_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
)

// running is a run in another goroutine.
type running struct {
	d      *jajeongtest.Deployment
	locked atomic.Int64 // how often it has locked a coupon
	ended  chan struct{}
	report *settle.Report
	err    error
}

func begin(d *jajeongtest.Deployment, coupons ...coupon.CouponID) *running {
	r := &running{d: d, ended: make(chan struct{})}
	s := d.Settler()
	s.Hook = func(_ coupon.CouponID, step settle.Step) {
		if step == settle.StepLock {
			r.locked.Add(1)
		}
	}
	go func() {
		defer close(r.ended)
		r.report, r.err = s.RunOnce(d.T.Context(), jajeongtest.Manual(coupons...))
	}()
	return r
}

// end waits for the end of the run, which must succeed.
func (r *running) end() {
	r.d.T.Helper()
	<-r.ended
	require.NoError(r.d.T, r.err)
	require.Empty(r.d.T, r.report.Classes(), "%+v", r.report)
}

// bystander is another session, in a transaction.
type bystander struct {
	d  *jajeongtest.Deployment
	tx *sql.Tx
}

// newBystander does not check foreign keys, like a bulk import. Otherwise an insert into user_coupon would wait for the
// settlement, which locks the coupon's row.
func newBystander(d *jajeongtest.Deployment) *bystander {
	d.T.Helper()
	conn, err := d.DB.Conn(context.Background())
	require.NoError(d.T, err)
	_, err = conn.ExecContext(d.T.Context(), "SET foreign_key_checks = 0")
	require.NoError(d.T, err)
	tx, err := conn.BeginTx(context.Background(), nil)
	require.NoError(d.T, err)
	d.T.Cleanup(func() {
		_ = tx.Rollback()
		_, _ = conn.ExecContext(context.Background(), "SET foreign_key_checks = 1")
		_ = conn.Close()
	})
	return &bystander{d, tx}
}

func (p *bystander) exec(query string, args ...any) {
	p.d.T.Helper()
	_, err := p.tx.Exec(query, args...)
	require.NoError(p.d.T, err)
}

func (p *bystander) gives(couponID coupon.CouponID, user coupon.UserID) {
	p.d.T.Helper()
	for _, statement := range jajeongtest.Granted(couponID, user) {
		p.exec(statement)
	}
}

// awaitInsert waits until a settlement inserts coupons, which lasts while a bystander locks one of the rows. Only a
// settlement names positions.
func awaitInsert(d *jajeongtest.Deployment) {
	d.T.Helper()
	awaitStatement(d, "INTO user_coupon (coupon_id, user_id, position,")
}

// awaitStatement waits until a session executes a statement with these words.
func awaitStatement(d *jajeongtest.Deployment, words string) {
	d.T.Helper()
	testenv.Eventually(d.T, "a session is at "+words, func() bool {
		return testenv.Sessions(d.T, d.DB, func(s testenv.Session) bool {
			return s.Command == "Query" && strings.Contains(s.Statement, words)
		}) > 0
	})
}

// requireUnchanged requires that the queue is as before and nothing is recorded.
func requireUnchanged(d *jajeongtest.Deployment, couponID coupon.CouponID, line ...coupon.UserID) {
	d.T.Helper()
	waiting := make([]string, len(line))
	for i, user := range line {
		waiting[i] = fmt.Sprint(user)
	}
	requireResults(d, couponID, results{waiting: waiting})
	require.Equal(d.T, []uint64{0}, d.IDs("SELECT issued_count FROM coupon WHERE id = ?", couponID))
	require.Empty(d.T, d.IDs("SELECT run_id FROM settlement WHERE coupon_id = ?", couponID))
}

// The settlement waits for a row of the bystander, which then locks the coupon's row. The server rolls back the
// transaction with fewer writes, which is the settlement.
func TestSettle_RepeatsTransactionAfterDeadlock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(*bystander, coupon.CouponID)
		want []coupon.UserID
	}{
		"bystander rolls back": {func(p *bystander, _ coupon.CouponID) { require.NoError(p.d.T, p.tx.Rollback()) },
			[]coupon.UserID{1, 2, 3}},
		"bystander gives a coupon": {func(p *bystander, couponID coupon.CouponID) {
			p.exec("UPDATE coupon SET issued_count = issued_count + 1 WHERE id = ?", couponID)
			require.NoError(p.d.T, p.tx.Commit())
		}, []coupon.UserID{2, 1, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			couponID := d.AddQueue(3, 1, 2, 3)
			d.AddUsers(between(1000, 1499)...)
			p := newBystander(d)
			p.exec("UPDATE `user` SET status = 'BLOCKED' WHERE id Between 1000 AND 1499")
			p.gives(couponID, 2)

			r := begin(d)
			awaitInsert(d)
			p.exec("SELECT id FROM coupon WHERE id = ? FOR UPDATE", couponID) // granted, since the other was ended
			c.end(p, couponID)
			r.end()
			require.EqualValues(t, 2, r.locked.Load())
			require.Equal(t, 3, r.report.Total.Issued+r.report.Total.AlreadyIssued, "counted once")
			require.Equal(t, c.want, d.Issued(couponID))
			require.Empty(t, d.UnderReview(couponID))
			d.Verify()
		})
	}
}

// A lock wait that runs out undoes only its own statement. The earlier writes of the transaction must be rolled back
// too. Three coupons concurrently, since each wait takes long: the row of the first is locked for one wait, a seat of
// the second, and the row of the third for all waits.
func TestSettle_RepeatsTransactionAfterLockWait(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	row, seat, busy := d.AddCoupon(2), d.AddCoupon(2), d.AddCoupon(2)
	d.AddUsers(1, 2, 3)
	for _, couponID := range []coupon.CouponID{row, seat, busy} {
		d.Apply(couponID, 1, 2, 3)
	}
	short, long := newBystander(d), newBystander(d)
	short.exec("SELECT id FROM coupon WHERE id = ? FOR UPDATE", row)
	short.gives(seat, 2)
	long.exec("SELECT id FROM coupon WHERE id = ? FOR UPDATE", busy)
	r := begin(d, row, seat)

	s := oneByOne(d)
	s.DB = impatient(d)
	report, err := s.RunOnce(t.Context(), jajeongtest.Manual(busy))
	require.NoError(t, err)
	require.Equal(t, []coupon.Class{coupon.Infrastructure}, report.Classes())
	require.Equal(t, coupon.Busy, report.Coupons[0].Status)
	require.Contains(t, report.Coupons[0].Error, "nothing more was changed, run again")
	requireUnchanged(d, busy, 1, 2, 3)
	require.NoError(t, long.tx.Rollback())

	testenv.Eventually(t, "both settlements begin again", func() bool { return r.locked.Load() >= 4 })
	requireUnchanged(d, row, 1, 2, 3)
	requireUnchanged(d, seat, 1, 2, 3)
	require.NoError(t, short.tx.Rollback())
	r.end()
	d.SettleNow(busy)
	for _, couponID := range []coupon.CouponID{row, seat, busy} {
		require.Equal(t, []coupon.UserID{1, 2}, d.Issued(couponID))
		require.Equal(t, []uint64{1, 2}, d.Seats(couponID))
		require.Equal(t, []coupon.UserID{3}, d.Outcome(couponID, "NOT_SELECTED"))
	}
	d.Verify()
}

// impatient is a pool whose sessions wait for locks as briefly as both servers allow.
func impatient(d *jajeongtest.Deployment) *mysqltx.DB {
	d.T.Helper()
	db, err := d.Job.MySQLSettings.Open(connect.Patient, zap.NewNop())
	require.NoError(d.T, err)
	d.T.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(2) // one settles, one records
	conns := make([]*sql.Conn, 2)
	for i := range conns {
		conns[i], err = db.Conn(d.T.Context())
		require.NoError(d.T, err)
		_, err = conns[i].ExecContext(d.T.Context(), "SET innodb_lock_wait_timeout = 1")
		require.NoError(d.T, err)
	}
	for _, conn := range conns {
		require.NoError(d.T, conn.Close())
	}
	return mysqltx.New(db)
}

// A row of user 1 is refused, so that the page is halved and user 4 has a seat. Then a half finds the coupon given by
// hand, and the whole page begins again.
func TestSettle_ClassifiesPageAgainAfterCouponGivenByHand(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(4, 4, 1, 2, 3)
	arrivals := arrivalsOf(d, couponID, 1)
	d.RefuseRows("user_coupon", 1)
	p := newBystander(d)
	p.gives(couponID, 2)
	r := begin(d)
	awaitInsert(d)
	require.NoError(t, p.tx.Commit())
	r.end()
	require.EqualValues(t, 1, r.locked.Load(), "only the page is classified again")
	require.Equal(t, []coupon.UserID{2, 4, 3}, d.Issued(couponID))
	require.Equal(t, []uint64{1, 2}, d.Seats(couponID))
	require.Equal(t, []coupon.UserID{2}, d.Outcome(couponID, "ALREADY_ISSUED"))
	require.Empty(t, d.Waiting(couponID))
	requireBadRows(d, couponID, "an odd user", arrivals)
	d.Exec("UPDATE coupon SET issued_count = issued_count + 1 WHERE id = ?", couponID) // as the bystander should
	d.Verify()
}

// A user who was active at the classification gets the coupon. The settlement and the table of users do not wait for
// each other.
func TestSettle_IssuesToUserBlockedAfterClassification(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(2, 1, 2, 3)
	s := d.Settler()
	var once sync.Once
	s.Progress = func(coupon.Coupon, int) { // classified and inserted, not committed
		once.Do(func() { d.SetStatus(jajeongtest.Blocked, 2) })
	}
	report, err := s.RunOnce(t.Context(), jajeongtest.Manual())
	require.NoError(t, err)
	require.Empty(t, report.Classes())
	requireSettled(d, couponID, results{issued: []coupon.UserID{1, 2}, notSelected: []coupon.UserID{3}})
	require.Equal(t, coupon.Unchanged, d.SettleNow().Coupons[0].Status)
}

// Users blocked after the commit keep their results. Users without an outcome are decided by their present status.
func TestSettle_JudgesUndecidedUsersAfterCommit(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(2, 1, 2, 3, 4, 5)
	d.SetStatus(jajeongtest.Blocked, 2)
	s := d.Settler()
	s.Line = watchedLine{Line: s.Line, remove: sync.OnceFunc(func() { // after the commit
		d.SetStatus(jajeongtest.Blocked, 1, 4)
		d.SetStatus(jajeongtest.Active, 2)
	})}
	report, err := s.RunOnce(t.Context(), jajeongtest.Manual())
	require.NoError(t, err)
	require.Empty(t, report.Classes())
	require.Equal(t, []coupon.UserID{1, 3}, d.Issued(couponID))
	require.Equal(t, []coupon.UserID{5}, d.Outcome(couponID, "NOT_SELECTED"))
	require.Len(t, d.UnderReview(couponID), 2)
	require.Equal(t, "PASSED_OVER", d.Reason(couponID, "2").Cause)
	require.True(t, d.Reason(couponID, "2").Retryable)
	require.Equal(t, "INACTIVE_USER", d.Reason(couponID, "4").Cause)
	d.Verify()

	d.SetSeats(couponID, 4)
	d.SettleNow()
	requireSettled(d, couponID, results{issued: []coupon.UserID{1, 3, 2, 5}, review: []string{"4"}})
}
