package history

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

// DLQStore reads the DLQ. candidates.Store implements it.
type DLQStore interface {
	UnderReview(ctx context.Context, couponID coupon.CouponID,
		after coupon.Cursor) ([]coupon.Application, coupon.Cursor, error)
	FindUnderReview(ctx context.Context, couponID coupon.CouponID, members []string) ([]coupon.Application, error)
	Reasons(ctx context.Context, couponID coupon.CouponID, members []string) (map[string]candidates.Reason, error)
}

// UnknownCause is the cause of a DLQ entry without a readable reason.
const UnknownCause = "UNKNOWN"

type DLQEntry struct {
	Coupon  coupon.CouponID `json:"coupon"`
	User    string          `json:"user"` // the member as it is stored
	Arrival time.Time       `json:"arrival"`
	candidates.Reason
}

// InDLQSince returns when the entry first came into the DLQ. The zero time means unknown.
func (e DLQEntry) InDLQSince() time.Time {
	return cmp.Or(e.Since, e.At)
}

// EachDLQEntry visits, by arrival, the entries of these members in the coupon's DLQ; all entries if members is empty.
func EachDLQEntry(ctx context.Context, store DLQStore, couponID coupon.CouponID, members []string,
	visit func(DLQEntry)) error {
	for cursor := (coupon.Cursor{}); !cursor.End; {
		var page []coupon.Application
		var err error
		if len(members) > 0 {
			page, err = store.FindUnderReview(ctx, couponID, members)
			cursor.End = true
		} else {
			page, cursor, err = store.UnderReview(ctx, couponID, cursor)
		}
		if err != nil || len(page) == 0 {
			return err
		}
		names := make([]string, len(page))
		for i, e := range page {
			names[i] = e.Member
		}
		reasons, err := store.Reasons(ctx, couponID, names)
		if err != nil {
			return err
		}
		for _, e := range page {
			reason := reasons[e.Member]
			reason.Cause = cmp.Or(reason.Cause, UnknownCause)
			reason.Retryable = e.Source != coupon.SourceHeld // decided by the score, as in settlements
			visit(DLQEntry{Coupon: couponID, User: e.Member, Arrival: e.Arrival.Time(), Reason: reason})
		}
	}
	return nil
}

// DLQGroup sums up the DLQ entries of one coupon that have the same cause.
type DLQGroup struct {
	Coupon        coupon.CouponID `json:"coupon"`
	Cause         string          `json:"cause"`
	Count         int             `json:"count"`
	Retryable     int             `json:"retryable"` // how many of Count every run tries again
	Held          int             `json:"held"`      // how many of Count wait for an operator's decision
	OldestArrival time.Time       `json:"oldestArrival"`
	NewestArrival time.Time       `json:"newestArrival"`
	OldestReview  time.Time       `json:"oldestReview,omitzero"` // earliest InDLQSince of the entries; zero: unknown
	MinAttempts   int             `json:"leastAttempts"`
	MaxAttempts   int             `json:"mostAttempts"`
}

type DLQGroups map[groupKey]*DLQGroup

type groupKey struct {
	coupon coupon.CouponID
	cause  string
}

// Add counts an entry. The entries of one coupon must be added in order of arrival.
func (g DLQGroups) Add(e DLQEntry) {
	key := groupKey{e.Coupon, e.Cause}
	group := g[key]
	if group == nil {
		group = &DLQGroup{Coupon: e.Coupon, Cause: e.Cause, OldestArrival: e.Arrival, MinAttempts: e.Attempts}
		g[key] = group
	}
	group.Count++
	if e.Retryable {
		group.Retryable++
	} else {
		group.Held++
	}
	group.NewestArrival = e.Arrival
	if since := e.InDLQSince(); !since.IsZero() && (group.OldestReview.IsZero() || since.Before(group.OldestReview)) {
		group.OldestReview = since
	}
	group.MinAttempts, group.MaxAttempts = min(group.MinAttempts, e.Attempts), max(group.MaxAttempts, e.Attempts)
}

// Sorted returns the groups by coupon. Within a coupon the largest group comes first.
func (g DLQGroups) Sorted() []DLQGroup {
	all := make([]DLQGroup, 0, len(g))
	for _, group := range g {
		all = append(all, *group)
	}
	slices.SortFunc(all, func(a, b DLQGroup) int {
		return cmp.Or(cmp.Compare(a.Coupon, b.Coupon), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Cause, b.Cause))
	})
	return all
}
