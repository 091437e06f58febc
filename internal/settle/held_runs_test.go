package settle_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
)

// gate stops a run until the test opens it.
type gate struct{ reached, open chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}), make(chan struct{})} }

// pass ends with ctx, so that a failed test leaves no run behind.
func (g *gate) pass(ctx context.Context) {
	close(g.reached)
	select {
	case <-g.open:
	case <-ctx.Done():
	}
}

// heldLine holds a run before one of its calls, counted from 1. Only one coupon is settled, so that calls do not
// overlap.
type heldLine struct {
	settle.Line
	page, remove  int // before which call
	gate          *gate
	pages, clears int
	cleared       chan struct{} // closed when the first Remove is done; may be nil
}

func (l *heldLine) Page(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor,
	cutoff time.Time) ([]coupon.Application, coupon.Cursor, error) {
	if l.pages++; l.pages == l.page {
		l.gate.pass(ctx)
	}
	return l.Line.Page(ctx, couponID, after, cutoff)
}

func (l *heldLine) Remove(ctx context.Context, couponID coupon.CouponID, closes time.Time, mark coupon.Mark,
	settled []coupon.Application) (int64, error) {
	if l.clears++; l.clears == l.remove {
		l.gate.pass(ctx)
	}
	n, err := l.Line.Remove(ctx, couponID, closes, mark, settled)
	if l.clears == 1 && l.cleared != nil {
		close(l.cleared)
	}
	return n, err
}

// companions are runs that go on at the same time, all with a cutoff of now.
type companions struct {
	*jajeongtest.Deployment
	under   sync.WaitGroup
	mu      sync.Mutex
	reports []*settle.Report
}

// begin starts a run whose line may have a gate.
func (c *companions) begin(held *heldLine) {
	s := c.Settler()
	if held != nil {
		held.Line = s.Line
		s.Line = held
	}
	c.under.Go(func() {
		report, err := s.RunOnce(c.T.Context(), jajeongtest.Manual())
		for err == nil && slices.Contains(report.Classes(), coupon.Infrastructure) { // a lock was held too long
			report, err = s.RunOnce(c.T.Context(), jajeongtest.Manual())
		}
		if assert.NoError(c.T, err) && assert.NoError(c.T, report.Err()) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.reports = append(c.reports, report)
		}
	})
}

// await fails if the event does not happen, for example because a run has ended before.
func (c *companions) await(happened <-chan struct{}, what string) {
	c.T.Helper()
	testenv.Eventually(c.T, what, func() bool {
		select {
		case <-happened:
			return true
		default:
			return false
		}
	})
}

// sum adds up the reports of all runs.
func (c *companions) sum() (issued, notSelected int) {
	c.under.Wait()
	for _, r := range c.reports {
		issued += r.Total.Issued
		notSelected += r.Total.NotSelected
		assert.Zero(c.T, r.Coupons[0].Gap)
	}
	return issued, notSelected
}

const (
	heldLineLength = 1500 // three pages of Redis
	firstSeats     = 100
	laterSeats     = 1200
)

// newCompanions is a sold-out coupon of which the first run has committed its coupons and is held before it cleans up.
func newCompanions(t *testing.T) (c *companions, couponID coupon.CouponID, first *heldLine) {
	c = &companions{Deployment: jajeongtest.New(t)}
	couponID = c.AddCoupon(firstSeats)
	c.AddUsers(between(1, heldLineLength)...)
	c.ApplyLine(couponID, between(1, heldLineLength)...)
	first = &heldLine{remove: 1, gate: newGate(), cleared: make(chan struct{})}
	c.begin(first)
	c.await(first.gate.reached, "a run reaches its gate")
	return c, couponID, first
}

// Seats are added while one run cleans up. A second run reads the line to give them, while the clean-up shortens it. A
// third waits for the lock.
func TestSettle_IssuesLowestArrivalsWhileAnotherRunCleansUp(t *testing.T) {
	t.Parallel()
	c, couponID, first := newCompanions(t)
	c.SetSeats(couponID, laterSeats)
	second := &heldLine{page: 2, gate: newGate()}
	c.begin(second)
	c.await(second.gate.reached, "a run reaches its gate") // and holds the coupon's row
	c.begin(nil)
	c.AwaitLockWait()
	close(first.gate.open)
	c.await(first.cleared, "the first run has cleaned up once")
	close(second.gate.open)

	issued, notSelected := c.sum()
	require.Equal(t, laterSeats, issued)
	require.Equal(t, heldLineLength-laterSeats, notSelected)
	c.requireInOrder(couponID, laterSeats)
}

// Two runs without free seats read the rest of the queue, without the coupon's row, while the first cleans up. Another
// run settles what they have read before they decide about it.
func TestSettle_RecordsNotSelectedOnceWhileAnotherRunCleansUp(t *testing.T) {
	t.Parallel()
	for name, seats := range map[string]int{"sold out": firstSeats, "seats are added": laterSeats} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, couponID, first := newCompanions(t)
			second, third := &heldLine{page: 2, gate: newGate()}, &heldLine{page: 4, gate: newGate()}
			c.begin(second)
			c.begin(third)
			c.await(second.gate.reached, "a run reaches its gate")
			c.await(third.gate.reached, "a run reaches its gate") // everything is read
			c.SetSeats(couponID, seats)
			close(first.gate.open)
			c.await(first.cleared, "the first run has cleaned up once")
			c.begin(nil)
			close(third.gate.open)
			close(second.gate.open)

			issued, notSelected := c.sum()
			require.Equal(t, seats, issued)
			require.Equal(t, heldLineLength-seats, notSelected)
			c.requireInOrder(couponID, seats)
		})
	}
}

// requireInOrder: the first applications have the seats, in order, and the others are recorded.
func (c *companions) requireInOrder(couponID coupon.CouponID, seats int) {
	c.T.Helper()
	line := between(1, heldLineLength)
	require.Equal(c.T, line[:seats], c.Issued(couponID))
	require.Equal(c.T, jajeongtest.Between(1, uint64(seats)),
		c.IDs("SELECT position FROM user_coupon WHERE coupon_id = ? ORDER BY position", couponID))
	require.Equal(c.T, line[seats:], c.Outcome(couponID, "NOT_SELECTED"))
	require.Empty(c.T, c.Waiting(couponID))
	var recorded [2]int
	require.NoError(c.T,
		c.DB.QueryRow("SELECT SUM(issued_count), SUM(not_selected_count) FROM settlement WHERE coupon_id = ?",
			couponID).Scan(&recorded[0], &recorded[1]))
	require.Equal(c.T, [2]int{seats, heldLineLength - seats}, recorded)
	c.Verify()
}

// ALTER TABLE waits for the settlement, and reads of the settlement on another connection wait for ALTER TABLE: the
// transaction yields.
func TestSettle_YieldsToAlterTable(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(2, 1, 2, 3)
	held := &heldLine{page: 1, gate: newGate()}
	c := &companions{Deployment: d}
	c.begin(held)
	c.await(held.gate.reached, "a run reaches its gate") // with the coupon's row, and after a look at the coupons given
	session, err := d.DB.Conn(t.Context())
	require.NoError(t, err)
	defer session.Close()
	_, err = session.ExecContext(t.Context(), "SET SESSION lock_wait_timeout = 86400")
	require.NoError(t, err)
	altered := make(chan error, 1)
	go func() {
		_, err := session.ExecContext(context.Background(), "ALTER TABLE user_coupon COMMENT = 'altered at midnight'")
		altered <- err
	}()
	testenv.Eventually(t, "the table is about to be altered", func() bool {
		return testenv.Sessions(t, d.DB, func(s testenv.Session) bool {
			return strings.Contains(s.State,
				"metadata lock")
		}) > 0
	})
	close(held.gate.open)
	issued, _ := c.sum()
	require.Equal(t, 2, issued)
	require.NoError(t, <-altered)
	requireSettled(d, couponID, results{issued: []coupon.UserID{1, 2}, notSelected: []coupon.UserID{3}})
}
