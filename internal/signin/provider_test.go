package signin_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/text"
)

// page says who sees it.
func page(w http.ResponseWriter, r *http.Request) {
	p := signin.From(r.Context())
	_, _ = fmt.Fprintf(w, "%s is %s at %s", p.Name, p.Roles, r.URL.RequestURI())
}

func refuse(w http.ResponseWriter, _ *http.Request, why signin.Refusal, args ...any) {
	w.WriteHeader(why.Status)
	_, _ = io.WriteString(w, text.English.Sprintf(why.Message, args...))
}

func get(t *testing.T, client *http.Client, at string) (status int, body string, from *url.URL) {
	t.Helper()
	return read(t)(client.Get(at))
}

func read(t *testing.T) func(*http.Response, error) (int, string, *url.URL) {
	return func(response *http.Response, err error) (int, string, *url.URL) {
		t.Helper()
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(body), response.Request.URL
	}
}

// login is a console whose provider says what a test wants.
type login struct {
	t                 *testing.T
	console, provider *httptest.Server
	logs              *observer.ObservedLogs
	private           ed25519.PrivateKey
	metrics           prometheus.Collector

	keys   string        // members of the key set before the key that signs
	claims jwt.MapClaims // of the next id token
	keysAt string        // where the key set is
	info   string        // the userinfo document; empty: the provider has none
	asked  atomic.Int64  // calls of the provider after its discovery
}

func newLogin(t *testing.T) *login {
	t.Helper()
	l := &login{t: t, keysAt: "/keys", console: httptest.NewUnstartedServer(nil)}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	l.private = private
	l.provider = httptest.NewServer(l.answers(public))
	t.Cleanup(l.provider.Close)
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	settings := signin.Settings{URL: "https://" + l.console.Listener.Addr().String(), Issuer: l.provider.URL,
		ClientID: "jajeong", SecretFile: secret,
		Scopes: "openid email team", GroupsClaim: "groups", Roles: []string{"team=cs", "ops=operator", "ops=finance"}}
	require.NoError(t, settings.Validate())
	core, logs := observer.New(zap.InfoLevel)
	l.logs = logs
	in := settings.Open(zap.New(core, zap.WithClock(testenv.Stopped{})), time.Now)
	l.console.Config.Handler, l.metrics = in.Guard(http.HandlerFunc(page), refuse), in.Metrics()
	l.console.StartTLS()
	t.Cleanup(l.console.Close)
	return l
}

func (l *login) answers(public ed25519.PublicKey) http.Handler {
	mux := http.NewServeMux()
	say := func(path string, what func() string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, what())
		})
	}
	say("/.well-known/openid-configuration", func() string {
		at, info := l.provider.URL, ""
		if l.info != "" {
			info = fmt.Sprintf(`"userinfo_endpoint":%q,`, at+"/info")
		}
		return fmt.Sprintf(`{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q,"jwks_uri":%q,%s
			"id_token_signing_alg_values_supported":["EdDSA"]}`, at, at+"/authorize", at+"/token", at+l.keysAt, info)
	})
	say("/info", func() string { return l.info })
	mux.Handle("/moved", http.RedirectHandler("/keys", http.StatusFound))
	say("/keys", func() string {
		l.asked.Add(1)
		return fmt.Sprintf(`{"keys":[%s{"kty":"OKP","crv":"Ed25519","kid":"own","alg":"EdDSA","x":%q}]}`, l.keys,
			base64.RawURLEncoding.EncodeToString(public))
	})
	say("/token", func() string {
		l.asked.Add(1)
		token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, l.claims)
		token.Header["kid"] = "own"
		signed, err := token.SignedString(l.private)
		if err != nil {
			panic(err)
		}
		answer, _ := json.Marshal(map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": signed})
		return string(answer)
	})
	return mux
}

// browser keeps cookies, and follows no redirect.
func (l *login) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	require.NoError(l.t, err)
	return &http.Client{Transport: l.console.Client().Transport, Jar: jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// begins opens a page, and returns what the browser takes to the provider.
func (l *login) begins(client *http.Client, path string) url.Values {
	l.t.Helper()
	response, err := client.Get(l.console.URL + "/sign-in?to=" + url.QueryEscape(path))
	require.NoError(l.t, err)
	require.NoError(l.t, response.Body.Close())
	at, err := response.Location()
	require.NoError(l.t, err)
	return at.Query()
}

// comesBack returns how the console answers the browser that comes back from the provider with these claims.
func (l *login) comesBack(client *http.Client, taken url.Values, claims jwt.MapClaims) (status int, body, to string) {
	l.t.Helper()
	l.claims = jwt.MapClaims{"iss": l.provider.URL, "aud": "jajeong", "sub": "4711",
		"exp": time.Now().Add(time.Hour).Unix(), "nonce": taken.Get("nonce"), "groups": []string{"team"}}
	maps.Copy(l.claims, claims)
	response, err := client.Get(l.console.URL + "/sign-in/callback?code=c&state=" + taken.Get("state"))
	status, body, _ = read(l.t)(response, err)
	return status, body, response.Header.Get("Location")
}

func (l *login) signsIn(claims jwt.MapClaims) (client *http.Client, status int) {
	l.t.Helper()
	client = l.browser()
	status, _, _ = l.comesBack(client, l.begins(client, "/"), claims)
	return client, status
}

// at is the address of the console.
func (l *login) at() *url.URL {
	at, err := url.Parse(l.console.URL)
	require.NoError(l.t, err)
	return at
}

// isKnown reports whether the browser has a session: without one, it is sent to sign in.
func (l *login) isKnown(client *http.Client) bool {
	l.t.Helper()
	status, body, _ := get(l.t, client, l.console.URL+"/coupons")
	require.Contains(l.t, []int{http.StatusOK, http.StatusSeeOther}, status)
	require.Equal(l.t, status == http.StatusOK, strings.Contains(body, " is "))
	return status == http.StatusOK
}

func (l *login) sees(client *http.Client) string {
	l.t.Helper()
	_, body, _ := get(l.t, client, l.console.URL+"/")
	return body
}

func TestProvider_IsAskedForTheScopes(t *testing.T) {
	t.Parallel()
	l := newLogin(t)
	require.Equal(t, "openid email team", l.begins(l.browser(), "/").Get("scope"))
}

// Each tab of a browser signs in by itself, and a browser that begins again and again keeps few cookies.
func TestProvider_ServesTwoTabs(t *testing.T) {
	t.Parallel()
	l := newLogin(t)
	client := l.browser()
	first, second := l.begins(client, "/coupons"), l.begins(client, "/runs")
	for _, tab := range []struct {
		taken url.Values
		to    string
	}{{second, "/runs"}, {first, "/coupons"}} {
		status, body, to := l.comesBack(client, tab.taken, jwt.MapClaims{"preferred_username": "kim"})
		require.Equal(t, http.StatusSeeOther, status, body)
		require.Equal(t, tab.to, to)
	}
	require.Len(t, client.Jar.Cookies(l.at()), 1, "that of the session")
	for range 25 {
		l.begins(client, "/")
	}
	require.LessOrEqual(t, len(client.Jar.Cookies(l.at())), 6)
	status, body, _ := l.comesBack(client, l.begins(client, "/"+strings.Repeat("x", 5000)),
		jwt.MapClaims{"preferred_username": "kim"})
	require.Equal(t, http.StatusSeeOther, status, body)
}

// A cookie that the console did not make leads to no call of the provider.
func TestProvider_IsNotAskedForForgedCookies(t *testing.T) {
	t.Parallel()
	l, other := newLogin(t), newLogin(t)
	client, at := l.browser(), l.console.URL
	begun := other.browser()
	taken := other.begins(begun, "/")
	ofOther := begun.Jar.Cookies(other.at())[0].Value
	l.begins(client, "/") // the provider is discovered
	for name, cookie := range map[string]string{
		"self-made":        base64.RawURLEncoding.EncodeToString([]byte(`{"nonce":"n","verifier":"v","to":"/"}`)),
		"empty":            "",
		"of another key":   ofOther,
		"of another state": client.Jar.Cookies(l.at())[0].Value,
	} {
		r, err := http.NewRequest(http.MethodGet, at+"/sign-in/callback?code=c&state="+taken.Get("state"), nil)
		require.NoError(t, err)
		r.AddCookie(&http.Cookie{Name: "__Host-jajeong-sign-in-" + taken.Get("state"), Value: cookie})
		status, body, _ := read(t)(l.browser().Do(r))
		require.Equal(t, http.StatusForbidden, status, name)
		require.Contains(t, body, "sign-in failed", name)
	}
	require.Zero(t, l.asked.Load())
}

// A member of the key set that cannot be read does not keep the others from being used.
func TestProvider_MayHaveOddKeys(t *testing.T) {
	t.Parallel()
	for name, odd := range map[string]string{
		"a number as its id":  `{"kty":"RSA","kid":7,"n":"AQ","e":"AQAB"}`,
		"x5c as text":         `{"kty":"RSA","kid":"r","n":"AQ","e":"AQAB","x5c":"MIIB"}`,
		"an unknown curve":    `{"kty":"EC","kid":"e","crv":"secp256k1","x":"AQ","y":"AQ"}`,
		"an unknown kind":     `{"kty":"AKP","kid":"a","alg":"ML-DSA-44","pub":"AQ"}`,
		"a number as its alg": `{"kty":"RSA","kid":"r","alg":1,"n":"AQ","e":"AQAB"}`,
		"a text":              `"key"`,
		"nothing":             `null`,
	} {
		for _, at := range []string{"/keys", "/moved"} {
			l := newLogin(t)
			l.keys, l.keysAt = odd+",", at
			_, status := l.signsIn(jwt.MapClaims{"preferred_username": "kim"})
			require.Equal(t, http.StatusSeeOther, status, "%s at %s", name, at)
		}
	}
}

func TestProvider_NamesPersons(t *testing.T) {
	t.Parallel()
	l := newLogin(t)
	for name, c := range map[string]struct {
		claims jwt.MapClaims
		want   string // empty: refused
	}{
		"a name": {jwt.MapClaims{"preferred_username": "kim", "email": "kim@example.com",
			"email_verified": true}, "kim"},
		"a Korean name":       {jwt.MapClaims{"preferred_username": "김 민지"}, "김 민지"},
		"a verified email":    {jwt.MapClaims{"email": "kim@example.com", "email_verified": true}, "kim@example.com"},
		"an unverified email": {jwt.MapClaims{"email": "kim@example.com", "email_verified": false}, "4711"},
		"an email of Entra":   {jwt.MapClaims{"email": "kim@example.com"}, "4711"},
		"verified in text":    {jwt.MapClaims{"email": "kim@example.com", "email_verified": "true"}, "4711"},
		"the program's name":  {jwt.MapClaims{"preferred_username": "Settle"}, ""},
		"blanks":              {jwt.MapClaims{"preferred_username": "  "}, ""},
		"no width":            {jwt.MapClaims{"preferred_username": "\u200b"}, ""},
		"no width in a name":  {jwt.MapClaims{"preferred_username": "kim\u200b"}, ""},
		"a filler":            {jwt.MapClaims{"preferred_username": "\u3164"}, ""},
		"a filler in a name":  {jwt.MapClaims{"preferred_username": "kim\uffa0"}, ""},
		"a blank of Braille":  {jwt.MapClaims{"preferred_username": "\u2800"}, ""},
		"another direction":   {jwt.MapClaims{"preferred_username": "\u202emik"}, ""},
		"a selector":          {jwt.MapClaims{"preferred_username": "kim\ufe0f"}, ""},
		"a line":              {jwt.MapClaims{"preferred_username": "kim\nlee"}, ""},
		"a long name":         {jwt.MapClaims{"preferred_username": strings.Repeat("김", 101)}, ""},
	} {
		client, status := l.signsIn(c.claims)
		if c.want == "" {
			require.Equal(t, http.StatusForbidden, status, name)
			continue
		}
		require.Equal(t, http.StatusSeeOther, status, name)
		require.Equal(t, c.want+" is [cs] at /", l.sees(client), name)
	}
}

// Without groups in the id token, the userinfo document of the same subject has them.
func TestProvider_MayHaveUserInfo(t *testing.T) {
	t.Parallel()
	for subject, want := range map[string]int{"4711": http.StatusSeeOther, "4712": http.StatusForbidden} {
		l := newLogin(t)
		l.info = fmt.Sprintf(`{"sub":%q,"preferred_username":"kim","groups":"team"}`, subject)
		_, status := l.signsIn(jwt.MapClaims{"groups": nil})
		require.Equal(t, want, status, subject)
	}
}

// The eleventh session of a person ends the oldest one, and nobody else's.
func TestSessions_OfOnePersonAreFew(t *testing.T) {
	t.Parallel()
	l := newLogin(t)
	lee, status := l.signsIn(jwt.MapClaims{"sub": "4712", "preferred_username": "lee"})
	require.Equal(t, http.StatusSeeOther, status)
	var kim []*http.Client
	for range 11 {
		client, status := l.signsIn(jwt.MapClaims{"preferred_username": "kim"})
		require.Equal(t, http.StatusSeeOther, status)
		kim = append(kim, client)
	}
	require.NotContains(t, l.sees(kim[0]), "kim is")
	for _, client := range kim[1:] {
		require.Contains(t, l.sees(client), "kim is")
	}
	require.Contains(t, l.sees(lee), "lee is")
}

// Everybody can send requests: what is refused is logged once a second. Who signs in is always logged, with the
// subject.
func TestLog_IsNotFloodedBySignIns(t *testing.T) {
	t.Parallel()
	l := newLogin(t)
	for range 5 {
		client := l.browser()
		taken := l.begins(client, "/")
		status, _, _ := l.comesBack(l.browser(), taken, nil)
		require.Equal(t, http.StatusForbidden, status)
		status, _, _ = l.comesBack(client, taken, jwt.MapClaims{"groups": []string{}})
		require.Equal(t, http.StatusForbidden, status)
		_, status = l.signsIn(jwt.MapClaims{"preferred_username": "kim"})
		require.Equal(t, http.StatusSeeOther, status)
	}
	require.Equal(t, 1, l.logs.FilterMessage("sign-in refused").Len())
	require.Equal(t, 1, l.logs.FilterMessage("person without a role").Len())
	signedIn := l.logs.FilterMessage("signed in").All()
	require.Len(t, signedIn, 5)
	require.Equal(t, l.provider.URL+" 4711", signedIn[0].ContextMap()["sign_in"])
	require.NoError(t, testutil.CollectAndCompare(l.metrics, strings.NewReader(`
# HELP jajeong_console_sign_ins_total Number of sign-ins with OpenID Connect, by result.
# TYPE jajeong_console_sign_ins_total counter
jajeong_console_sign_ins_total{result="failed"} 5
jajeong_console_sign_ins_total{result="no_role"} 5
jajeong_console_sign_ins_total{result="signed_in"} 5
jajeong_console_sign_ins_total{result="unavailable"} 0
`)), "all are counted")
}
