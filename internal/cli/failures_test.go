package cli

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
)

// atOnce is how a person settles everything that has arrived.
var atOnce = []string{"run", "--cutoff=now", "--operator=kim", "--reason=test"}

func (w *world) runAtOnce(extra ...string) (code int, stdout, stderr string) {
	w.t.Helper()
	return w.settle(append(append([]string{}, atOnce...), extra...)...)
}

// inHand is a run that goes on beside the test and tells its steps.
type inHand struct {
	mu    sync.Mutex
	said  bytes.Buffer
	ended chan int
}

func (h *inHand) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.said.Write(p)
}

func (h *inHand) stderr() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.said.String()
}

// begun is how often the run has begun a step.
func (h *inHand) begun(step settle.Step) int {
	return strings.Count(h.stderr(), fmt.Sprintf(`"step":%q`, step))
}

func (w *world) takeInHand(extra ...string) *inHand {
	h := &inHand{ended: make(chan int, 1)}
	args := append(append(append([]string{}, atOnce...), "--log-level=debug"), append(extra, w.servers...)...)
	go func() { h.ended <- run(context.Background(), args, &bytes.Buffer{}, h) }()
	return h
}

// bystander is somebody with a MySQL prompt of their own, in a transaction.
type bystander struct {
	w  *world
	tx *sql.Tx
}

// somebody does not check foreign keys, as a bulk import does: with them, whoever gives a coupon by hand waits for the
// settlement that holds the coupon's row.
func (w *world) somebody() *bystander {
	w.t.Helper()
	conn, err := w.db.Conn(context.Background())
	require.NoError(w.t, err)
	_, err = conn.ExecContext(w.t.Context(), "SET foreign_key_checks = 0")
	require.NoError(w.t, err)
	tx, err := conn.BeginTx(context.Background(), nil)
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		_ = tx.Rollback()
		_, _ = conn.ExecContext(context.Background(), "SET foreign_key_checks = 1")
		_ = conn.Close()
	})
	return &bystander{w, tx}
}

func (p *bystander) exec(query string, args ...any) {
	p.w.t.Helper()
	_, err := p.tx.Exec(query, args...)
	require.NoError(p.w.t, err)
}

func (p *bystander) gives(couponID, user uint64) {
	p.w.t.Helper()
	p.exec("INSERT INTO user_coupon (coupon_id, user_id) VALUES (?, ?)", couponID, user)
}

// awaitInsert returns when a settlement is inserting, which it goes on doing while somebody holds one of its rows. Only a
// settlement names the seats: a server may show what a bystander has just given for a moment longer.
func (w *world) awaitInsert() {
	w.t.Helper()
	w.awaitStatement("INTO user_coupon (coupon_id, user_id, position,")
}

// awaitStatement returns when a session is at a statement with these words.
func (w *world) awaitStatement(words string) {
	w.t.Helper()
	testenv.Eventually(w.t, 20*time.Second, "a session is at "+words, func() bool {
		return testenv.Sessions(w.t, w.db, func(s testenv.Session) bool {
			return s.Command == "Query" && strings.Contains(s.Statement, words)
		}) > 0
	})
}

// nothingMoved demands that the line stands as it stood and nothing is recorded.
func (w *world) nothingMoved(couponID uint64, line ...uint64) {
	w.t.Helper()
	waiting := make([]string, len(line))
	for i, user := range line {
		waiting[i] = fmt.Sprint(user)
	}
	require.Equal(w.t, waiting, w.waiting(couponID))
	require.Empty(w.t, w.underReview(couponID))
	require.Empty(w.t, w.issued(couponID))
	require.Equal(w.t, []uint64{0}, w.ids("SELECT issued_count FROM coupon WHERE id = ?", couponID))
	require.Empty(w.t, w.ids("SELECT run_id FROM settlement WHERE coupon_id = ?", couponID))
}

// The settlement waits for a row of somebody who then asks for the coupon's row. The server ends the lighter of the two
// transactions: somebody's has written more.
func TestADeadlockIsRepeatedFromTheBeginning(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(*bystander, uint64)
		want []uint64
	}{
		"somebody gives up": {func(p *bystander, _ uint64) { require.NoError(p.w.t, p.tx.Rollback()) }, []uint64{1, 2, 3}},
		"somebody gives a coupon": {func(p *bystander, couponID uint64) {
			p.exec("UPDATE coupon SET issued_count = issued_count + 1 WHERE id = ?", couponID)
			require.NoError(p.w.t, p.tx.Commit())
		}, []uint64{2, 1, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			couponID := w.coupon(3)
			w.users(1, 2, 3)
			w.users(between(1000, 1499)...)
			w.apply(couponID, 1, 2, 3)
			p := w.somebody()
			p.exec("UPDATE `user` SET status = 'BLOCKED' WHERE id BETWEEN 1000 AND 1499")
			p.gives(couponID, 2)

			h := w.takeInHand()
			w.awaitInsert()
			p.exec("SELECT id FROM coupon WHERE id = ? FOR UPDATE", couponID) // granted, since the other was ended
			c.end(p, couponID)
			require.Zero(t, <-h.ended, h.stderr())
			require.Equal(t, 2, h.begun(settle.StepLock))
			require.Equal(t, c.want, w.issued(couponID))
			require.Empty(t, w.underReview(couponID))
			w.verify()
		})
	}
}

// A lock wait that runs out undoes its own statement only: what the transaction has written before must go as well.
// Three coupons at once, since each wait takes its time: one is locked for one wait, of one a seat is, one for all waits.
func TestLocksThatSomebodyKeeps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	row, seat, busy := w.coupon(2), w.coupon(2), w.coupon(2)
	w.users(1, 2, 3)
	for _, couponID := range []uint64{row, seat, busy} {
		w.apply(couponID, 1, 2, 3)
	}
	short, long := w.somebody(), w.somebody()
	short.exec("SELECT id FROM coupon WHERE id = ? FOR UPDATE", row)
	short.gives(seat, 2)
	long.exec("SELECT id FROM coupon WHERE id = ? FOR UPDATE", busy)
	h := w.takeInHand(fmt.Sprintf("--coupon=%d", row), fmt.Sprintf("--coupon=%d", seat))

	s := w.settler()
	s.DB, s.Parallel = mysqltx.New(w.impatient()), 1
	code, report, stdout, stderr := w.settleWith(s, busy)
	require.Equal(t, 1, code, stderr)
	require.Equal(t, coupon.Busy, report.Coupons[0].Status)
	require.Contains(t, stdout, "BUSY")
	require.Contains(t, stderr, fmt.Sprintf("coupon %d: busy", busy))
	require.Contains(t, stderr, "nothing more was changed, run again")
	w.nothingMoved(busy, 1, 2, 3)
	require.NoError(t, long.tx.Rollback())

	testenv.Eventually(t, 30*time.Second, "both settlements begin again", func() bool { return h.begun(settle.StepLock) == 4 })
	w.nothingMoved(row, 1, 2, 3)
	w.nothingMoved(seat, 1, 2, 3)
	require.NoError(t, short.tx.Rollback())
	require.Zero(t, <-h.ended, h.stderr())
	w.settleNow(fmt.Sprintf("--coupon=%d", busy))
	for _, couponID := range []uint64{row, seat, busy} {
		require.Equal(t, []uint64{1, 2}, w.issued(couponID))
		require.Equal(t, []uint64{1, 2}, w.positions(couponID))
		require.Equal(t, []uint64{3}, w.outcome(couponID, "NOT_SELECTED"))
	}
	w.verify()
}

// impatient is a pool whose sessions wait for a lock as briefly as both servers allow.
func (w *world) impatient() *sql.DB {
	w.t.Helper()
	db, err := (&connect.MySQLSettings{MySQLDSN: strings.TrimPrefix(w.servers[0], "--mysql-dsn=")}).Open(zap.NewNop())
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(2) // one settles, one records
	conns := make([]*sql.Conn, 2)
	for i := range conns {
		conns[i], err = db.Conn(w.t.Context())
		require.NoError(w.t, err)
		_, err = conns[i].ExecContext(w.t.Context(), "SET innodb_lock_wait_timeout = 1")
		require.NoError(w.t, err)
	}
	for _, conn := range conns {
		require.NoError(w.t, conn.Close())
	}
	return db
}

// An insert that waits for a row may keep every other insert into the table from its numbers; how long, and what they are
// told when their own wait runs out, depends on the server. It is a wait like any other.
func TestAnInsertThatKeepsTheOthersWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seat, other := w.coupon(2), w.coupon(2)
	w.users(1, 2, 3)
	w.apply(seat, 1, 2, 3)
	w.apply(other, 1, 2, 3)
	p := w.somebody()
	p.gives(seat, 2)
	h := w.takeInHand(fmt.Sprintf("--coupon=%d", seat))
	w.awaitInsert()

	s := w.settler()
	s.DB = mysqltx.New(w.impatient())
	var again atomic.Bool
	s.Hook = onStep(func(step settle.Step, times int) {
		if step == settle.StepLock && times == 2 {
			again.Store(true)
		}
	})
	ended := make(chan *settle.Report, 1)
	go func() {
		report, _ := s.RunOnce(context.Background(), settle.Order{Trigger: coupon.Manual, CutoffNow: true, Coupons: []uint64{other}})
		ended <- report
	}()
	var report *settle.Report
	testenv.Eventually(t, 20*time.Second, "the other coupon is settled, or tried again", func() bool {
		select {
		case report = <-ended:
			return true
		default:
			return again.Load()
		}
	})
	require.NoError(t, p.tx.Rollback())
	if report == nil {
		report = <-ended
	}
	require.Zero(t, <-h.ended, h.stderr())
	require.Equal(t, coupon.Settled, report.Coupons[0].Status, report.Coupons[0].Error)
	for _, couponID := range []uint64{seat, other} {
		require.Equal(t, []uint64{1, 2}, w.issued(couponID))
		require.Equal(t, []uint64{3}, w.outcome(couponID, "NOT_SELECTED"))
	}
	w.verify()
}

// settleWith is the program around a settler of the test's own.
func (w *world) settleWith(s *settle.Settler, coupons ...uint64) (code int, report *settle.Report, stdout, stderr string) {
	w.t.Helper()
	report, err := s.RunOnce(w.t.Context(), settle.Order{Trigger: coupon.Manual, CutoffNow: true, Coupons: coupons, Operator: "kim", Reason: "test"})
	require.NoError(w.t, err)
	var out, errs bytes.Buffer
	(&program{cli: &cli{}, zone: s.Zone, logger: zap.NewNop(), stdout: &out, stderr: &errs}).printReport(report)
	if err := worst(report.Classes()); err != nil {
		code = exitCode(err)
	}
	return code, report, out.String(), errs.String()
}

// With foreign keys checked, whoever gives a coupon by hand waits for the settlement and is told that it is given.
func TestACouponGivenByHandWaitsForTheSettlement(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(2)
	w.users(1, 2)
	w.apply(couponID, 1, 2)
	s := w.settler()
	gave := make(chan error, 1)
	var once sync.Once
	s.Progress = func(coupon.Coupon, int) { // the transaction is open
		once.Do(func() {
			go func() {
				_, err := w.db.Exec("INSERT INTO user_coupon (coupon_id, user_id) VALUES (?, 2)", couponID)
				gave <- err
			}()
			w.awaitStatement("INTO user_coupon (coupon_id, user_id) VALUES")
		})
	}
	code, _, _, stderr := w.settleWith(s)
	require.Zero(t, code, stderr)
	require.ErrorContains(t, <-gave, "1062")
	require.Equal(t, []uint64{1, 2}, w.issued(couponID))
	w.verify()
}

// By the time the row of the coupon given by hand is met, the page is isolated already: user 4 has a seat, user 1 is set
// apart. All of that begins again with the page.
func TestACouponGivenByHandInTheMiddleIsNotGivenTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(4)
	w.users(1, 2, 3, 4)
	w.apply(couponID, 4, 1, 2, 3)
	arrivals := w.arrivalsOf(couponID, 1)
	w.refuse("user_coupon", 1)
	p := w.somebody()
	p.gives(couponID, 2)
	h := w.takeInHand()
	w.awaitInsert()
	require.NoError(t, p.tx.Commit())
	require.Zero(t, <-h.ended, h.stderr())
	require.Equal(t, 1, h.begun(settle.StepLock), "only the page is classified again")
	require.Equal(t, []uint64{2, 4, 3}, w.issued(couponID))
	require.Equal(t, []uint64{1, 2}, w.positions(couponID))
	require.Equal(t, []uint64{2}, w.outcome(couponID, "ALREADY_ISSUED"))
	require.Empty(t, w.waiting(couponID))
	w.badRows(couponID, "an odd user", arrivals)
	w.exec("UPDATE coupon SET issued_count = issued_count + 1 WHERE id = ?", couponID) // whoever gives by hand counts, too
	w.verify()
}

// A trigger that always finds its own table's row there is no coupon given by hand.
func TestADuplicateThatStaysIsAPersonsBusiness(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(2)
	w.users(1, 2)
	w.apply(couponID, 1, 2)
	w.exec("INSERT INTO promise (coupon_id) VALUES (4711)")
	w.exec("CREATE TRIGGER repeats BEFORE INSERT ON user_coupon FOR EACH ROW INSERT INTO promise (coupon_id) VALUES (4711)")
	code, _, stderr := w.runAtOnce()
	require.Equal(t, 3, code, stderr)
	require.Contains(t, stderr, "Duplicate entry '4711'")
	w.nothingMoved(couponID, 1, 2)
	w.exec("DROP TRIGGER repeats")
	w.settleNow()
	require.Equal(t, []uint64{1, 2}, w.issued(couponID))
	w.verify()
}

// hooked does something of the test's before a line's first clean-up: after the commit.
type hooked struct {
	settle.Line
	once *sync.Once
	hook func()
}

func (h hooked) Remove(ctx context.Context, couponID uint64, closes time.Time, mark coupon.Mark, settled []coupon.Application) (int64, error) {
	h.once.Do(h.hook)
	return h.Line.Remove(ctx, couponID, closes, mark, settled)
}

// Who was active when the line was classified holds the coupon; blocking says nothing about coupons held. Nothing of
// the settlement waits for the table of the users, nor that for it.
func TestAUserBlockedInTheMiddleOfTheSettlement(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(2)
	w.users(1, 2, 3)
	w.apply(couponID, 1, 2, 3)
	s := w.settler()
	var once sync.Once
	s.Progress = func(coupon.Coupon, int) { // classified and inserted, not committed
		once.Do(func() { w.exec("UPDATE `user` SET status = 'BLOCKED' WHERE id = 2") })
	}
	code, _, _, stderr := w.settleWith(s)
	require.Zero(t, code, stderr)
	require.Equal(t, []uint64{1, 2}, w.issued(couponID))
	require.Equal(t, []uint64{3}, w.outcome(couponID, "NOT_SELECTED"))
	w.verify()
	require.Equal(t, coupon.Unchanged, w.settleNow().Coupons[0].Status)
}

// Whoever is blocked after the commit keeps what was committed; who has no outcome yet is judged as they are now.
func TestUsersBlockedAndUnblockedBetweenCommitAndCleanUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(2)
	w.users(1, 3, 4, 5)
	w.exec("INSERT INTO `user` (id, status) VALUES (2, 'BLOCKED')")
	w.apply(couponID, 1, 2, 3, 4, 5)
	s := w.settler()
	s.Line = hooked{s.Line, new(sync.Once), func() {
		w.exec("UPDATE `user` SET status = 'BLOCKED' WHERE id IN (1, 4)")
		w.exec("UPDATE `user` SET status = 'ACTIVE' WHERE id = 2")
	}}
	code, _, _, stderr := w.settleWith(s)
	require.Zero(t, code, stderr)
	require.Equal(t, []uint64{1, 3}, w.issued(couponID))
	require.Equal(t, []uint64{5}, w.outcome(couponID, "NOT_SELECTED"))
	require.Len(t, w.underReview(couponID), 2)
	require.Equal(t, "PASSED_OVER", w.reason(couponID, "2").Cause)
	require.True(t, w.reason(couponID, "2").Retryable)
	require.Equal(t, "INACTIVE_USER", w.reason(couponID, "4").Cause)
	w.verify()

	w.exec("UPDATE coupon SET total_quantity = 4 WHERE id = ?", couponID)
	w.settleNow()
	require.Equal(t, []uint64{1, 3, 2, 5}, w.issued(couponID))
	w.verify()
}
