package signin_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/text"
)

// site is a console whose only page says who sees it.
type site struct {
	t        *testing.T
	server   *httptest.Server
	provider *testenv.OIDC
}

func page(w http.ResponseWriter, r *http.Request) {
	p := signin.From(r.Context())
	_, _ = fmt.Fprintf(w, "%s is %s at %s", p.Name, p.Roles, r.URL.RequestURI())
}

func refuse(w http.ResponseWriter, _ *http.Request, why signin.Refusal, args ...any) {
	w.WriteHeader(why.Status)
	_, _ = io.WriteString(w, text.English.Sprintf(why.Message, args...))
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, server: httptest.NewUnstartedServer(nil)}
	at := "https://" + s.server.Listener.Addr().String()
	s.provider = testenv.StartOIDC(t, at+"/sign-in/callback")
	settings := signin.Settings{URL: at, Issuer: s.provider.Issuer, ClientID: s.provider.ClientID, SecretFile: s.provider.SecretFile, Scopes: "openid profile email", GroupsClaim: "groups",
		Roles: []string{"team-finance=finance", "team-cs=cs", "team-ops=operator", "team-ops=finance"}}
	require.NoError(t, settings.Validate())
	s.server.Config.Handler = settings.Open(zap.NewNop(), time.Now).Guard(http.HandlerFunc(page), refuse)
	s.server.StartTLS()
	t.Cleanup(s.server.Close)
	return s
}

// browser follows redirects and keeps cookies.
func (s *site) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	require.NoError(s.t, err)
	return &http.Client{Transport: s.server.Client().Transport, Jar: jar}
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

var requestID = regexp.MustCompile(`name="id" value="([^"]+)"`)

// signIn opens a page, and fills in the form of the provider.
func (s *site) signIn(client *http.Client, path, name string) (status int, body string) {
	s.t.Helper()
	_, form, at := get(s.t, client, s.server.URL+path)
	found := requestID.FindStringSubmatch(form)
	require.Len(s.t, found, 2, form)
	status, body, _ = read(s.t)(client.PostForm(at.Scheme+"://"+at.Host+at.Path, url.Values{"username": {name}, "password": {name}, "id": {found[1]}}))
	return status, body
}

// A site and its provider serve persons with browsers of their own.
func TestSignIn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for name, test := range map[string]func(*site){
		"GivesRolesByGroups": givesRolesByGroups, "IsNeeded": signInIsNeeded, "RefusesWhatThisBrowserDidNotBegin": refusesWhatThisBrowserDidNotBegin,
		"SignOutEndsTheSession": signOutEndsTheSession, "ChangesTheSession": signInChangesTheSession, "CookiesAreForThisHostAlone": cookiesAreForThisHostAlone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(&site{t, s.server, s.provider})
		})
	}
}

func givesRolesByGroups(s *site) {
	t := s.t
	for name, want := range map[string]string{"kim": "kim is [finance] at /coupons?status=open", "park": "park is [cs] at /coupons?status=open",
		"choi": "choi is [finance operator] at /coupons?status=open"} {
		client := s.browser()
		status, body := s.signIn(client, "/coupons?status=open", name)
		require.Equal(t, http.StatusOK, status, body)
		require.Equal(t, want, body)
		_, body, _ = get(t, client, s.server.URL+"/")
		require.Contains(t, body, name+" is", "the session stays")
	}
	status, body := s.signIn(s.browser(), "/", "yoon")
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, body, "yoon has no role")
}

// Without a session nothing is seen, and a form is not lost in a redirect.
func signInIsNeeded(s *site) {
	t := s.t
	still := s.browser()
	still.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	status, body, _ := get(t, still, s.server.URL+"/coupons")
	require.Equal(t, http.StatusSeeOther, status)
	require.NotContains(t, body, " is ")
	status, body, _ = read(t)(still.PostForm(s.server.URL+"/do/close", url.Values{}))
	require.Equal(t, http.StatusUnauthorized, status)
	require.Contains(t, body, "Nothing was changed")
	forged := s.browser()
	at, err := url.Parse(s.server.URL)
	require.NoError(t, err)
	forged.Jar.SetCookies(at, []*http.Cookie{{Name: "__Host-jajeong-console", Value: strings.Repeat("A", 43), Path: "/", Secure: true}})
	forged.CheckRedirect = still.CheckRedirect
	status, _, _ = get(t, forged, s.server.URL+"/")
	require.Equal(t, http.StatusSeeOther, status)
}

func refusesWhatThisBrowserDidNotBegin(s *site) {
	t, client := s.t, s.browser()
	var callback string
	client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == "/sign-in/callback" {
			callback = r.URL.String()
			return http.ErrUseLastResponse
		}
		return nil
	}
	s.signIn(client, "/", "kim")
	require.NotEmpty(t, callback)

	status, body, _ := get(t, s.browser(), callback)
	require.Equal(t, http.StatusForbidden, status, "another browser has not the cookie of the sign-in")
	require.Contains(t, body, "sign-in failed")
	client.CheckRedirect = nil
	status, body, _ = get(t, client, strings.Replace(callback, "state=", "state=x", 1))
	require.Equal(t, http.StatusForbidden, status, body)
	status, body, _ = get(t, client, callback)
	require.Equal(t, http.StatusOK, status, "another state is another sign-in: %s", body)

	good := s.browser()
	good.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == "/sign-in/callback" {
			callback = r.URL.String()
		}
		return nil
	}
	status, body = s.signIn(good, "/", "kim")
	require.Equal(t, http.StatusOK, status, body)
	status, _, _ = get(t, good, callback)
	require.Equal(t, http.StatusForbidden, status, "a callback is good once")
}

func signOutEndsTheSession(s *site) {
	t, client := s.t, s.browser()
	s.signIn(client, "/", "kim")
	at, err := url.Parse(s.server.URL)
	require.NoError(t, err)
	before := client.Jar.Cookies(at)
	status, body, _ := read(t)(client.PostForm(s.server.URL+"/sign-out", nil))
	require.Equal(t, http.StatusOK, status, body)
	old := s.browser()
	old.Jar.SetCookies(at, before)
	old.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	status, _, _ = get(t, old, s.server.URL+"/")
	require.Equal(t, http.StatusSeeOther, status, "the old cookie is worth nothing")
}

// A second sign-in in the same browser gets another session.
func signInChangesTheSession(s *site) {
	t, client := s.t, s.browser()
	s.signIn(client, "/", "kim")
	at, err := url.Parse(s.server.URL)
	require.NoError(t, err)
	old := client.Jar.Cookies(at)
	status, body := s.signIn(client, "/sign-in", "choi")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "choi is")
	attacker := s.browser()
	attacker.Jar.SetCookies(at, old)
	attacker.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	status, _, _ = get(t, attacker, s.server.URL+"/")
	require.Equal(t, http.StatusSeeOther, status)
}

func cookiesAreForThisHostAlone(s *site) {
	t, client := s.t, s.browser()
	var set []string
	client.Transport = recording{client.Transport, &set}
	s.signIn(client, "/", "kim")
	require.NotEmpty(t, set)
	for _, cookie := range set {
		require.True(t, strings.HasPrefix(cookie, "__Host-jajeong-"), cookie)
		for _, want := range []string{"Path=/", "HttpOnly", "Secure", "SameSite=Lax"} {
			require.Contains(t, cookie, want)
		}
		require.NotContains(t, cookie, "Domain=")
	}
}

// recording notes the cookies that the console sets. The provider is http, the console https.
type recording struct {
	http.RoundTripper
	set *[]string
}

func (r recording) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.RoundTripper.RoundTrip(request)
	if err == nil && request.URL.Scheme == "https" {
		*r.set = append(*r.set, response.Header.Values("Set-Cookie")...)
	}
	return response, err
}

func TestSignIn_ReturnsToLocalPathsOnly(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"/coupons?status=open": "/coupons?status=open", "": "/", "//evil.example": "/", "https://evil.example/": "/", "https:evil.example": "/", `/\evil.example`: "/",
		`\\evil.example`: "/", "evil": "/", "/%2f/evil.example": "/", "/a\nb": "/", "javascript:alert(1)": "/", "/coupons#x": "/coupons", "///evil.example": "/",
	} {
		require.Equal(t, want, signin.LocalPath(to), to)
	}
}

// While the provider is away, the console says so.
func TestProvider_MayBeAway(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.provider.Stop()
	status, body, _ := get(t, s.browser(), s.server.URL+"/")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "provider of identities does not answer")
}
