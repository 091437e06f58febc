package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/settle"
)

// line lets a settlement read and clean the line that candidates keeps in Redis. It only translates: the two packages
// do not know each other. Clock the store has as it is.
type line struct{ *candidates.Store }

var (
	_ settle.Clock   = line{}
	_ settle.Door    = line{}
	_ settle.Line    = line{}
	_ settle.DLQ     = line{}
	_ settle.Catalog = line{}
	_ settle.Doors   = line{}
)

var sources = map[candidates.Source]settle.Source{
	candidates.Queue:         settle.Waiting,
	candidates.Retryable:     settle.Retryable,
	candidates.RefusedBefore: settle.RefusedBefore,
	candidates.Tried:         settle.Tried,
	candidates.Held:          settle.Held,
}

var origins = map[settle.Source]candidates.Source{
	settle.Waiting:       candidates.Queue,
	settle.Retryable:     candidates.Retryable,
	settle.RefusedBefore: candidates.Retryable, // Review knows by itself what was before
	settle.Tried:         candidates.Retryable,
	settle.Held:          candidates.Held,
	settle.NotSelected:   candidates.Recorded,
}

var marks = map[settle.Mark]candidates.Mark{
	settle.MarkNobody:   candidates.MarkNone,
	settle.MarkIssued:   candidates.MarkIssued,
	settle.MarkRejected: candidates.MarkRejected,
}

// Coupons are those of the catalog's snapshot.
func (l line) Coupons(ctx context.Context) ([]settle.Coupon, error) {
	known, err := catalog.Snapshot(ctx, l.Store)
	if err != nil {
		return nil, err
	}
	coupons := make([]settle.Coupon, len(known))
	for i, c := range known {
		coupons[i] = settle.Coupon{
			ID: c.ID, Name: c.Name, TotalQuantity: int(c.TotalQuantity), IssuedCount: int(c.IssuedCount),
			OpensAt: c.OpensAt, ClosesAt: c.ClosesAt, Finalised: c.Finalised,
		}
	}
	return coupons, nil
}

func (l line) Page(ctx context.Context, coupon uint64, after settle.Cursor, cutoff time.Time) ([]settle.Application, settle.Cursor, error) {
	cursor, _ := after.(candidates.Cursor) // nil is the beginning, as the zero Cursor is
	entries, next, err := l.Store.Page(ctx, coupon, cursor, cutoff)
	return applications(entries), next, err
}

func (l line) UnderReview(ctx context.Context, coupon uint64, after settle.Cursor) ([]settle.Application, settle.Cursor, error) {
	cursor, _ := after.(candidates.Cursor)
	entries, next, err := l.Store.UnderReview(ctx, coupon, cursor)
	return applications(entries), next, err
}

func applications(entries []candidates.Entry) []settle.Application {
	all := make([]settle.Application, len(entries))
	for i, e := range entries {
		all[i] = settle.NewApplication(e.Member, e.Arrival, sources[e.Source])
	}
	return all
}

func entries(applications []settle.Application) []candidates.Entry {
	all := make([]candidates.Entry, len(applications))
	for i, a := range applications {
		all[i] = candidates.Entry{Member: a.Member, Arrival: a.Arrival}
	}
	return all
}

func (l line) Remove(ctx context.Context, coupon uint64, closes time.Time, mark settle.Mark, settled []settle.Application) error {
	_, err := l.Store.Remove(ctx, coupon, closes, marks[mark], entries(settled))
	return err
}

func (l line) Release(ctx context.Context, coupon uint64, held []settle.Application) (int64, error) {
	return l.Store.Release(ctx, coupon, entries(held))
}

// Shut publishes the window that the row still has, for a door that has lost it, and then shuts the door.
func (l line) Shut(ctx context.Context, w settle.Window, pause bool) (version int64, end time.Time, err error) {
	if _, err := l.publish(ctx, w); err != nil {
		return 0, time.Time{}, err
	}
	return l.Store.Shut(ctx, w.Coupon, w.Version+1, pause)
}

func (l line) publish(ctx context.Context, w settle.Window) (published bool, err error) {
	window := candidates.Window{Coupon: w.Coupon, Version: w.Version, Opens: w.Opens, Closes: w.Closes, Paused: w.Paused, Sold: w.Sold}
	_, published, err = l.Publish(ctx, window, candidates.Promise{Accepted: w.Accepted, LastArrival: w.LastArrival, Twice: w.Twice, Since: w.Since})
	return published, err
}

// Tell publishes a window as the catalog does, but at once.
func (l line) Tell(ctx context.Context, w settle.Window) (sold bool, err error) {
	published, err := l.publish(ctx, w)
	if err == nil && !published {
		err = fmt.Errorf("the door of coupon %d goes by a newer version", w.Coupon)
	}
	if err != nil {
		return false, err
	}
	if err := l.Renew(ctx, w.Coupon, w.Closes); err != nil {
		return false, err
	}
	f, err := l.Figures(ctx, w.Coupon, 0)
	return f.Sold, err
}

func (l line) Fence(ctx context.Context, coupon uint64, cutoff time.Time, p settle.Promised) (wait, forPods time.Duration, err error) {
	return l.Store.Fence(ctx, coupon, cutoff, candidates.Promise{Accepted: p.Accepted, Twice: p.Twice, Since: p.Since})
}

func (l line) Marks(ctx context.Context, coupon uint64) (issued, rejected int64, err error) {
	f, err := l.Figures(ctx, coupon, 0)
	return f.Issued, f.Rejected, err
}

func (l line) Review(ctx context.Context, coupon, run uint64, at time.Time, failed []settle.Failure) (int64, error) {
	entries := make([]candidates.Failed, len(failed))
	for i, f := range failed {
		entries[i] = candidates.Failed{
			Entry: candidates.Entry{Member: f.Member, Arrival: f.Arrival, Source: origins[f.Source]},
			Reason: candidates.Reason{
				Cause: string(f.Cause), Message: f.Message, Retryable: f.Retryable, Attempts: 1, Run: run, At: at,
			},
		}
		if f.Keep {
			entries[i].Source = candidates.Keeping
		}
		if f.Row {
			entries[i].Reason.Refused, entries[i].Reason.Night = 1, f.Night
		}
	}
	reviewed, err := l.Store.Review(ctx, coupon, entries)
	if err != nil {
		return reviewed, fmt.Errorf("run %d: %w", run, err)
	}
	return reviewed, nil
}
