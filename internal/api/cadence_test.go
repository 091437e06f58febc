package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

var (
	nightly = coupon.Coupon{ID: 1, TotalQuantity: 10, IssuedCount: 3, Cadence: coupon.Nightly,
		ClosesAt: opens.Add(48 * time.Hour)}
	immediate = coupon.Coupon{ID: 2, TotalQuantity: 10, IssuedCount: 3, Cadence: coupon.Immediate,
		ClosesAt: opens.Add(48 * time.Hour)}
	frozen = coupon.Coupon{ID: 3, TotalQuantity: 10, Cadence: coupon.Immediate, Frozen: true}
)

// interval is the ISSUE_INTERVAL of tests that name no other.
const interval = 200 * time.Millisecond

// ofAge answers every user with an application of this age, by the clock of Redis.
type ofAge time.Duration

func (a ofAge) Apply(context.Context, coupon.CouponID, coupon.UserID) (candidates.Receipt, error) {
	return candidates.Receipt{Code: candidates.Duplicate, Arrival: coupon.ArrivalAt(opens), Position: 1,
		Now: opens.Add(time.Duration(a))}, nil
}

func (a ofAge) Watch(context.Context, coupon.CouponID, coupon.Arrival, ...coupon.UserID) (candidates.Watch, error) {
	return candidates.Watch{Line: restoredLine, Users: []candidates.Found{queued(coupon.ArrivalAt(opens), 1)},
		Now: opens.Add(time.Duration(a))}, nil
}

func TestSettlesAtAndDelayed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of      coupon.Coupon
		age     time.Duration
		want    time.Time
		delayed bool
	}{
		"nightly":             {nightly, 0, nextMidnight(opens), false},
		"nightly, overdue":    {nightly, 40 * time.Hour, nextMidnight(opens), false},
		"just arrived":        {immediate, 0, opens.Add(interval), false},
		"the clock is behind": {immediate, -time.Second, opens.Add(interval), false},
		"the next look, never past": {immediate, 700 * time.Millisecond, opens.Add(700*time.Millisecond + interval),
			false},
		"ten looks": {immediate, 2 * time.Second, opens.Add(2*time.Second + interval), false},
		"more than ten looks": {immediate, 2*time.Second + time.Microsecond,
			opens.Add(2*time.Second + interval + time.Microsecond), true},
		"frozen":             {frozen, 2 * time.Second, opens.Add(2*time.Second + interval), false},
		"frozen and delayed": {frozen, time.Hour, opens.Add(time.Hour + interval), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSiteOf(t, api.Options{Applier: ofAge(c.age), Queue: ofAge(c.age), Coupons: shelf{c.of.ID: c.of}})
			again := s.apply(c.of.ID.String(), "7").body
			me := s.do(http.MethodGet, "/v1/coupons/"+c.of.ID.String()+"/applications/me", nil,
				http.Header{"X-User-Id": {"7"}}).body
			for _, body := range []map[string]any{again, me} {
				require.Equal(t, string(c.of.Cadence), body["cadence"])
				require.Equal(t, c.want.In(seoul).Format(microseconds), body["settlesAt"])
				require.Equal(t, opens.Format(microseconds), body["appliedAt"])
			}
			delayed, given := me["delayed"]
			require.Equal(t, c.delayed, given)
			if given {
				require.Equal(t, true, delayed)
			}
			require.NotContains(t, again, "delayed")
		})
	}
}

// Retry-After is given exactly if places may come free: at the next look, or at midnight.
func TestLineFull_SaysWhetherItMayReopen(t *testing.T) {
	t.Parallel()
	now := opens.Add(-time.Second) // the clock of Redis in everyAnswer
	midnight := nextMidnight(now)
	with := func(c coupon.Coupon, change func(*coupon.Coupon)) coupon.Coupon { change(&c); return c }
	closes := func(at time.Time) func(*coupon.Coupon) { return func(c *coupon.Coupon) { c.ClosesAt = at } }
	soldOut := func(c *coupon.Coupon) { c.IssuedCount = c.TotalQuantity }
	for name, c := range map[string]struct {
		of         coupon.Coupon
		retryAfter string // empty: it does not reopen
	}{
		"nightly":                          {nightly, "36001"},
		"nightly, closes after midnight":   {with(nightly, closes(midnight.Add(time.Microsecond))), "36001"},
		"nightly, closes at midnight":      {with(nightly, closes(midnight)), ""},
		"nightly, no seat":                 {with(nightly, soldOut), ""},
		"immediate":                        {immediate, "1"},
		"immediate, frozen":                {with(frozen, closes(midnight)), "1"},
		"immediate, closes in a second":    {with(immediate, closes(now.Add(time.Second))), ""},
		"immediate, closes a little later": {with(immediate, closes(now.Add(time.Second+time.Microsecond))), "1"},
		"immediate, no seat":               {with(immediate, soldOut), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, everyAnswer, shelf{c.of.ID: c.of})
			refused := s.apply(c.of.ID.String(), "14")
			require.Equal(t, http.StatusConflict, refused.status)
			require.Equal(t, "LINE_FULL", refused.body["code"])
			require.Equal(t, c.retryAfter != "", refused.body["mayReopen"])
			require.Equal(t, c.retryAfter, refused.header.Get("Retry-After"))
			require.InDelta(t, 1, s.counted("LINE_FULL"), 0)
			for language, detail := range map[string]map[bool]string{
				"ko": {true: "다시 신청하실 수 있습니다", false: "자리가 날 예정은 없습니다"},
				"en": {true: "You can apply again", false: "No places are expected"},
			} {
				said := s.apply(c.of.ID.String(), "14", "Accept-Language", language).body["detail"]
				require.Contains(t, said, detail[c.retryAfter != ""])
				require.NotContains(t, said, detail[c.retryAfter == ""])
			}
		})
	}
}

// Just after a midnight, its settlement may still be under way: who comes back then is not sent away until the next
// one.
func TestLineFull_WhileASettlementIsUnderWay(t *testing.T) {
	t.Parallel()
	midnight := nextMidnight(opens)
	for name, c := range map[string]struct {
		now, closes time.Time
		retryAfter  string
	}{
		"just before midnight":         {midnight.Add(-time.Microsecond), midnight.Add(time.Hour), "1"},
		"midnight":                     {midnight, midnight.Add(time.Hour), "60"},
		"after midnight":               {midnight.Add(time.Second), midnight.Add(time.Hour), "60"},
		"closes before the next try":   {midnight, midnight.Add(time.Minute), ""},
		"a settlement that never came": {midnight.Add(36 * time.Hour), midnight.Add(48 * time.Hour), "60"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := nightly
			of.ClosesAt = c.closes
			s := newSite(t, applier(func(context.Context, coupon.CouponID, coupon.UserID) (candidates.Receipt, error) {
				return candidates.Receipt{Code: candidates.LineFull, Arrival: coupon.ArrivalAt(opens), Now: c.now}, nil
			}), shelf{1: of})
			refused := s.apply("1", "7")
			require.Equal(t, c.retryAfter != "", refused.body["mayReopen"])
			require.Equal(t, c.retryAfter, refused.header.Get("Retry-After"))
		})
	}
}
