package jajeongtest

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/handover"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promisemodel"
	"github.com/jajeong/jajeong/internal/testenv"
)

// Trace records what happens to the promises of one coupon, for the model. It sees answers and hand-overs of the pods
// that Pod makes, and what MySQL and Redis have whenever the test looks.
type Trace struct {
	d  *Deployment
	id coupon.CouponID

	mu   sync.Mutex
	seen promisemodel.Trace
	pods int

	looks sync.RWMutex // held for reading while nobody may look
}

// Trace begins a trace. The pods of it remember for keep what they know to be in the journal.
func (d *Deployment) Trace(id coupon.CouponID, keep time.Duration) *Trace {
	d.T.Helper()
	seats := d.Number("SELECT total_quantity FROM coupon WHERE id = ?", id)
	return &Trace{d: d, id: id, seen: promisemodel.Trace{Seats: int(seats), Keep: keep}}
}

func (t *Trace) add(events ...promisemodel.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen.Events = append(t.seen.Events, events...)
}

// TracedPod is a pod that a trace sees.
type TracedPod struct {
	Store  *candidates.Store
	Memory *handover.Memory

	trace  *Trace
	number int
	mu     sync.Mutex
	heard  map[coupon.Answer]string // epochs
}

// Pod gives a store the memory of a pod that has just started.
func (t *Trace) Pod(store *candidates.Store) *TracedPod {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pods++
	p := &TracedPod{Store: store, trace: t, number: t.pods, heard: map[coupon.Answer]string{}}
	p.Memory = handover.New(tracedStore{store, p}, t.seen.Keep, time.Now, zap.NewNop())
	store.Recorder = tracedMemory{p.Memory, p}
	return p
}

// Apply lets a user apply to the pod.
func (p *TracedPod) Apply(ctx context.Context, user coupon.UserID) (candidates.Receipt, error) {
	asked := time.Now()
	receipt, err := p.Store.Apply(ctx, p.trace.id, user)
	told := coupon.Answer{User: user, Arrival: receipt.Arrival}
	switch {
	case err != nil:
		p.trace.add(promisemodel.Unanswered{User: user})
	case receipt.Code == candidates.Accepted || receipt.Code == candidates.Duplicate:
		p.mu.Lock()
		epoch := p.heard[told]
		p.mu.Unlock()
		p.trace.add(promisemodel.Told{Answer: told, Pod: p.number, Epoch: epoch,
			New: receipt.Code == candidates.Accepted, Asked: asked, At: time.Now()})
	}
	return receipt, err
}

// Dies says that the pod has ended.
func (p *TracedPod) Dies() { p.trace.add(promisemodel.Died{Pod: p.number}) }

type tracedMemory struct {
	*handover.Memory
	pod *TracedPod
}

func (m tracedMemory) Answered(id coupon.CouponID, r candidates.Reply) {
	m.pod.mu.Lock()
	for _, a := range r.Answers {
		m.pod.heard[a] = r.Epoch
	}
	m.pod.mu.Unlock()
	m.Memory.Answered(id, r)
}

type tracedStore struct {
	handover.Store
	pod *TracedPod
}

func (s tracedStore) HandOver(ctx context.Context, id coupon.CouponID, epoch string, marks bool,
	answers []coupon.Answer) (string, []int, error) {
	at := time.Now()
	now, handed, err := s.Store.HandOver(ctx, id, epoch, marks, answers)
	if err == nil && now == epoch {
		s.pod.trace.add(promisemodel.Compared{Pod: s.pod.number, Epoch: epoch, Answers: slices.Clone(answers),
			HandedOver: handed, At: at})
	}
	return now, handed, err
}

// Unanswered says that users may have applied by other ways.
func (t *Trace) Unanswered(users ...coupon.UserID) {
	for _, user := range users {
		t.add(promisemodel.Unanswered{User: user})
	}
}

// Loses says that Redis is about to lose something. Nobody looks until lost is called.
func (t *Trace) Loses() (lost func()) {
	shown := t.Hides()
	t.add(promisemodel.Lost{})
	return shown
}

// Hides lets nobody look until shown is called.
func (t *Trace) Hides() (shown func()) {
	t.looks.RLock()
	return sync.OnceFunc(t.looks.RUnlock)
}

const (
	lookInterval = 100 * time.Millisecond
	lookTimeout  = 2 * time.Second
)

// Watch looks until stop is called, at the latest at the end of the test.
func (t *Trace) Watch() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		for tick := time.NewTicker(lookInterval); ; {
			_ = t.look(ctx) // a server may be away
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	})
	stop = sync.OnceFunc(func() { cancel(); watching.Wait() })
	t.d.T.Cleanup(stop)
	return stop
}

// Look looks at MySQL and Redis once.
func (t *Trace) Look() {
	t.d.T.Helper()
	require.NoError(t.d.T, testenv.InTime(t.d.T, func() error { return t.look(t.d.T.Context()) }))
}

// Check looks, and demands that the model accepts the trace. Pods may still be comparing.
func (t *Trace) Check() {
	t.d.T.Helper()
	t.Look()
	t.mu.Lock()
	defer t.mu.Unlock()
	require.NoError(t.d.T, t.seen.Check())
}

// look keeps what MySQL and Redis have. It is seen where it began: what was told or handed over meanwhile comes later.
func (t *Trace) look(ctx context.Context) error {
	if !t.looks.TryLock() {
		return nil
	}
	defer t.looks.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	t.mu.Lock()
	began := len(t.seen.Events)
	t.mu.Unlock()
	m, err := t.d.committed(ctx, t.id)
	if err != nil {
		return err
	}
	events := []promisemodel.Event{m}
	r, err := t.d.looked(ctx, t.id)
	if err == nil {
		now, again := t.d.outcomes(ctx, t.d.DB, t.id)
		if err = again; err == nil && slices.Equal(m.Outcomes, now) {
			events = append(events, r)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen.Events = slices.Insert(t.seen.Events, began, events...)
	return err
}

const (
	tracedSQL = `
SELECT COALESCE(j.epoch, ''), COALESCE(j.up_to, 0), COALESCE(j.asked, 0), COALESCE(s.written_off + s.erased, 0),
    EXISTS (SELECT 1 FROM settlement p WHERE p.coupon_id = c.id AND p.cleaned_at IS NULL)
FROM coupon c LEFT JOIN journal j ON j.coupon_id = c.id LEFT JOIN settled s ON s.coupon_id = c.id WHERE c.id = ?`
	tracedRowsSQL     = "SELECT user_id, arrival FROM line_journal WHERE coupon_id = ?"
	tracedOutcomesSQL = `
SELECT user_id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', applied_at), 'ISSUED', ? FROM user_coupon
WHERE coupon_id = ? AND run_id IS NOT NULL
UNION ALL SELECT o.user_id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', o.applied_at), o.outcome,
    IF(o.outcome = 'REJECTED', ?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', r.cutoff))
FROM application_outcome o JOIN settlement_run r ON r.id = o.run_id WHERE o.coupon_id = ? ORDER BY 1, 2, 3`
)

// committed is one snapshot of MySQL.
func (d *Deployment) committed(ctx context.Context, id coupon.CouponID) (m promisemodel.Committed, err error) {
	m.At = time.Now()
	tx, err := d.DB.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return m, err
	}
	defer func() { _ = tx.Rollback() }()
	err = tx.QueryRowContext(ctx, tracedSQL, id).Scan(&m.Epoch, &m.UpTo, &m.Asked, &m.WrittenOff, &m.Pending)
	if err != nil {
		return m, err
	}
	m.Rows, err = mysqltx.Collect(ctx, tx, func(a *coupon.Answer) []any { return []any{&a.User, &a.Arrival} },
		tracedRowsSQL, id)
	if err != nil {
		return m, err
	}
	m.Outcomes, err = d.outcomes(ctx, tx, id)
	return m, err
}

func (d *Deployment) outcomes(ctx context.Context, q mysqltx.Querier,
	id coupon.CouponID) ([]promisemodel.Outcome, error) {
	return mysqltx.Collect(ctx, q, func(o *promisemodel.Outcome) []any {
		return []any{&o.User, &o.Arrival, &o.Kind, &o.Below}
	}, tracedOutcomesSQL, coupon.MaxArrival+1, id, coupon.MaxArrival+1, id)
}

// looked is what Redis has at one instant.
func (d *Deployment) looked(ctx context.Context, id coupon.CouponID) (l promisemodel.Looked, err error) {
	var info *redis.StringCmd
	var returned *redis.IntCmd
	var state *redis.MapStringStringCmd
	var lines [2]*redis.ZSliceCmd
	_, err = d.Redis.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		info, state = pipe.Info(ctx, "server"), pipe.HGetAll(ctx, d.Key("state", id))
		lines[0] = pipe.ZRangeWithScores(ctx, d.Queue(id), 0, -1)
		lines[1] = pipe.ZRangeWithScores(ctx, d.Key("dlq", id), 0, -1)
		returned = pipe.ZCard(ctx, d.Key("returned", id))
		return nil
	})
	if err != nil {
		return l, err
	}
	_, server, _ := strings.Cut(info.Val(), "run_id:")
	server, _, _ = strings.Cut(server, "\r")
	s := state.Val()
	number := func(field string) int64 {
		n, _ := strconv.ParseInt(s[field], 10, 64) // 0 without a state
		return n
	}
	l = promisemodel.Looked{Server: server, Epoch: s["run_id"] + ":" + s["since"],
		Restored: s["restored"] == s["since"], Accepted: number("accepted"), Left: number("left"),
		Returned: returned.Val(), At: time.Now(),
		Places: map[coupon.UserID]coupon.Arrival{}, InDLQ: map[coupon.UserID]bool{}}
	for i, line := range lines {
		for _, e := range line.Val() {
			user := coupon.ParseUserID(e.Member.(string))
			if user == 0 {
				l.Strangers++
				continue
			}
			l.Places[user], l.InDLQ[user] = coupon.Arrival(e.Score), i == 1
		}
	}
	return l, nil
}
