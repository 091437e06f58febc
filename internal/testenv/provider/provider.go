// Package provider is an identity provider for tests: it signs tokens and publishes its keys.
package provider

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

// What every token says, unless a test says otherwise.
const (
	Issuer   = "https://login.example.com/"
	Audience = "coupons"
	Claim    = "uid"
)

// Flags are the settings of a program that takes the tokens, but for the keys.
var Flags = []string{"--identity=jwt", "--jwt-issuer=" + Issuer, "--jwt-audience=" + Audience, "--jwt-user-claim=" +
	Claim}

// Key signs tokens by EdDSA.
type Key struct {
	t       testing.TB
	id      string
	private ed25519.PrivateKey
}

func NewKey(t testing.TB, id string) Key {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return Key{t, id, private}
}

// Token signs the claims and those of every token. A claim that is nil is left out.
func (k Key) Token(claims jwt.MapClaims) string {
	k.t.Helper()
	all := jwt.MapClaims{"iss": Issuer, "aud": Audience, "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, all)
	token.Header["kid"] = k.id
	signed, err := token.SignedString(k.private)
	require.NoError(k.t, err)
	return signed
}

// Of is the token of a user.
func (k Key) Of(user uint64) string { return k.Token(jwt.MapClaims{Claim: user}) }

// Public is the public key.
func (k Key) Public() ed25519.PublicKey { return k.private.Public().(ed25519.PublicKey) }

// JWKS is the document that publishes the keys.
func JWKS(keys ...Key) []byte {
	set := jwkset.JWKSMarshal{Keys: []jwkset.JWKMarshal{}}
	for _, k := range keys {
		one, err := jwkset.NewJWKFromKey(k.Public(),
			jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: k.id, USE: jwkset.UseSig}})
		require.NoError(k.t, err)
		set.Keys = append(set.Keys, one.Marshal())
	}
	document, _ := json.Marshal(set) // texts alone
	return document
}

// Server publishes keys until the end of the test.
type Server struct {
	URL     string
	content atomic.Pointer[[]byte] // nil: the server is away
}

func Serve(t testing.TB) *Server {
	s := new(Server)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		content := s.content.Load()
		if content == nil {
			panic(http.ErrAbortHandler) // closes the connection
		}
		_, _ = w.Write(*content)
	}))
	t.Cleanup(site.Close)
	s.URL = site.URL
	return s
}

// Publish publishes these keys.
func (s *Server) Publish(keys ...Key) { s.content.Store(new(JWKS(keys...))) }
