package ledger

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

// ReviewStore is what the ledger reads of the DLQ; candidates.Store has it.
type ReviewStore interface {
	UnderReview(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor) ([]coupon.Application, coupon.Cursor, error)
	Reasons(ctx context.Context, couponID coupon.CouponID, members []string) (map[string]candidates.Reason, error)
}

// ReviewedSince is since when it is under review; zero: unknown.
func (r Reviewed) ReviewedSince() time.Time {
	if r.Since.IsZero() {
		return r.At
	}
	return r.Since
}

// UnknownCause is that of an entry without a readable reason.
const UnknownCause = "UNKNOWN"

// Reviewed is an application under review.
type Reviewed struct {
	Coupon  coupon.CouponID `json:"coupon"`
	User    string          `json:"user"` // as it stands in the DLQ
	Arrival time.Time       `json:"arrival"`
	candidates.Reason
}

// EachReviewed visits who is under review for a coupon, by arrival, page by page.
func EachReviewed(ctx context.Context, store ReviewStore, couponID coupon.CouponID, visit func(Reviewed)) error {
	for cursor := (coupon.Cursor{}); ; {
		page, next, err := store.UnderReview(ctx, couponID, cursor)
		if err != nil || len(page) == 0 {
			return err
		}
		members := make([]string, len(page))
		for i, e := range page {
			members[i] = e.Member
		}
		reasons, err := store.Reasons(ctx, couponID, members)
		if err != nil {
			return err
		}
		for _, e := range page {
			reason := reasons[e.Member]
			reason.Cause = cmp.Or(reason.Cause, UnknownCause)
			// Whatever is written there, the line goes by this.
			reason.Retryable = e.Source != coupon.SourceHeld
			visit(Reviewed{Coupon: couponID, User: e.Member, Arrival: time.UnixMicro(e.Arrival).UTC(), Reason: reason})
		}
		cursor = next
	}
}

// ReviewGroup sums up those under review for one coupon by one cause.
type ReviewGroup struct {
	Coupon        coupon.CouponID `json:"coupon"`
	Cause         string          `json:"cause"`
	Count         int             `json:"count"`
	Retryable     int             `json:"retryable"` // of these every run tries again
	Held          int             `json:"held"`      // a person must decide
	OldestArrival time.Time       `json:"oldestArrival"`
	NewestArrival time.Time       `json:"newestArrival"`
	OldestReview  time.Time       `json:"oldestReview"` // since when the first of them is under review; zero: unknown
	LeastAttempts int             `json:"leastAttempts"`
	MostAttempts  int             `json:"mostAttempts"`
}

// ReviewGroups are groups by coupon and cause.
type ReviewGroups map[groupKey]*ReviewGroup

type groupKey struct {
	coupon coupon.CouponID
	cause  string
}

// Add counts an application.
func (g ReviewGroups) Add(r Reviewed) {
	key := groupKey{r.Coupon, r.Cause}
	of := g[key]
	if of == nil {
		of = &ReviewGroup{Coupon: r.Coupon, Cause: r.Cause, OldestArrival: r.Arrival, LeastAttempts: r.Attempts}
		g[key] = of
	}
	of.Count++
	if r.Retryable {
		of.Retryable++
	} else {
		of.Held++
	}
	of.NewestArrival = r.Arrival // they come by arrival
	if since := r.ReviewedSince(); !since.IsZero() && (of.OldestReview.IsZero() || since.Before(of.OldestReview)) {
		of.OldestReview = since
	}
	of.LeastAttempts, of.MostAttempts = min(of.LeastAttempts, r.Attempts), max(of.MostAttempts, r.Attempts)
}

// Sorted are the groups by coupon, and the largest first.
func (g ReviewGroups) Sorted() []ReviewGroup {
	all := make([]ReviewGroup, 0, len(g))
	for _, group := range g {
		all = append(all, *group)
	}
	slices.SortFunc(all, func(a, b ReviewGroup) int {
		return cmp.Or(cmp.Compare(a.Coupon, b.Coupon), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Cause, b.Cause))
	})
	return all
}
