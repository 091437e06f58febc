package walletapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
	"github.com/jajeong/jajeong/internal/wallet"
	"github.com/jajeong/jajeong/internal/walletapi"
)

// blocked is a database that does not answer before the end of the request, or before free is closed.
func blocked(free <-chan struct{}, arrived *sync.WaitGroup) walletapi.Options {
	wait := func(ctx context.Context) error {
		arrived.Done()
		select {
		case <-free:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return walletapi.Options{
		Redeem: func(ctx context.Context, id coupon.CouponID, call wallet.Call) (wallet.Decision, error) {
			if err := wait(ctx); err != nil {
				return wallet.Decision{}, err
			}
			return decided(ctx, id, call)
		},
		List: func(ctx context.Context, user coupon.UserID, before coupon.UserCouponID, limit int) ([]wallet.Item,
			time.Time, error) {
			return nil, time.Now(), wait(ctx)
		},
	}
}

func ask(handler http.Handler, method, path string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, path, contentOf(method))
	request.Header.Set("Authorization", "Bearer k1")
	request.Header.Set("X-User-ID", "7")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

func TestLimits_RequestsInFlight(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	var arrived, answered sync.WaitGroup
	options := blocked(free, &arrived)
	options.Keys, options.InFlight = keysOf(t, "checkout", "k1"), 2
	handler := newHandler(options)
	arrived.Add(2)
	for _, path := range []string{"PUT /v1/orders/DONE/coupon", "GET /v1/wallet/coupons"} {
		method, path, _ := strings.Cut(path, " ")
		answered.Go(func() { require.Less(t, ask(handler, method, path).Code, 300) })
	}
	arrived.Wait()
	for _, path := range []string{"PUT /v1/orders/DONE/coupon", "GET /v1/wallet/coupons"} {
		method, path, _ := strings.Cut(path, " ")
		refusal := ask(handler, method, path)
		require.Equal(t, http.StatusServiceUnavailable, refusal.Code)
		require.Equal(t, "1", refusal.Header().Get("Retry-After"))
	}
	close(free)
	answered.Wait()
	arrived.Add(1)
	require.Equal(t, http.StatusCreated, ask(handler, "PUT", "/v1/orders/DONE/coupon").Code)
}

// Wallets leave connections to MySQL for orders.
func TestLimits_WalletsLeaveRoomForOrders(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	var arrived, answered sync.WaitGroup
	options := blocked(free, &arrived)
	options.Keys, options.InFlight = keysOf(t, "checkout", "k1"), 100
	handler := newHandler(options)
	arrived.Add(5)
	for range 5 { // half of the connections
		answered.Go(func() { require.Equal(t, http.StatusOK, ask(handler, "GET", "/v1/wallet/coupons").Code) })
	}
	arrived.Wait()
	ended, end := context.WithCancel(t.Context())
	end()
	request := httptest.NewRequestWithContext(ended, "GET", "/v1/wallet/coupons", nil)
	request.Header.Set("X-User-ID", "7")
	late := httptest.NewRecorder()
	handler.ServeHTTP(late, request)
	require.Equal(t, http.StatusServiceUnavailable, late.Code, "it waits for its turn until its time is over")
	answered.Go(func() {
		require.Equal(t, http.StatusOK, ask(handler, "GET", "/v1/wallet/coupons").Code, "its turn comes")
	})
	arrived.Add(1)
	answered.Go(func() { require.Equal(t, http.StatusCreated, ask(handler, "PUT", "/v1/orders/DONE/coupon").Code) })
	arrived.Wait()
	arrived.Add(1)
	close(free)
	answered.Wait()
}

// However many wallets are asked for, half of the places are for orders.
func TestLimits_WalletsLeavePlacesForOrders(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	var arrived, answered sync.WaitGroup
	options := blocked(free, &arrived)
	options.Keys, options.InFlight, options.Connections = keysOf(t, "checkout", "k1"), 10, 100
	handler := newHandler(options)
	arrived.Add(5)
	for range 5 {
		answered.Go(func() { require.Equal(t, http.StatusOK, ask(handler, "GET", "/v1/wallet/coupons").Code) })
	}
	arrived.Wait()
	for range 20 {
		require.Equal(t, http.StatusServiceUnavailable, ask(handler, "GET", "/v1/wallet/coupons").Code)
	}
	arrived.Add(5)
	for range 5 {
		answered.Go(func() { require.Equal(t, http.StatusCreated, ask(handler, "PUT", "/v1/orders/DONE/coupon").Code) })
	}
	arrived.Wait()
	close(free)
	answered.Wait()
	arrived.Add(1)
	require.Equal(t, http.StatusOK, ask(handler, "GET", "/v1/wallet/coupons").Code)
}

func TestLimits_RequestsOfOneUser(t *testing.T) {
	t.Parallel()
	handler := newHandler(walletapi.Options{Keys: keysOf(t), UserRate: 1, Now: func() time.Time { return noon }})
	codes := map[int]int{}
	for range 5 {
		refusal := ask(handler, "GET", "/v1/wallet/coupons")
		codes[refusal.Code]++
		require.Equal(t, refusal.Code == http.StatusTooManyRequests, refusal.Header().Get("Retry-After") != "")
	}
	require.Equal(t, map[int]int{http.StatusOK: 2, http.StatusTooManyRequests: 3}, codes)
}

// The body is bounded whether its length is declared or not.
func TestLimits_Body(t *testing.T) {
	t.Parallel()
	handler := newHandler(walletapi.Options{Keys: keysOf(t, "checkout", "k1")})
	for length, want := range map[int]int{1024: http.StatusCreated, 1025: http.StatusRequestEntityTooLarge} {
		for _, declared := range []int64{int64(length), -1} {
			request := httptest.NewRequest("PUT", "/v1/orders/DONE/coupon",
				strings.NewReader(rightBody+strings.Repeat(" ", length-len(rightBody))))
			request.ContentLength = declared
			request.Header.Set("Authorization", "Bearer k1")
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, request)
			require.Equal(t, want, recorder.Code, "%d bytes, declared %d", length, declared)
		}
	}
}

// Only a reservation has content. A call with more, such as the amount of a part refund, is not made.
func TestContent_IsRefused(t *testing.T) {
	t.Parallel()
	var made atomic.Int64
	handler := newHandler(walletapi.Options{Keys: keysOf(t, "checkout", "k1"),
		Redeem: func(ctx context.Context, id coupon.CouponID, call wallet.Call) (wallet.Decision, error) {
			made.Add(1)
			return decided(ctx, id, call)
		}, List: listOf})
	const order = "/v1/orders/DONE/coupon"
	orders := []string{"POST " + order + "/confirm", "POST " + order + "/refund", "DELETE " + order, "GET " + order}
	for _, call := range append(orders, "GET "+coupons, "GET /openapi.yaml") {
		openapi.RefusesContent(t, handler, call, httpapi.MaxContent, "Authorization", "Bearer k1", "X-User-ID", "7")
	}
	require.EqualValues(t, 7*len(orders), made.Load(), "without content, and with none in seven ways")
	for _, call := range orders {
		method, path, _ := strings.Cut(call, " ")
		got := ask(handler, method, path+"?amountWon=5000")
		require.Equal(t, http.StatusBadRequest, got.Code, call)
		require.Contains(t, got.Body.String(), `"code":"INVALID_QUERY"`, call)
	}
	require.EqualValues(t, 7*len(orders), made.Load())
}
