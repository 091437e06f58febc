package live

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/standing"
)

const (
	// tick is how often a room looks at its coupon. With it, an outcome is told within two seconds: it is noticed after
	// half a second, a stream that has just been told something waits for another half, and sending is spread.
	tick = 500 * time.Millisecond
	// gather is how long a room waits for more streams to begin before it looks them up.
	gather = 20 * time.Millisecond
	// tellEvery is the least time between two states of one stream.
	tellEvery = time.Second
	// spread is the time over which a large room goes through its streams, in slices of slice: otherwise, thousands of
	// writes at once would delay applications. A room with fewer streams does it faster, fewestPerSlice at once.
	spread, slice  = 500 * time.Millisecond, time.Millisecond
	fewestPerSlice = 64
	// pushCost is the cost of telling a stream something, at least, if that of looking at a stream is 1.
	pushCost = 8
	// lookTimeout bounds one question to Redis or MySQL. No round asks a server again that has taken so long in it.
	lookTimeout = 2 * time.Second
	// againAfter is how long a user whose state may have changed at any time waits for the next lookup.
	againAfter = 2 * time.Second
	// lateAfter is for how long looks must fail until streams are told.
	lateAfter = time.Second
)

// States that only streams have.
const (
	notApplied coupon.Standing = "NOT_APPLIED"
	unknown    coupon.Standing = "UNKNOWN" // the servers could not be asked yet
)

// room has the streams of one coupon. Only its own goroutine uses its fields, except kick, streams and newcomers.
type room struct {
	hub       *Hub
	coupon    coupon.Coupon
	streams   []*stream     // guarded by hub.mu
	newcomers []*stream     // streams that were not welcomed yet; guarded by hub.mu
	kick      chan struct{} // wakes the room for newcomers

	looked  bool
	queue   candidates.Watch
	since   coupon.Arrival    // start of the last epoch that a look has shown
	mark    coupon.Arrival    // highest arrival of the last look
	left    int64             // entries that have left the queue since the room opened
	failing time.Time         // when looks began to fail; zero: the last one succeeded
	woken   []coupon.Standing // users with these standings are due
	someDue bool              // whether a stream was due in the last round
	greeted time.Time         // when newcomers were welcomed last
	waited  time.Duration     // time spent waiting for MySQL in this round
	members []*stream
}

func newRoom(h *Hub, of coupon.Coupon) *room {
	return &room{hub: h, coupon: of, kick: make(chan struct{}, 1)}
}

// run looks and tells until no stream is left.
func (r *room) run() {
	next := time.NewTimer(tick)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			began := r.hub.Now()
			r.guarded(r.round)
			took := r.hub.Now().Sub(began)
			r.hub.metrics.rounds.Observe(took.Seconds())
			if r.hub.closeIfEmpty(r) {
				return
			}
			next.Reset(max(gather, tick-took))
		case <-r.kick:
			time.Sleep(gather)
			r.guarded(r.welcome)
		}
	}
}

func (r *room) guarded(work func()) {
	defer func() {
		if p := recover(); p != nil {
			r.hub.Logger.Error("a round of streams panicked", zap.Any("panic", p), zap.Stack("stack"))
		}
	}()
	work()
}

// welcome tells those who have come their first state.
func (r *room) welcome() {
	now := r.hub.Now()
	r.greeted = now
	newcomers := slices.DeleteFunc(r.hub.welcomed(r), func(s *stream) bool { return !s.due }) // a round was faster
	for page := range slices.Chunk(newcomers, candidates.MaxWatched) {
		if !r.lookUp(page, now) {
			r.someDue = true
			return
		}
	}
	for _, s := range newcomers {
		r.tell(s, now)
	}
}

// round looks up those who are due, and tells every stream what is new.
func (r *room) round() {
	r.members = r.hub.members(r, r.members)
	defer func() { clear(r.members); r.members = r.members[:0] }()
	if one, ok := r.hub.Coupons.Lookup(r.coupon.ID); ok {
		r.coupon = one
	}
	r.lookUpAll()
	r.tellAll()
}

// lookUpAll asks about the queue, and about everybody who is due.
func (r *room) lookUpAll() {
	now, lowest := r.hub.Now(), r.queue.Lowest
	r.waited = 0
	var due []*stream
	if r.someDue || len(r.woken) > 0 {
		due = r.due(now)
	}
	if !r.lookUp(due[:min(len(due), candidates.MaxWatched)], now) {
		return
	}
	if len(due) <= candidates.MaxWatched && r.queue.Lowest == lowest && len(r.woken) == 0 {
		return
	}
	// The look has shown that the turns of others may have come.
	for page := range slices.Chunk(r.due(now), candidates.MaxWatched) {
		// The next rounds go on: heartbeats and ends of streams do not wait for many slow pages.
		if r.hub.Now().Sub(now)-r.waited >= lookTimeout || !r.lookUp(page, now) {
			return
		}
		time.Sleep(slice) // applications want Redis and MySQL, too
	}
}

// due returns the streams whose users must be looked up now.
func (r *room) due(now time.Time) (due []*stream) {
	for _, s := range r.members {
		s.due = s.due || slices.Contains(r.woken, s.state.Is)
		if r.isDue(s) && !now.Before(s.again) {
			due = append(due, s)
		}
	}
	r.woken = r.woken[:0]
	return due
}

// isDue reports whether a user must be looked up: the turn has come, or something has happened.
func (r *room) isDue(s *stream) bool {
	return s.due || s.state.Is == coupon.StandingPending && (r.queue.Lowest == 0 || s.state.Arrival < r.queue.Lowest)
}

// lookUp asks Redis about the queue and some users, and MySQL about those whose standing Redis does not give.
func (r *room) lookUp(streams []*stream, now time.Time) bool {
	users := make([]coupon.UserID, len(streams))
	for i, s := range streams {
		users[i] = s.user
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	queue, err := r.hub.Store.Watch(ctx, r.coupon.ID, r.mark, users...)
	if !r.asked(err, now) {
		return false
	}
	r.see(queue)
	var open []*stream
	found := map[coupon.UserID]candidates.Found{} // of users about whom MySQL is asked
	for i, s := range streams {
		is := (standing.Facts{Found: queue.Users[i]}).Conclude()
		switch {
		case standing.MustAsk(r.coupon, queue, is.Is), is.Is == coupon.StandingNone && s.applied():
			open, found[s.user] = append(open, s), queue.Users[i]
		case is.Is == coupon.StandingNone:
			r.learnNothing(s, now, promise.Books{})
		default:
			s.learn(is, is.Position+r.left)
		}
	}
	r.askHistory(open, found, now)
	return true
}

// see takes over what a look has shown of the queue.
func (r *room) see(queue candidates.Watch) {
	before := r.queue
	// The server is new while Since is 0. Only a look that misses somebody sees it.
	begun := queue.Since != 0 && queue.Since != r.since
	switch {
	case !r.looked:
	case begun || queue.Restores != before.Restores: // nobody's position is known any longer
		r.wake(coupon.StandingPending, coupon.StandingUnderReview, notApplied)
	case queue.Since == before.Since:
		r.left += before.Waiting - queue.UpTo
	}
	r.since = cmp.Or(queue.Since, r.since)
	if queue.DLQChanges != before.DLQChanges {
		r.wake(coupon.StandingUnderReview)
	}
	// The queue does not show that somebody has applied: an immediate coupon may have been issued since the last look.
	if queue.Last != before.Last || queue.UpTo > before.Waiting {
		r.wake(notApplied)
	}
	r.looked, r.queue, r.mark = true, queue, queue.Highest
}

// wake makes the users with some standings due, in this round or the next.
func (r *room) wake(standings ...coupon.Standing) {
	for _, one := range standings {
		if !slices.Contains(r.woken, one) {
			r.woken = append(r.woken, one)
		}
	}
}

// askHistory asks MySQL about users whose standing Redis does not give. found is what Redis has of them.
func (r *room) askHistory(streams []*stream, found map[coupon.UserID]candidates.Found, now time.Time) {
	if len(streams) == 0 {
		return
	}
	users := make([]coupon.UserID, len(streams))
	for i, s := range streams {
		users[i], s.due, s.again = s.user, true, now.Add(againAfter)
	}
	outcomes, books, answered := r.outcomesOf(users)
	for _, s := range streams {
		facts := standing.Facts{Found: found[s.user], Asked: answered, Outcomes: outcomes[s.user]}
		is := facts.Conclude()
		switch {
		case answered && is.Is != coupon.StandingNone:
			s.learn(is, is.Position+r.left)
		case s.applied(): // it is found again, or MySQL answers
			s.lost = true
		case answered:
			r.learnNothing(s, now, books)
		default:
			s.doubt(now)
		}
	}
}

// learnNothing notes that a user was found nowhere. Whoever may soon be found is not told NOT_APPLIED.
func (r *room) learnNothing(s *stream, now time.Time, books promise.Books) {
	if verdict := r.hub.Losses.Judge(r.coupon, r.queue, books); verdict == standing.Restoring {
		s.doubt(now)
	} else {
		s.learnNothing(now, verdict == standing.MayBeLost)
	}
}

// outcomesOf asks MySQL, unless this round has waited long enough for it.
func (r *room) outcomesOf(users []coupon.UserID) (
	found map[coupon.UserID][]standing.Outcome, books promise.Books, answered bool,
) {
	if r.waited >= lookTimeout {
		return nil, books, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	began := r.hub.Now()
	found, books, err := r.hub.Records.Read(ctx, r.coupon.ID, users...)
	r.waited += r.hub.Now().Sub(began)
	r.count(err)
	return found, books, err == nil
}

// asked notes whether Redis has answered.
func (r *room) asked(err error, now time.Time) bool {
	r.count(err)
	if err == nil {
		r.failing = time.Time{}
	} else if r.failing.IsZero() {
		r.failing = now
	}
	return err == nil
}

func (r *room) count(err error) {
	r.hub.metrics.looks[err == nil].Inc()
	if err != nil {
		r.hub.Logger.Warn("streams cannot be told what is new", zap.Uint64("coupon_id", uint64(r.coupon.ID)),
			zap.Error(err))
	}
}

// learn takes over the result of a lookup.
func (s *stream) learn(state standing.Conclusion, place int64) {
	s.known, s.state, s.place, s.due, s.lost, s.maybe, s.again = true, state, place, false, false, false, time.Time{}
}

// learnNothing notes that the user has not applied. The user is due again when somebody applies, but not before again.
func (s *stream) learnNothing(now time.Time, maybeLost bool) {
	s.learn(standing.Conclusion{Is: notApplied}, 0)
	s.maybe, s.again = maybeLost, now.Add(againAfter)
}

// doubt notes that the user may have an application that nobody finds now.
func (s *stream) doubt(now time.Time) {
	s.known, s.lost, s.due, s.again = false, true, true, now.Add(againAfter)
}

// applied reports whether the stream knows of an application.
func (s *stream) applied() bool { return s.known && s.state.Is != notApplied }

// tellAll hands out what is new, in slices.
func (r *room) tellAll() {
	now, work, workPerSlice := r.hub.Now(), 0, pushCost*max(fewestPerSlice, 1+len(r.members)/int(spread/slice))
	r.someDue = false
	for _, s := range r.members {
		r.someDue = r.someDue || r.isDue(s)
		work++
		if r.tell(s, now) {
			work += pushCost - 1
		}
		if work >= workPerSlice {
			work = 0
			r.rest()
		}
	}
}

// rest lets others work, and welcomes those who came meanwhile.
func (r *room) rest() {
	time.Sleep(slice)
	if r.hub.Now().Sub(r.greeted) < gather {
		return
	}
	select {
	case <-r.kick:
		r.welcome()
	default:
	}
}

// tell reports whether there was something to tell.
func (r *room) tell(s *stream, now time.Time) bool {
	f, ok := r.frameFor(s, now)
	if ok {
		s.push(f)
	}
	return ok
}

// frameFor returns what to send to a stream now, if anything.
func (r *room) frameFor(s *stream, now time.Time) (frame, bool) {
	late := s.lost || !r.failing.IsZero() && now.Sub(r.failing) >= lateAfter
	if (s.known || late) && now.Sub(s.toldAt) >= tellEvery {
		if f, ok := r.news(s, now, late); ok {
			return f, true
		}
	}
	if left, ends := r.hub.drainLeft(now); ends && s.endsBecause != drained {
		s.endsBecause = drained
		if at := now.Add(rand.N(left + 1)); at.Before(s.ends) {
			s.ends = at
		}
	}
	switch {
	case !now.Before(s.ends):
		return frame{last: s.endsBecause}, true
	case now.Sub(s.beatAt) >= heartbeatEvery && s.idle():
		s.beatAt = now
		return frame{text: heartbeat}, true
	default:
		return frame{}, false
	}
}

// news returns the state of a stream's user as an event, unless it is the one that was sent last.
func (r *room) news(s *stream, now time.Time, late bool) (frame, bool) {
	n := r.newest(s)
	n.delayed = n.delayed || late
	if n == s.told {
		return frame{}, false
	}
	// Who moves up may be about to get an outcome, which would then have to wait for tellEvery.
	moved := n.standing == s.told.standing && n.delayed == s.told.delayed && n.maybe == s.told.maybe
	if moved && !s.moved {
		s.moved = true
		return frame{}, false
	}
	s.moved = false
	s.told, s.toldAt = n, now
	r.hub.metrics.events[n.standing].Inc()
	document := r.document(s, n)
	text := append([]byte("id: "+eventID(s.user, document.Status, document.Position)+"\ndata: "),
		httpapi.Marshal(document)...)
	f := frame{text: append(text, '\n')}
	switch {
	case outcome(document.Status):
		f.last = final
	case s.brief:
		f.last = answered
	}
	return f, true
}

// newest returns what is known of a stream's user. It is cheap: every tick asks for every stream.
func (r *room) newest(s *stream) told {
	if !s.known {
		return told{standing: unknown}
	}
	n := told{standing: s.state.Is, maybe: s.maybe}
	if n.standing == coupon.StandingPending {
		n.position, n.seats = max(1, s.place-r.left), r.coupon.Free()
		n.delayed = r.hub.Terms.Delayed(r.coupon, s.state.Arrival, r.queue.Now)
	}
	return n
}

// document says it in full.
func (r *room) document(s *stream, n told) standing.Document {
	is := standing.Conclusion{Is: n.standing, Arrival: s.state.Arrival, Position: n.position}
	d := r.hub.Terms.Describe(r.coupon, s.user, is, r.queue.Now)
	d.Delayed, d.MayBeLost = n.delayed, n.maybe
	return d
}
