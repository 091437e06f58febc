package main

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/settle"
)

// gate is a place where a run is held: it says that it has come there, and goes on when it may.
type gate struct{ reached, open chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}), make(chan struct{})} }

func (g *gate) pass() {
	close(g.reached)
	<-g.open
}

// heldLine holds a run before one of its calls, counted from 1. Only one coupon is settled, so that calls do not overlap.
type heldLine struct {
	settle.Line
	page, remove  int // before which call
	gate          *gate
	pages, clears int
	cleared       chan struct{} // closed when the first Remove is done; may be nil
}

func (l *heldLine) Page(ctx context.Context, coupon uint64, after settle.Cursor, cutoff time.Time) ([]settle.Application, settle.Cursor, error) {
	if l.pages++; l.pages == l.page {
		l.gate.pass()
	}
	return l.Line.Page(ctx, coupon, after, cutoff)
}

func (l *heldLine) Remove(ctx context.Context, coupon uint64, closes time.Time, mark settle.Mark, settled []settle.Application) error {
	if l.clears++; l.clears == l.remove {
		l.gate.pass()
	}
	err := l.Line.Remove(ctx, coupon, closes, mark, settled)
	if l.clears == 1 && l.cleared != nil {
		close(l.cleared)
	}
	return err
}

// companions are runs that go on at the same time, all with a cutoff of now.
type companions struct {
	*world
	under   sync.WaitGroup
	mu      sync.Mutex
	reports []*settle.Report
}

// begin lets a run go that is held by its line; nil: by nothing.
func (c *companions) begin(held *heldLine) {
	s := c.settler()
	if held != nil {
		held.Line = s.Line
		s.Line = held
	}
	c.under.Go(func() {
		report, err := s.RunOnce(context.Background(), settle.Order{Trigger: settle.Manual, CutoffNow: true})
		if assert.NoError(c.t, err) && assert.NoError(c.t, report.Err()) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.reports = append(c.reports, report)
		}
	})
}

// sum is what all runs together said they did.
func (c *companions) sum() (issued, notSelected int) {
	c.under.Wait()
	for _, r := range c.reports {
		issued += r.Total.Issued
		notSelected += r.Total.NotSelected
		assert.Zero(c.t, r.Coupons[0].Gap)
	}
	return issued, notSelected
}

const (
	heldLineLength = 1500 // three pages of Redis
	firstSeats     = 100
	laterSeats     = 800
)

// newCompanions is a sold-out coupon of which the first run has committed its coupons and is held before it cleans up.
func newCompanions(t *testing.T) (c *companions, coupon uint64, first *heldLine) {
	c = &companions{world: newWorld(t)}
	coupon = c.coupon(firstSeats)
	c.users(between(1, heldLineLength)...)
	c.standAll(coupon, between(1, heldLineLength))
	first = &heldLine{remove: 1, gate: newGate(), cleared: make(chan struct{})}
	c.begin(first)
	<-first.gate.reached
	return c, coupon, first
}

// Seats are added while one run cleans up; another reads the line to give them, and what it has not read yet moves up
// under its hands; a third waits for its turn to read.
func TestTwoRunsThatReadTheLineWhileAThirdCleansUpIssueTheLowestArrivals(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]int{"before the first page": 1, "between two pages": 2, "before the last page": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, coupon, first := newCompanions(t)
			c.exec("UPDATE coupon SET total_quantity = ? WHERE id = ?", laterSeats, coupon)
			second := &heldLine{page: page, gate: newGate()}
			c.begin(second)
			<-second.gate.reached // and holds the coupon's row
			c.begin(nil)
			c.awaitLockWait()
			close(first.gate.open)
			<-first.cleared
			close(second.gate.open)

			issued, notSelected := c.sum()
			require.Equal(t, laterSeats, issued)
			require.Equal(t, heldLineLength-laterSeats, notSelected)
			c.requireInOrder(coupon, laterSeats)
		})
	}
}

// Two runs that found no seat walk what is left of the line, without the coupon's row, while the first cleans up; what
// they have read is settled by somebody else before they decide about it.
func TestTwoRunsThatRecordTheRestWhileAThirdCleansUpRecordItOnce(t *testing.T) {
	t.Parallel()
	for name, seats := range map[string]int{"sold out": firstSeats, "seats are added": laterSeats} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, coupon, first := newCompanions(t)
			second, third := &heldLine{page: 2, gate: newGate()}, &heldLine{page: 4, gate: newGate()}
			c.begin(second)
			c.begin(third)
			<-second.gate.reached
			<-third.gate.reached // everything is read
			c.exec("UPDATE coupon SET total_quantity = ? WHERE id = ?", seats, coupon)
			close(first.gate.open)
			<-first.cleared
			c.begin(nil)
			close(third.gate.open)
			close(second.gate.open)

			issued, notSelected := c.sum()
			require.Equal(t, seats, issued)
			require.Equal(t, heldLineLength-seats, notSelected)
			c.requireInOrder(coupon, seats)
		})
	}
}

// requireInOrder: the first of the line hold the coupon, in order, and the others are recorded.
func (c *companions) requireInOrder(coupon uint64, seats int) {
	c.t.Helper()
	line := between(1, heldLineLength)
	require.Equal(c.t, line[:seats], c.issued(coupon))
	require.Equal(c.t, between(1, uint64(seats)), c.ids("SELECT position FROM user_coupon WHERE coupon_id = ? ORDER BY position", coupon))
	require.Equal(c.t, line[seats:], c.outcome(coupon, "NOT_SELECTED"))
	require.Empty(c.t, c.waiting(coupon))
	var recorded [2]int
	require.NoError(c.t, c.db.QueryRow("SELECT SUM(issued_count), SUM(not_selected_count) FROM settlement WHERE coupon_id = ?", coupon).Scan(&recorded[0], &recorded[1]))
	require.Equal(c.t, [2]int{seats, heldLineLength - seats}, recorded)
	c.verify()
}
