package handover

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
)

const (
	// CommitTimeout is how long an answer waits for its row in the journal.
	CommitTimeout = 5 * time.Second
	// maxUncommitted bounds the rows that wait for the next statement. A process has fewer requests in flight.
	maxUncommitted = 50_000
)

var (
	errLate    = errors.New("the journal has no row of the application after 5 s; applying again is safe")
	errTooMany = errors.New("too many applications wait for the journal; applying again is safe")
)

// Applier submits an application to Redis. batch.Batcher implements it.
type Applier interface {
	Apply(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (candidates.Receipt, error)
}

// Committed is an Applier for ACCEPT_AFTER=journal: it answers ACCEPTED and DUPLICATE once MySQL has committed a row of
// the application. All rows that wait go into one statement, and one statement is under way at a time.
type Committed struct {
	Applier
	memory *Memory
	db     *mysqltx.DB
	now    func() time.Time

	mu      sync.Mutex
	next    *group // the rows of the next statement; nil: none waits
	writing bool   // a goroutine writes, until no row waits

	took        prometheus.Histogram
	uncommitted prometheus.Counter
}

// group is the rows of one statement.
type group struct {
	rows   []promise.Row
	epochs map[coupon.CouponID]string // of the servers that have told the rows
	done   chan struct{}              // closed after the statement
	err    error                      // of the statement; set before done is closed
}

// Commit returns an Applier that answers for applier. memory is the Recorder of its store.
func Commit(applier Applier, memory *Memory, db *sql.DB, metrics prometheus.Registerer,
	now func() time.Time) *Committed {
	c := &Committed{Applier: applier, memory: memory, db: mysqltx.NewBrief(db), now: now,
		took: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "jajeong_accept_commit_seconds",
			Help:    "Time of a statement that writes applications into the journal before they are answered.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}}),
		uncommitted: prometheus.NewCounter(prometheus.CounterOpts{Name: "jajeong_accept_uncommitted_total",
			Help: "Applications that Redis has, and that were answered 503 because MySQL did not commit their row."}),
	}
	metrics.MustRegister(c.took, c.uncommitted)
	return c
}

// Apply submits an application. An error says that nothing is promised; Redis may have the application all the same.
func (c *Committed) Apply(ctx context.Context, id coupon.CouponID, user coupon.UserID) (candidates.Receipt, error) {
	receipt, err := c.Applier.Apply(ctx, id, user)
	if err != nil || receipt.Code != candidates.Accepted && receipt.Code != candidates.Duplicate ||
		c.memory.InJournal(id, receipt.Arrival) {
		return receipt, err
	}
	a := coupon.Answer{User: user, Arrival: receipt.Arrival}
	if err := c.commit(promise.Row{Coupon: id, Answer: a}, c.memory.Epoch(id)); err != nil {
		c.uncommitted.Inc()
		return candidates.Receipt{}, err
	}
	return receipt, nil
}

// commit returns nil once MySQL has committed the row.
func (c *Committed) commit(row promise.Row, epoch string) error {
	late := time.NewTimer(CommitTimeout)
	defer late.Stop()
	g, err := c.add(row, epoch)
	if err != nil {
		return err
	}
	select {
	case <-g.done:
		return g.err
	case <-late.C:
		return errLate
	}
}

// add adds a row to the next statement.
func (c *Committed) add(row promise.Row, epoch string) (*group, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = &group{epochs: map[coupon.CouponID]string{}, done: make(chan struct{})}
	}
	if len(c.next.rows) == maxUncommitted {
		return nil, errTooMany
	}
	c.next.rows = append(c.next.rows, row)
	if epoch != "" {
		c.next.epochs[row.Coupon] = epoch
	}
	if !c.writing {
		c.writing = true
		go c.write()
	}
	return c.next, nil
}

// write writes the rows that wait until none does.
func (c *Committed) write() {
	for g := c.take(); g != nil; g = c.take() {
		began := c.now()
		g.err = c.insert(g)
		c.took.Observe(c.now().Sub(began).Seconds())
		close(g.done)
	}
}

func (c *Committed) take() *group {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.next
	c.next, c.writing = nil, g != nil
	return g
}

// insert commits rows by autocommit. If the reply is lost, it tries once more: the rows may be there already. If the
// journal is a copy of another server, that one may serve the others, or serve again, and lack the rows: a restore
// compares it. What this process last read of the journal may be old.
func (c *Committed) insert(g *group) error {
	ctx, cancel := context.WithTimeout(context.Background(), CommitTimeout)
	defer cancel()
	return c.db.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) error {
		if err := promise.Add(ctx, q, g.rows); err != nil {
			return err
		}
		for id, epoch := range g.epochs {
			if err := promise.AskIfNew(ctx, q, id, epoch); err != nil {
				return err
			}
		}
		return nil
	})
}
