package identity

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/testenv"
)

// private is the default of TRUSTED_PROXIES, in part.
var private = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("fc00::/7")}

func request(remote string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = remote
	for n := 0; n < len(headers); n += 2 {
		r.Header.Add(headers[n], headers[n+1])
	}
	return r
}

func TestUser_OfHeader(t *testing.T) {
	t.Parallel()
	const inside = "10.1.2.3:4567"
	for name, c := range map[string]struct {
		request *http.Request
		user    coupon.UserID
		reason  reason
	}{
		"from the gateway": {request(inside, "X-User-ID", "7"), 7, accepted},
		"the largest id": {request(inside, "X-User-ID", "18446744073709551615"), 18446744073709551615,
			accepted},
		"in another spelling":     {request(inside, "x-user-id", "7"), 7, accepted},
		"over IPv6":               {request("[fd00::1]:4567", "X-User-ID", "7"), 7, accepted},
		"from a zone":             {request("[fd00::1%eth0]:4567", "X-User-ID", "7"), 7, accepted},
		"over IPv6, in fact IPv4": {request("[::ffff:10.1.2.3]:4567", "X-User-ID", "7"), 7, accepted},
		"nothing":                 {request(inside), 0, noHeader},
		"an empty header":         {request(inside, "X-User-ID", ""), 0, noHeader},
		"a stranger":              {request("203.0.113.7:4567", "X-User-ID", "7"), 0, untrusted},
		"a stranger over IPv6":    {request("[2001:db8::7]:4567", "X-User-ID", "7"), 0, untrusted},
		"a stranger, not IPv4":    {request("[::ffff:203.0.113.7]:4567", "X-User-ID", "7"), 0, untrusted},
		"a stranger as a proxy": {request("203.0.113.7:4567", "X-User-ID", "7", "X-Forwarded-For", "10.1.2.3",
			"Forwarded", "for=10.1.2.3"), 0, untrusted},
		"a stranger without":      {request("203.0.113.7:4567"), 0, noHeader},
		"no address":              {request("", "X-User-ID", "7"), 0, untrusted},
		"twice":                   {request(inside, "X-User-ID", "7", "X-User-ID", "8"), 0, doubleHeader},
		"twice the same":          {request(inside, "X-User-ID", "7", "x-user-id", "7"), 0, doubleHeader},
		"twice, first empty":      {request(inside, "X-User-ID", "", "X-User-ID", "8"), 0, doubleHeader},
		"an underscore beside it": {request(inside, "X-User-ID", "7", "X_User_ID", "8"), 0, doubleHeader},
		"underscores alone":       {request(inside, "X_User_ID", "8"), 0, doubleHeader},
		"one underscore":          {request(inside, "X-User-ID", "7", "x-user_id", "8"), 0, doubleHeader},
		"dots":                    {request(inside, "X-User-ID", "7", "X.User.Id", "8"), 0, doubleHeader},
		"in a cookie":             {request(inside, "Cookie", "X-User-ID=7; user_id=7"), 0, noHeader},
		"in a token": {request(inside, "Authorization", "Bearer eyJhbGciOiJub25lIn0.eyJ1aWQiOjd9."), 0,
			noHeader},
		"another header": {request(inside, "X-User-IP", "7", "X-Users-ID", "7", "XXUserXID", "7"), 0,
			noHeader},
		"not canonical":            {request(inside, "X-User-ID", "07"), 0, wrongHeader},
		"a list":                   {request(inside, "X-User-ID", "7, 8"), 0, wrongHeader},
		"zero":                     {request(inside, "X-User-ID", "0"), 0, wrongHeader},
		"a sign":                   {request(inside, "X-User-ID", "+7"), 0, wrongHeader},
		"too large":                {request(inside, "X-User-ID", "18446744073709551616"), 0, wrongHeader},
		"other digits":             {request(inside, "X-User-ID", "７"), 0, wrongHeader},
		"with a token of somebody": {request(inside, "X-User-ID", "7", "Authorization", "Bearer x"), 7, accepted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := FromHeader(zap.NewNop(), private...)
			user, refused := i.User(c.request)
			require.Equal(t, c.user, user)
			require.Equal(t, c.reason == accepted, refused == nil)
			if c.reason == accepted {
				return
			}
			require.EqualValues(t, 1, testutil.ToFloat64(i.refused[c.reason]))
			want := httpapi.Unauthenticated
			if c.reason == doubleHeader || c.reason == wrongHeader {
				want = httpapi.InvalidUserID
			}
			require.Equal(t, &Refusal{Code: want}, refused)
		})
	}
}

func TestUser_TrustsNobodyWithoutProxies(t *testing.T) {
	t.Parallel()
	_, refused := FromHeader(zap.NewNop()).User(request("127.0.0.1:1", "X-User-ID", "7"))
	require.NotNil(t, refused)
	user, refused := FromHeader(zap.NewNop(), Anywhere()...).User(request("[2001:db8::7]:1", "X-User-ID", "7"))
	require.Nil(t, refused)
	require.EqualValues(t, 7, user)
}

// A service has no header.
func TestService_OfHeader(t *testing.T) {
	t.Parallel()
	i := FromHeader(zap.NewNop(), private...)
	require.False(t, i.TakesTokens())
	name, refused := i.Service(request("10.1.2.3:4567", "X-User-ID", "7"))
	require.Empty(t, name)
	require.NotNil(t, refused)
}

// A hundred attacks in a second are one line in the log, which names the setting.
func TestRefusals_AreLoggedOnceASecond(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	logger := zap.New(core, zap.WithClock(testenv.Stopped{}))
	strangers := FromHeader(logger, private...)
	tokens := newSite(t, time.Now).identity
	tokens.observe(logger)
	for n := range 100 {
		_, refused := strangers.User(request("203.0.113.7:4567", "X-User-ID", "7"))
		require.NotNil(t, refused)
		_, refused = tokens.User(request("203.0.113.7:4567", "Authorization", fmt.Sprintf("Bearer %d.%d.%d", n, n, n)))
		require.Equal(t, httpapi.Unauthenticated, refused.Code)
	}
	require.Contains(t, logs.All()[0].Message, "TRUSTED_PROXIES")
	require.Equal(t, "203.0.113.7:4567", logs.All()[0].ContextMap()["remote"])
	require.Equal(t, 1, logs.FilterMessageSnippet("TRUSTED_PROXIES").Len())
	require.Equal(t, 1, logs.FilterMessage("tokens are refused").Len())
	require.EqualValues(t, 100, testutil.ToFloat64(tokens.refused[malformed]))
}
