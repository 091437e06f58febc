package signin_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/signin"
)

// The tests of the console sign in at a real provider.

func TestSignIn_GivesRolesByGroups(t *testing.T) {
	t.Parallel()
	l := newLogin(t)
	for group, roles := range map[string]string{"team": "[cs]", "ops": "[finance operator]"} {
		client, status := l.signsIn(jwt.MapClaims{"preferred_username": "kim", "groups": []string{"other", group}})
		require.Equal(t, http.StatusSeeOther, status)
		for range 2 { // the session stays
			require.Equal(t, "kim is "+roles+" at /", l.sees(client))
		}
	}
	nobody := l.browser()
	claims := jwt.MapClaims{"preferred_username": "yoon", "groups": []string{"x"}}
	status, body, _ := l.comesBack(nobody, l.begins(nobody, "/"), claims)
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, body, "yoon has no role")
}

// Without a session nothing is seen, and a form is not lost in a redirect.
func TestSignIn_IsNeeded(t *testing.T) {
	t.Parallel()
	l := newLogin(t)
	for _, cookie := range []string{"", strings.Repeat("A", 43)} {
		client := l.browser()
		forged := &http.Cookie{Name: "__Host-jajeong-console", Value: cookie, Path: "/", Secure: true}
		client.Jar.SetCookies(l.at(), []*http.Cookie{forged})
		require.False(t, l.isKnown(client))
		status, body, _ := read(t)(client.PostForm(l.console.URL+"/do/close", url.Values{}))
		require.Equal(t, http.StatusUnauthorized, status)
		require.Contains(t, body, "Nothing was changed")
	}
}

func TestSignIn_RefusesWhatThisBrowserDidNotBegin(t *testing.T) {
	t.Parallel()
	l := newLogin(t)
	client := l.browser()
	taken := l.begins(client, "/")
	claims := jwt.MapClaims{"preferred_username": "kim"}
	status, body, _ := l.comesBack(l.browser(), taken, claims)
	require.Equal(t, http.StatusForbidden, status, "another browser has not the cookie of the sign-in")
	require.Contains(t, body, "sign-in failed")
	status, _, _ = l.comesBack(client, url.Values{"state": {"x" + taken.Get("state")}, "nonce": taken["nonce"]}, claims)
	require.Equal(t, http.StatusForbidden, status, "another state is another sign-in")
	status, _, _ = l.comesBack(client, url.Values{"state": taken["state"], "nonce": {"x"}}, claims)
	require.Equal(t, http.StatusForbidden, status, "an id token of another sign-in")

	taken = l.begins(client, "/")
	for _, want := range []int{http.StatusSeeOther, http.StatusForbidden} {
		status, _, _ = l.comesBack(client, taken, claims)
		require.Equal(t, want, status, "a callback is good once")
	}
}

// A sign-out ends the session, and a second sign-in begins another one. The old cookie is worth nothing.
func TestSession_Ends(t *testing.T) {
	t.Parallel()
	l := newLogin(t)
	for name, end := range map[string]func(*http.Client){
		"sign-out": func(client *http.Client) {
			status, body, _ := read(t)(client.PostForm(l.console.URL+"/sign-out", nil))
			require.Equal(t, http.StatusOK, status, body)
		},
		"sign-in": func(client *http.Client) {
			l.comesBack(client, l.begins(client, "/"), jwt.MapClaims{"preferred_username": "choi"})
			require.Contains(t, l.sees(client), "choi is")
		},
	} {
		client, _ := l.signsIn(jwt.MapClaims{"preferred_username": "kim"})
		old := l.browser()
		old.Jar.SetCookies(l.at(), client.Jar.Cookies(l.at()))
		require.True(t, l.isKnown(old), name)
		end(client)
		require.False(t, l.isKnown(old), name)
	}
}

func TestCookies_AreForThisHostAlone(t *testing.T) {
	t.Parallel()
	l := newLogin(t)
	var set []string
	client := l.browser()
	client.Transport = recording{client.Transport, &set}
	l.comesBack(client, l.begins(client, "/"), jwt.MapClaims{"preferred_username": "kim"})
	require.GreaterOrEqual(t, len(set), 2, "of the sign-in and of the session")
	for _, cookie := range set {
		require.True(t, strings.HasPrefix(cookie, "__Host-jajeong-"), cookie)
		for _, want := range []string{"Path=/", "HttpOnly", "Secure", "SameSite=Lax"} {
			require.Contains(t, cookie, want)
		}
		require.NotContains(t, cookie, "Domain=")
	}
}

// recording notes the cookies that the console sets.
type recording struct {
	http.RoundTripper
	set *[]string
}

func (r recording) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.RoundTripper.RoundTrip(request)
	if err == nil {
		*r.set = append(*r.set, response.Header.Values("Set-Cookie")...)
	}
	return response, err
}

func TestSignIn_ReturnsToLocalPathsOnly(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"/coupons?status=open": "/coupons?status=open", "": "/", "//evil.example": "/", "https://evil.example/": "/",
		"https:evil.example": "/", `/\evil.example`: "/",
		`\\evil.example`: "/", "evil": "/", "/%2f/evil.example": "/", "/a\nb": "/", "javascript:alert(1)": "/",
		"/coupons#x": "/coupons", "///evil.example": "/",
	} {
		require.Equal(t, want, signin.LocalPath(to), to)
	}
}

// While the provider is away, the console says so.
func TestProvider_MayBeAway(t *testing.T) {
	t.Parallel()
	l := newLogin(t)
	l.provider.Close()
	status, body, _ := get(t, l.browser(), l.console.URL+"/sign-in")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "provider of identities does not answer")
}
