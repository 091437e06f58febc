package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

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
		require.Contains(p.t, []int{http.StatusAccepted, http.StatusOK, http.StatusServiceUnavailable}, status,
			challenge)
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
		return status == http.StatusServiceUnavailable &&
			strings.Contains(text, `"identity":{"ok":false,"detail":"fetch `+from.URL)
	})
	testenv.Eventually(t, "the log says so", func() bool {
		return strings.Contains(p.stderr.String(), "keys of tokens not fetched") &&
			strings.Contains(p.stderr.String(), "JWT_JWKS_URL is not https")
	})
	require.NotContains(t, p.stderr.String(), `"msg":"`+listening+`"`, "the public ports are closed")
	key := provider.NewKey(t, "k1")
	from.Publish(key)
	p.await(listening)
	p.awaitReady(http.StatusOK)
	p.awaitQueued(key.Of(7))
}

// The start says who is believed.
func TestStartSaysWhoIsBelieved(t *testing.T) {
	t.Parallel()
	for want, flags := range map[string][]string{
		`"msg":"users are identified by X-User-ID from these addresses",` +
			`"trusted_proxies":["192.0.2.1/32","10.0.0.0/8"]`: {
			"--trusted-proxies=192.0.2.1,10.0.0.0/8"},
		`"msg":"users are identified by tokens","issuer":"` + provider.Issuer +
			`","audience":"coupons","user_claim":"uid"`: append(provider.Flags,
			"--jwt-jwks-url=https://127.0.0.1:1/keys"),
	} {
		p := start(t, anywhere([]string{"MYSQL_DSN=u@tcp(127.0.0.1:1)/d"}), flags...)
		p.await(adminOpen)
		require.Contains(t, p.stderr.String(), want)
		require.NotContains(t, p.stderr.String(), unverified)
	}
	p := start(t, anywhere([]string{"MYSQL_DSN=u@tcp(127.0.0.1:1)/d?tls=skip-verify"}), "--trusted-proxies=0.0.0.0/0")
	p.await(adminOpen)
	require.Contains(t, p.stderr.String(), unverified)
	require.Contains(t, p.stderr.String(), "TRUSTED_PROXIES has public addresses")
}

const unverified = "MYSQL_DSN does not verify the certificate of MySQL"
