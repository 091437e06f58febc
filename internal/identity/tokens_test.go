package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
)

const (
	issuer   = "https://login.example.com/"
	audience = "coupons"
)

// signer signs tokens, as an identity provider does.
type signer struct {
	id      string
	method  jwt.SigningMethod
	private any
	public  any
}

func (s signer) key() key { return key{s.id, s.method.Alg(), s.public} }

// sign signs the claims. Those of a good token are added, unless they are there; nil removes one.
func (s signer) sign(t *testing.T, now time.Time, claims jwt.MapClaims, header ...string) string {
	t.Helper()
	all := jwt.MapClaims{"iss": issuer, "aud": audience, "exp": now.Add(time.Hour).Unix(), "uid": 7}
	maps.Copy(all, claims)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	token := jwt.NewWithClaims(s.method, all)
	if s.id != "" {
		token.Header["kid"] = s.id
	}
	for n := 0; n < len(header); n += 2 {
		token.Header[header[n]] = header[n+1]
	}
	signed, err := token.SignedString(s.private)
	require.NoError(t, err)
	return signed
}

// The keys are slow to make, and the same for all tests.
var signers = sync.OnceValue(func() (all struct{ rsa, other, small, ec, p384, ed signer }) {
	newRSA := func(id string, bits int) signer {
		private, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			panic(err)
		}
		return signer{id, jwt.SigningMethodRS256, private, &private.PublicKey}
	}
	newEC := func(id string, curve elliptic.Curve, method jwt.SigningMethod) signer {
		private, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			panic(err)
		}
		return signer{id, method, private, &private.PublicKey}
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	all.rsa, all.other, all.small = newRSA("rsa", 2048), newRSA("other", 2048), newRSA("small", 1024)
	all.ec, all.p384 = newEC("ec", elliptic.P256(), jwt.SigningMethodES256),
		newEC("p384", elliptic.P384(), jwt.SigningMethodES384)
	all.ed = signer{"ed", jwt.SigningMethodEdDSA, private, crypto.PublicKey(public)}
	return all
})

// someKeys are keys that a test changes.
type someKeys struct {
	current atomic.Pointer[[]key]
	sought  atomic.Int64
}

func (k *someKeys) Keys() []key { return *k.current.Load() }
func (k *someKeys) Seek()       { k.sought.Add(1) }

func (k *someKeys) set(all ...signer) {
	keys := make([]key, len(all))
	for n, one := range all {
		keys[n] = one.key()
	}
	k.current.Store(&keys)
}

// site accepts tokens.
type site struct {
	keys     *someKeys
	identity *Identity
}

func newSite(t *testing.T, now func() time.Time) *site {
	t.Helper()
	s := &site{keys: new(someKeys)}
	s.keys.set(signers().rsa, signers().ec, signers().ed)
	s.identity = &Identity{tokens: newTokens(s.keys, publicMethods, issuer, audience, "uid", now)}
	s.identity.observe(zap.NewNop())
	return s
}

func bearing(token string) *http.Request {
	return request("203.0.113.7:4567", "Authorization", "Bearer "+token)
}

func (s *site) accepts(t *testing.T, token string, user coupon.UserID) {
	t.Helper()
	for range 2 { // the second time, it is remembered
		found, refused := s.identity.User(bearing(token))
		require.Nil(t, refused)
		require.Equal(t, user, found)
	}
}

func (s *site) refuses(t *testing.T, r *http.Request, why reason) {
	t.Helper()
	before := testutil.ToFloat64(s.identity.refused[why])
	for range 2 {
		user, refused := s.identity.User(r)
		require.Zero(t, user)
		require.NotNil(t, refused)
		require.Equal(t, httpapi.Unauthenticated, refused.Code)
		require.True(t, strings.HasPrefix(refused.Challenge, "Bearer"), refused.Challenge)
	}
	require.Equal(t, before+2, testutil.ToFloat64(s.identity.refused[why]), "the reason is %s", why)
}

func TestUser_OfGoodToken(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := newSite(t, time.Now)
	for _, by := range []signer{signers().rsa, signers().ec, signers().ed} {
		s.accepts(t, by.sign(t, now, nil), 7)
	}
	by := signers().ed
	s.accepts(t, by.sign(t, now, jwt.MapClaims{"aud": []string{"shop", audience}}), 7)
	s.accepts(t, by.sign(t, now, jwt.MapClaims{"uid": "9007199254740993"}), 9007199254740993)
	s.accepts(t, by.sign(t, now, jwt.MapClaims{"uid": uint64(9007199254740993)}), 9007199254740993) // 2^53 + 1
	s.accepts(t, by.sign(t, now, jwt.MapClaims{"uid": uint64(1<<63 - 1)}), 1<<63-1)

	lower := bearing(by.sign(t, now, nil))
	lower.Header.Set("Authorization", "bearer "+lower.Header.Get("Authorization")[len("Bearer "):])
	user, refused := s.identity.User(lower)
	require.Nil(t, refused)
	require.EqualValues(t, 7, user)

	// The token decides, whatever X-User-ID says.
	both := bearing(by.sign(t, now, nil))
	both.Header.Set("X-User-ID", "8")
	user, refused = s.identity.User(both)
	require.Nil(t, refused)
	require.EqualValues(t, 7, user)
}

func TestUser_RefusesTokens(t *testing.T) {
	t.Parallel()
	now := time.Now()
	by, rsaKey := signers().ed, signers().rsa
	good := by.sign(t, now, nil)
	parts := strings.Split(good, ".")
	der, err := x509.MarshalPKIXPublicKey(rsaKey.public)
	require.NoError(t, err)
	pemKey := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	confused := func(secret []byte) string {
		return signer{rsaKey.id, jwt.SigningMethodHS256, secret, nil}.sign(t, now, nil)
	}
	unsigned := signer{"", jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil}
	other := signers().other
	stranger := signer{by.id, by.method, other.private, nil}
	stranger.method = jwt.SigningMethodRS256
	stranger.id = rsaKey.id
	header := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for name, c := range map[string]struct {
		token  string
		reason reason
	}{
		"none":                      {unsigned.sign(t, now, nil), wrongMethod},
		"none with the id of a key": {unsigned.sign(t, now, nil, "kid", by.id), wrongMethod},
		"None":                      {header(`{"alg":"None","typ":"JWT"}`) + "." + parts[1] + ".", wrongMethod},
		"none, signature of another": {header(`{"alg":"none","kid":"ed"}`) + "." + parts[1] + "." + parts[2],
			wrongMethod},
		"public key as secret, PEM": {confused(pemKey), wrongMethod},
		"public key as secret, DER": {confused(der), wrongMethod},
		"empty secret":              {confused([]byte("x")), wrongMethod},
		"RS512": {signer{rsaKey.id, jwt.SigningMethodRS512, rsaKey.private, nil}.sign(t, now,
			nil), wrongMethod},
		"PS256": {signer{rsaKey.id, jwt.SigningMethodPS256, rsaKey.private, nil}.sign(t, now,
			nil), wrongMethod},
		"ES384": {signers().p384.sign(t, now, nil, "kid", "ec"), wrongMethod},
		"RS256 with the id of another": {signer{"ed", jwt.SigningMethodRS256, rsaKey.private, nil}.sign(t, now, nil),
			unknownKey},
		"signed by another": {stranger.sign(t, now, nil), wrongSign},
		"another key":       {other.sign(t, now, nil), unknownKey},
		"key in the header": {by.sign(t, now, nil, "kid", "mine", "jwk", `{"kty":"OKP"}`, "jku",
			"https://evil.example.com/keys",
			"x5u", "https://evil.example.com/cert"), unknownKey},
		"path as id": {by.sign(t, now, nil, "kid", "../../dev/null"), unknownKey},
		"no key id":  {signer{"", by.method, by.private, nil}.sign(t, now, nil), unknownKey},
		"extension":  {by.sign(t, now, nil, "crit", "b64"), malformed},
		"altered": {parts[0] + "." +
			header(`{"iss":"`+issuer+`","aud":"`+audience+`","exp":9999999999,"uid":8}`) + "." + parts[2], wrongSign},
		"cut":               {good[:len(good)-1], malformed},
		"without signature": {parts[0] + "." + parts[1] + ".", wrongSign},
		"two parts":         {parts[0] + "." + parts[1], malformed},
		"four parts":        {good + ".x", malformed},
		"encrypted":         {good + ".x.y", malformed},
		"other base64":      {strings.ReplaceAll(good, "-", "+") + "=", malformed},
		"no JSON":           {header("{") + "." + parts[1] + "." + parts[2], malformed},
		"an array":          {parts[0] + "." + header("[7]") + "." + parts[2], wrongSign},
		"spaces":            {" " + good, malformed},
		"expired": {by.sign(t, now, jwt.MapClaims{"exp": now.Add(-leeway - 2*time.Second).Unix()}),
			expired},
		"without end":          {by.sign(t, now, jwt.MapClaims{"exp": nil}), malformed},
		"end as text":          {by.sign(t, now, jwt.MapClaims{"exp": "never"}), malformed},
		"not yet":              {by.sign(t, now, jwt.MapClaims{"nbf": now.Add(leeway + time.Hour).Unix()}), early},
		"another issuer":       {by.sign(t, now, jwt.MapClaims{"iss": "https://login.example.com"}), wrongIssuer},
		"no issuer":            {by.sign(t, now, jwt.MapClaims{"iss": nil}), malformed},
		"another audience":     {by.sign(t, now, jwt.MapClaims{"aud": "shop"}), wrongAudience},
		"other audiences":      {by.sign(t, now, jwt.MapClaims{"aud": []string{"shop", "coupons2"}}), wrongAudience},
		"no audience":          {by.sign(t, now, jwt.MapClaims{"aud": nil}), malformed},
		"too long":             {by.sign(t, now, jwt.MapClaims{"groups": strings.Repeat("g", maxToken)}), malformed},
		"no user":              {by.sign(t, now, jwt.MapClaims{"uid": nil}), wrongClaim},
		"user in another case": {by.sign(t, now, jwt.MapClaims{"uid": nil, "UID": 7, "sub": "7"}), wrongClaim},
		"user as a name":       {by.sign(t, now, jwt.MapClaims{"uid": "kim"}), wrongClaim},
		"user 0":               {by.sign(t, now, jwt.MapClaims{"uid": 0}), wrongClaim},
		"user -7":              {by.sign(t, now, jwt.MapClaims{"uid": -7}), wrongClaim},
		"user 7.5":             {by.sign(t, now, jwt.MapClaims{"uid": 7.5}), wrongClaim},
		"user 07":              {by.sign(t, now, jwt.MapClaims{"uid": "07"}), wrongClaim},
		"user in spaces":       {by.sign(t, now, jwt.MapClaims{"uid": " 7"}), wrongClaim},
		"user 1e21":            {by.sign(t, now, jwt.MapClaims{"uid": 1e21}), wrongClaim},
		"user 2^63":            {by.sign(t, now, jwt.MapClaims{"uid": uint64(1 << 63)}), wrongClaim},
		"users":                {by.sign(t, now, jwt.MapClaims{"uid": []int{7}}), wrongClaim},
		"user as an object":    {by.sign(t, now, jwt.MapClaims{"uid": map[string]any{"id": 7}}), wrongClaim},
		"user true":            {by.sign(t, now, jwt.MapClaims{"uid": true}), wrongClaim},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newSite(t, time.Now).refuses(t, bearing(c.token), c.reason)
		})
	}
}

// signText signs claims as they are written, under the header of a good token.
func (s signer) signText(t *testing.T, payload string) string {
	t.Helper()
	header, _, _ := strings.Cut(s.sign(t, time.Now(), nil), ".")
	body := header + "." + base64.RawURLEncoding.EncodeToString([]byte(payload))
	signature, err := s.method.Sign(body, s.private)
	require.NoError(t, err)
	return body + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// A number is read as it is written: 7.0 and 7e0 are 7 for a program that reads floating point. A name that comes twice
// is refused: other programs may read the other value.
func TestUser_ReadsClaimsAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	const good = `{"iss":"` + issuer + `","aud":"` + audience + `","exp":9999999999,"uid":7`
	by := signers().ed
	newSite(t, time.Now).accepts(t, by.signText(t, good+"}"), 7)
	for _, number := range []string{"7.0", "7e0", "0.7e1", "9007199254740993.0", "07", "+7", `"7.0"`, `"7e0"`, `"٧"`,
		"null", `""`} {
		why := wrongClaim
		if number == "07" || number == "+7" {
			why = malformed // no JSON
		}
		newSite(t, time.Now).refuses(t, bearing(by.signText(t,
			strings.Replace(good, `"uid":7`, `"uid":`+number, 1)+"}")), why)
	}
	for _, again := range []string{`,"uid":7}`, `,"uid":8}`, `,"u\u0069d":8}`, `,"exp":9999999999}`, `,"aud":"shop"}`,
		`,"x":1,"x":1}`} {
		newSite(t, time.Now).refuses(t, bearing(by.signText(t, good+again)), malformed)
	}
	for name, wrong := range map[string]string{"iss": "7", "aud": `[7]`, "exp": `{}`, "nbf": `"soon"`} {
		newSite(t, time.Now).refuses(t, bearing(by.signText(t,
			`{"`+name+`":`+wrong+`,`+strings.Replace(good[1:], `"`+name+`"`, `"other"`, 1)+"}")), malformed)
	}
	for _, name := range []string{"iss", "aud", "exp"} { // exact names alone count
		newSite(t, time.Now).refuses(t, bearing(by.signText(t,
			strings.Replace(good, name, strings.ToUpper(name), 1)+"}")), malformed)
	}
}

func TestUser_RefusesHeaders(t *testing.T) {
	t.Parallel()
	good := signers().ed.sign(t, time.Now(), nil)
	for name, c := range map[string]struct {
		request *http.Request
		reason  reason
	}{
		"nothing":   {request("10.1.2.3:1"), noToken},
		"X-User-ID": {request("10.1.2.3:1", "X-User-ID", "7"), noToken},
		"X_User_ID": {request("10.1.2.3:1", "X_User_ID", "7"), noToken},
		"a cookie": {request("10.1.2.3:1", "Cookie", "Authorization=Bearer "+good+"; access_token="+good),
			noToken},
		"another header": {request("10.1.2.3:1", "Proxy-Authorization", "Bearer "+good, "X-Authorization",
			"Bearer "+good), noToken},
		"an underscore":  {request("10.1.2.3:1", "Authorization_", "Bearer "+good), noToken},
		"another scheme": {request("10.1.2.3:1", "Authorization", "Basic "+good), noToken},
		"no scheme":      {request("10.1.2.3:1", "Authorization", good), noToken},
		"an empty token": {request("10.1.2.3:1", "Authorization", "Bearer "), noToken},
		"two tokens": {request("10.1.2.3:1", "Authorization", "Bearer "+good, "Authorization", "Bearer "+good),
			malformed},
		"two in one":       {request("10.1.2.3:1", "Authorization", "Bearer "+good+", Bearer "+good), malformed},
		"in the address":   {request("10.1.2.3:1"), noToken},
		"a space too many": {request("10.1.2.3:1", "Authorization", "Bearer  "+good), malformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.request.URL.RawQuery = "access_token=" + good
			newSite(t, time.Now).refuses(t, c.request, c.reason)
		})
	}
}

// Remembered tokens end like others.
func TestUser_TokensEnd(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	clock := now
	s := newSite(t, func() time.Time { return clock })
	by := signers().ed
	short := by.sign(t, now, jwt.MapClaims{"exp": now.Add(time.Minute).Unix(), "nbf": now.Add(leeway).Unix()})
	s.accepts(t, short, 7) // the issuer's clock is ahead
	clock = now.Add(time.Minute + leeway - time.Microsecond)
	s.accepts(t, short, 7) // the issuer's clock is late
	clock = now.Add(time.Minute + leeway)
	s.refuses(t, bearing(short), expired)
}

// A key that is gone ends its tokens at once, and those of a new key are good at once.
func TestUser_KeysChange(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := newSite(t, time.Now)
	old, next := signers().rsa, signers().other
	of := func(by signer) string { return by.sign(t, now, nil) }
	s.accepts(t, of(old), 7)
	s.refuses(t, bearing(of(next)), unknownKey)
	require.EqualValues(t, 2, s.keys.sought.Load())

	s.keys.set(old, next)
	s.accepts(t, of(old), 7)
	s.accepts(t, of(next), 7)

	s.keys.set(next)
	s.refuses(t, bearing(of(old)), unknownKey)
	s.accepts(t, of(next), 7)

	replaced := next
	replaced.public = old.public // another key with the same id
	s.keys.set(replaced)
	s.refuses(t, bearing(of(next)), wrongSign)

	s.keys.set()
	s.refuses(t, bearing(of(next)), unknownKey)
}

// A token without a key id is good if there is one key.
func TestUser_WithoutKeyID(t *testing.T) {
	t.Parallel()
	s := newSite(t, time.Now)
	s.keys.set(signers().rsa)
	nameless := signers().rsa
	nameless.id = ""
	s.accepts(t, nameless.sign(t, time.Now(), nil), 7)
}

func TestUser_OfSecrets(t *testing.T) {
	t.Parallel()
	now := time.Now()
	secret := func(text string) signer {
		return signer{"", jwt.SigningMethodHS256, []byte(strings.Repeat(text, minSecret)),
			[]byte(strings.Repeat(text, minSecret))}
	}
	s := &site{keys: new(someKeys)}
	s.keys.set(secret("a"), secret("b"))
	s.identity = &Identity{tokens: newTokens(s.keys, secretMethods, issuer, audience, "uid", time.Now)}
	s.identity.observe(zap.NewNop())
	s.accepts(t, secret("a").sign(t, now, nil), 7)
	s.accepts(t, secret("b").sign(t, now, nil, "kid", "any"), 7)
	s.refuses(t, bearing(secret("c").sign(t, now, nil)), wrongSign)
	s.refuses(t, bearing(signers().rsa.sign(t, now, nil)), wrongMethod)
	longer := secret("a")
	longer.method = jwt.SigningMethodHS512
	s.refuses(t, bearing(longer.sign(t, now, nil)), wrongMethod)
	s.keys.set(secret("b"))
	s.refuses(t, bearing(secret("a").sign(t, now, nil)), wrongSign)
}

func TestService_NeedsTheScope(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		claims  jwt.MapClaims
		service string
	}{
		"scope":   {jwt.MapClaims{"scope": "read redeem", "client_id": "checkout"}, "checkout"},
		"scp":     {jwt.MapClaims{"scp": []string{"read", "redeem"}, "azp": "pos"}, "pos"},
		"subject": {jwt.MapClaims{"scope": "redeem", "sub": "checkout-1"}, "checkout-1"},
		"no user": {jwt.MapClaims{"scope": "redeem", "sub": "checkout", "uid": nil}, "checkout"},
		"none":    {jwt.MapClaims{"client_id": "checkout"}, ""},
		"another": {jwt.MapClaims{"scope": "redeem-all redeem:read REDEEM", "client_id": "checkout"}, ""},
		"as another claim": {jwt.MapClaims{"scopes": "redeem", "roles": []string{"redeem"}, "client_id": "checkout"},
			""},
		"no name":      {jwt.MapClaims{"scope": "redeem"}, ""},
		"a wrong name": {jwt.MapClaims{"scope": "redeem", "client_id": "a\nb", "sub": "auth0|7"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, time.Now)
			require.True(t, s.identity.TakesTokens())
			for range 2 {
				service, refused := s.identity.Service(bearing(signers().ed.sign(t, now, c.claims)))
				require.Equal(t, c.service, service)
				if c.service == "" {
					require.Equal(t, &Refusal{Code: httpapi.Unauthenticated, Forbidden: true,
						Challenge: `Bearer error="insufficient_scope", scope="redeem"`}, refused)
				}
			}
		})
	}
	s := newSite(t, time.Now)
	_, refused := s.identity.Service(bearing("x"))
	require.False(t, refused.Forbidden)
}

// No text makes a token that is accepted, and none makes the program fail.
func FuzzVerify(f *testing.F) {
	for _, seed := range []string{"", ".", "..", "a.b.c", "eyJhbGciOiJub25lIn0.e30.",
		"eyJhbGciOiJFZERTQSIsImtpZCI6ImVkIn0.e30.AA"} {
		f.Add(seed)
	}
	keys := new(someKeys)
	keys.set(signers().ec, signers().ed)
	tokens := newTokens(keys, publicMethods, issuer, audience, "uid", time.Now)
	f.Fuzz(func(t *testing.T, token string) {
		_, why := tokens.verify(token)
		require.NotEqual(t, accepted, why)
	})
}
