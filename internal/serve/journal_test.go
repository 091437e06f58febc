package serve

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/time/rate"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
)

// journalTask is the task journal of one process, a round at a time.
type journalTask struct {
	*Journal
	d        *jajeongtest.Deployment
	restorer *countingRestorer
	logs     *observer.ObservedLogs
}

type countingRestorer struct {
	Restorer
	mu       sync.Mutex
	restored []coupon.CouponID
}

func (r *countingRestorer) Restore(ctx context.Context, o journal.Order) (journal.Restored, error) {
	r.mu.Lock()
	r.restored = append(r.restored, o.Coupon)
	r.mu.Unlock()
	return r.Restorer.Restore(ctx, o)
}

func newJournalTask(d *jajeongtest.Deployment) *journalTask {
	d.T.Helper()
	return newJournalTaskAt(d, 100_000)
}

func newJournalTaskAt(d *jajeongtest.Deployment, rowsPerSecond int) *journalTask {
	d.T.Helper()
	servers, err := connect.Open(&d.Job.MySQLSettings, connect.Brief, &d.Job.RedisSettings, zap.NewNop())
	require.NoError(d.T, err)
	d.T.Cleanup(servers.Close)
	core, logs := observer.New(zapcore.WarnLevel)
	t := &journalTask{d: d, restorer: &countingRestorer{Restorer: d.Restorer()}, logs: logs}
	t.Journal, err = NewJournal(JournalConfig{DB: mysqltx.NewBrief(servers.MySQL), Store: d.NewStore(servers.Redis),
		Restorer: t.restorer, Cleaner: d.Settler(), RowsPerSecond: rowsPerSecond, Now: time.Now, Logger: zap.New(core)})
	require.NoError(d.T, err)
	d.T.Cleanup(func() {
		t.copying.watch.Wait()
		t.restores.watch.Wait()
	})
	return t
}

// rounds does some rounds, and waits for what they have begun.
func (t *journalTask) rounds(n int) {
	t.d.T.Helper()
	for range n {
		var background sync.WaitGroup
		require.NoError(t.d.T, t.round(t.d.T.Context(), &background))
		background.Wait()
	}
}

// await does rounds until something has happened.
func (t *journalTask) await(what string, happened func() bool) {
	t.d.T.Helper()
	testenv.Eventually(t.d.T, what, func() bool {
		t.rounds(1)
		return happened()
	})
}

// Whatever Redis loses of a coupon is found, and nobody is lost. Coupons that were inserted by SQL get their row.
func TestJournal_RestoresWhatRedisLoses(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	ctx, users := t.Context(), jajeongtest.Between[coupon.UserID](1, 6)
	d.AddUsers(users...)
	del := func(keys ...string) { require.NoError(t, d.Redis.Del(ctx, keys...).Err()) }
	losses := map[string]func(id coupon.CouponID){
		"nothing": func(coupon.CouponID) {}, "everything": func(id coupon.CouponID) { d.LoseRedis(id) },
		"the queue":  func(id coupon.CouponID) { del(d.Queue(id)) },
		"the state":  func(id coupon.CouponID) { del(d.Key("state", id)) },
		"one person": func(id coupon.CouponID) { require.NoError(t, d.Redis.ZRem(ctx, d.Queue(id), "2").Err()) },
		"the marks":  func(id coupon.CouponID) { del(d.Key("issued", id)) },
	}
	task, coupons := newJournalTask(d), map[string]coupon.CouponID{}
	for name := range losses {
		id := d.AddCoupon(4)
		d.Apply(id, 5, 6)
		d.SettleNow(id)
		d.Apply(id, users[:4]...)
		coupons[name] = id
	}
	task.rounds(2)
	require.EqualValues(t, 24, d.Number("SELECT COUNT(*) FROM line_journal"))
	require.Empty(t, task.restorer.restored)
	d.PodsDie()
	for name, lose := range losses {
		lose(coupons[name])
	}
	task.await("everybody is back", func() bool {
		return !slices.ContainsFunc(slices.Collect(values(coupons)), func(id coupon.CouponID) bool {
			now := d.Look(id)
			return !now.Restored || now.Waiting != 4 || now.Issued != 2
		})
	})
	require.NotContains(t, task.restorer.restored, coupons["nothing"])
	require.EqualValues(t, 4+4+1, testutil.ToFloat64(task.putBack))
	d.SettleNow()
	for _, id := range coupons {
		require.Equal(t, []coupon.UserID{5, 6, 1, 2}, d.Issued(id))
	}
}

// Somebody with the API's account of Redis empties the queue, and sets the epoch back as if it had been compared. A pod
// hands over whom the journal lacks, and everybody is back.
func TestJournal_RestoresWhomTheAPIsAccountRemoves(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2)
	task := newJournalTask(d)
	task.rounds(2)
	d.AddUsers(3)
	d.Apply(id, 3) // the journal lacks 3
	before, line := d.Arrivals(id), d.Look(id)
	attacker, err := d.API.RedisSettings.Open()
	require.NoError(t, err)
	defer attacker.Close()
	since := int64(line.Since) - time.Second.Microseconds()
	require.NoError(t, attacker.HSet(t.Context(), d.Key("state", id), "since", since, "restored", since,
		"accepted", 0).Err())
	require.NoError(t, attacker.ExpireAt(t.Context(), d.Queue(id), time.Unix(1, 0)).Err())
	require.Empty(t, d.Waiting(id))
	require.Equal(t, promise.NotDue, promise.Books{}.Due(d.Look(id).Line), "nothing in Redis tells")
	d.Refresh() // of the pod
	task.await("everybody is back", func() bool { return maps.Equal(before, d.Arrivals(id)) })
}

func values[K comparable, V any](of map[K]V) func(yield func(V) bool) {
	return func(yield func(V) bool) {
		for _, v := range of {
			if !yield(v) {
				return
			}
		}
	}
}

// dueNow are the coupons that the task would restore and clean up.
func dueNow(t *testing.T, open map[coupon.CouponID]*journalled,
	looks map[coupon.CouponID]coupon.Look) (due, abandoned []coupon.CouponID) {
	t.Helper()
	return (&Journal{open: open}).due(looks)
}

func TestJournal_RestoresPeopleFirst(t *testing.T) {
	t.Parallel()
	open, looks := map[coupon.CouponID]*journalled{}, map[coupon.CouponID]coupon.Look{}
	add := func(id coupon.CouponID, line coupon.Line, known journalled) {
		open[id], looks[id] = &known, coupon.Look{Line: line}
	}
	fresh := coupon.Line{Since: 1}
	add(1, fresh, journalled{}) // empty
	people := fresh
	people.Accepted = 1
	add(2, people, journalled{})
	handed := fresh
	handed.Returned = 1
	add(3, handed, journalled{})
	add(4, fresh, journalled{Open: journal.Open{Books: promise.Books{Mark: promise.Mark{UpTo: 1}}}})
	add(5, coupon.Line{Since: 1, Restored: true}, journalled{})
	add(6, people, journalled{busy: true})
	add(7, people, journalled{Open: journal.Open{Abandoned: true}}) // a restore goes before a clean-up
	add(8, coupon.Line{Since: 1, Restored: true}, journalled{Open: journal.Open{Abandoned: true}})
	add(9, people, journalled{})
	waits := looks[9]
	waits.RestoresIn = time.Second
	looks[9] = waits
	looks[10] = coupon.Look{} // it is not open any more
	due, abandoned := dueNow(t, open, looks)
	require.Equal(t, []coupon.CouponID{2, 3, 4, 7, 1}, due)
	require.Equal(t, []coupon.CouponID{8}, abandoned)
}

// A clean-up may be about to mark users. Two looks tell whether they lack their marks.
func TestJournal_BelievesTwoLooksThatMarksAreMissing(t *testing.T) {
	t.Parallel()
	one := &journalled{issued: 2}
	open := map[coupon.CouponID]*journalled{1: one}
	look := func(issued int64) (due []coupon.CouponID) {
		due, _ = dueNow(t, open, map[coupon.CouponID]coupon.Look{
			1: {Line: coupon.Line{Since: 1, Restored: true, Issued: issued}}})
		return due
	}
	require.Empty(t, look(1))
	require.Empty(t, look(2))
	require.Empty(t, look(1))
	one.Pending = true
	require.Empty(t, look(1))
	one.Pending = false
	require.Empty(t, look(1))
	require.Len(t, look(1), 1)
}

// Nobody could apply any more.
func TestJournal_SetsBackALastArrivalThatSomebodyWrote(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	written, ahead := d.AddQueue(2, 1), d.AddQueue(2, 3)
	d.AddUsers(2)
	task := newJournalTask(d)
	task.rounds(2)
	inAnHour := coupon.ArrivalAt(d.Now().Add(time.Hour))
	d.ApplyAt(ahead, "9", inAnHour.Time()) // on a server whose clock was ahead
	d.SetLast(ahead, inAnHour)
	d.SetLast(written, coupon.MaxArrival)
	require.Equal(t, candidates.ClockBehind, d.Answer(written, 2))
	task.await("it is set back", func() bool { return d.Look(written).Last < inAnHour })
	task.rounds(3)
	require.Equal(t, candidates.Accepted, d.Answer(written, 2))
	require.Equal(t, inAnHour, d.Look(ahead).Last)
	require.Equal(t, []coupon.CouponID{written}, task.restorer.restored, "once; nothing can be done for the other one")
}

// A pod may raise the last arrival after each restore.
func TestJournal_SetsBackALastArrivalOnceAMinute(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	one := &journalled{restoredAt: now}
	task := &Journal{JournalConfig: JournalConfig{Now: func() time.Time { return now }},
		open: map[coupon.CouponID]*journalled{1: one}}
	look := coupon.Look{Now: now, Line: coupon.Line{Since: 1, Restored: true, Last: coupon.MaxArrival}}
	due := func() []coupon.CouponID {
		due, _ := task.due(map[coupon.CouponID]coupon.Look{1: look})
		return due
	}
	now = now.Add(aheadInterval - 1)
	require.Empty(t, due())
	now = now.Add(1)
	require.Equal(t, []coupon.CouponID{1}, due())
	look.Last = look.Latest()
	require.Empty(t, due())
}

// Somebody keeps the row of a coupon. Only this coupon waits, and nobody is alarmed.
func TestJournal_LeavesLockedCouponsAlone(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	locked, free := d.AddQueue(2, 1, 2), d.AddCoupon(2)
	d.Apply(free, 1, 2)
	task := newJournalTask(d)
	task.rounds(2)
	d.PodsDie()
	d.LoseRedis(locked, free)
	release := d.Lock(locked)
	task.await("the free coupon is restored", func() bool { return d.Look(free).Restored })
	task.rounds(3)
	require.False(t, d.Look(locked).Restored)
	require.Zero(t, task.logs.FilterLevelExact(zapcore.ErrorLevel).Len(), task.logs.All())
	release()
	task.await("the other one, too", func() bool { return d.Look(locked).Restored })
	require.Equal(t, []string{"1", "2"}, d.Waiting(locked))
}

func TestJournal_Metrics(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	fine, gap, unknown := d.AddQueue(2, 1, 2, 3), d.AddCoupon(2), d.AddCoupon(2)
	require.Equal(t, []coupon.CouponID{1, 2, 3}, []coupon.CouponID{fine, gap, unknown})
	d.Apply(gap, 1, 2, 3)
	d.Apply(unknown, 1, 2, 3)
	task := newJournalTask(d)
	task.rounds(2)
	d.PodsDie()
	d.Exec("DELETE FROM line_journal WHERE user_id > 1")
	require.NoError(t, d.Redis.ZRem(t.Context(), d.Queue(gap), "2", "3").Err())
	d.LoseRedis(unknown)
	task.await("the coupons are restored", func() bool {
		return d.Look(unknown).Restored && d.Look(gap).Left == 2 && d.Look(unknown).Restores == 1
	})
	task.rounds(2)
	require.Len(t, task.restorer.restored, 2, "once each")
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(task)
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP jajeong_promises_missing Accepted applications that are neither in Redis nor settled, by coupon; only of coupons that miss some.
# TYPE jajeong_promises_missing gauge
jajeong_promises_missing{coupon_id="2"} 2
# HELP jajeong_promises_unknown Accepted applications of which a new Redis server, the journal and MySQL know nothing, by coupon; only of coupons that miss some.
# TYPE jajeong_promises_unknown gauge
jajeong_promises_unknown{coupon_id="3"} 2
`), "jajeong_promises_missing", "jajeong_promises_unknown"))
	require.Equal(t, 1, task.logs.FilterMessage("promises are missing that the journal does not have").Len())
	require.Equal(t, 1, task.logs.FilterField(zap.Int64("unknown", 2)).Len())

	before := task.Now
	task.Now = func() time.Time { return before().Add(time.Hour) }
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(""), "jajeong_nothing"))
	task.rounds(1)
	found, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range found {
		if family.GetName() == "jajeong_journal_lag_seconds" {
			require.Less(t, family.GetMetric()[0].GetGauge().GetValue(), 60.0, "all of the line is journalled")
		}
	}
}

// killedLine is a Redis that a run does not reach any more when it removes applications with one mark.
type killedLine struct {
	settle.Line
	at coupon.Mark
}

func (l killedLine) Remove(ctx context.Context, id coupon.CouponID, closes time.Time, mark coupon.Mark,
	all []coupon.Application) (int64, error) {
	if mark == l.at {
		return 0, errors.New("the process is killed")
	}
	return l.Line.Remove(ctx, id, closes, mark, all)
}

// A run was killed after its COMMIT. The journal goes on when a process has ended the clean-up, and nobody is judged
// twice.
func TestJournal_EndsAbandonedCleanUps(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]coupon.Mark{"of winners": coupon.MarkIssued, "of the others": coupon.MarkNone} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			id := d.AddQueue(2, 1, 2, 3)
			_, err := d.Settler(func(s *settle.Settler) { s.Line = killedLine{s.Line, at} }).RunOnce(t.Context(),
				jajeongtest.Manual(id))
			require.NoError(t, err)
			require.Equal(t, []coupon.UserID{1, 2}, d.Issued(id))
			selected := d.Number("SELECT COUNT(*) FROM application_outcome") == 0
			require.Equal(t, at == coupon.MarkIssued, selected)
			task := newJournalTask(d)
			pending := func() bool { return d.Number("SELECT COUNT(*) FROM settlement WHERE cleaned_at IS NULL") > 0 }
			upTo := func() int64 { return d.Number("SELECT up_to FROM journal WHERE coupon_id = ?", id) }
			task.rounds(3)
			require.True(t, pending(), "the run may be at work")
			require.Zero(t, upTo())
			d.Exec("UPDATE settlement SET settled_at = settled_at - INTERVAL 2 MINUTE")
			task.await("the clean-up is ended", func() bool { return !pending() })
			task.rounds(1)
			if selected {
				require.Equal(t, []string{"3"}, d.Waiting(id))
			} else {
				require.Empty(t, d.Waiting(id))
			}
			require.Equal(t, candidates.Code("ALREADY_ISSUED"), d.Answer(id, 1))
			require.NotZero(t, upTo())
			d.SettleNow()
			require.Equal(t, []coupon.UserID{3}, d.Outcome(id, "NOT_SELECTED"))
			require.Empty(t, task.restorer.restored)
		})
	}
}

// People apply and are settled at full speed. Nobody ever seems to be missing, and nothing is restored.
func TestJournal_MissesNobodyWhilePeopleAreSettled(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	users := jajeongtest.Between[coupon.UserID](1, 2000)
	d.AddUsers(users...)
	id := d.AddImmediate(1500)
	task := newJournalTask(d)
	task.rounds(1)
	var over atomic.Bool
	var work sync.WaitGroup
	settler := d.Settler()
	work.Go(func() {
		for !over.Load() {
			settler.IssueNow(t.Context(), id)
		}
	})
	work.Go(func() {
		defer over.Store(true)
		for some := range slices.Chunk(users, 20) {
			_, err := d.Store.ApplyAll(t.Context(), id, some)
			assert.NoError(t, err)
		}
	})
	for !over.Load() {
		task.rounds(1)
		require.Zero(t, task.open[id].missing)
	}
	work.Wait()
	d.SettleNow()
	task.rounds(2)
	require.Empty(t, task.restorer.restored)
	require.Len(t, d.Issued(id), 1500)
	d.Verify()
}

// A coupon's Redis does not answer, or MySQL: the round says so, and goes on with what answers.
func TestJournal_SaysWhatFails(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1)
	task := newJournalTask(d)
	task.rounds(2)
	d.Exec("RENAME TABLE line_journal TO away")
	d.AddUsers(2)
	d.Apply(id, 2)
	var background sync.WaitGroup
	require.Error(t, task.round(t.Context(), &background))
	d.Exec("RENAME TABLE away TO line_journal")
	require.NoError(t, d.Redis.Do(t.Context(), "SET", d.Key("state", id), "no hash").Err())
	require.Error(t, task.round(t.Context(), &background))
}

func TestJournal_KeepsThePace(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddQueue(5, 1, 2, 3)
	task := newJournalTask(d)
	task.pace = rate.NewLimiter(0, 5)
	task.rounds(3)
	require.EqualValues(t, 2, task.pace.Tokens())
}

// Several long lines write no more at once than one: the rows of one second, and as many that wait for their time.
func TestJournal_KeepsThePaceOfSeveralCoupons(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	const rows = 100
	users := jajeongtest.Between[coupon.UserID](1, rows)
	d.AddUsers(users...)
	for range copiesAtOnce {
		d.Apply(d.AddCoupon(5), users...)
	}
	task := newJournalTaskAt(d, rows)
	task.rounds(1) // which finds the coupons
	task.pace = rate.NewLimiter(0, rows)
	var background sync.WaitGroup
	require.Error(t, task.round(testenv.Patient(t), &background), "the time of more rows never comes")
	background.Wait()
	require.LessOrEqual(t, d.Number("SELECT COUNT(*) FROM line_journal"), int64(2*rows))
}

// A row of the journal lies half a minute ahead of the clock of the new server. Nothing is compared again until it can
// be entered, unless there is another reason.
func TestJournal_WaitsForWhoIsALittleAheadOfTheClock(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(5, 1, 2)
	task := newJournalTask(d)
	task.rounds(2)
	d.Exec("UPDATE line_journal SET arrival = ? WHERE user_id = 2", d.Now().Add(30*time.Second).UnixMicro())
	d.LoseRedis(id)
	task.await("Redis is restored", func() bool { return d.Look(id).Restored })
	done := len(task.restorer.restored)
	task.rounds(3)
	require.Equal(t, done, len(task.restorer.restored))
	d.LoseRedis(id)
	task.await("Redis is restored again", func() bool { return d.Look(id).Restored })
	require.Equal(t, []string{"1"}, d.Waiting(id))
}
