package walletapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/docs"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/identity"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
	"github.com/jajeong/jajeong/internal/wallet"
	"github.com/jajeong/jajeong/internal/walletapi"
)

var (
	seoul = time.FixedZone("KST", 9*3600)
	noon  = time.Date(2026, 11, 20, 12, 0, 0, 0, seoul)
)

// decided answers every call with the code in the order id, such as USED.
func decided(_ context.Context, couponID coupon.CouponID, call wallet.Call) (wallet.Decision, error) {
	switch call.OrderID {
	case "PANIC":
		panic("boom")
	case "AWAY":
		return wallet.Decision{}, io.ErrUnexpectedEOF
	}
	return wallet.Decision{
		Code: wallet.Code(call.OrderID), Now: noon, ReservedUntil: noon.Add(call.TTL), MinimumWon: 20_000,
		Coupon: wallet.UserCoupon{ID: 9, Coupon: couponID + 1, User: 7, Status: coupon.CouponReserved,
			ExpiresAt: noon.Add(time.Hour)},
		Order: wallet.Order{ID: call.OrderID, UserCoupon: 9, User: 7, AmountWon: 12_000, DiscountWon: 5000,
			State:         coupon.OrderReserved,
			ReservedUntil: noon.Add(call.TTL)},
	}, nil
}

// listOf answers each user differently.
func listOf(_ context.Context, user coupon.UserID, _ coupon.UserCouponID,
	limit int) (items []wallet.Item, now time.Time, err error) {
	switch user {
	case 1:
		panic("boom")
	case 2:
		return nil, time.Time{}, io.ErrUnexpectedEOF
	}
	for i := range min(int(user)-3, limit) {
		items = append(items, wallet.Item{ID: coupon.UserCouponID(1000 - i), Coupon: 1, Name: "c", IssuedAt: noon,
			ExpiresAt: noon.Add(time.Hour), State: coupon.CouponIssued,
			Discount: coupon.Discount{DiscountPercent: int64(i % 2), DiscountMaxWon: int64(i % 2)}})
	}
	return items, noon, nil
}

// newHandler fills in what a test does not set.
func newHandler(o walletapi.Options) http.Handler {
	if o.Redeem == nil {
		o.Redeem, o.List = decided, listOf
	}
	if o.Identity == nil {
		o.Identity = identity.FromHeader(zap.NewNop(), identity.Anywhere()...)
	}
	if o.InFlight == 0 {
		o.InFlight = 10
	}
	if o.Connections == 0 {
		o.Connections = 10
	}
	o.ReserveTTL, o.Draining = time.Minute, func() bool { return false }
	if o.Zone == nil {
		o.Zone = func(context.Context) (*time.Location, error) { return seoul, nil }
	}
	o.Metrics = prometheus.NewRegistry()
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return walletapi.New(o)
}

const (
	order     = "/v1/orders/{orderId}/coupon"
	coupons   = "/v1/wallet/coupons"
	rightBody = `{"couponId":1,"userId":7,"amountWon":12000}`
)

// contentOf is content that a call of this method takes; nil: it takes none.
func contentOf(method string) io.Reader {
	if method == http.MethodPut {
		return strings.NewReader(rightBody)
	}
	return nil
}

// Each response of each path is provoked; together they are exactly the documented ones.
func TestOpenAPI_EveryResponseIsDocumentedAndHappens(t *testing.T) {
	t.Parallel()
	p := openapi.Wallet.Provoker(t)
	handler := newHandler(walletapi.Options{Keys: keysOf(t, "checkout", "k1")})
	keyless := newHandler(walletapi.Options{Keys: keysOf(t)})
	withTokens := newHandler(walletapi.Options{Identity: takesTokens(t), Keys: keysOf(t)})
	bearing, unscoped := []string{"Authorization", "Bearer k1"},
		[]string{"Authorization", bearer(t, jwt.MapClaims{"uid": 7})}
	may := map[string][]wallet.Code{
		"PUT " + order: {wallet.Done, wallet.Repeated, wallet.NotOwned, wallet.OrderDiffers, wallet.OrderHasCoupon,
			wallet.OrderRefunded,
			wallet.ReservedElsewhere, wallet.Used, wallet.Expired, wallet.Revoked, wallet.BelowMinimum},
		"DELETE " + order:            {wallet.Done, wallet.Nothing, wallet.Used, wallet.OrderRefunded},
		"POST " + order + "/confirm": {wallet.Done, wallet.OrderNotFound, wallet.ReservationLost, wallet.OrderRefunded},
		"POST " + order + "/refund":  {wallet.Done, wallet.OrderNotFound, wallet.NotUsed},
		"GET " + order:               {wallet.Repeated, wallet.OrderNotFound},
	}
	for call, codes := range may {
		method, template, _ := strings.Cut(call, " ")
		for _, code := range append(codes, "PANIC", "AWAY", "wrong%20id") {
			p.Provoke(handler, method, template, string(code), contentOf(method), bearing...)
		}
		p.Provoke(handler, method, template, "A-1", strings.NewReader(strings.Repeat(" ", 1025)), bearing...)
		p.Provoke(handler, method, template, "A-1", openapi.Broken{}, bearing...)
		p.Provoke(handler, method, template+"?amountWon=5000", "A-1", contentOf(method), bearing...)
		p.Provoke(handler, method, template, "A-1", nil)
		p.Provoke(keyless, method, template, "A-1", nil, bearing...)
		p.Provoke(withTokens, method, template, "A-1", nil, unscoped...)
		if method != "GET" {
			p.Provoke(handler, method, template, "A-1", nil, "Origin", "https://evil.example.com")
		}
		p.Provoke(withTokens, method, template, "A-1", nil, "Authorization", "Bearer x")
	}
	p.Provoke(handler, "PUT", order, "A-1", strings.NewReader("{}"), bearing...)

	strict := newHandler(walletapi.Options{Keys: keysOf(t), UserRate: 1})
	for user := 1; user <= 10; user++ {
		p.Provoke(handler, "GET", coupons+"?limit=3", "", nil, "X-User-ID", fmt.Sprint(user))
		p.Provoke(strict, "GET", coupons, "", nil, "X-User-ID", "9")
	}
	p.Provoke(handler, "GET", coupons, "", nil)
	p.Provoke(withTokens, "GET", coupons, "", nil, "Authorization", "Bearer x")
	p.Provoke(handler, "GET", coupons, "", nil, "X-User-ID", "01")
	p.Provoke(handler, "GET", coupons+"?limit=0", "", nil, "X-User-ID", "9")
	for _, template := range []string{coupons, "/openapi.yaml"} {
		p.Provoke(handler, "GET", template, "", strings.NewReader("x"), "X-User-ID", "9")
	}
	p.Provoke(handler, "GET", "/openapi.yaml", "", nil)
	p.RequireAll()

	// Requests that no operation takes.
	for _, c := range []struct{ method, template, order string }{
		{"POST", order, "A-1"}, {"GET", order + "/confirm", "A-1"}, {"PUT", coupons, ""}, {"POST", "/openapi.yaml", ""},
		{"GET", "/", ""},
		{"PUT", order, "."}, {"PUT", order, ".."}, {"PUT", order, ""}, {"DELETE", order + "/", "A-1"},
		{"CONNECT", order, "1"},
	} {
		p.Provoke(handler, c.method, c.template, c.order, nil, bearing...)
	}
}

func TestOpenAPI_IsServedToEverybody(t *testing.T) {
	t.Parallel()
	recorder := httptest.NewRecorder()
	newHandler(walletapi.Options{Keys: keysOf(t)}).ServeHTTP(recorder,
		httptest.NewRequest(http.MethodGet, "/openapi.yaml", nil))
	require.Equal(t, http.StatusOK, recorder.Code)
	require.Equal(t, string(docs.OpenAPIWallet), recorder.Body.String())
}
