package serve

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/missing"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/sleep"
)

const (
	// journalInterval is how often the lines are looked at: the journal is so far behind at most, while MySQL keeps up.
	journalInterval = time.Second
	// listInterval is how often the coupons and their promises are read from MySQL.
	listInterval = 5 * time.Second
	// clearInterval is how often the journals of finalised coupons are deleted.
	clearInterval = time.Minute

	journalTimeout = 10 * time.Second // of one copy, and of one reading of MySQL
	restoreTimeout = 10 * time.Minute // a million applications take well below a minute

	copiesAtOnce   = 4 // coupons
	restoresAtOnce = 4 // coupons
)

// Restorer puts back the applications of a coupon that Redis has lost. journal.Restorer implements it.
type Restorer interface {
	Restore(ctx context.Context, o journal.Order) (journal.Restored, error)
}

// JournalConfig is what the task journal needs. Every field is required.
type JournalConfig struct {
	DB            *mysqltx.DB
	Store         journal.Store
	Restorer      Restorer
	RowsPerSecond int // that this process writes at most
	Now           func() time.Time
	Logger        *zap.Logger
}

// Journal is the task that copies the lines of open coupons to MySQL, and puts back whom Redis has lost.
type Journal struct {
	JournalConfig
	journal  *journal.Journal
	rate     rate
	copying  *locks // of rows of table journal
	restores *locks // of rows of table coupon

	mu        sync.Mutex
	open      map[coupon.CouponID]*journalled
	restoring map[coupon.CouponID]bool
	suspects  bool // the last check has found missing promises that another check must confirm

	rows, putBack prometheus.Counter
}

// journalled is what the task knows of one coupon.
type journalled struct {
	journal.Open
	completeAt time.Time // when the journal last had the whole line, by the clock of the process
	suspected  int64     // promises that were missing at the check before
	unmarked   bool      // users lacked their marks at the check before
	older      bool      // the state in Redis was older than the journal at the look before
	failing    bool      // the last restore failed
	outdated   [2]int64  // promises that were missing after the last restore, and before it, when none was any more
}

func NewJournal(c JournalConfig) (*Journal, error) {
	if c.DB == nil || c.Store == nil || c.Restorer == nil || c.RowsPerSecond < 1 || c.Now == nil || c.Logger == nil {
		return nil, errors.New("serve: a field of JournalConfig is missing")
	}
	t := &Journal{JournalConfig: c, open: map[coupon.CouponID]*journalled{}, restoring: map[coupon.CouponID]bool{},
		rows: prometheus.NewCounter(prometheus.CounterOpts{Name: "jajeong_journal_rows_total",
			Help: "Applications that this process has written to the journal, repetitions included."}),
		putBack: prometheus.NewCounter(prometheus.CounterOpts{Name: "jajeong_journal_put_back_total",
			Help: "Applications that this process has put back from the journal, because Redis had lost them."}),
	}
	t.rate = rate{perSecond: float64(c.RowsPerSecond), now: c.Now}
	t.journal = &journal.Journal{DB: c.DB, Store: c.Store, Pace: &t.rate, Rows: c.RowsPerSecond}
	t.copying = newLocks(c.DB.Pool(), "journal", lockJournalSQL, c.Now, c.Logger)
	t.restores = newLocks(c.DB.Pool(), "restore", lockCouponSQL, c.Now, c.Logger)
	return t, nil
}

// Run keeps the journal until ctx ends, and then waits for the current copies and restores.
func (t *Journal) Run(ctx context.Context) error {
	var background sync.WaitGroup
	defer background.Wait()
	defer t.copying.watch.Wait()
	defer t.restores.watch.Wait()
	background.Go(func() { t.keepClear(ctx) })
	var restores errgroup.Group
	restores.SetLimit(restoresAtOnce)
	defer func() { _ = restores.Wait() }()
	var failure journalFailure
	for listed := (time.Time{}); ctx.Err() == nil; {
		began := t.Now()
		fresh := began.Sub(listed) >= listInterval || t.suspects
		err := recovering(func() error { return t.round(ctx, fresh, &restores) })
		if err == nil && fresh {
			listed = began
		}
		wait := failure.note(t, ctx, err)
		if wait == 0 {
			wait = jittered(journalInterval) - t.Now().Sub(began)
		}
		_ = sleep.For(ctx, max(wait, 0))
	}
	return nil
}

// round looks at every line once, copies what the journal lacks, and begins the restores that are due. The order of its
// readings is that of package missing.
func (t *Journal) round(ctx context.Context, fresh bool, restores *errgroup.Group) error {
	began := t.Now()
	if fresh {
		if err := t.list(ctx); err != nil {
			return err
		}
	}
	lines, looked := t.look(ctx, t.ids())
	due := t.uncompared(lines)
	if fresh {
		due = append(due, t.unmarked(lines)...)
		suspected, err := t.missing(ctx, lines)
		if err != nil {
			return errors.Join(looked, err)
		}
		due = append(due, suspected...)
	}
	for _, id := range due {
		t.restore(ctx, id, restores)
	}
	return errors.Join(looked, t.copyAll(ctx, lines, began))
}

func (t *Journal) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	found, err := journal.ListOpen(ctx, t.DB)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	open := make(map[coupon.CouponID]*journalled, len(found))
	for _, one := range found {
		known := t.open[one.ID]
		if known == nil {
			known = &journalled{completeAt: t.Now()}
		}
		known.Open = one
		open[one.ID] = known
	}
	t.open = open
	return nil
}

func (t *Journal) ids() (all []coupon.CouponID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.open {
		all = append(all, id)
	}
	return all
}

func (t *Journal) look(ctx context.Context, ids []coupon.CouponID) (map[coupon.CouponID]candidates.Line, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return t.Store.Lines(ctx, ids)
}

// uncompared returns the coupons whose Redis server has not been compared with the journal since it may have lost
// somebody.
func (t *Journal) uncompared(lines map[coupon.CouponID]candidates.Line) (due []coupon.CouponID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, line := range lines {
		known := t.open[id]
		if known == nil {
			continue
		}
		before := known.older
		known.older = known.Older(line)
		if known.Uncompared(line) || before && known.older {
			due = append(due, id)
		}
	}
	return due
}

// unmarked returns the coupons whose users with the coupon Redis has forgotten, at two checks in a row.
func (t *Journal) unmarked(lines map[coupon.CouponID]candidates.Line) (due []coupon.CouponID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, line := range lines {
		known := t.open[id]
		if known == nil {
			continue
		}
		before := known.unmarked
		if known.unmarked = known.Unmarked(line); before && known.unmarked {
			due = append(due, id)
		}
	}
	return due
}

// missing returns the coupons with missing promises that no restore has looked for. The number must not fall between
// two checks: pods may be putting applications back.
func (t *Journal) missing(ctx context.Context,
	lines map[coupon.CouponID]candidates.Line) (due []coupon.CouponID, err error) {
	var suspects []coupon.CouponID
	t.mu.Lock()
	t.suspects = false
	for id, line := range lines {
		known := t.open[id]
		if known != nil && missing.Missing(known.Books, line, known.Books) > 0 {
			suspects = append(suspects, id)
		} else if known != nil {
			known.suspected = 0
			if known.isOutdated(line) {
				due = append(due, id)
			}
		}
	}
	t.mu.Unlock()
	for some := range slices.Chunk(suspects, missing.MaxRead) {
		books, err := missing.ReadBooks(ctx, t.DB.Pool(), some...)
		if err != nil {
			return nil, err
		}
		t.mu.Lock()
		for _, id := range some {
			known, line := t.open[id], lines[id]
			if known == nil {
				continue
			}
			n := missing.Missing(known.Books, line, books[id])
			switch {
			case !missing.IsDue(line, n):
			case known.suspected > 0 && n >= known.suspected:
				due = append(due, id)
			default:
				t.suspects = true
			}
			known.suspected = n
		}
		t.mu.Unlock()
	}
	return due, nil
}

// isOutdated reports whether a restore must note that none is missing any more: as many that are lost later would be
// taken for those of the last restore. It asks once: an account may count more exactly than Missing, so that some are
// missing still.
func (known *journalled) isOutdated(line candidates.Line) bool {
	if line.Missing == 0 || line.Restored != line.Since {
		known.outdated = [2]int64{}
		return false
	}
	before := known.outdated
	known.outdated = [2]int64{line.Missing, missing.Missing(known.Books, line, known.Books)}
	return known.outdated != before
}

// restore begins to restore a coupon, unless as many restores are under way as may be.
func (t *Journal) restore(ctx context.Context, id coupon.CouponID, restores *errgroup.Group) {
	t.mu.Lock()
	known := t.open[id]
	busy := t.restoring[id] || known == nil
	if !busy {
		t.restoring[id] = true
	}
	t.mu.Unlock()
	if busy {
		return
	}
	begun := restores.TryGo(func() error {
		defer t.restored(id)
		timed, cancel := context.WithTimeout(ctx, restoreTimeout)
		defer cancel()
		var done journal.Restored
		err := recovering(func() (err error) {
			done, err = t.Restorer.Restore(timed, journal.Order{Coupon: id, NoWait: true})
			return err
		})
		t.noteRestore(ctx, id, known, done, err)
		return nil
	})
	if !begun {
		t.restored(id)
	}
}

func (t *Journal) restored(id coupon.CouponID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.restoring, id)
}

func (t *Journal) noteRestore(ctx context.Context, id coupon.CouponID, known *journalled, done journal.Restored,
	err error) {
	logger := t.Logger.With(zap.Uint64("coupon_id", uint64(id)), zap.Int64("put_back", done.Back),
		zap.Int64("moved", done.Moved), zap.Int64("missing", done.Missing))
	t.putBack.Add(float64(done.Back))
	if mysqltx.IsLockWait(err) {
		t.restores.found(ctx, id)
	}
	t.mu.Lock()
	failing := known.failing
	if !mysqltx.IsLockWait(err) { // somebody else has the coupon: the next round sees what became of it
		known.failing = err != nil
	}
	t.mu.Unlock()
	switch {
	case mysqltx.IsLockWait(err):
	case err != nil && !failing:
		logger.Error("applications not put back from the journal; another attempt follows", zap.Error(err))
	case err != nil:
	case done.Missing > 0:
		logger.Error("promises are missing that the journal does not have")
	case done.Changed() || failing:
		logger.Warn("Redis had lost applications; they were put back from the journal")
	}
}

// copyAll copies what the journal lacks, coupon by coupon, so that a long line keeps no other waiting.
func (t *Journal) copyAll(ctx context.Context, lines map[coupon.CouponID]candidates.Line, began time.Time) error {
	var mu sync.Mutex
	var problems error
	for len(lines) > 0 && ctx.Err() == nil && problems == nil {
		var again []coupon.CouponID
		var workers errgroup.Group
		workers.SetLimit(copiesAtOnce)
		for id, line := range lines {
			if !t.behind(id, line, began) {
				continue
			}
			workers.Go(func() error {
				more, err := t.copy(ctx, id, line, began)
				mu.Lock()
				defer mu.Unlock()
				if more {
					again = append(again, id)
				}
				problems = errors.Join(problems, err)
				return nil
			})
		}
		_ = workers.Wait()
		if t.Now().Sub(began) >= journalInterval { // the next round looks at the other lines, too
			break
		}
		var err error
		if lines, err = t.look(ctx, again); err != nil {
			problems = errors.Join(problems, err)
		}
	}
	return problems
}

// behind reports whether the journal may lack an application, and notes it if it lacks none.
func (t *Journal) behind(id coupon.CouponID, line candidates.Line, at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.open[id]
	if known == nil {
		return false
	}
	behind := known.Behind(line)
	if !behind && line.Window {
		known.completeAt = at
	}
	return behind
}

func (t *Journal) copy(ctx context.Context, id coupon.CouponID, line candidates.Line,
	at time.Time) (more bool, err error) {
	timed, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	var copied journal.Copied
	if err = t.begin(timed, id); err == nil {
		copied, err = t.journal.Copy(timed, id, line)
	}
	t.rows.Add(float64(copied.Rows))
	if copied.Busy || mysqltx.IsLockWait(err) {
		t.copying.found(ctx, id)
	}
	if err != nil {
		if mysqltx.IsLockWait(err) { // which concerns this coupon alone
			err = nil
		}
		return false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.open[id]; known != nil {
		known.UpTo = max(known.UpTo, copied.UpTo)
		if !copied.More && !copied.Busy {
			known.completeAt = at
		}
	}
	return copied.More, nil
}

// begin makes the coupon's row of table journal, if the list found none.
func (t *Journal) begin(ctx context.Context, id coupon.CouponID) error {
	t.mu.Lock()
	known := t.open[id]
	begun := known == nil || known.Begun
	t.mu.Unlock()
	if begun {
		return nil
	}
	if err := t.journal.Begin(ctx, id); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known.Begun = true
	return nil
}

func (t *Journal) keepClear(ctx context.Context) {
	var pause pause
	for ctx.Err() == nil {
		wait := jittered(clearInterval)
		if err := recovering(func() error { return t.journal.Clear(ctx) }); err != nil {
			wait = max(pause.next(maxPause), time.Second)
			if ctx.Err() == nil {
				t.Logger.Warn("journals of finalised coupons not deleted; another attempt follows", zap.Error(err))
			}
		} else {
			pause.reset()
		}
		_ = sleep.For(ctx, wait)
	}
}

// journalFailure is a row of failed rounds.
type journalFailure struct {
	pause  pause
	logged time.Time // zero: the last round did not fail
}

// note logs the first error and then one a minute. It returns the wait before the next round; 0 after a round without
// error.
func (f *journalFailure) note(t *Journal, ctx context.Context, err error) time.Duration {
	switch now := t.Now(); {
	case err == nil && f.logged.IsZero(), ctx.Err() != nil:
		return 0
	case err == nil:
		t.Logger.Info("journal written again")
		*f = journalFailure{}
		return 0
	case f.logged.IsZero() || now.Sub(f.logged) >= reminderEvery:
		f.logged = now
		t.Logger.Error("journal not written; applications that Redis loses now would be lost", zap.Error(err))
	}
	return f.pause.next(maxPause)
}

var journalLagDesc = prometheus.NewDesc("jajeong_journal_lag_seconds",
	"Time since the journal last had the whole line, of the open coupon that is furthest behind.", nil, nil)

func (t *Journal) Describe(to chan<- *prometheus.Desc) {
	t.rows.Describe(to)
	t.putBack.Describe(to)
	t.copying.gauge.Describe(to)
	t.restores.gauge.Describe(to)
	to <- journalLagDesc
}

func (t *Journal) Collect(to chan<- prometheus.Metric) {
	t.rows.Collect(to)
	t.putBack.Collect(to)
	t.copying.gauge.Collect(to)
	t.restores.gauge.Collect(to)
	t.mu.Lock()
	now := t.Now()
	oldest := now
	for _, known := range t.open {
		if known.completeAt.Before(oldest) {
			oldest = known.completeAt
		}
	}
	t.mu.Unlock()
	to <- prometheus.MustNewConstMetric(journalLagDesc, prometheus.GaugeValue, now.Sub(oldest).Seconds())
}

// rate bounds how many rows are written in a second, on the average: copies that wait together write together, and then
// wait for all of their rows.
type rate struct {
	perSecond float64
	now       func() time.Time
	mu        sync.Mutex
	next      time.Time // when the next rows may be written
}

// Wait returns when the rows before have had their time.
func (r *rate) Wait(ctx context.Context) error {
	r.mu.Lock()
	wait := r.next.Sub(r.now())
	r.mu.Unlock()
	if wait <= 0 {
		return ctx.Err()
	}
	return sleep.For(ctx, wait)
}

// Written gives rows their time.
func (r *rate) Written(rows int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.now(); r.next.Before(now) {
		r.next = now
	}
	r.next = r.next.Add(time.Duration(float64(rows) / r.perSecond * float64(time.Second)))
}
