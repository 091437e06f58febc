package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/coupon"
)

// gallery is a catalog with readings of Redis.
type gallery map[coupon.CouponID]struct {
	coupon.Coupon
	coupon.Reading
}

func (gallery) Loaded() bool { return true }
func (g gallery) Lookup(id coupon.CouponID) (coupon.Coupon, bool) {
	one, ok := g[id]
	return one.Coupon, ok
}

func (g gallery) Read(id coupon.CouponID) (coupon.Coupon, coupon.Reading, bool) {
	one, ok := g[id]
	return one.Coupon, one.Reading, ok
}

func clockAway(context.Context, coupon.CouponID) (time.Time, error) {
	return time.Time{}, errors.New("redis is away")
}

// shown is coupon 42 after the process has read it at opens; the clock of Redis is ahead by a minute.
var shown = struct {
	coupon.Coupon
	coupon.Reading
}{
	coupon.Coupon{ID: 42, Name: `블랙 "프라이데이" <쿠폰>`, TotalQuantity: 110, IssuedCount: 10, OpensAt: opens,
		ClosesAt: opens.Add(time.Hour),
		Cadence:  coupon.Nightly, Discount: coupon.Discount{DiscountWon: 5000}},
	coupon.Reading{Waiting: 1234, Now: opens.Add(time.Minute), SeenAt: opens},
}

func at(now time.Time) func() time.Time { return func() time.Time { return now } }

func (s *site) get(path string, header http.Header) reply {
	s.t.Helper()
	return s.do(http.MethodGet, path, nil, header)
}

func TestCoupon_HasWhatAPageShows(t *testing.T) {
	t.Parallel()
	percent := shown
	percent.Discount = coupon.Discount{DiscountPercent: 10, DiscountMaxWon: 10_000, MinimumWon: 30_000}
	percent.ID, percent.Reading = 43, coupon.Reading{Now: opens} // never read in Redis
	s := newSiteOf(t, api.Options{Coupons: gallery{42: shown, 43: percent}, Now: at(opens)})
	got := s.get("/v1/coupons/42?utm_source=push", nil)
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t,
		`{"couponId":42,"name":"블랙 \"프라이데이\" \u003c쿠폰\u003e","status":"OPEN",`+
			`"opensAt":"2026-11-20T14:00:00.000000+09:00","closesAt":"2026-11-20T15:00:00.000000+09:00","seats":100,`+
			`"waiting":1234,"cadence":"NIGHTLY","discountWon":5000,"minimumWon":0,`+
			`"asOf":"2026-11-20T14:01:00.000000+09:00"}`+"\n", got.text)
	require.Equal(t, "application/json", got.header.Get("Content-Type"))
	require.Equal(t, "public, max-age=1", got.header.Get("Cache-Control"))

	other := s.get("/v1/coupons/43", nil)
	require.NotContains(t, other.body, "waiting")
	require.NotContains(t, other.body, "discountWon")
	require.Equal(t, json.Number("10"), other.body["discountPercent"])
	require.Equal(t, json.Number("10000"), other.body["discountMaxWon"])
	require.Equal(t, json.Number("30000"), other.body["minimumWon"])
	require.Equal(t, "2026-11-20T14:00:00.000000+09:00", other.body["asOf"])

	head := s.do(http.MethodHead, "/v1/coupons/42", nil, nil)
	require.Equal(t, http.StatusOK, head.status)
	require.Empty(t, head.text)
	require.Equal(t, got.header.Get("ETag"), head.header.Get("ETag"))
	require.InDelta(t, 3, s.counter("jajeong_coupons_requests_total", "OK"), 0)
}

// The clock of Redis decides as far as the process knows it: it goes on between two readings.
func TestCoupon_StatusAtEachEdge(t *testing.T) {
	t.Parallel()
	const tick = time.Microsecond
	for name, c := range map[string]struct {
		change func(*coupon.Coupon, *coupon.Reading)
		ahead  time.Duration // of opens, on the clock of Redis
		want   string
	}{
		"before opening": {nil, -tick, "UPCOMING"},
		"opening":        {nil, 0, "OPEN"},
		"before closing": {nil, time.Hour - tick, "OPEN"},
		"closing":        {nil, time.Hour, "CLOSED"},
		"paused": {func(c *coupon.Coupon, _ *coupon.Reading) { c.Status = coupon.Paused }, 0,
			"PAUSED"},
		"paused before opening": {func(c *coupon.Coupon, _ *coupon.Reading) { c.Status = coupon.Paused }, -tick,
			"UPCOMING"},
		"paused after closing": {func(c *coupon.Coupon, _ *coupon.Reading) { c.Status = coupon.Paused }, time.Hour,
			"CLOSED"},
		"sold out":               {func(_ *coupon.Coupon, r *coupon.Reading) { r.Sold = true }, 0, "SOLD_OUT"},
		"sold out after closing": {func(_ *coupon.Coupon, r *coupon.Reading) { r.Sold = true }, time.Hour, "CLOSED"},
		"sold out and paused": {func(c *coupon.Coupon, r *coupon.Reading) {
			c.Status, r.Sold = coupon.Paused,
				true
		}, 0, "PAUSED"},
		"no seats, not yet sold": {func(c *coupon.Coupon, _ *coupon.Reading) { c.IssuedCount = c.TotalQuantity }, 0,
			"OPEN"},
		"finalised": {func(c *coupon.Coupon, _ *coupon.Reading) { c.FinalisedAt = opens }, 0, "CLOSED"},
		"finalised, never opened": {func(c *coupon.Coupon, _ *coupon.Reading) { c.FinalisedAt = opens }, -tick,
			"CLOSED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := shown
			if c.change != nil {
				c.change(&one.Coupon, &one.Reading)
			}
			local := opens.Add(c.ahead - time.Minute)
			s := newSiteOf(t, api.Options{Coupons: gallery{42: one}, Now: at(local)})
			require.Equal(t, c.want, s.get("/v1/coupons/42", nil).body["status"])
			// From the snapshot only: the clock of the process decides.
			one.Reading = coupon.Reading{Now: opens, Sold: one.Sold}
			s = newSiteOf(t, api.Options{Coupons: gallery{42: one}, Now: at(opens.Add(c.ahead))})
			require.Equal(t, c.want, s.get("/v1/coupons/42", nil).body["status"])
		})
	}
}

func TestCoupon_EveryRefusal(t *testing.T) {
	t.Parallel()
	s := newSiteOf(t, api.Options{Coupons: gallery{42: shown}})
	asking := func(path string) func(more ...string) reply {
		return func(more ...string) reply { return s.get(path, http.Header{more[0]: {more[1]}}) }
	}
	for _, suffix := range []string{"", "/time"} {
		refuses(t, couponUnknown, asking("/v1/coupons/43"+suffix))
		for _, id := range badIDs[:2] {
			require.Equal(t, "INVALID_COUPON_ID", s.get("/v1/coupons/"+escape(id)+suffix, nil).body["code"], id)
		}
	}
	for _, path := range []string{"/v1/coupons", "/v1/coupons/42", "/v1/coupons/42/time"} {
		refuses(t, wrongMethod, func(more ...string) reply {
			got := s.do(http.MethodPost, path, nil, http.Header{more[0]: {more[1]}})
			require.Equal(t, "GET, HEAD", got.header.Get("Allow"))
			return got
		})
	}
}

// A user who asks too often about applications may still see coupons.
func TestCoupon_HasNoUserRate(t *testing.T) {
	t.Parallel()
	s, _ := newRatedSite(t, 1)
	for range 20 {
		require.Equal(t, http.StatusOK, s.get("/v1/coupons/1", http.Header{"X-User-Id": {"7"}}).status)
	}
}

func TestCoupon_NotModified(t *testing.T) {
	t.Parallel()
	now := opens
	s := newSiteOf(t, api.Options{Coupons: gallery{42: shown}, Now: func() time.Time { return now }})
	for _, path := range []string{"/v1/coupons/42", "/v1/coupons?ids=42"} {
		tag := s.get(path, nil).header.Get("ETag")
		require.Regexp(t, `^"[0-9a-f]+"$`, tag)
		for condition, same := range map[string]bool{
			tag: true, "W/" + tag: true, "*": true, `"a", ` + tag: true, `"a,b",W/"c" , W/` + tag + `, "d"`: true,
			"": false, `"a"`: false, strings.Trim(tag, `"`): false, `"` + tag: false, "w/" + tag: false,
		} {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				got := s.do(method, path, nil, http.Header{"If-None-Match": {condition}})
				want := http.StatusOK
				if same {
					want = http.StatusNotModified
					require.Empty(t, got.text)
					require.Empty(t, got.header.Get("Content-Type"))
				}
				require.Equal(t, want, got.status, condition)
				require.Equal(t, tag, got.header.Get("ETag"))
				require.Equal(t, "public, max-age=1", got.header.Get("Cache-Control"))
			}
		}
		require.Equal(t, http.StatusNotModified, s.get(path, http.Header{"If-None-Match": {`"a"`, tag}}).status,
			"several headers are one list")

		now = opens.Add(time.Hour)
		closed := s.get(path, http.Header{"If-None-Match": {tag}})
		require.Equal(t, http.StatusOK, closed.status, "the coupon has closed since")
		require.Contains(t, closed.text, `"CLOSED"`)
		now = opens
	}
	require.Positive(t, s.counter("jajeong_coupons_requests_total", "NOT_MODIFIED"))
}

func TestCoupons_InTheOrderAsked(t *testing.T) {
	t.Parallel()
	s := newSiteOf(t, api.Options{Coupons: gallery{41: shown, 42: shown}})
	many := func(n int) string { return strings.TrimPrefix(strings.Repeat(",42", n), ",") }
	for query, want := range map[string]int{
		"ids=42": 1, "ids=42,41": 2, "ids=41,7,42,9": 2, "ids=7": 0, "ids=42,42": 1, "a=b&ids=42&c": 1,
		"ids=42%2C41": 2, "ids=42&x=%zz;": 1,
		"ids=" + many(50): 1,
	} {
		got := s.get("/v1/coupons?"+query, nil)
		require.Equal(t, http.StatusOK, got.status, query)
		require.Len(t, got.body["coupons"], want, query)
	}
	for _, query := range []string{
		"", "ids", "ids=", "ids=,", "ids=42,", "ids=,42", "ids=42,,41", "ids=42,%2041", "ids=042", "ids=-1", "ids=0",
		"ids=x", "ids=42&ids=41",
		"ids=42;41", "ids=%zz", "IDS=42", "ids=18446744073709551616", "ids=" + many(51),
	} {
		got := s.get("/v1/coupons?"+query, nil)
		require.Equal(t, http.StatusBadRequest, got.status, query)
		require.Equal(t, "INVALID_IDS", got.body["code"], query)
	}
	order := newSiteOf(t, api.Options{Coupons: coupons{}}).get("/v1/coupons?ids=9,3,5,3", nil)
	var ids []any
	for _, one := range order.body["coupons"].([]any) {
		ids = append(ids, one.(map[string]any)["couponId"])
	}
	require.Equal(t, []any{json.Number("9"), json.Number("3"), json.Number("5")}, ids)
}
