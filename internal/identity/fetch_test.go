package identity

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// jwks is the document of a JWKS server.
func jwks(t *testing.T, all ...signer) string {
	t.Helper()
	set := jwkset.JWKSMarshal{Keys: []jwkset.JWKMarshal{}}
	for _, one := range all {
		k, err := jwkset.NewJWKFromKey(one.public,
			jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: one.id, USE: jwkset.UseSig,
				ALG: jwkset.ALG(one.method.Alg())}})
		require.NoError(t, err)
		set.Keys = append(set.Keys, k.Marshal())
	}
	text, err := json.Marshal(set)
	require.NoError(t, err)
	return string(text)
}

func TestParseJWKS_TakesKeysThatCanSign(t *testing.T) {
	t.Parallel()
	s := signers()
	all, err := parseJWKS([]byte(jwks(t, s.rsa, s.ec, s.ed)))
	require.NoError(t, err)
	require.Equal(t, []key{s.rsa.key(), s.ec.key(), s.ed.key()}, all)

	private, err := jwkset.NewJWKFromKey(s.ec.private.(*ecdsa.PrivateKey),
		jwkset.JWKOptions{Marshal: jwkset.JWKMarshalOptions{Private: true}})
	require.NoError(t, err)
	published, err := json.Marshal(private.Marshal())
	require.NoError(t, err)
	good := strings.TrimSuffix(strings.TrimPrefix(jwks(t, s.ed), `{"keys":[`), `]}`)
	for name, lie := range map[string]string{
		"a secret":          `{"kty":"oct","kid":"k","alg":"HS256","k":"` + strings.Repeat("a", 64) + `"}`,
		"a weak key":        strings.TrimSuffix(strings.TrimPrefix(jwks(t, s.small), `{"keys":[`), `]}`),
		"another curve":     strings.TrimSuffix(strings.TrimPrefix(jwks(t, s.p384), `{"keys":[`), `]}`),
		"for encryption":    strings.Replace(good, `"use":"sig"`, `"use":"enc"`, 1),
		"for signing alone": strings.Replace(good, `"use":"sig"`, `"key_ops":["sign"]`, 1),
		"another algorithm": strings.Replace(strings.TrimSuffix(strings.TrimPrefix(jwks(t, s.rsa), `{"keys":[`),
			`]}`), "RS256", "RS512", 1),
		"the wrong algorithm": strings.Replace(good, "EdDSA", "HS256", 1),
		"an unknown kind":     `{"kty":"magic","kid":"k"}`,
		"half a key":          `{"kty":"RSA","kid":"k","n":"AQ"}`,
		"an unknown curve":    `{"kty":"EC","crv":"secp256k1","kid":"k","x":"AQ","y":"AQ"}`,
		"a number as its id":  strings.Replace(good, `"kid":"ed"`, `"kid":7`, 1),
		"x5c as text":         strings.Replace(good, `"use":"sig"`, `"x5c":"MIIB","use":"sig"`, 1),
		"a text":              `"key"`,
		"a list":              `[]`,
		"nothing":             `null`,
	} {
		_, err := parseJWKS([]byte(`{"keys":[` + lie + `]}`))
		require.ErrorContains(t, err, "0 usable keys of 1", name)
		all, err := parseJWKS([]byte(`{"keys":[` + lie + `,` + good + `]}`))
		require.NoError(t, err, name)
		require.Equal(t, []key{s.ed.key()}, all, name)
	}
	all, err = parseJWKS([]byte(`{"keys":[` + string(published) + `]}`))
	require.NoError(t, err)
	require.IsType(t, s.ec.public, all[0].verifier, "the private part is not used")
	for _, lie := range []string{"", "<html>", "[]", `{"keys":7}`, `{}`, `{"keys":[]}`, `{"keys":[` +
		strings.Repeat(good+",", maxKeys) + good + `]}`} {
		_, err := parseJWKS([]byte(lie))
		require.Error(t, err)
	}
}

// An address in a key is not fetched.
func TestParseJWKS_FetchesNothing(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	trap := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	defer trap.Close()
	all, err := parseJWKS([]byte(strings.Replace(jwks(t, signers().ed), `"kid"`, `"x5u":"`+trap.URL+`","kid"`, 1)))
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Empty(t, asked)
}

// provider is the JWKS server of an identity provider, in a bubble of time.
type provider struct {
	answer atomic.Pointer[answer]
	asked  atomic.Int64
}

type answer func(ctx context.Context) (*http.Response, error)

func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	p.asked.Add(1)
	return (*p.answer.Load())(r.Context())
}

func (p *provider) answers(a answer) { p.answer.Store(&a) }

func (p *provider) says(status int, body string) {
	p.answers(func(context.Context) (*http.Response, error) {
		return &http.Response{StatusCode: status, Status: http.StatusText(status),
			Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}}, nil
	})
}

func (p *provider) isAway() {
	p.answers(func(context.Context) (*http.Response, error) { return nil, errors.New("connection refused") })
}

func (p *provider) hangs() {
	p.answers(func(ctx context.Context) (*http.Response, error) { <-ctx.Done(); return nil, ctx.Err() })
}

// watching follows the keys of a provider.
type watching struct {
	*provider
	*Identity
	fetched *fetched
	logs    *observer.ObservedLogs
}

func watch(t *testing.T, test func(w *watching)) {
	t.Helper()
	t.Parallel()
	signers() // outside the bubble
	synctest.Test(t, func(t *testing.T) {
		w := &watching{provider: new(provider)}
		w.isAway()
		w.fetched = newFetched("https://login.example.com/keys?key=hidden", time.Now)
		w.fetched.client.Transport = w.provider
		core, logs := observer.New(zap.InfoLevel)
		w.logs = logs
		w.Identity = &Identity{tokens: newTokens(w.fetched, publicMethods, issuer, audience, "uid", time.Now)}
		w.observe(zap.NewNop())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.fetched.Watch(ctx, zap.New(core)) }()
		test(w)
		stop()
		<-ended
	})
}

func (w *watching) pass(d time.Duration) { time.Sleep(d); synctest.Wait() }

func (w *watching) decides(t *testing.T, token string, good bool) {
	t.Helper()
	began := time.Now()
	_, refused := w.User(bearing(token))
	require.Equal(t, good, refused == nil)
	require.Equal(t, began, time.Now(), "no request waits")
}

func TestKeys_AreFetchedInTheBackground(t *testing.T) {
	watch(t, func(w *watching) {
		old, next := signers().rsa, signers().ed
		of := func(by signer) string {
			return by.sign(t, time.Now(), jwt.MapClaims{"exp": time.Now().Add(time.Hour).Unix()})
		}

		w.pass(3 * time.Second)
		require.ErrorContains(t, w.fetched.ready(), "connection refused")
		w.decides(t, of(old), false)
		w.says(http.StatusOK, jwks(t, old))
		w.pass(firstInterval)
		require.NoError(t, w.fetched.ready())
		w.decides(t, of(old), true)

		// The keys rotate: the first token of the new key is refused, and soon the others are good.
		w.says(http.StatusOK, jwks(t, old, next))
		w.decides(t, of(next), false)
		w.pass(seekInterval)
		w.decides(t, of(next), true)
		w.decides(t, of(old), true)

		// The server is away, hangs, and lies. Nothing ends.
		for _, trouble := range []func(){w.isAway, w.hangs,
			func() { w.says(http.StatusServiceUnavailable, jwks(t, next)) },
			func() { w.says(http.StatusFound, jwks(t, next)) },
			func() { w.says(http.StatusOK, "<html>Sign in</html>") },
			func() { w.says(http.StatusOK, `{"keys":[]}`) },
			func() { w.says(http.StatusOK, strings.Repeat(" ", maxJWKS)+jwks(t, next)) }} {
			trouble()
			w.pass(2 * fetchInterval)
			w.decides(t, of(old), true)
			w.decides(t, of(next), true)
			require.NoError(t, w.fetched.ready())
		}
		age := testutil.ToFloat64(w.fetched.age())
		require.Greater(t, age, fetchInterval.Seconds())

		// A key that is gone ends its tokens, those that are remembered, too.
		w.says(http.StatusOK, jwks(t, next))
		w.pass(2 * fetchInterval)
		w.decides(t, of(old), false)
		w.decides(t, of(next), true)
		require.Less(t, testutil.ToFloat64(w.fetched.age()), 2*fetchInterval.Seconds())
	})
}

// Everybody can send tokens of unknown keys. They do not become a storm on the provider.
func TestKeys_AreSoughtSeldom(t *testing.T) {
	watch(t, func(w *watching) {
		w.says(http.StatusOK, jwks(t, signers().rsa))
		w.pass(time.Second)
		w.asked.Store(0)
		unknown := signers().other.sign(t, time.Now(), nil)
		for range 600 {
			w.decides(t, unknown, false)
			w.pass(100 * time.Millisecond)
		}
		require.LessOrEqual(t, w.asked.Load(), int64(time.Minute/seekInterval)+1)
		require.GreaterOrEqual(t, w.asked.Swap(0), int64(5))
		w.pass(10 * time.Minute)
		require.LessOrEqual(t, w.asked.Load(), int64(11))
		require.GreaterOrEqual(t, w.asked.Load(), int64(8))
	})
}

// One line when it fails, and one when it works again.
func TestKeys_LogTellsOfTrouble(t *testing.T) {
	watch(t, func(w *watching) {
		w.pass(5 * time.Second)
		require.Equal(t, 1, w.logs.Len())
		failed := w.logs.TakeAll()[0]
		require.Contains(t, failed.Message, "not fetched")
		require.Contains(t, failed.ContextMap()["error"], "https://login.example.com/keys: connection refused")
		w.says(http.StatusOK, jwks(t, signers().rsa))
		w.pass(10 * time.Minute)
		require.Equal(t, 1, w.logs.Len())
		require.EqualValues(t, 1, w.logs.TakeAll()[0].ContextMap()["keys"])
	})
}
