package events

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/mysqltx"
)

const (
	// PublishTimeout bounds one publication. A session of the relay that is idle for longer ends, and another relay
	// takes over.
	PublishTimeout = 4 * time.Second
	// roundTimeout bounds a round, publication and statements together.
	roundTimeout = 15 * time.Second
	// serverEvery is how often the relay looks at the sink while there is nothing to publish.
	serverEvery = 2 * time.Second
	// roundCoupons bounds the events of a round: a crash repeats so many at most, and a fifth as many rows of
	// coupon_log.
	roundCoupons = 5_000
	// changesShare is the number of issued coupons for each row of coupon_log in the bounds of a round.
	changesShare = 5
	// roundSettlements bounds the settlements of a round. Immediate coupons have many small ones.
	roundSettlements = 100
)

// Config is what the relay needs. Every field is required.
type Config struct {
	Name string // name of the sink: EVENT_SINK
	Sink Sink
	DB   *mysqltx.DB // connections that end soon if the process stops in the middle of a round
	Now  func() time.Time
}

// Relay publishes what was issued and what happened to it afterwards. Its methods may not be called in parallel.
type Relay struct {
	Config
	ahead    *ahead    // what is read and not published of the settlement that the cursor names
	lookedAt time.Time // when the relay last looked at the sink
	claimed  bool      // this process has claimed the sink
	most     int       // coupons of a round at most; tests publish fewer
	room     int       // coupons of the next round at most; see adapt
}

func NewRelay(c Config) *Relay { return &Relay{Config: c, most: roundCoupons, room: roundCoupons} }

// Round is the result of one round.
type Round struct {
	Standby   bool // another relay works
	Published int  // number of events
	// Number of settlements and rows of coupon_log that will be published again, because the sink may have lost them.
	Again   int
	More    bool // the next round has something to do
	MayLack *Gap // what else the sink may have lost, if this round has found it; nil: nothing

	on bool // the events are turned on
}

// errStandby ends the transaction of a round that does nothing.
var errStandby = errors.New("another relay works")

// Round publishes the next events. A round that was begun goes on after the end of ctx, within a bounded time.
func (r *Relay) Round(ctx context.Context) (done Round, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), roundTimeout)
	defer cancel()
	began := r.Now()
	defer func() { r.adapt(r.Now().Sub(began), err) }()
	var sinkError error
	err = r.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) (err error) {
		done, sinkError, err = r.attempt(ctx, tx)
		return err
	})
	switch {
	case errors.Is(err, errStandby):
		r.ahead = nil
		return Round{Standby: true}, nil
	case err != nil:
		r.ahead = nil
		return Round{}, err
	default:
		r.claimed = r.claimed || done.on
		return done, sinkError
	}
}

// adapt halves the next round after a round that failed because it took too long: it would fail for ever. It doubles
// the next round after one that took less than a quarter of that time.
func (r *Relay) adapt(took time.Duration, err error) {
	switch {
	case err != nil && took >= PublishTimeout:
		r.room = max(1, r.room/2)
	case err == nil && took < PublishTimeout/4:
		r.room = min(r.most, 2*r.room)
	}
}

// attempt does the work of a round in its transaction. An error of the sink does not undo what the sink acknowledged.
func (r *Relay) attempt(ctx context.Context, tx *sql.Tx) (done Round, sinkError, err error) {
	at, found, err := lockCursor(ctx, tx, r.Name)
	switch {
	case mysqltx.IsLockWait(err):
		return done, nil, errStandby
	case err != nil:
		return done, nil, err
	case !found || !at.on:
		done.More = true
		return done, nil, turnOn(ctx, tx, r.Name, found)
	}
	if err := claim(ctx, tx, r.Name, r.claimed); err != nil {
		return done, nil, err
	}
	done.on = true
	before := at
	if at.Server == "" || r.Now().Sub(r.lookedAt) >= serverEvery {
		look, err := r.look(ctx, at.Place)
		switch {
		case err != nil:
			return done, err, nil
		case look.Lacks > 0 || at.Server != "" && at.Server != look.Server:
			r.lookedAt, done.More = time.Time{}, true
			done.Again, done.MayLack, err = publishAgain(ctx, tx, at, look, r.Name)
			return done, nil, err
		}
		at.Place = look.Place
	}
	events, err := r.gather(ctx, tx, at)
	if err != nil {
		return done, nil, err
	}
	done.Published, at.Last, sinkError = r.publish(ctx, tx, at.Place, events)
	err = events.write(ctx, tx, &at, done.Published)
	if err == nil && at != before {
		err = at.write(ctx, tx, r.Name)
	}
	done.More = sinkError == nil && !events.empty()
	return done, sinkError, err
}

// look asks the sink where its events are.
func (r *Relay) look(ctx context.Context, known Place) (Look, error) {
	ctx, cancel := context.WithTimeout(ctx, PublishTimeout)
	defer cancel()
	look, err := r.Sink.Look(ctx, known)
	if err != nil {
		return Look{}, fmt.Errorf("look at sink %s: %w", r.Name, err)
	}
	r.lookedAt = r.Now()
	return look, nil
}

// gather returns the next events: coupons of settlements first, then rows of coupon_log.
func (r *Relay) gather(ctx context.Context, tx *sql.Tx, at cursor) (*batch, error) {
	events := &batch{}
	next, err := unpublished(ctx, tx, roundSettlements)
	if err != nil {
		return nil, err
	}
	if at.settlement != (settlement{}) {
		next = append([]cursor{at}, next...)
	}
	for i, c := range next {
		if i > 0 && c.settlement == at.settlement {
			continue
		}
		room := r.room - len(events.messages)
		if room <= 0 {
			break
		}
		if !r.ahead.at(c) {
			r.ahead = aheadOf(c)
		}
		if err := r.ahead.fill(ctx, tx, room); err != nil {
			return nil, err
		}
		events.take(r.ahead, room)
	}
	changes, err := unpublishedChanges(ctx, tx, at.log, max(1, r.room/changesShare))
	for i := range changes {
		if c := &changes[i]; err == nil && !c.behind {
			events.changes = append(events.changes, c.id)
			err = events.add(c.event())
		}
	}
	return events, err
}

// publish delivers the events, and reads more coupons meanwhile. It reads them in the transaction that marks them as
// published: another connection may lead to another server.
func (r *Relay) publish(ctx context.Context, tx *sql.Tx, at Place, events *batch) (delivered int, last string,
	sinkError error) {
	if len(events.messages) == 0 {
		return 0, at.Last, nil
	}
	var group errgroup.Group
	if i := len(events.parts) - 1; i >= 0 && !events.parts[i].last {
		group.Go(func() error { return r.ahead.more(ctx, tx) })
	}
	timed, cancel := context.WithTimeout(ctx, PublishTimeout)
	defer cancel()
	delivered, last, sinkError = r.Sink.Publish(timed, at, events.messages)
	if group.Wait() != nil || sinkError != nil {
		r.ahead = nil // the next round reads again
	}
	if sinkError != nil {
		sinkError = fmt.Errorf("publish to sink %s: %w", r.Name, sinkError)
	}
	if errors.Is(sinkError, ErrMayHaveLost) { // what this round delivered may be lost, too
		r.lookedAt = time.Time{}
		return 0, at.Last, nil
	}
	return delivered, last, sinkError
}
