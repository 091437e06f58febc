package systemtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/provider"
)

// door is a request that needs an identity.
type door struct{ port, method, path, body string }

// house is a deployment with the addresses of its ports. User 7 has the coupon and an order that reserved it, and user
// 8 waits.
type house struct {
	*jajeongtest.Deployment
	ports map[string]string
	doors []door
	id    coupon.CouponID // for which user 8 waits
	had   []string        // rows of MySQL before the attacks
}

func newHouse(t *testing.T, flags ...string) *house {
	d := jajeongtest.New(t)
	d.AddUsers(7, 8, 9)
	issued := d.AddCoupon(1)
	d.Exec("UPDATE coupon SET discount_won = 5000, minimum_won = 1, validity_days = 30 WHERE id = ?", issued)
	d.Apply(issued, 7)
	d.SettleNow()
	h := &house{Deployment: d, id: d.AddCoupon(5)}
	d.Apply(h.id, 8)
	keys := filepath.Join(t.TempDir(), "service-keys")
	require.NoError(t, os.WriteFile(keys, []byte("pos "+serviceKeyHash+"\n"), 0o600))
	apply := d.Start(d.Environment(), "./cmd/apply-api", append(d.Flags(d.API), flags...)...)
	wallet := d.Start(d.Environment(), "./cmd/wallet-api",
		append([]string{"--mysql-dsn=" + d.Wallet.MySQLDSN, "--service-keys-file=" + keys}, flags...)...)
	h.ports = map[string]string{"apply": apply.Apply, "live": apply.Live, "wallet": wallet.Wallet}
	order := fmt.Sprintf(`{"couponId":%d,"userId":7,"amountWon":9000}`, issued)
	me := fmt.Sprintf("/v1/coupons/%d/applications", h.id)
	h.doors = []door{
		{"apply", "POST", me, ""}, {"apply", "GET", me + "/me", ""},
		{"live", "GET", fmt.Sprintf("/v1/live/coupons/%d/me", h.id), ""},
		{"wallet", "GET", "/v1/wallet/coupons", ""},
		{"wallet", "PUT", "/v1/orders/B-1/coupon", order}, {"wallet", "DELETE", "/v1/orders/A-1/coupon", ""},
		{"wallet", "POST", "/v1/orders/A-1/coupon/confirm", ""}, {"wallet", "POST", "/v1/orders/A-1/coupon/refund", ""},
		{"wallet", "GET", "/v1/orders/A-1/coupon", ""},
	}
	status, said := h.send(door{"wallet", "PUT", "/v1/orders/A-1/coupon", order}, "Authorization: Bearer "+serviceKey)
	require.Equal(t, http.StatusCreated, status, said)
	h.had = h.has()
	return h
}

const (
	serviceKey     = "0123456789012345678901234567890123456789"
	serviceKeyHash = "fb526cd4ad0ec978c1a9e78f7c0728711139978424d618eb228be59e21188970"
)

// has returns what an attack could change.
func (h *house) has() []string {
	rows := append(h.Snapshot(), h.Waiting(h.id)...)
	return append(rows, fmt.Sprint(h.Number("SELECT COUNT(*) FROM coupon_log"),
		h.Number("SELECT COUNT(*) FROM coupon_order WHERE state <> 'RESERVED'"),
		h.Number("SELECT COUNT(*) FROM coupon_order")))
}

// send sends a request with these lines as they are.
func (h *house) send(at door, lines ...string) (status int, said string) {
	h.T.Helper()
	conn, err := net.Dial("tcp", h.ports[at.port])
	require.NoError(h.T, err)
	defer conn.Close()
	require.NoError(h.T, conn.SetDeadline(testenv.Deadline(h.T)))
	text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: shop\r\nConnection: close\r\nContent-Length: %d\r\n", at.method,
		at.path, len(at.body))
	for _, line := range lines {
		text += line + "\r\n"
	}
	_, err = io.WriteString(conn, text+"\r\n"+at.body)
	require.NoError(h.T, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: at.method})
	require.NoError(h.T, err, "%s %s %q", at.method, at.path, lines)
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK && at.port == "live" {
		return response.StatusCode, "a stream" // it does not end
	}
	body, err := io.ReadAll(response.Body)
	require.NoError(h.T, err)
	return response.StatusCode, string(body)
}

// refuses sends an attack to every door. None opens, and none says more than a problem.
func (h *house) refuses(attack string, change func(door) door, lines ...string) {
	h.T.Helper()
	for _, at := range h.doors {
		if change != nil {
			at = change(at)
		}
		status, said := h.send(at, lines...)
		require.Contains(h.T, []int{400, 401, 403, 404, 405}, status, "%s: %s %s: %s", attack, at.method, at.path, said)
		for _, secret := range []string{"PENDING", "ISSUED", "appliedAt", "position", "심야", "coupons\":", "RESERVED"} {
			require.NotContains(h.T, said, secret, "%s: %s %s", attack, at.method, at.path)
		}
	}
}

// hidden checks what no public port has.
func (h *house) hidden(lines ...string) {
	h.T.Helper()
	for port := range h.ports {
		for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/cmdline", "/readyz", "/livez",
			"/debug/vars", "/admin", "//metrics", "/v1/../metrics"} {
			status, said := h.send(door{port, "GET", path, ""}, lines...)
			require.Equal(h.T, http.StatusNotFound, status, "%s %s", port, path)
			require.NotContains(h.T, said, "jajeong_")
		}
	}
}

// nothingHappened checks that no attack has changed anything.
func (h *house) nothingHappened() {
	h.T.Helper()
	require.Equal(h.T, h.had, h.has())
}

// identities are headers by which other programs are told who asks. The tests of identity have every spelling.
var identities = map[string][]string{
	"nothing":             nil,
	"headers of gateways": {"X-Forwarded-User: 8", "X-Auth-Request-User: 8", "Cookie: X-User-ID=8"},
	"another address": {"X-Original-URL: /v1/wallet/coupons", "X-Rewrite-URL: /v1/wallet/coupons",
		"X-HTTP-Method-Override: GET"},
	"the user as a key":         {"Authorization: Bearer 8"},
	"the hash of a service key": {"Authorization: Bearer " + serviceKeyHash},
	"a service key elsewhere":   {"X-Api-Key: " + serviceKey, "Proxy-Authorization: Bearer " + serviceKey},
	"two service keys":          {"Authorization: Bearer " + serviceKey, "Authorization: Bearer " + serviceKey},
}

// byQuery is a request whose address says who asks.
func byQuery(at door) door {
	at.path += "?user_id=8&X-User-ID=8&access_token=x"
	return at
}

// A stranger, who comes from no trusted proxy, gets nothing by any header.
func TestStranger_GetsNothingByHeaders(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "--trusted-proxies=192.0.2.1")
	for attack, lines := range identities {
		h.refuses(attack, nil, lines...)
		h.refuses(attack+" and X-User-ID", nil, append([]string{"X-User-ID: 8", "X-Forwarded-For: 192.0.2.1"},
			lines...)...)
	}
	h.refuses("a query", byQuery, "X-User-ID: 8")
	h.hidden("X-User-ID: 8")
	h.nothingHappened()
}

// Behind the gateway, a second header in another spelling gets nothing.
func TestStranger_GetsNothingBehindTheGateway(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for attack, lines := range identities {
		h.refuses(attack, nil, lines...)
	}
	for _, spelling := range []string{"X_User_ID", "X.User.ID", "X-User-ID"} {
		h.refuses("the gateway's and "+spelling, nil, "X-User-ID: 9", spelling+": 8")
	}
	h.giveNothingOfOthers(func(user uint64) string { return fmt.Sprint("X-User-ID: ", user) })
	h.nothingHappened()

	// Only the gateway's user is believed.
	status, said := h.send(h.doors[1], "X-User-ID: 8")
	require.Equal(t, http.StatusOK, status, said)
	require.Contains(t, said, `"userId":8`)
	status, said = h.send(h.doors[3], "X-User-ID: 7")
	require.Equal(t, http.StatusOK, status, said)
	require.Contains(t, said, "심야")
}

// With tokens, a stranger gets nothing by any header or token, and a user gets nothing of others.
func TestStranger_GetsNothingByTokens(t *testing.T) {
	t.Parallel()
	key, stranger := provider.NewKey(t, "k1"), provider.NewKey(t, "k1")
	published := filepath.Join(t.TempDir(), "jwks.json")
	require.NoError(t, os.WriteFile(published, provider.JWKS(key), 0o600))
	h := newHouse(t, append(provider.Flags, "--jwt-jwks-file="+published, "--user-rate=0")...)
	for attack, lines := range identities {
		h.refuses(attack+" and X-User-ID", nil, append([]string{"X-User-ID: 8"}, lines...)...)
	}

	full := jwt.MapClaims{"uid": 8, "scope": "redeem", "sub": "pos"}
	expired := jwt.MapClaims{"uid": 8, "scope": "redeem", "sub": "pos", "exp": time.Now().Add(-time.Minute).Unix()}
	for attack, token := range map[string]string{"another signer": stranger.Token(full),
		"expired": key.Token(expired)} {
		h.refuses(attack, nil, "Authorization: Bearer "+token)
		h.refuses(attack+" and X-User-ID", nil, "Authorization: Bearer "+token, "X-User-ID: 8", "X_User_ID: 8")
	}
	good := key.Of(8)
	for attack, lines := range map[string][]string{
		"another header": {"X-Access-Token: " + good, "Proxy-Authorization: Bearer " + good, "Cookie: access_token=" +
			good},
		"twice": {"Authorization: Bearer " + good, "Authorization: Bearer " + good},
	} {
		h.refuses(attack, nil, lines...)
	}
	h.refuses("a query", byQuery)
	h.hidden("Authorization: Bearer " + good)
	h.giveNothingOfOthers(func(user uint64) string { return "Authorization: Bearer " + key.Of(user) })

	// A user's token shows what the user has, and opens no order. Who redeems has no wallet.
	for _, at := range h.doors[4:] {
		for _, user := range []uint64{7, 9} {
			status, said := h.send(at, "Authorization: Bearer "+key.Of(user), "X-User-ID: 7")
			require.Equal(t, http.StatusForbidden, status, said)
			require.Contains(t, said, "INSUFFICIENT_SCOPE")
		}
	}
	checkout := key.Token(jwt.MapClaims{"scope": "redeem", "client_id": "checkout"})
	for _, at := range h.doors[:4] {
		status, said := h.send(at, "Authorization: Bearer "+checkout, "X-User-ID: 8")
		require.Equal(t, http.StatusUnauthorized, status, said)
	}
	status, said := h.send(h.doors[1], "Authorization: Bearer "+key.Of(9), "X-User-ID: 8")
	require.Equal(t, http.StatusNotFound, status, said)
	require.NotContains(t, said, "PENDING")
	status, said = h.send(h.doors[3], "Authorization: Bearer "+key.Of(9), "X-User-ID: 7")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, said, `{"coupons":[],`)
	h.nothingHappened()

	// The same requests with the right token.
	status, said = h.send(h.doors[1], "Authorization: Bearer "+good)
	require.Equal(t, http.StatusOK, status, said)
	status, _ = h.send(h.doors[2], "Authorization: Bearer "+good)
	require.Equal(t, http.StatusOK, status)
	status, said = h.send(h.doors[6], "Authorization: Bearer "+checkout)
	require.Equal(t, http.StatusOK, status, said)
	require.EqualValues(t, 1, h.Number("SELECT COUNT(*) FROM coupon_log WHERE actor = 'checkout' AND kind = 'USED'"))

	// A token acts for its user, whatever else the request says.
	apply := h.doors[0]
	apply.path += "?user_id=10&access_token=" + key.Of(10)
	apply.body = `{"userId":10}`
	status, said = h.send(apply, "Authorization: Bearer "+key.Of(9))
	require.Equal(t, http.StatusBadRequest, status, said)
	apply.body = ""
	status, said = h.send(apply, "Authorization: Bearer "+key.Of(9), "X-User-ID: 10", "X_User_ID: 10",
		"Cookie: access_token="+key.Of(10), "Content-Type: application/json")
	require.Equal(t, http.StatusAccepted, status, said)
	require.Contains(t, said, `"userId":9`)
	require.Equal(t, []string{"8", "9"}, h.Waiting(h.id))

	// A key that is gone ends its tokens, those that were good a moment ago, too.
	next := provider.NewKey(t, "k2")
	require.NoError(t, os.WriteFile(published, provider.JWKS(next), 0o600))
	testenv.Eventually(t, "the token has ended", func() bool {
		status, _ := h.send(h.doors[1], "Authorization: Bearer "+good)
		return status == http.StatusUnauthorized
	})
	testenv.Eventually(t, "the wallet knows it, too", func() bool {
		status, _ := h.send(h.doors[3], "Authorization: Bearer "+good)
		return status == http.StatusUnauthorized
	})
	status, _ = h.send(h.doors[1], "Authorization: Bearer "+next.Of(8))
	require.Equal(t, http.StatusOK, status)
}

// giveNothingOfOthers demands that a request has no identity of an earlier one of its connection.
func (h *house) giveNothingOfOthers(as func(user uint64) string) {
	h.T.Helper()
	for _, at := range []door{h.doors[1], h.doors[3]} {
		shared := h.dial(at.port)
		status, said := shared.ask(at, as(8))
		require.Equal(h.T, http.StatusOK, status, said)
		status, said = shared.ask(at)
		require.Equal(h.T, http.StatusUnauthorized, status, said)
		status, said = shared.ask(at, as(9))
		require.NotContains(h.T, said, "PENDING", "%d", status)
		require.NotContains(h.T, said, "심야", "%d", status)
	}
}

// connection takes one request after the other.
type connection struct {
	house *house
	conn  net.Conn
	from  *bufio.Reader
}

func (h *house) dial(port string) *connection {
	h.T.Helper()
	conn, err := net.Dial("tcp", h.ports[port])
	require.NoError(h.T, err)
	h.T.Cleanup(func() { _ = conn.Close() })
	return &connection{h, conn, bufio.NewReader(conn)}
}

func (c *connection) ask(at door, lines ...string) (status int, said string) {
	t := c.house.T
	t.Helper()
	require.NoError(t, c.conn.SetDeadline(testenv.Deadline(t)))
	_, err := fmt.Fprintf(c.conn, "%s %s HTTP/1.1\r\nHost: shop\r\n%s\r\n\r\n", at.method, at.path,
		strings.Join(append(lines, "Accept: */*"), "\r\n"))
	require.NoError(t, err)
	response, err := http.ReadResponse(c.from, &http.Request{Method: at.method})
	require.NoError(t, err)
	defer response.Body.Close()
	require.False(t, response.Close, "the connection stays open")
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}
