package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
	"github.com/jajeong/jajeong/internal/testenv/provider"
)

// takingTokens starts the binary with the keys of a provider.
func takingTokens(t *testing.T, from *provider.Server) *program {
	t.Helper()
	redis := testenv.RedisFor(t)
	environment := append(asAPI(t, redis.Prefix, redis.Addrs...), "MYSQL_DSN="+apiDSN(t),
		"REDIS_ADDRS="+strings.Join(redis.Addrs, ","), "REDIS_KEY_PREFIX="+redis.Prefix, "USER_RATE=0")
	return start(t, anywhere(environment), append(provider.Flags, "--jwt-jwks-url="+from.URL)...)
}

// applyWith applies with a token, and returns the status and what is wrong with the token.
func (p *program) applyWith(token string) (status int, challenge string) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.ctx, http.MethodPost, p.apply+"/v1/coupons/1/applications", nil)
	require.NoError(p.t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Transport: openapi.Transport(p.t, p.client.Transport)}
	response, err := client.Do(request)
	require.NoError(p.t, err)
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(p.t, err)
	return response.StatusCode, response.Header.Get("WWW-Authenticate")
}

// awaitQueued applies until the application is queued: this machine may be slower than a timeout for Redis.
func (p *program) awaitQueued(token string) {
	p.t.Helper()
	testenv.Eventually(p.t, "the application is queued", func() bool {
		status, challenge := p.applyWith(token)
		require.Contains(p.t, []int{http.StatusAccepted, http.StatusOK, http.StatusServiceUnavailable}, status, challenge)
		return status != http.StatusServiceUnavailable
	})
}

// While the provider is away, a new pod is not ready and says why. It opens when the provider is back.
func TestPodWaitsForKeysOfTokens(t *testing.T) {
	t.Parallel()
	from := provider.Serve(t)
	p := takingTokens(t, from)
	p.await(adminOpen)
	testenv.Eventually(t, "readiness says what is missing", func() bool {
		status, text := p.get("/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(text, `"identity":{"ok":false,"detail":"fetch `+from.URL)
	})
	testenv.Eventually(t, "the log says so", func() bool {
		return strings.Contains(p.stderr.String(), "keys of tokens not fetched") && strings.Contains(p.stderr.String(), "JWT_JWKS_URL is not https")
	})
	require.NotContains(t, p.stderr.String(), `"msg":"`+listening+`"`, "the public ports are closed")
	key := provider.NewKey(t, "k1")
	from.Publish(key)
	p.await(listening)
	p.awaitReady(http.StatusOK)
	p.awaitQueued(key.Of(7))
}

// Keys are rotated while people apply, and the provider goes away. No token is refused whose key was known before, and a key that
// is gone ends its tokens.
func TestKeysOfTokensAreRotatedUnderLoad(t *testing.T) {
	t.Parallel()
	from := provider.Serve(t)
	older, newer := provider.NewKey(t, "older"), provider.NewKey(t, "newer")
	from.Publish(older)
	p := takingTokens(t, from)
	p.await(listening)
	p.awaitReady(http.StatusOK)

	var applying sync.WaitGroup
	var applied atomic.Int64
	stop := make(chan struct{})
	stopped := sync.OnceFunc(func() { close(stop); applying.Wait() })
	defer stopped()
	for n := range uint64(4) {
		applying.Go(func() {
			for user := n + 1; ; user += 4 {
				select {
				case <-stop:
					return
				case <-time.After(25 * time.Millisecond):
				}
				switch status, challenge := p.applyWith(older.Of(user)); status {
				case http.StatusAccepted:
					applied.Add(1)
				case http.StatusServiceUnavailable: // this machine was slower than a timeout for Redis, and the token was believed
				default:
					t.Errorf("user %d: %d %s", user, status, challenge)
					return
				}
			}
		})
	}
	goOn := func() {
		t.Helper()
		before := applied.Load()
		testenv.Eventually(t, "people go on applying", func() bool { return applied.Load() > before+50 || t.Failed() })
	}

	goOn()
	from.Leave()
	status, challenge := p.applyWith(newer.Of(1_000_000))
	require.Equal(t, http.StatusUnauthorized, status)
	require.Contains(t, challenge, "the key of the token is not known")
	goOn()
	from.Publish(older, newer)
	testenv.Eventually(t, "the new key is known", func() bool {
		status, _ := p.applyWith(newer.Of(1_000_000))
		return status != http.StatusUnauthorized
	})
	goOn()
	stopped()

	from.Publish(newer)
	testenv.Eventually(t, "the old key has ended", func() bool {
		_, _ = p.applyWith(provider.NewKey(t, "unknown").Of(7)) // hastens the next fetch
		status, _ := p.applyWith(older.Of(1))
		return status == http.StatusUnauthorized
	})
	from.Leave()
	p.awaitQueued(newer.Of(1_000_000))
}

// A hundred malformed tokens are a hundred times 401, and one line in the log a second.
func TestMalformedTokensAreNoStormInTheLog(t *testing.T) {
	t.Parallel()
	from := provider.Serve(t)
	from.Publish(provider.NewKey(t, "k1"))
	p := takingTokens(t, from)
	p.await(listening)
	began := time.Now()
	for n := range 100 {
		status, challenge := p.applyWith(strings.Repeat(fmt.Sprintf("%d.", n), n%5) + "x")
		require.Equal(t, http.StatusUnauthorized, status)
		require.Contains(t, challenge, `error="invalid_token"`)
	}
	seconds := int(time.Since(began).Seconds()) + 2 // a test may take long
	lines := strings.Count(p.stderr.String(), "tokens are refused")
	require.GreaterOrEqual(t, lines, 1)
	require.LessOrEqual(t, lines, seconds)
	require.EqualValues(t, 100, p.metric(`jajeong_identity_refused_total{reason="malformed"}`))
}

func TestWrongIdentityIsReportedInTheSessionsLanguage(t *testing.T) {
	t.Parallel()
	for locale, want := range map[string][]string{
		"C": {
			"apply-api: IDENTITY=jwt needs one of JWT_SECRET_FILE, JWT_JWKS_URL and JWT_JWKS_FILE, and only one",
			"apply-api: IDENTITY=jwt needs JWT_AUDIENCE",
			"apply-api: IDENTITY=jwt needs JWT_USER_CLAIM",
		},
		"ko_KR.UTF-8": {
			"apply-api: IDENTITY=jwt에는 JWT_SECRET_FILE, JWT_JWKS_URL, JWT_JWKS_FILE 중 하나만 지정하세요",
			"apply-api: IDENTITY=jwt에는 JWT_AUDIENCE이(가) 필요합니다",
			"apply-api: IDENTITY=jwt에는 JWT_USER_CLAIM이(가) 필요합니다",
		},
	} {
		p := start(t, []string{"LC_ALL=" + locale, "MYSQL_DSN=u@tcp(127.0.0.1:1)/d", "IDENTITY=jwt", "JWT_ISSUER=i"})
		require.Equal(t, 2, p.exit())
		require.Equal(t, want, strings.Split(strings.TrimSpace(p.stderr.String()), "\n"))
	}
	p := start(t, []string{"MYSQL_DSN=u@tcp(127.0.0.1:1)/d", "JWT_ISSUER=i", "TRUSTED_PROXIES=gateway,10.0.0.0/8"})
	require.Equal(t, 2, p.exit())
	require.Equal(t, []string{"apply-api: JWT_ISSUER is set, but IDENTITY is header: set IDENTITY=jwt, or remove it",
		`apply-api: TRUSTED_PROXIES has "gateway": want addresses or networks such as 10.0.0.0/8`}, strings.Split(strings.TrimSpace(p.stderr.String()), "\n"))
}

// Each wrong combination is one clear line.
func TestWrongIdentityIsOneLine(t *testing.T) {
	t.Parallel()
	tokens := []string{"--identity=jwt", "--jwt-issuer=i", "--jwt-audience=a", "--jwt-user-claim=uid"}
	for _, c := range []struct {
		flags           []string
		english, korean string
	}{
		{tokens, "IDENTITY=jwt needs one of", "중 하나만 지정하세요"},
		{append(tokens[:4:4], "--jwt-jwks-url=https://a", "--jwt-jwks-file=b"), "IDENTITY=jwt needs one of", "중 하나만 지정하세요"},
		{append(tokens[:4:4], "--jwt-jwks-url=https://u:password@a"), "without a user name and password", "사용자 이름과 비밀번호 없이"},
		{append(tokens[:4:4], "--jwt-jwks-file=/dev/null"), "JWT_JWKS_FILE cannot be read", "JWT_JWKS_FILE을 읽을 수 없습니다"},
		{[]string{"--jwt-issuer=i"}, "JWT_ISSUER is set, but IDENTITY is header", "JWT_ISSUER이(가) 지정되었지만 IDENTITY가 header입니다"},
		{[]string{"--jwt-issuer="}, "JWT_ISSUER (--jwt-issuer) is empty", "JWT_ISSUER (--jwt-issuer): 값이 비어 있습니다"},
		{[]string{"--trusted-proxies=foo"}, `TRUSTED_PROXIES has "foo"`, `TRUSTED_PROXIES에 "foo"`},
		{[]string{"--trusted-proxies="}, "TRUSTED_PROXIES (--trusted-proxies) is empty", "TRUSTED_PROXIES (--trusted-proxies): 값이 비어 있습니다"},
		{[]string{"--identity=oidc"}, `IDENTITY (--identity) is "oidc"`, "IDENTITY (--identity)"},
	} {
		for locale, want := range map[string]string{"C": c.english, "ko_KR.UTF-8": c.korean} {
			p := start(t, []string{"LC_ALL=" + locale, "MYSQL_DSN=u@tcp(127.0.0.1:1)/d"}, c.flags...)
			require.Equal(t, 2, p.exit(), c.flags)
			said := p.stderr.String()
			require.Contains(t, said, want)
			require.Equal(t, 1, strings.Count(said, "\n"), said)
			require.NotContains(t, said, "u:password")
		}
	}
}

// The start says who is believed.
func TestStartSaysWhoIsBelieved(t *testing.T) {
	t.Parallel()
	for want, flags := range map[string][]string{
		`"msg":"users are identified by X-User-ID from these addresses","trusted_proxies":["192.0.2.1/32","10.0.0.0/8"]`:    {"--trusted-proxies=192.0.2.1,10.0.0.0/8"},
		`"msg":"users are identified by tokens","issuer":"` + provider.Issuer + `","audience":"coupons","user_claim":"uid"`: append(provider.Flags, "--jwt-jwks-url=https://127.0.0.1:1/keys"),
	} {
		p := start(t, anywhere([]string{"MYSQL_DSN=u@tcp(127.0.0.1:1)/d"}), flags...)
		p.await(adminOpen)
		require.Contains(t, p.stderr.String(), want)
	}
}
