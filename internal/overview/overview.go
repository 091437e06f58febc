// Package overview reads what the console shows beside the verbs: the coupons of tonight, where a search leads, and the
// arrivals of a coupon over time. It changes nothing.
package overview

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/report"
	"github.com/jajeong/jajeong/internal/users"
)

// Reader reads. All fields are required.
type Reader struct {
	DB    *sql.DB
	Store *candidates.Store
	Users *users.Directory
	Now   func() time.Time
	Zone  func(ctx context.Context) (*time.Location, error)    // time zone of the nights
	Next  func(after time.Time, zone *time.Location) time.Time // the next nightly run
}

// Tonight is what an operator wants to know before midnight.
type Tonight struct {
	Next    time.Time    // the next nightly run
	Last    *history.Run // the last nightly run; nil: there was none
	Coupons []Due
	Cut     bool  // there are more coupons; those that miss applications come first
	Unread  error // error of Redis, whose figures are then not known; nil: it answered

	ToApprove int // requests that wait for a decision
}

// Due is a coupon that takes applications, or that a run may settle.
type Due struct {
	history.Coupon
	Waiting, DLQ, Missing *int64 // nil: not known
	Journal               Journal
	Behind                time.Duration // how far the journal is behind, if it is
}

// Journal is what the journal has of a coupon's line.
type Journal int

const (
	JournalUnknown Journal = iota
	JournalNone            // nothing yet, although somebody has applied
	JournalBehind
	JournalWhole
)

const (
	// maxDue bounds the coupons that are shown, and maxLooked those that are looked at: the catalog holds no more.
	maxDue    = 100
	maxLooked = 10_000
)

// lost is the number of missing applications; 0 if it is not known.
func (d Due) lost() int64 {
	if d.Missing == nil {
		return 0
	}
	return *d.Missing
}

func (r *Reader) Tonight(ctx context.Context) (t Tonight, err error) {
	zone, err := r.Zone(ctx)
	if err != nil {
		return t, err
	}
	t.Next = r.Next(r.Now(), zone)
	reader := history.Reader{DB: r.DB}
	runs, err := reader.Runs(ctx, history.RunFilter{Trigger: string(coupon.Cron), Limit: 1})
	if err != nil {
		return t, err
	}
	if len(runs) > 0 {
		t.Last = &runs[0]
	}
	// The next run settles closed ones first of all.
	for _, status := range []history.CouponStatus{history.Closed, history.Paused, history.Open} {
		coupons, err := reader.List(ctx, history.CouponFilter{Status: status, Limit: maxLooked})
		if err != nil {
			return t, err
		}
		for _, c := range coupons {
			t.Coupons = append(t.Coupons, Due{Coupon: c})
		}
	}
	if t.Unread, err = r.fill(ctx, t.Coupons); err != nil {
		return t, err
	}
	slices.SortStableFunc(t.Coupons, func(a, b Due) int { return cmp.Compare(b.lost(), a.lost()) })
	if t.Cut = len(t.Coupons) > maxDue; t.Cut {
		t.Coupons = t.Coupons[:maxDue]
	}
	t.ToApprove, err = approval.Waiting(ctx, r.DB)
	return t, err
}

// fill adds what Redis and the journal know of coupons, and how many promises are missing. unread is the error of
// Redis.
func (r *Reader) fill(ctx context.Context, all []Due) (unread, err error) {
	known := make(map[coupon.CouponID]coupon.Known, len(all))
	for _, d := range all {
		known[d.ID] = coupon.Known{Observe: true}
	}
	looks, unread := r.Store.Looks(ctx, known)
	open, err := journal.ListOpen(ctx, mysqltx.New(r.DB))
	if err != nil {
		return nil, err
	}
	books := make(map[coupon.CouponID]promise.Books, len(open))
	for _, o := range open {
		books[o.ID] = o.Books
	}
	for i := range all {
		d := &all[i]
		look, known := looks[d.ID]
		if !known {
			continue
		}
		d.Waiting, d.DLQ = &look.Waiting, &look.DLQ
		d.Journal, d.Behind = journalOf(books[d.ID], look, !r.Now().Before(d.OpensAt))
		d.Missing = new(books[d.ID].Missing(look.Line))
	}
	return unread, nil
}

// journalOf compares the journal with the line of a coupon. If the server is new to a coupon that has opened, it has
// perhaps also lost how far the line went.
func journalOf(b promise.Books, look coupon.Look, opened bool) (state Journal, behind time.Duration) {
	switch {
	// opened is what MySQL says, which may hold an opening that was moved later.
	case look.Opens == 0 && (opened || b.Accepted > 0 || b.UpTo > 0), look.Epoch != b.Epoch && b.UpTo > 0:
		return JournalUnknown, 0
	case b.UpTo >= look.Last:
		return JournalWhole, 0
	case b.UpTo > 0:
		return JournalBehind, look.Last.Time().Sub(b.UpTo.Time())
	default:
		return JournalNone, 0
	}
}

// Found is where a search leads.
type Found struct {
	// The typed number, which may be a user's: users are the shop's, and are not looked up; 0: it is none.
	Number uint64
	Coupon coupon.CouponID // 0: no coupon has the number
	Run    coupon.RunID    // 0: no run has it

	OrderCoupon coupon.CouponID // coupon of the order with the typed id; 0: there is none
	OrderUser   coupon.UserID
}

func (r *Reader) Search(ctx context.Context, typed string) (f Found, err error) {
	reader := history.Reader{DB: r.DB}
	if utf8.ValidString(typed) { // MySQL refuses other text
		if f.OrderCoupon, f.OrderUser, err = reader.Order(ctx, typed); err != nil {
			return f, err
		}
	}
	n, err := strconv.ParseUint(typed, 10, 64)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != typed {
		return f, nil
	}
	f.Number = n
	coupons, err := reader.List(ctx, history.CouponFilter{After: coupon.CouponID(n - 1), Limit: 1})
	if err != nil {
		return f, err
	}
	if len(coupons) > 0 && uint64(coupons[0].ID) == n {
		f.Coupon = coupons[0].ID
	}
	run, err := reader.Run(ctx, coupon.RunID(n))
	if err == nil {
		f.Run = run.ID
	} else if mysqltx.ClassOf(err) == coupon.Setup { // there is none
		err = nil
	}
	return f, err
}

// Timeline is how many applications arrived in each part of a period.
type Timeline struct {
	From, To time.Time
	Part     time.Duration
	Counts   []int64
}

// maxParts is how many parts a timeline has at most.
const maxParts = 120

// Timeline counts the arrivals of a coupon from its opening to its end.
func (r *Reader) Timeline(ctx context.Context, id coupon.CouponID) (t Timeline, err error) {
	c, err := history.Reader{DB: r.DB}.Coupon(ctx, id)
	if err != nil {
		return t, err
	}
	t.From, t.To = c.OpensAt.Truncate(time.Minute), c.ClosesAt
	t.Part = max((t.To.Sub(t.From)/maxParts).Truncate(time.Minute)+time.Minute, time.Minute)
	found, err := (&report.Reporter{DB: r.DB, Store: r.Store, Users: r.Users}).Report(ctx,
		report.Period{From: t.From, To: t.To, Bucket: t.Part}, []coupon.CouponID{id})
	if err != nil {
		return t, err
	}
	if len(found.Unread) > 0 {
		return t, found.Unread[0].Err
	}
	t.Counts = found.Timeline
	return t, nil
}
