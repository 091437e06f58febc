package api_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/standing"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
)

// The coupons by what Redis and MySQL say of their promises. Others miss nobody.
const (
	isNew    coupon.CouponID = 46 // the server is new to it
	missesMe coupon.CouponID = 47 // promises are missing after a restore
	restores coupon.CouponID = 49 // the server is new to it, and coupons were issued before
	wroteOff coupon.CouponID = 50 // finalised; a promise was written off
)

var restoredLine = coupon.Line{Since: 1, Restored: true}

var lines = map[coupon.CouponID]coupon.Line{
	isNew: {}, missesMe: {Since: 1, Restored: true, Restores: 1, Accepted: 3, Left: 3}, restores: {Since: 1},
}

var books = map[coupon.CouponID]promise.Books{missesMe: {Accepted: 3}, wroteOff: {WrittenOff: 1}}

// applied are the users that Redis knows.
type applied map[coupon.UserID]candidates.Found

func (a applied) Watch(_ context.Context, id coupon.CouponID, _ coupon.Arrival,
	users ...coupon.UserID) (candidates.Watch, error) {
	if users[0] == 666 {
		return candidates.Watch{}, errors.New("redis is away")
	}
	_, ok := a[users[0]]
	// Users from 100 are unknown to Redis, so that MySQL is asked.
	line, unusual := lines[id]
	if !unusual {
		line = restoredLine
	}
	return candidates.Watch{Users: []candidates.Found{a[users[0]]}, Sold: !ok && users[0] >= 100, Line: line}, nil
}

// queued and reviewed are what Redis has of a user who applied.
func queued(arrival coupon.Arrival, position int64) candidates.Found {
	return candidates.Found{Entries: []coupon.Application{{Arrival: arrival, Source: coupon.SourceQueue}},
		Position: position}
}

func reviewed(arrival coupon.Arrival) candidates.Found {
	return candidates.Found{Entries: []coupon.Application{{Arrival: arrival, Source: coupon.SourceHeld}}}
}

// recorded are the users that MySQL knows; for others it is away.
type recorded map[coupon.UserID][]standing.Outcome

func (r recorded) Read(_ context.Context, id coupon.CouponID,
	users ...coupon.UserID) (map[coupon.UserID][]standing.Outcome, promise.Books, error) {
	if outcomes, ok := r[users[0]]; ok {
		return map[coupon.UserID][]standing.Outcome{users[0]: outcomes}, books[id], nil
	}
	return nil, promise.Books{}, errors.New("mysql is away")
}

// shelf is a catalog of these coupons.
type shelf map[coupon.CouponID]coupon.Coupon

func (s shelf) Loaded() bool { return true }
func (s shelf) Lookup(id coupon.CouponID) (coupon.Coupon, bool) {
	found, ok := s[id]
	found.Cadence = cmp.Or(found.Cadence, coupon.Nightly)
	return found, ok
}

func (s shelf) Read(id coupon.CouponID) (coupon.Coupon, coupon.Reading, bool) {
	one, ok := s.Lookup(id)
	return one, coupon.Reading{Now: opens, Sold: one.SoldOut()}, ok
}

func TestStandingOfEveryKind(t *testing.T) {
	t.Parallel()
	const arrival = 1795206832382634 // 2026-11-21 05:33:52.382634 in Seoul
	handler := newHandler(api.Options{
		Applier: unreachable(t),
		Coupons: shelf{42: coupon.Coupon{ID: 42, TotalQuantity: 7},
			44:    coupon.Coupon{ID: 44, TotalQuantity: 7, IssuedCount: 1},
			43:    coupon.Coupon{ID: 43, FinalisedAt: time.Unix(1, 0)},
			isNew: {ID: isNew}, missesMe: {ID: missesMe}, restores: {ID: restores, TotalQuantity: 7, IssuedCount: 1},
			wroteOff: {ID: wroteOff, FinalisedAt: time.Unix(1, 0)}},
		Queue: applied{
			1:  queued(arrival, 5),
			2:  reviewed(arrival),
			3:  {MarkedIssued: true},
			4:  {MarkedRejected: true},
			11: queued(arrival+1, 1),
			12: queued(arrival, 5),
		},
		Records: recorded{
			5:   {{Outcome: coupon.OutcomeIssued, Arrival: arrival}},
			100: {{Outcome: coupon.OutcomeNotSelected, Arrival: arrival}},
			11:  {{Outcome: coupon.OutcomeIssued, Arrival: arrival}},
			12:  nil,
			101: nil,
		},
	})
	for name, c := range map[string]struct {
		couponID, user string
		status         int
		want           map[string]any
	}{
		"pending": {"42", "1", 200, map[string]any{"status": "PENDING", "position": 5.0, "seats": 7.0,
			"appliedAt": "2026-11-21T05:33:52.382634+09:00", "settlesAt": "2026-11-22T00:00:00.000000+09:00"}},
		"under review": {"42", "2", 200,
			map[string]any{"status": "UNDER_REVIEW", "appliedAt": "2026-11-21T05:33:52.382634+09:00"}},
		"issued":                     {"42", "3", 200, map[string]any{"status": "ISSUED"}},
		"rejected":                   {"42", "4", 200, map[string]any{"status": "REJECTED"}},
		"not applied, without MySQL": {"42", "9", 404, map[string]any{"code": "NOT_APPLIED", "mayBeLost": nil}},
		"not selected": {"42", "100", 200,
			map[string]any{"status": "NOT_SELECTED", "appliedAt": "2026-11-21T05:33:52.382634+09:00"}},
		"not applied, in MySQL": {"42", "101", 404, map[string]any{"code": "NOT_APPLIED"}},
		"finalised, issued long ago": {"43", "5", 200,
			map[string]any{"status": "ISSUED", "appliedAt": "2026-11-21T05:33:52.382634+09:00"}},
		"MySQL away":                {"42", "102", 503, map[string]any{"code": "UNAVAILABLE"}},
		"Redis away":                {"42", "666", 503, map[string]any{"code": "UNAVAILABLE"}},
		"issued, lost in Redis":     {"44", "5", 200, map[string]any{"status": "ISSUED"}},
		"applications are restored": {"46", "101", 503, map[string]any{"code": "RESTORING", "mayBeLost": nil}},
		"settled while restored":    {"46", "100", 200, map[string]any{"status": "NOT_SELECTED"}},
		"restored, or MySQL away":   {"46", "9", 503, map[string]any{"code": "UNAVAILABLE"}},
		"applications are missing":  {"47", "101", 404, map[string]any{"code": "NOT_APPLIED", "mayBeLost": true}},
		"missing, or MySQL away":    {"47", "9", 503, map[string]any{"code": "UNAVAILABLE"}},
		"issued, not marked yet":    {"49", "11", 200, map[string]any{"status": "ISSUED"}},
		"pending, marks restored":   {"49", "12", 200, map[string]any{"status": "PENDING", "position": 5.0}},
		"written off":               {"50", "101", 404, map[string]any{"code": "NOT_APPLIED", "mayBeLost": true}},
		"finalised, nothing lost":   {"43", "101", 404, map[string]any{"code": "NOT_APPLIED", "mayBeLost": nil}},
		"no such coupon":            {"45", "1", 404, map[string]any{"code": "COUPON_NOT_FOUND"}},
		"no coupon id":              {"042", "1", 400, map[string]any{"code": "INVALID_COUPON_ID"}},
		"no user id":                {"42", "x", 400, map[string]any{"code": "INVALID_USER_ID"}},
		"no user":                   {"42", "", 401, map[string]any{"code": "UNAUTHENTICATED"}},
	} {
		request := httptest.NewRequest(http.MethodGet, "/v1/coupons/"+c.couponID+"/applications/me", nil)
		request.Header.Set("X-User-ID", c.user)
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		require.NoError(t, openapi.Check(request, recorder.Result()), name)
		require.Equal(t, c.status, recorder.Code, name)
		var got map[string]any
		require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &got), name)
		for member, want := range c.want {
			require.Equal(t, want, got[member], "%s: %s", name, member)
		}
		if c.status == http.StatusServiceUnavailable {
			require.NotEmpty(t, recorder.Header().Get("Retry-After"), name)
		}
		if c.status == http.StatusOK && c.want["position"] == nil {
			require.NotContains(t, got, "position", name)
			require.NotContains(t, got, "settlesAt", name)
		}
	}

	request, recorder := httptest.NewRequest(http.MethodDelete, "/v1/coupons/42/applications/me", nil),
		httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	require.NoError(t, openapi.Check(request, recorder.Result()))
	require.Equal(t, http.StatusMethodNotAllowed, recorder.Code)
	require.Contains(t, recorder.Header().Get("Allow"), "GET")
}
