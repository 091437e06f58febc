package signin_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
)

// The table is written out: a change of the rights must change it, too.
func TestMay(t *testing.T) {
	t.Parallel()
	rights := []signin.Right{signin.See, signin.SeePerson, signin.ChangePerson, signin.ReviewPerson, signin.SeeLists,
		signin.Settle, signin.ChangeCoupon, signin.Approve, signin.SetPolicy}
	for role, want := range map[signin.Role]string{
		signin.Viewer: "+--------", signin.CS: "++++-----", signin.Finance: "++-+++-+-", signin.Operator: "+++++++++",
		"": "---------", "root": "---------",
	} {
		got := ""
		for _, right := range rights {
			got += map[bool]string{true: "+", false: "-"}[signin.Person{Roles: []signin.Role{role}}.May(right)]
		}
		require.Equal(t, want, got, role)
	}
	require.False(t, signin.Person{}.May(signin.See))
	require.True(t, signin.Person{Roles: []signin.Role{signin.Viewer, signin.CS}}.May(signin.ChangePerson))
}

func guarded(t *testing.T, s signin.Settings) http.Handler {
	t.Helper()
	require.NoError(t, s.Validate())
	return s.Open(zap.NewNop(), time.Now).Guard(http.HandlerFunc(page), refuse)
}

func TestProxy_IsBelievedAlone(t *testing.T) {
	t.Parallel()
	h := guarded(t, signin.Settings{TrustedProxies: []string{"10.0.0.0/8", "192.0.2.1"},
		Roles: []string{"a=b=viewer", "team = finance"}})
	ask := func(from string, headers ...string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, "/x", nil)
		r.RemoteAddr = from
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	status, body := ask("10.1.2.3:4", "X-Forwarded-User", "kim", "X-Forwarded-Groups", "other, team")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "kim is [finance] at /x", body)
	_, body = ask("192.0.2.1:4", "X-Forwarded-User", "kim", "X-Forwarded-Groups", "a=b")
	require.Equal(t, "kim is [viewer] at /x", body)
	for name, wrong := range map[string]struct {
		from    string
		headers []string
	}{
		"another address": {"11.1.2.3:4", []string{"X-Forwarded-User", "kim", "X-Forwarded-Groups", "team"}},
		"no address":      {"@", []string{"X-Forwarded-User", "kim", "X-Forwarded-Groups", "team"}},
		"no user":         {"10.1.2.3:4", []string{"X-Forwarded-Groups", "team"}},
		"a blank user":    {"10.1.2.3:4", []string{"X-Forwarded-User", " ", "X-Forwarded-Groups", "team"}},
		"two users": {"10.1.2.3:4", []string{"X-Forwarded-User", "kim", "X-Forwarded-User", "choi",
			"X-Forwarded-Groups", "team"}},
		"a second spelling": {"10.1.2.3:4", []string{"X-Forwarded-User", "kim", "X_forwarded_user", "choi",
			"X-Forwarded-Groups", "team"}},
		"another spelling": {"10.1.2.3:4", []string{"X_forwarded_user", "kim", "X-Forwarded-Groups", "team"}},
		"groups spelt so":  {"10.1.2.3:4", []string{"X-Forwarded-User", "kim", "X_forwarded_groups", "team"}},
		"groups with dots": {"10.1.2.3:4", []string{"X-Forwarded-User", "kim", "X.forwarded.groups", "team"}},
		"two lists": {"10.1.2.3:4", []string{"X-Forwarded-User", "kim", "X-Forwarded-Groups", "x",
			"x.forwarded.groups", "team"}},
		"a group of nobody": {"10.1.2.3:4", []string{"X-Forwarded-User", "kim", "X-Forwarded-Groups", "teams"}},
		"a key":             {"10.1.2.3:4", []string{"X-Forwarded-User", "Ｋey:shop", "X-Forwarded-Groups", "team"}},
		"the program":       {"10.1.2.3:4", []string{"X-Forwarded-User", " Ｓettle", "X-Forwarded-Groups", "team"}},
		"a long name": {"10.1.2.3:4", []string{"X-Forwarded-User", strings.Repeat("k", 101), "X-Forwarded-Groups",
			"team"}},
		"an invisible name": {"10.1.2.3:4", []string{"X-Forwarded-User", "kim\u200b", "X-Forwarded-Groups", "team"}},
		"the client's hint": {"11.1.2.3:4", []string{"X-Forwarded-For", "10.1.2.3", "X-Forwarded-User", "kim",
			"X-Forwarded-Groups", "team"}},
	} {
		status, body := ask(wrong.from, wrong.headers...)
		require.Equal(t, http.StatusForbidden, status, name)
		require.NotContains(t, body, " is [", name)
	}
}

func TestProxy_OfEverybodyIsWarnedOf(t *testing.T) {
	t.Parallel()
	for network, warnings := range map[string]int{"0.0.0.0/0": 1, "::/0": 1, "0.0.0.0/1": 1, "10.0.0.0/8": 0,
		"fc00::/7": 0} {
		core, logs := observer.New(zap.WarnLevel)
		s := signin.Settings{TrustedProxies: []string{"192.0.2.1", network}, Roles: []string{"team=finance"}}
		require.NoError(t, s.Validate())
		s.Open(zap.New(core), time.Now)
		require.Equal(t, warnings, logs.Len(), network)
	}
}

func TestDevUser_IsOfThisMachine(t *testing.T) {
	t.Parallel()
	h := guarded(t, signin.Settings{DevUser: "kim=cs"})
	for name, c := range map[string]struct {
		host, from, header string
		want               int
	}{
		"localhost":              {"localhost:8083", "127.0.0.1:5", "Accept", http.StatusOK},
		"loopback":               {"127.0.0.1:8083", "127.0.0.1:5", "Accept", http.StatusOK},
		"loopback of IPv6":       {"[::1]:8083", "[::1]:5", "Accept", http.StatusOK},
		"a name that resolves":   {"console.example.com", "127.0.0.1:5", "Accept", http.StatusForbidden},
		"a name like localhost":  {"localhost.example.com", "127.0.0.1:5", "Accept", http.StatusForbidden},
		"a peer on the network":  {"localhost:8083", "192.0.2.7:5", "Accept", http.StatusForbidden},
		"a peer that is not one": {"localhost:8083", "", "Accept", http.StatusForbidden},
		"no host":                {"", "127.0.0.1:5", "Accept", http.StatusForbidden},
		"a proxy":                {"localhost:8083", "127.0.0.1:5", "X-Forwarded-For", http.StatusForbidden},
		"a proxy's host":         {"localhost:8083", "127.0.0.1:5", "X-Forwarded-Host", http.StatusForbidden},
		"another spelling":       {"localhost:8083", "127.0.0.1:5", "X_forwarded_for", http.StatusForbidden},
		"Via":                    {"localhost:8083", "127.0.0.1:5", "Via", http.StatusForbidden},
		"Forwarded":              {"localhost:8083", "127.0.0.1:5", "Forwarded", http.StatusForbidden},
		"X-Real-IP":              {"localhost:8083", "127.0.0.1:5", "X-Real-Ip", http.StatusForbidden},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host, r.RemoteAddr, r.Header[c.header] = c.host, c.from, []string{"192.0.2.7"}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, c.want, w.Code, name)
		if c.want == http.StatusOK {
			require.Equal(t, "kim is [cs] at /", w.Body.String())
		}
	}
}

// Another site cannot make a browser send forms.
func TestForms_OfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	h := guarded(t, signin.Settings{DevUser: "kim"})
	for name, c := range map[string]struct {
		header, value string
		want          int
	}{
		"same origin":    {"Sec-Fetch-Site", "same-origin", http.StatusOK},
		"typed":          {"Sec-Fetch-Site", "none", http.StatusOK},
		"cross site":     {"Sec-Fetch-Site", "cross-site", http.StatusForbidden},
		"same site":      {"Sec-Fetch-Site", "same-site", http.StatusForbidden},
		"another origin": {"Origin", "https://evil.example", http.StatusForbidden},
		"the origin":     {"Origin", "http://localhost:8083", http.StatusOK},
		"a null origin":  {"Origin", "null", http.StatusForbidden},
	} {
		r := httptest.NewRequest(http.MethodPost, "/do/close", nil)
		r.Host, r.RemoteAddr = "localhost:8083", "127.0.0.1:5"
		r.Header.Set(c.header, c.value)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, c.want, w.Code, name)
		require.Equal(t, c.want == http.StatusOK, strings.Contains(w.Body.String(), "kim is"), name)
	}
}

// Blanks around the parts of a list mean nothing.
func TestSettings_GiveEachGroupItsRole(t *testing.T) {
	t.Parallel()
	var given struct {
		signin.Settings `embed:""`
	}
	args := []string{"--console-trusted-proxies=127.0.0.0/8, 10.0.0.0/8", "--console-roles=team=finance, other = cs"}
	_, err := connect.Parse(&given, connect.Program{Name: "program", Language: text.English}, args, io.Discard,
		io.Discard)
	require.NoError(t, err)
	for group, role := range map[string]signin.Role{"team": signin.Finance, "other": signin.CS} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("X-Forwarded-User", "kim")
		r.Header.Set("X-Forwarded-Groups", group)
		var roles []signin.Role
		given.Open(zap.NewNop(), time.Now).Guard(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			roles = signin.From(r.Context()).Roles
		}), refuse).ServeHTTP(httptest.NewRecorder(), r)
		require.Equal(t, []signin.Role{role}, roles, group)
	}
}

func TestSettings_SayWhatIsWrong(t *testing.T) {
	t.Parallel()
	roles := []string{"team=finance"}
	for name, c := range map[string]struct {
		settings signin.Settings
		want     string
	}{
		"nothing": {signin.Settings{}, "one way to sign in"},
		"two ways": {signin.Settings{DevUser: "kim", TrustedProxies: []string{"10.0.0.0/8"}, Roles: roles},
			"keep those of one: CONSOLE_TRUSTED_PROXIES; CONSOLE_DEV_USER"},
		"three ways": {signin.Settings{DevUser: "kim", Issuer: "https://login.example.com",
			URL: "https://c.example.com"}, "keep those of one: CONSOLE_URL, CONSOLE_OIDC_ISSUER; CONSOLE_DEV_USER"},
		"no roles": {signin.Settings{TrustedProxies: []string{"10.0.0.0/8"}}, "CONSOLE_ROLES is missing"},
		"an unknown role": {signin.Settings{TrustedProxies: []string{"10.0.0.0/8"}, Roles: []string{"team=root"}},
			`CONSOLE_ROLES has "team=root"`},
		"no group": {signin.Settings{TrustedProxies: []string{"10.0.0.0/8"}, Roles: []string{"=cs"}},
			`CONSOLE_ROLES has "=cs"`},
		"a wrong network": {signin.Settings{TrustedProxies: []string{"10.0.0.1/8"}, Roles: roles},
			`CONSOLE_TRUSTED_PROXIES has "10.0.0.1/8"`},
		"a proxy with a zone": {signin.Settings{TrustedProxies: []string{"fe80::1%eth0"}, Roles: roles},
			`CONSOLE_TRUSTED_PROXIES has "fe80::1%eth0"`},
		"an unknown dev role": {signin.Settings{DevUser: "kim=root"}, "CONSOLE_DEV_USER is"},
		"an empty dev name":   {signin.Settings{DevUser: "=cs"}, "CONSOLE_DEV_USER is"},
		"the program's name":  {signin.Settings{DevUser: "settle"}, "CONSOLE_DEV_USER is"},
		"no client": {signin.Settings{URL: "https://c.example.com", Issuer: "https://l.example.com",
			SecretFile: "/dev/null", Roles: roles}, "needs CONSOLE_OIDC_CLIENT_ID"},
		"an unreadable secret": {signin.Settings{URL: "https://c.example.com", Issuer: "https://l.example.com",
			ClientID: "x", SecretFile: "/nowhere", Roles: roles}, "cannot be read"},
		"no openid": {signin.Settings{URL: "https://c.example.com", Issuer: "https://l.example.com",
			ClientID: "x", SecretFile: "/dev/null", Scopes: "profile openids", Roles: roles}, "CONSOLE_OIDC_SCOPES is"},
		"an invisible dev": {signin.Settings{DevUser: "\u200b"}, "CONSOLE_DEV_USER is"},
		"http": {signin.Settings{URL: "http://c.example.com", Issuer: "https://l.example.com",
			ClientID: "x", SecretFile: "/dev/null", Roles: roles}, "CONSOLE_URL is not"},
		"a path": {signin.Settings{URL: "https://c.example.com/console", Issuer: "https://l.example.com",
			ClientID: "x", SecretFile: "/dev/null", Roles: roles}, "CONSOLE_URL is not"},
	} {
		err := c.settings.Validate()
		require.ErrorContains(t, err, c.want, name)
		require.Regexp(t, `\p{Hangul}`, text.In(text.Korean, err), name)
	}
}

// A balancer before the console may keep its connections. With OpenID Connect any address inside may be one, and none
// is believed.
func TestSettings_KeepIdleConnectionsOfBalancers(t *testing.T) {
	t.Parallel()
	proxied := signin.Settings{TrustedProxies: []string{"10.1.0.0/16"}, Roles: []string{"team=finance"}}
	require.NoError(t, proxied.Validate())
	var oidc signin.Settings
	for address, want := range map[string][2]bool{"10.1.2.3": {true, true}, "10.2.0.1": {false, true},
		"100.64.1.1": {false, true}, "fd00::1": {false, true},
		"127.0.0.1": {false, true}, "203.0.113.7": {false, false}, "2001:db8::1": {false, false},
		"100.128.0.1": {false, false}} {
		at := netip.MustParseAddr(address)
		require.Equal(t, want, [2]bool{proxied.KeepsIdle(at), oidc.KeepsIdle(at)}, address)
	}
}
