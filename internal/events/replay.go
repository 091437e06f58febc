package events

import (
	"container/heap"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

const (
	// spanOfIDs bounds what one statement of a replay reads.
	spanOfIDs = 50_000
	// replayPage is how many issued coupons are published together, followed by their changes.
	replayPage = 500
	// fullWait is how often a replay tries again while the sink takes no events.
	fullWait = 5 * time.Second
	// maxTries bounds the tries without progress: ten minutes of waiting for a full sink.
	maxTries = int(10 * time.Minute / fullWait)
)

// Selection says which events are published again. A zero field selects all; at least one is set.
type Selection struct {
	Coupon   coupon.CouponID
	Run      coupon.RunID // what the run issued, and what happened to it afterwards
	From, To time.Time    // events of From and later, before To
}

// Covers reports whether the selection has all events of a gap.
func (s *Selection) Covers(g *Gap) bool {
	return s.Coupon == 0 && s.Run == 0 && !s.From.After(g.From) && (s.To.IsZero() || !s.To.Before(g.To))
}

func (s *Selection) has(at time.Time) bool {
	return !at.Before(s.From) && (s.To.IsZero() || at.Before(s.To))
}

// Replay publishes events once more, with the ids that they always had. It changes no row of them, and needs no lock:
// the relay may work meanwhile.
type Replay struct {
	Selection
	Sink     Sink // nil: the events are only counted
	Rows     *sql.DB
	Wait     func(ctx context.Context, d time.Duration) error
	Progress func(published int)
	Full     func(err error) // called while the sink takes no events

	place   Place // without a server, it is not known yet
	changed bool  // the sink may have lost what the replay had published
	done    Replayed
}

// Replayed is the result of a replay.
type Replayed struct {
	Coupons int            // number of coupons with events
	Events  int            // acknowledged by the sink, or counted
	ByType  map[string]int // the same by type
	Server  string         // server of the sink, if it has all events for certain; empty if it may lack some
}

// Run publishes coupon by coupon: the issued coupons by seat, each page followed by what happened to them. After an
// error, the result says how many events the sink has acknowledged.
func (r *Replay) Run(ctx context.Context) (Replayed, error) {
	r.done = Replayed{ByType: map[string]int{}}
	coupons, err := r.coupons(ctx)
	for _, couponID := range coupons {
		before := r.done.Events
		err = r.coupon(ctx, couponID)
		if r.done.Events > before {
			r.done.Coupons++
		}
		if err != nil {
			break
		}
	}
	if err == nil && r.Sink != nil && !r.changed {
		r.done.Server = r.whole(ctx)
	}
	return r.done, err
}

// whole returns the server of the sink if that has everything that the replay has published, as far as the sink says.
func (r *Replay) whole(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, PublishTimeout)
	defer cancel()
	look, err := r.Sink.Look(ctx, r.place)
	if err != nil || look.Lacks > 0 || r.place.Server != "" && r.place.Server != look.Server {
		return ""
	}
	return look.Server
}

const (
	couponsOfRunSQL  = "SELECT coupon_id FROM settlement WHERE run_id = ? AND issued_count > 0 ORDER BY coupon_id"
	couponsOfTimeSQL = `
SELECT DISTINCT coupon_id FROM settlement WHERE issued_count > 0 AND settled_at >= ? AND settled_at < ?
UNION
SELECT DISTINCT u.coupon_id FROM coupon_log l JOIN user_coupon u ON u.id = l.user_coupon_id WHERE l.at >= ? AND l.at < ?
ORDER BY coupon_id`
)

func (r *Replay) coupons(ctx context.Context) (ids []coupon.CouponID, err error) {
	switch {
	case r.Coupon != 0:
		return []coupon.CouponID{r.Coupon}, nil
	case r.Selection.Run != 0:
		ids, err = mysqltx.Column[coupon.CouponID](ctx, r.Rows, couponsOfRunSQL, r.Selection.Run)
	default:
		from, to := mysqltx.Period(r.From, r.To)
		ids, err = mysqltx.Column[coupon.CouponID](ctx, r.Rows, couponsOfTimeSQL, from, to, from, to)
	}
	return ids, mysqltx.Wrap(err, "read the coupons to replay")
}

const idsSQL = "SELECT COALESCE(MIN(id), 0), COALESCE(MAX(id), 0) FROM user_coupon FORCE INDEX (user_coupon_once) " +
	"WHERE coupon_id = ?"

const issuedSQL = `
SELECT id, user_id, position, COALESCE(applied_at, issued_at), issued_at, expires_at, coupon_id, COALESCE(run_id, 0)
FROM user_coupon FORCE INDEX (PRIMARY) WHERE id >= ? AND id < ? AND coupon_id = ? AND (? = 0 OR run_id = ?) ORDER BY id`

// coupon replays one coupon. Rows are read by id. A statement of a settlement has inserted them sorted by user: a row
// is therefore less than statementRows rows away from the place that its seat gives it.
func (r *Replay) coupon(ctx context.Context, couponID coupon.CouponID) error {
	var first, last coupon.UserCouponID
	if err := r.Rows.QueryRowContext(ctx, idsSQL, couponID).Scan(&first, &last); err != nil {
		return fmt.Errorf("read the issued coupons of coupon %d: %w", couponID, err)
	}
	var read byPosition
	for from := first; from <= last && last > 0; from += spanOfIDs {
		rows, err := mysqltx.Collect(ctx, r.Rows, (*Issued).fields, issuedSQL, from, from+spanOfIDs, couponID,
			r.Selection.Run, r.Selection.Run)
		if err != nil {
			return fmt.Errorf("read the issued coupons of coupon %d: %w", couponID, err)
		}
		for i := range rows {
			heap.Push(&read, &rows[i])
		}
		if err := r.publishDownTo(ctx, &read, statementRows); err != nil {
			return err
		}
	}
	return r.publishDownTo(ctx, &read, 0)
}

// publishDownTo publishes the first seats until no more than keep rows are left.
func (r *Replay) publishDownTo(ctx context.Context, read *byPosition, keep int) error {
	for read.Len() > keep {
		page := make([]*Issued, 0, replayPage)
		for len(page) < replayPage && read.Len() > keep {
			page = append(page, heap.Pop(read).(*Issued))
		}
		if err := r.page(ctx, page); err != nil {
			return err
		}
	}
	return nil
}

const changesOfSQL = columnsOfChange + `
FROM coupon_log l JOIN user_coupon u ON u.id = l.user_coupon_id
WHERE l.user_coupon_id IN (SELECT j.id FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$')) AS j)
    ORDER BY l.id`

// page publishes what was issued, and then what happened to it.
func (r *Replay) page(ctx context.Context, page []*Issued) error {
	var events []*Event
	ids := make([]coupon.UserCouponID, 0, len(page))
	for _, issued := range page {
		ids = append(ids, issued.UserCoupon)
		if issued.Run != 0 && r.has(issued.IssuedAt) { // a coupon given by hand has no issued event
			events = append(events, issued.Event())
		}
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	changes, err := mysqltx.Collect(ctx, r.Rows, (*change).fields, changesOfSQL, string(list))
	if err != nil {
		return fmt.Errorf("read coupon_log: %w", err)
	}
	for i := range changes {
		if c := &changes[i]; r.has(c.at) {
			events = append(events, c.event())
		}
	}
	for some := range slices.Chunk(events, replayPage) {
		if err := r.publish(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// publish delivers events. It waits while the sink is full, within bounds.
func (r *Replay) publish(ctx context.Context, events []*Event) error {
	messages := make([]Message, len(events))
	for i, e := range events {
		var err error
		if messages[i], err = e.Message(); err != nil {
			return err
		}
	}
	for tries := 0; len(events) > 0; tries++ {
		delivered, err := r.deliver(ctx, messages)
		if delivered > 0 {
			tries = 0
		}
		for _, e := range events[:delivered] {
			r.done.ByType[e.Type]++
		}
		r.done.Events += delivered
		r.Progress(r.done.Events)
		events, messages = events[delivered:], messages[delivered:]
		switch {
		case err != nil && tries >= maxTries:
			return err
		case errors.Is(err, ErrMayHaveLost):
			r.place, r.changed = Place{}, true // a replay goes on; who runs it learns that it has to be repeated
		case errors.Is(err, ErrFull):
			r.Full(err)
			err = r.Wait(ctx, fullWait)
			if err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
	return nil
}

// deliver begins nothing after the end of ctx. A publication that was begun goes on, so that its result is known.
func (r *Replay) deliver(ctx context.Context, messages []Message) (delivered int, err error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if r.Sink == nil {
		return len(messages), nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), PublishTimeout)
	defer cancel()
	if r.place.Server == "" {
		look, err := r.Sink.Look(ctx, Place{})
		if err != nil {
			return 0, err
		}
		r.place = look.Place
	}
	delivered, r.place.Last, err = r.Sink.Publish(ctx, r.place, messages)
	return delivered, err
}
