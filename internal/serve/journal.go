package serve

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/sleep"
)

const (
	// journalInterval is how often the lines are looked at: the journal is so far behind at most, while MySQL keeps up.
	journalInterval = time.Second
	// clearInterval is how often the journals of finalised coupons are deleted.
	clearInterval = time.Minute
	// guardInterval is how often the coupons are looked at that were just finalised.
	guardInterval = 5 * time.Second

	journalTimeout = 10 * time.Second // of one copy, and of one reading of MySQL
	restoreTimeout = 10 * time.Minute // and of one clean-up; a million applications take well below a minute

	// aheadInterval is how often a last arrival is set back. Pods may raise it again, by arrivals of a server whose
	// clock was ahead.
	aheadInterval = time.Minute

	copiesAtOnce   = 4 // coupons
	restoresAtOnce = 4 // coupons, clean-ups included
)

// JournalStore is the part of Redis that the task journal reads. candidates.Store implements it.
type JournalStore interface {
	journal.Store
	// Looks looks at many coupons. Those that could not be read are missing.
	Looks(ctx context.Context, known map[coupon.CouponID]coupon.Known) (map[coupon.CouponID]coupon.Look, error)
}

// Restorer enters again whom Redis has lost of a coupon. journal.Restorer implements it.
type Restorer interface {
	Restore(ctx context.Context, o journal.Order) (journal.Restored, error)
}

// Cleaner ends clean-ups that a killed run has left. settle.Settler implements it.
type Cleaner interface {
	CleanUp(ctx context.Context, couponID coupon.CouponID) error
}

// JournalConfig is what the task journal needs. Every field is required.
type JournalConfig struct {
	DB            *mysqltx.DB
	Store         JournalStore
	Restorer      Restorer
	Cleaner       Cleaner
	RowsPerSecond int // that this process writes at most
	Now           func() time.Time
	Logger        *zap.Logger
}

// Journal is the task that copies the lines of open coupons to MySQL, and enters again whom Redis has lost.
type Journal struct {
	JournalConfig
	journal  *journal.Journal
	pace     *rate.Limiter // of rows
	copying  *locks        // of rows of table journal
	restores *locks        // of rows of table coupon
	working  chan struct{} // has a value for each restore or clean-up at work

	mu   sync.Mutex
	open map[coupon.CouponID]*journalled

	rows, putBack prometheus.Counter
}

// journalled is what the task knows of one coupon.
type journalled struct {
	journal.Open
	progress   journal.Progress
	completeAt time.Time // when the journal last had the whole line, by the clock of the process
	issued     int64     // coupons from runs by the list before the look
	unmarked   bool      // users lacked their marks at the look before
	busy       bool      // a restore or a clean-up is under way
	failing    bool      // the last one failed
	restoredAt time.Time // when a restore last ended, by the clock of the process
	againAt    time.Time // when one can enter those who were a little ahead of the clock
	missing    int64     // promises that were missing at the last look
}

func NewJournal(c JournalConfig) (*Journal, error) {
	if c.DB == nil || c.Store == nil || c.Restorer == nil || c.Cleaner == nil || c.RowsPerSecond < 1 || c.Now == nil ||
		c.Logger == nil {
		return nil, errors.New("serve: a field of JournalConfig is missing")
	}
	t := &Journal{JournalConfig: c, open: map[coupon.CouponID]*journalled{},
		working: make(chan struct{}, restoresAtOnce),
		rows: prometheus.NewCounter(prometheus.CounterOpts{Name: "jajeong_journal_rows_total",
			Help: "Applications that this process has written to the journal, repetitions included."}),
		putBack: prometheus.NewCounter(prometheus.CounterOpts{Name: "jajeong_journal_put_back_total",
			Help: "Applications that this process put back: Redis had lost them, or MySQL their settlement."}),
	}
	t.pace = rate.NewLimiter(rate.Limit(c.RowsPerSecond), c.RowsPerSecond)
	// Copies at once write before they pay: together not more than in one second.
	t.journal = &journal.Journal{DB: c.DB, Store: c.Store, Rows: max(1, c.RowsPerSecond/copiesAtOnce)}
	t.copying = newLocks(c.DB.Pool(), "journal", lockJournalSQL, c.Now, c.Logger)
	t.restores = newLocks(c.DB.Pool(), "restore", lockCouponSQL, c.Now, c.Logger)
	return t, nil
}

// Run keeps the journal until ctx ends, and then waits for the current copies, restores and clean-ups.
func (t *Journal) Run(ctx context.Context) error {
	var clearing sync.WaitGroup
	defer clearing.Wait()
	defer t.copying.watch.Wait()
	defer t.restores.watch.Wait()
	clearing.Go(func() {
		t.repeat(ctx, clearInterval, t.journal.Clear,
			"journals of finalised coupons not deleted; another attempt follows")
	})
	clearing.Go(func() {
		t.repeat(ctx, guardInterval, t.guard,
			"coupons that were just finalised not looked at; another attempt follows")
	})
	var background sync.WaitGroup
	defer background.Wait()
	var failure failure
	for ctx.Err() == nil {
		began := t.Now()
		err := recovering(func() error { return t.round(ctx, &background) })
		wait, log := jittered(journalInterval)-t.Now().Sub(began), false
		switch {
		case ctx.Err() != nil:
		case err != nil:
			if wait, log = failure.next(t.Now()); log {
				t.Logger.Error("journal not written; applications that Redis loses now would be lost", zap.Error(err))
			}
		case failure.end():
			t.Logger.Info("journal written again")
		}
		_ = sleep.For(ctx, wait)
	}
	return nil
}

// round looks at every line once, begins the restores that are due and the clean-ups that were abandoned, and copies
// what the journal lacks. Redis is read before MySQL: see promise.Books.Missing.
func (t *Journal) round(ctx context.Context, background *sync.WaitGroup) error {
	began := t.Now()
	looks, looked := t.look(ctx)
	if err := t.list(ctx); err != nil {
		return errors.Join(looked, err)
	}
	due, abandoned := t.due(looks)
	for _, id := range due {
		t.begin(ctx, id, background, t.restore)
	}
	for _, id := range abandoned { // the journal does not go on before
		t.begin(ctx, id, background, t.Cleaner.CleanUp)
	}
	return errors.Join(looked, t.copyAll(ctx, looks, began))
}

// look looks at the coupons of the last list.
func (t *Journal) look(ctx context.Context) (map[coupon.CouponID]coupon.Look, error) {
	t.mu.Lock()
	known := make(map[coupon.CouponID]coupon.Known, len(t.open))
	for id, one := range t.open {
		known[id] = one.Known
	}
	t.mu.Unlock()
	if len(known) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return t.Store.Looks(ctx, known)
}

// list reads the coupons. Users who have the coupon by the list before, and lack their marks, are noted by due.
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
			known.Books.Issued = one.Books.Issued
		}
		known.issued, known.Open = known.Books.Issued, one
		open[one.ID] = known
	}
	t.open = open
	return nil
}

// due returns the coupons that need a restore, those with people first: of an empty coupon nobody is missed. And it
// returns those with an abandoned clean-up.
func (t *Journal) due(looks map[coupon.CouponID]coupon.Look) (due, abandoned []coupon.CouponID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var empty []coupon.CouponID
	for _, id := range slices.Sorted(maps.Keys(looks)) {
		one, look := t.open[id], looks[id]
		if one == nil {
			continue
		}
		one.missing = 0
		if look.Restored {
			one.missing = one.Books.Missing(look.Line)
		}
		before := one.unmarked
		one.unmarked = look.Issued < one.issued && !one.Pending
		if one.busy {
			continue
		}
		cause := one.Books.Due(look.Line)
		// The last restore has asked for this one, and nobody else.
		if cause == promise.AskedFor && one.Books.Asked == 1 && t.Now().Before(one.againAt) {
			cause = promise.NotDue
		}
		switch isDue := cause != promise.NotDue || before && one.unmarked || t.ahead(one, look); {
		case isDue && (look.Restored || look.RestoresIn == 0):
			if look.Accepted+look.Returned+int64(one.Books.UpTo) > 0 {
				due = append(due, id)
			} else {
				empty = append(empty, id)
			}
		case one.Abandoned:
			abandoned = append(abandoned, id)
		}
	}
	return append(due, empty...), abandoned
}

// ahead reports whether the last arrival is to be set back, which a restore does.
func (t *Journal) ahead(one *journalled, look coupon.Look) bool {
	return one.Books.Ahead(look) && t.Now().Sub(one.restoredAt) >= aheadInterval
}

// begin begins work on a coupon in the background, as soon as its turn comes: restoresAtOnce are at work.
func (t *Journal) begin(ctx context.Context, id coupon.CouponID, background *sync.WaitGroup,
	work func(ctx context.Context, id coupon.CouponID) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.open[id]
	known.busy = true
	background.Go(func() {
		t.working <- struct{}{}
		defer func() { <-t.working }()
		timed, cancel := context.WithTimeout(ctx, restoreTimeout)
		defer cancel()
		err := recovering(func() error { return work(timed, id) })
		if mysqltx.IsLockWait(err) { // somebody else has the coupon: the next round sees what became of it
			t.restores.found(ctx, id)
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		known.busy = false
		if mysqltx.IsLockWait(err) {
			return
		}
		if err != nil && !known.failing && ctx.Err() == nil {
			t.Logger.Error("applications not restored, or a clean-up not ended; another attempt follows",
				zap.Uint64("coupon_id", uint64(id)), zap.Error(err))
		}
		known.failing = err != nil
	})
}

func (t *Journal) restore(ctx context.Context, id coupon.CouponID) error {
	done, err := t.Restorer.Restore(ctx, journal.Order{Coupon: id, NoWait: true})
	t.putBack.Add(float64(done.Back))
	if err != nil {
		return err
	}
	t.mu.Lock()
	if one := t.open[id]; one != nil {
		one.restoredAt = t.Now()
		one.againAt = one.restoredAt.Add(done.Again)
	}
	t.mu.Unlock()
	logger := t.Logger.With(zap.Uint64("coupon_id", uint64(id)), zap.Int64("put_back", done.Back),
		zap.Int64("moved", done.Moved), zap.Int64("missing", done.Missing))
	if done.Unknown > 0 {
		logger.Error("a new redis server knows fewer applications than were accepted; who they are is not known",
			zap.Int64("unknown", done.Unknown))
	}
	if done.Impossible > 0 {
		logger.Error("the journal has rows that cannot be; settle verify names them",
			zap.Int64("rows", done.Impossible))
	}
	switch {
	case done.Missing > 0:
		logger.Error("promises are missing that the journal does not have")
	case done.Changed():
		logger.Warn("applications were missing, or MySQL had lost their settlement; they were put back",
			zap.Int64("winners_from_marks", done.FromMarks))
	}
	return nil
}

// copyAll copies what the journal lacks, coupon by coupon, so that a long line keeps no other waiting.
func (t *Journal) copyAll(ctx context.Context, looks map[coupon.CouponID]coupon.Look, began time.Time) error {
	var mu sync.Mutex
	var problems error
	var again []coupon.CouponID
	for id, look := range looks {
		if t.behind(id, look, began) {
			again = append(again, id)
		}
	}
	for len(again) > 0 && ctx.Err() == nil && problems == nil {
		some := again
		again = nil
		var workers errgroup.Group
		workers.SetLimit(copiesAtOnce)
		for _, id := range some {
			workers.Go(func() error {
				more, err := t.copy(ctx, id, began)
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
	}
	return problems
}

// behind reports whether the journal may lack an application, and notes it if it lacks none.
func (t *Journal) behind(id coupon.CouponID, look coupon.Look, at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.open[id]
	if known == nil {
		return false
	}
	behind := known.Behind(look)
	if !behind {
		known.completeAt = at
	}
	return behind
}

// copy copies a coupon once, and then gives the rows their time.
func (t *Journal) copy(ctx context.Context, id coupon.CouponID, at time.Time) (more bool, err error) {
	t.mu.Lock()
	known := t.open[id]
	t.mu.Unlock()
	if known == nil {
		return false, nil
	}
	timed, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	if !known.Begun {
		if err := t.journal.Begin(timed, id); err != nil {
			return false, err
		}
	}
	copied, err := t.journal.Copy(timed, id, &known.progress)
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
	if !copied.More && !copied.Busy {
		t.mu.Lock()
		known.completeAt = at
		t.mu.Unlock()
	}
	return copied.More, t.pace.WaitN(ctx, min(copied.Rows, t.RowsPerSecond)) // more rows may have one arrival
}

// guard takes back the end of coupons that have none on the Redis server of today.
func (t *Journal) guard(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	all, err := journal.ListGuarded(ctx, t.DB)
	if err != nil || len(all) == 0 {
		return err
	}
	known := make(map[coupon.CouponID]coupon.Known, len(all))
	for _, one := range all {
		known[one.ID] = one.Known
	}
	looks, problems := t.Store.Looks(ctx, known)
	for _, one := range all {
		look, looked := looks[one.ID]
		if !looked || one.Ended(look) {
			continue
		}
		opened, err := journal.OpenAgain(ctx, t.DB, one.ID)
		problems = errors.Join(problems, err)
		if opened {
			t.Logger.Error("redis and mysql do not agree on the end of a coupon; the next run settles it again",
				zap.Uint64("coupon_id", uint64(one.ID)))
		}
	}
	return problems
}

// repeat does work at intervals until ctx ends. It logs failures as the warning.
func (t *Journal) repeat(ctx context.Context, interval time.Duration, work func(ctx context.Context) error,
	warning string) {
	var pause pause
	for ctx.Err() == nil {
		wait := jittered(interval)
		if err := recovering(func() error { return work(ctx) }); err != nil {
			wait = max(pause.next(maxPause), time.Second)
			if ctx.Err() == nil {
				t.Logger.Warn(warning, zap.Error(err))
			}
		} else {
			pause.reset()
		}
		_ = sleep.For(ctx, wait)
	}
}

var journalLagDesc = prometheus.NewDesc("jajeong_journal_lag_seconds",
	"Time since the journal last had the whole line, of the open coupon that is furthest behind.", nil, nil)

var (
	missingDesc = prometheus.NewDesc("jajeong_promises_missing",
		"Accepted applications that are neither in Redis nor settled, by coupon; only of coupons that miss some.",
		[]string{"coupon_id"}, nil)
	unknownDesc = prometheus.NewDesc("jajeong_promises_unknown",
		"Accepted applications of which a new Redis server, the journal and MySQL know nothing, by coupon; only of "+
			"coupons that miss some.", []string{"coupon_id"}, nil)
)

func (t *Journal) Describe(to chan<- *prometheus.Desc) {
	t.rows.Describe(to)
	t.putBack.Describe(to)
	t.copying.gauge.Describe(to)
	t.restores.gauge.Describe(to)
	to <- journalLagDesc
	to <- missingDesc
	to <- unknownDesc
}

func (t *Journal) Collect(to chan<- prometheus.Metric) {
	t.rows.Collect(to)
	t.putBack.Collect(to)
	t.copying.gauge.Collect(to)
	t.restores.gauge.Collect(to)
	t.mu.Lock()
	now := t.Now()
	oldest := now
	for id, known := range t.open {
		if known.completeAt.Before(oldest) {
			oldest = known.completeAt
		}
		if known.missing > 0 {
			to <- prometheus.MustNewConstMetric(missingDesc, prometheus.GaugeValue, float64(known.missing), id.String())
		}
		if known.Books.Unfound > 0 {
			to <- prometheus.MustNewConstMetric(unknownDesc, prometheus.GaugeValue, float64(known.Books.Unfound),
				id.String())
		}
	}
	t.mu.Unlock()
	to <- prometheus.MustNewConstMetric(journalLagDesc, prometheus.GaugeValue, now.Sub(oldest).Seconds())
}
