package handover

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/promisemodel"
)

// world is one coupon: pods, a Redis with a replica, and MySQL.
type world struct {
	*rapid.T
	redis   *fake
	replica state
	pods    []*pod
	now     coupon.Arrival // µs
	epochs  int
	old     []string // epochs of servers before

	mark    promise.Mark
	journal map[coupon.Answer]coupon.Arrival // since when the journal has a row, or its user was settled
	settled map[coupon.UserID]coupon.Arrival // at which arrival
	due     bool                             // the server was not restored yet

	told  map[coupon.Answer]bool
	trace promisemodel.Trace
}

func (w *world) pod() *pod { return w.pods[rapid.IntRange(0, len(w.pods)-1).Draw(w.T, "pod")] }

func (w *world) user() coupon.UserID { return coupon.UserID(rapid.IntRange(1, 9).Draw(w.T, "user")) }

// passes lets time pass.
func (w *world) passes(d time.Duration) {
	w.now += coupon.Arrival(d.Microseconds())
	for _, p := range w.pods {
		p.clock = w.now.Time()
	}
}

func (w *world) apply(p *pod, user coupon.UserID) {
	r := w.redis
	if r.away || w.settled[user] > 0 {
		return
	}
	at, ok := r.queue[user]
	if !ok {
		w.passes(time.Microsecond)
		at = max(w.now, p.Seen(id)+1)
		r.queue[user] = at
	}
	w.tell(p, r.epoch, coupon.Answer{User: user, Arrival: at}, !ok)
}

func (w *world) tell(p *pod, epoch string, a coupon.Answer, isNew bool) {
	w.told[a] = true
	p.told(epoch, a)
	w.sees(promisemodel.Told{Answer: a, Pod: slices.Index(w.pods, p), Epoch: epoch, New: isNew, Asked: w.now.Time(),
		At: w.now.Time()})
}

func (w *world) sees(e promisemodel.Event) { w.trace.Events = append(w.trace.Events, e) }

// looks shows the trace what MySQL and Redis have.
func (w *world) looks() {
	m := promisemodel.Committed{Epoch: w.mark.Epoch, UpTo: w.mark.UpTo, At: w.now.Time(),
		Rows: slices.Collect(maps.Keys(w.journal))}
	for user, at := range w.settled { // in any order
		m.Outcomes = append(m.Outcomes, promisemodel.Outcome{Answer: coupon.Answer{User: user, Arrival: at},
			Kind: "ALREADY_ISSUED", Below: coupon.MaxArrival + 1})
	}
	server, _, _ := strings.Cut(w.redis.epoch, ":")
	w.sees(m)
	w.sees(promisemodel.Looked{Server: server, Epoch: w.redis.epoch, Restored: !w.due,
		Returned: int64(len(w.redis.returned)), Places: maps.Clone(w.redis.queue), At: w.now.Time()})
}

// seen is the Redis of a pod whose hand-overs the trace sees.
type seen struct {
	*fake
	w   *world
	pod int
}

func (s seen) HandOver(ctx context.Context, id coupon.CouponID, epoch string, marks bool,
	answers []coupon.Answer) (string, []int, error) {
	now, handed, err := s.fake.HandOver(ctx, id, epoch, marks, answers)
	if err == nil && now == epoch {
		s.w.sees(promisemodel.Compared{Pod: s.pod, Epoch: epoch, Answers: slices.Clone(answers), HandedOver: handed,
			At: s.w.now.Time()})
	}
	return now, handed, err
}

// late gives a pod the reply of a server that another one has replaced, which accepted a user.
func (w *world) late(p *pod, user coupon.UserID) {
	if len(w.old) == 0 || w.settled[user] > 0 {
		return
	}
	w.passes(time.Microsecond)
	a := coupon.Answer{User: user, Arrival: w.now}
	w.tell(p, w.old[rapid.IntRange(0, len(w.old)-1).Draw(w.T, "server")], a, true)
}

func (w *world) failover() {
	w.sees(promisemodel.Lost{})
	w.old = append(w.old, w.redis.epoch)
	w.epochs++
	w.redis.state = w.replica.copy()
	w.redis.epoch, w.due = epochOf(w.epochs), true
	w.replica = w.redis.copy()
}

// copies does what the task journal does.
func (w *world) copies() {
	r := w.redis
	if r.away {
		return
	}
	for user, at := range r.queue {
		w.row(coupon.Answer{User: user, Arrival: at})
	}
	if !w.due && len(r.returned) == 0 {
		w.mark = promise.Mark{Epoch: r.epoch, UpTo: w.now}
	}
	w.looks()
}

func (w *world) row(a coupon.Answer) {
	if _, ok := w.journal[a]; !ok {
		w.journal[a] = w.now
	}
}

// restores does what a restore does. One that only takes those handed over finds no loss, and counts for no pod.
func (w *world) restores() {
	r := w.redis
	if r.away || !w.due && len(r.returned) == 0 {
		return
	}
	counts := w.due
	for user, at := range r.returned {
		w.row(coupon.Answer{User: user, Arrival: at})
	}
	for a := range w.journal {
		if at, ok := r.queue[a.User]; w.settled[a.User] == 0 && (!ok || at > a.Arrival) {
			r.queue[a.User] = a.Arrival
		}
	}
	clear(r.returned)
	if w.due = false; w.mark.Epoch != r.epoch {
		w.mark = promise.Mark{Epoch: r.epoch}
	}
	if counts {
		r.restores++
	}
	w.looks()
}

// settles settles a user, with or without a mark in Redis.
func (w *world) settles(user coupon.UserID, marked bool) {
	r := w.redis
	at, ok := r.queue[user]
	if !ok || r.away || w.due || len(r.returned) > 0 {
		return
	}
	delete(r.queue, user)
	w.settled[user] = at
	if marked {
		r.marked[user] = at
	}
}

// refresh does what a refresh of the catalog does.
func (w *world) refresh(p *pod) {
	mark := w.mark
	if w.redis.away {
		return
	}
	p.told(w.redis.epoch)
	p.Journalled(id, mark)
}

// deletes deletes the queue by hand. The next look finds that people are missing.
func (w *world) deletes() {
	if len(w.redis.queue) > 0 {
		w.sees(promisemodel.Lost{})
		clear(w.redis.queue)
		w.due = true
	}
}

// check demands that each answer is remembered by a pod, or that MySQL has had it for ten seconds.
func (w *world) check() {
	remembered := map[coupon.Answer]bool{}
	for _, p := range w.pods {
		l := p.lines[id]
		if l == nil {
			continue
		}
		require.Len(w, l.known, len(l.told))
		require.EqualValues(w, len(l.told), p.remembered.Load())
		n := 0
		for _, one := range l.told {
			remembered[one.Answer] = true
			n += count(one.place)
		}
		require.Equal(w, n, l.handed)
	}
	for a := range w.told {
		had := w.settled[a.User] > 0
		for row, since := range w.journal { // who moved forward has an earlier row
			had = had || row.User == a.User && row.Arrival <= a.Arrival &&
				w.now-since >= coupon.Arrival(keep.Microseconds())
		}
		require.True(w, remembered[a] || had, "%+v is forgotten; journal %v, now %v", a, w.journal, w.now)
	}
}

// Servers that fail, are silent, lag or lose keys, replies that come late, restores and settlements: no answer is
// forgotten that MySQL has not had for ten seconds. In the end everybody stands at the arrival of the answer or before
// it, or was settled, and nothing is remembered. The model of promises accepts what was seen.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{T: t, redis: &fake{state: newState(epochOf(0))}, now: 1_800_000_000_000_000,
			journal: map[coupon.Answer]coupon.Arrival{}, settled: map[coupon.UserID]coupon.Arrival{},
			told: map[coupon.Answer]bool{}, trace: promisemodel.Trace{Keep: keep}}
		w.replica = w.redis.copy()
		for range rapid.IntRange(1, 3).Draw(t, "pods") {
			p := newPod(t, w.redis)
			p.store = seen{w.redis, w, len(w.pods)}
			w.pods = append(w.pods, p)
		}
		w.passes(0)
		t.Repeat(map[string]func(*rapid.T){
			"":          func(*rapid.T) { w.check() },
			"apply":     func(*rapid.T) { w.apply(w.pod(), w.user()) },
			"apply 2":   func(*rapid.T) { w.apply(w.pod(), w.user()) },
			"late":      func(*rapid.T) { w.late(w.pod(), w.user()) },
			"replicate": func(*rapid.T) { w.replica = w.redis.copy() },
			"failover":  func(*rapid.T) { w.failover() },
			"look":      func(*rapid.T) { w.pod().looks() },
			"refresh":   func(*rapid.T) { w.refresh(w.pod()) },
			"copy":      func(*rapid.T) { w.copies() },
			"restore":   func(*rapid.T) { w.restores() },
			"settle":    func(*rapid.T) { w.settles(w.user(), rapid.Bool().Draw(t, "marked")) },
			"delete":    func(*rapid.T) { w.deletes() },
			"silence":   func(*rapid.T) { w.redis.away = !w.redis.away },
			"wait":      func(*rapid.T) { w.passes(time.Duration(rapid.IntRange(1, 12).Draw(t, "seconds")) * time.Second) },
		})
		w.redis.away = false
		for range 12 {
			for _, p := range w.pods {
				p.looks()
			}
			w.restores()
			w.copies()
			for _, p := range w.pods {
				w.refresh(p)
			}
			w.passes(keep)
			w.check()
		}
		for a := range w.told {
			require.True(t, w.redis.stands(a) || w.settled[a.User] > 0, "%+v: %v", a, fmt.Sprint(w.redis.queue))
		}
		for _, p := range w.pods {
			p.remembers()
		}
		require.Empty(t, w.redis.returned, "%v", slices.Collect(maps.Keys(w.settled)))
		require.NoError(t, w.trace.Check())
	})
}
