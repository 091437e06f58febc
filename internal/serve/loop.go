package serve

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
)

// loop decides which queues are looked at and which coupons are settled. One goroutine runs it and alone uses its
// fields. Looks, runs and refreshes have goroutines of their own, so that none delays another, and report by tell.
type loop struct {
	*Issue
	list    *list // nil before the first refresh
	coupons map[coupon.CouponID]*watched
	order   []*watched        // coupons in the order of the list
	shards  map[string]*shard // shards with a coupon of the last list
	ready   []*watched        // coupons to be settled, in this order
	running int               // number of runs
	looking int               // number of looks
	asleep  bool              // no coupon can have applications
	alarm   *time.Timer       // fires for the next look
	reports chan func()
	over    chan struct{} // closed when nobody receives reports
}

// watched is what the loop knows of one coupon.
type watched struct {
	Coupon
	listed    bool // the last list has the coupon
	shard     *shard
	line      bool // the queue was not empty at the last look
	unknown   bool // nobody has looked at the queue since the last refresh
	queued    bool // the coupon is in ready
	running   bool
	overtaken bool      // a look left the coupon out because it was running
	ended     time.Time // end of the last run
	unchanged bool      // the last run changed nothing, and no look has found the queue empty since
	pause     pause
	notBefore time.Time // end of the pause
	refused   int       // rows that MySQL refused since refusing
	refusing  time.Time // begin of the period in which refused rows add up
	failing   coupon.ResultStatus
	waits     time.Time // since when the coupon waits for a restore; zero: it does not
	waitNoted bool      // the log has said so
	reopened  int       // Coupon.Seats at the last run that succeeded
}

// idle reports whether a look at the coupon or a run of it may begin.
func (w *watched) idle(at time.Time) bool {
	return w.listed && !w.running && !w.queued && !at.Before(w.notBefore)
}

// rest keeps the loop from looking at the coupon and from running it.
func (w *watched) rest(until time.Time) {
	if until.After(w.notBefore) {
		w.notBefore = until
	}
}

// shard is one Redis server with coupons. At most one look at it is under way.
type shard struct {
	name      string
	looking   bool
	wanted    bool              // the last tick has found a coupon to look at
	lookedAt  time.Time         // time of the last look that succeeded, or when there was nothing to look at
	coupons   []*watched        // coupons of the current look
	ids       []coupon.CouponID // ids of the same coupons
	pause     pause
	notBefore time.Time // end of the pause
	failing   bool
}

func newLoop(t *Issue) *loop {
	return &loop{Issue: t, coupons: map[coupon.CouponID]*watched{}, shards: map[string]*shard{}, asleep: true,
		reports: make(chan func()), over: make(chan struct{})}
}

// tell makes the loop call report.
func (l *loop) tell(report func()) {
	select {
	case l.reports <- report:
	case <-l.over:
	}
}

func (l *loop) run(ctx context.Context) {
	l.alarm = time.NewTimer(0)
	l.alarm.Stop() // the first list sets it
	defer l.alarm.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-l.alarm.C:
			l.tick(ctx)
		case report := <-l.reports:
			report()
		}
	}
	for l.running+l.looking > 0 {
		(<-l.reports)()
	}
}

// adopt replaces the list of coupons. What is known of a coupon stays.
func (l *loop) adopt(ctx context.Context, found *list) {
	l.list = found
	for _, w := range l.order {
		w.listed = false
	}
	before, shards := l.order, l.shards
	l.order, l.shards = make([]*watched, 0, len(found.coupons)), map[string]*shard{}
	for _, c := range found.coupons {
		w := l.coupons[c.ID]
		if w == nil {
			w = new(watched)
			l.coupons[c.ID] = w
		}
		if c.Seats == 0 { // sold out, or not yet begun
			w.reopened = 0
		}
		// A run that ended after the refresh had begun may have done what was due.
		c.Due = (c.Due || c.Seats != 0 && c.Seats != w.reopened) && !w.running && w.ended.Before(found.at)
		w.Coupon, w.listed, w.unknown = c, true, true
		w.shard = l.shardOf(c.ID, shards)
		l.order = append(l.order, w)
	}
	for _, w := range before {
		if !w.listed && !w.running { // a coupon that runs stays known, so that it does not run twice
			delete(l.coupons, w.ID)
		} else if !w.listed {
			l.order = append(l.order, w)
		}
	}
	if l.asleep {
		l.tick(ctx)
	}
}

func (l *loop) shardOf(id coupon.CouponID, known map[string]*shard) *shard {
	name := l.Store.Shard(id)
	s := l.shards[name]
	if s == nil {
		if s = known[name]; s == nil {
			s = &shard{name: name}
		}
		l.shards[name] = s
	}
	return s
}

// tick looks at every shard once, settles what is due, and sets the alarm for the next time.
func (l *loop) tick(ctx context.Context) {
	if l.list == nil || ctx.Err() != nil {
		return
	}
	at := l.Now()
	now := l.list.now(at)
	for _, s := range l.shards {
		s.wanted = false
		if !s.looking {
			s.coupons, s.ids = s.coupons[:0], s.ids[:0]
		}
	}
	l.asleep = true
	for _, w := range l.order {
		wanted := w.line || w.unknown && w.opened(now) || w.open(now)
		if !wanted && !w.Due && !w.running && !w.queued {
			continue
		}
		l.asleep = false
		w.overtaken = w.overtaken || w.running
		switch {
		case !w.idle(at):
		case w.Due:
			l.settle(w)
		default:
			w.shard.want(w, at)
		}
	}
	for _, s := range l.shards {
		switch {
		case !s.wanted:
			s.lookedAt = at
		case !s.looking && len(s.ids) > 0:
			l.look(ctx, s, at)
		}
	}
	l.measureLookedAt(at)
	l.start(ctx)
	l.setAlarm(now)
}

// want adds a coupon to the next look, unless the shard is slow or pauses.
func (s *shard) want(w *watched, at time.Time) {
	s.wanted = true
	if !s.looking && !at.Before(s.notBefore) {
		s.coupons, s.ids = append(s.coupons, w), append(s.ids, w.ID)
	}
}

// measureLookedAt exports when the shard was looked at that waits longest for a look. While a shard was never looked
// at, it exports nothing.
func (l *loop) measureLookedAt(at time.Time) {
	for _, s := range l.shards {
		if s.lookedAt.Before(at) {
			at = s.lookedAt
		}
	}
	if !at.IsZero() {
		l.measured.lookedAt(at)
	}
}

// setAlarm wakes the loop after the interval or, if it is asleep, just before the next opening.
func (l *loop) setAlarm(now time.Time) {
	if !l.asleep {
		l.alarm.Reset(jittered(l.Interval))
		return
	}
	l.alarm.Stop() // the next list may have work
	var opening time.Time
	for _, w := range l.order {
		if w.listed && !w.opened(now) && (opening.IsZero() || w.Opens.Before(opening)) {
			opening = w.Opens
		}
	}
	if !opening.IsZero() {
		l.alarm.Reset(opening.Add(-clockMargin).Sub(now))
	}
}

// look reads which queues of s.coupons are not empty.
func (l *loop) look(ctx context.Context, s *shard, began time.Time) {
	s.looking = true
	l.looking++
	go func() {
		var waiting []coupon.CouponID
		err := recovering(func() (err error) {
			ctx, cancel := context.WithTimeout(ctx, lookTimeout)
			defer cancel()
			waiting, err = l.Store.Waiting(ctx, s.ids)
			return err
		})
		l.tell(func() { l.looked(ctx, s, began, waiting, err) })
	}()
}

// looked settles the coupons that have a line.
func (l *loop) looked(ctx context.Context, s *shard, began time.Time, waiting []coupon.CouponID, err error) {
	s.looking = false
	l.looking--
	if ctx.Err() != nil {
		return
	}
	at := l.Now()
	l.noteLook(s, len(waiting), at, err)
	if err == nil {
		for _, w := range s.coupons {
			w.unchanged = w.unchanged && w.line // w.line is still of the look before
			w.line, w.unknown = false, false
		}
	}
	for _, id := range waiting {
		w := l.coupons[id]
		if w == nil {
			continue
		}
		w.line = true
		if w.idle(at) && !w.ended.After(began) { // a run that ended later may have emptied the queue
			l.settle(w)
		}
	}
	l.start(ctx)
}

func (l *loop) noteLook(s *shard, waiting int, at time.Time, err error) {
	l.measured.look(waiting, err)
	logger := l.Logger.With(zap.String("shard", s.name))
	switch {
	case err == nil && s.failing:
		logger.Info("looks at the queues succeed again")
	case err != nil && !s.failing:
		logger.Warn("queues not looked at; nobody is issued on this shard until a look succeeds", zap.Error(err))
	}
	if s.failing = err != nil; s.failing {
		s.notBefore = at.Add(s.pause.next(maxPause))
		return
	}
	s.pause.reset()
	s.lookedAt = at
	l.measureLookedAt(at)
}

// settle puts a coupon at the end of those that are ready.
func (l *loop) settle(w *watched) {
	w.queued = true
	l.ready = append(l.ready, w)
}

// start begins runs, at most Parallel at a time.
func (l *loop) start(ctx context.Context) {
	for len(l.ready) > 0 && l.running < l.Parallel && ctx.Err() == nil {
		w := l.ready[0]
		l.ready[0] = nil
		l.ready = l.ready[1:]
		if w.queued = false; !w.listed {
			continue
		}
		id, wasDue, seats := w.ID, w.Due, w.Seats // a refresh may write w.Coupon during the run
		w.running, w.overtaken, w.Due = true, false, false
		l.running++
		go func() {
			issued := l.issue(ctx, id)
			if issued.Locked {
				l.locks.found(ctx, id)
			}
			l.tell(func() {
				if issued.Status == coupon.Settled || issued.Status == coupon.Unchanged {
					w.reopened = seats
				}
				l.issued(ctx, w, wasDue, issued)
			})
		}()
	}
}

// issue settles one coupon. A panic fails only this run.
func (l *loop) issue(ctx context.Context, id coupon.CouponID) (issued settle.Issuance) {
	err := recovering(func() error {
		issued = l.Issuer.IssueNow(ctx, id)
		return nil
	})
	if err != nil {
		issued = settle.Issuance{}
		issued.Status, issued.Error = coupon.Failed, err.Error()
	}
	return issued
}

// issued decides what follows a run.
func (l *loop) issued(ctx context.Context, w *watched, wasDue bool, issued settle.Issuance) {
	at := l.Now()
	w.running, w.ended = false, at
	l.running--
	l.measured.run(issued)
	l.noteRun(w, issued)
	l.noteWait(w, issued.Waits, at)
	l.noteRefused(w, issued.Causes[coupon.CauseBadRow], at)
	wasUnchanged := w.unchanged
	w.unchanged = issued.Status == coupon.Unchanged && !wasDue
	switch issued.Status {
	case coupon.Settled:
		w.pause.reset()
		if issued.More && w.idle(at) {
			l.settle(w)
		} else if w.overtaken {
			l.lookAgain(ctx, w, at)
		}
	case coupon.Busy: // somebody else settles the coupon
		w.Due = w.Due || wasDue
	case coupon.Unchanged:
		switch {
		case wasDue: // somebody else has done what was due
		case !wasUnchanged: // the look may be older than the run of another replica
			w.pause.reset()
		default: // no run can settle what is in the queue
			w.rest(at.Add(w.pause.next(maxUnchangedPause)))
		}
	default:
		w.Due = w.Due || wasDue
		w.rest(at.Add(w.pause.next(maxPause)))
	}
	l.start(ctx)
}

// lookAgain looks at one coupon that the last look left out because it was running.
func (l *loop) lookAgain(ctx context.Context, w *watched, at time.Time) {
	if s := w.shard; w.idle(at) && !s.looking && !at.Before(s.notBefore) && ctx.Err() == nil {
		s.coupons, s.ids = append(s.coupons[:0], w), append(s.ids[:0], w.ID)
		l.look(ctx, s, at)
	}
}

// noteRun logs a coupon when it begins or ceases to fail.
func (l *loop) noteRun(w *watched, issued settle.Issuance) {
	failing := coupon.ResultStatus("")
	if issued.Status == coupon.Failed || issued.Status == coupon.HeldBack {
		failing = issued.Status
	}
	if failing == w.failing || issued.Status == coupon.Busy { // a busy coupon may fail or not
		return
	}
	w.failing = failing
	logger := l.Logger.With(zap.Uint64("coupon_id", uint64(w.ID)), zap.String("status", string(issued.Status)))
	if failing == "" {
		logger.Info("coupon no longer fails")
		return
	}
	logger.Warn("coupon not issued", zap.String("error", issued.Error))
}

// longWait is how long a coupon may wait for a restore without a word. Restores take seconds.
const longWait = time.Minute

// noteWait logs a coupon that waits for a restore that does not come, as where no process has the task journal.
func (l *loop) noteWait(w *watched, waits bool, at time.Time) {
	switch {
	case !waits:
		w.waits, w.waitNoted = time.Time{}, false
	case w.waits.IsZero():
		w.waits = at
	case at.Sub(w.waits) >= longWait && !w.waitNoted:
		w.waitNoted = true
		l.Logger.Warn("coupon waits for a restore, which is made by a settle serve with the task journal",
			zap.Uint64("coupon_id", uint64(w.ID)), zap.Duration("waits", at.Sub(w.waits)))
	}
}

// noteRefused lets a coupon rest whose rows MySQL keeps refusing. Else each run would move its applicants to the DLQ.
func (l *loop) noteRefused(w *watched, refused int, at time.Time) {
	if refused == 0 {
		return
	}
	if at.Sub(w.refusing) >= refusalPeriod {
		w.refused, w.refusing = 0, at
	}
	if w.refused += refused; w.refused <= allowedRefusals+w.Total/seatsPerRefusal {
		return
	}
	until := w.refusing.Add(refusalPeriod)
	w.rest(until)
	l.Logger.Error("MySQL refuses the rows of a coupon, which therefore rests; its applicants keep their places. "+
		"Look at the DLQ: settle dlq list; repair the trigger or the schema; then settle dlq retry",
		zap.Uint64("coupon_id", uint64(w.ID)), zap.Int("refused", w.refused), zap.Duration("rests_for", until.Sub(at)))
}
