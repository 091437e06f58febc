package walletapi_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/identity"
	"github.com/jajeong/jajeong/internal/wallet"
	"github.com/jajeong/jajeong/internal/walletapi"
)

var secret = strings.Repeat("s", 32)

// takesTokens is IDENTITY=jwt with one secret.
func takesTokens(t *testing.T) *identity.Identity {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(secret), 0o600))
	s := identity.Settings{Identity: "jwt", SecretFile: path, Issuer: "login", Audience: "coupons", UserClaim: "uid"}
	require.NoError(t, s.Validate())
	return s.Open(zap.NewNop(), time.Now)
}

// bearer is the header of a token with these claims.
func bearer(t *testing.T, claims jwt.MapClaims) string {
	t.Helper()
	all := jwt.MapClaims{"iss": "login", "aud": "coupons", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, all).SignedString([]byte(secret))
	require.NoError(t, err)
	return "Bearer " + signed
}

// A user's token shows that user's wallet, and opens no order. A token with the scope redeem opens orders, and shows no
// wallet.
func TestTokens_OpenWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	var listed []coupon.UserID
	var actors []string
	o := walletapi.Options{Identity: takesTokens(t), Keys: keysOf(t, "pos", "k1"),
		List: func(_ context.Context, user coupon.UserID, _ coupon.UserCouponID, _ int) ([]wallet.Item, time.Time,
			error) {
			listed = append(listed, user)
			return nil, noon, nil
		},
		Redeem: func(_ context.Context, _ coupon.CouponID, call wallet.Call) (wallet.Decision, error) {
			actors = append(actors, call.Actor)
			return wallet.Decision{Code: wallet.Nothing}, nil
		}}
	handler := newHandler(o)
	ask := func(method, path, authorization string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Authorization", authorization)
		for n := 0; n < len(headers); n += 2 {
			r.Header.Set(headers[n], headers[n+1])
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	user := bearer(t, jwt.MapClaims{"uid": 7, "client_id": "app", "scope": "wallet"})
	service := bearer(t, jwt.MapClaims{"client_id": "checkout", "scope": "redeem"})

	require.Equal(t, http.StatusOK, ask("GET", coupons, user, "X-User-ID", "8").Code)
	require.Equal(t, []coupon.UserID{7}, listed, "X-User-ID means nothing")
	for _, wrong := range []string{service, "Bearer k1", "Bearer " + secret, ""} {
		got := ask("GET", coupons, wrong, "X-User-ID", "8")
		require.Equal(t, http.StatusUnauthorized, got.Code)
		require.Contains(t, got.Header().Get("WWW-Authenticate"), "Bearer")
	}
	require.Len(t, listed, 1)

	require.Equal(t, http.StatusNoContent, ask("DELETE", "/v1/orders/A-1/coupon", service).Code)
	require.Equal(t, http.StatusNoContent, ask("DELETE", "/v1/orders/A-1/coupon", "Bearer k1").Code)
	require.Equal(t, []string{"checkout", "pos"}, actors)
	got := ask("DELETE", "/v1/orders/A-1/coupon", user)
	require.Equal(t, http.StatusForbidden, got.Code)
	require.Equal(t, `Bearer error="insufficient_scope", scope="redeem"`, got.Header().Get("WWW-Authenticate"))
	for _, wrong := range []string{"Bearer x", "Basic k1", "", user + "x"} {
		got := ask("DELETE", "/v1/orders/A-1/coupon", wrong, "X-User-ID", "7")
		require.Equal(t, http.StatusUnauthorized, got.Code)
	}
	program := bearer(t, jwt.MapClaims{"client_id": "Settle", "scope": "redeem"})
	require.Equal(t, http.StatusUnauthorized, ask("DELETE", "/v1/orders/A-1/coupon", program).Code,
		"the name of what the program does by itself")
	require.Len(t, actors, 2)

	o.Keys = keysOf(t)
	handler = newHandler(o)
	require.Equal(t, http.StatusNoContent, ask("DELETE", "/v1/orders/A-1/coupon", service).Code, "no key is needed")
	require.Equal(t, http.StatusUnauthorized, ask("DELETE", "/v1/orders/A-1/coupon", "Bearer k1").Code)
}
