package identity

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/zap"
)

// BenchmarkUser is what a request pays for its identity.
func BenchmarkUser(b *testing.B) {
	secret := signer{"bench", jwt.SigningMethodHS256, make([]byte, 32), make([]byte, 32)}
	const distinct = 20_000
	for name, c := range map[string]struct {
		by      signer
		methods []string
		users   int
	}{
		"HS256, each new":   {secret, secretMethods, distinct},
		"HS256, remembered": {secret, secretMethods, 100},
		"RS256, each new":   {signers().rsa, publicMethods, distinct / 10},
		"RS256, remembered": {signers().rsa, publicMethods, 100},
	} {
		b.Run(name, func(b *testing.B) {
			keys := new(someKeys)
			keys.set(c.by)
			i := &Identity{tokens: newTokens(keys, c.methods, issuer, audience, "sub", time.Now)}
			i.observe(zap.NewNop())
			requests := make([]*http.Request, c.users)
			for n := range requests {
				token := jwt.NewWithClaims(c.by.method, jwt.MapClaims{"iss": issuer, "aud": audience, "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
					"sub": strconv.Itoa(n + 1), "jti": "0b8f4a52-6f0e-4c55-9d7e-1f6f2f0f8f11", "scope": "openid profile"})
				token.Header["kid"] = c.by.id
				signed, err := token.SignedString(c.by.private)
				if err != nil {
					b.Fatal(err)
				}
				requests[n] = bearing(signed)
			}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%c.users == 0 && c.users > 100 {
					b.StopTimer()
					i.tokens.known.Purge()
					b.StartTimer()
				}
				if _, refused := i.User(requests[n%c.users]); refused != nil {
					b.Fatal(refused)
				}
			}
		})
	}
	b.Run("header", func(b *testing.B) {
		i := FromHeader(zap.NewNop(), private...)
		r := request("10.1.2.3:4567", "X-User-ID", "7", "Content-Length", "0", "Accept", "*/*")
		b.ReportAllocs()
		for b.Loop() {
			if _, refused := i.User(r); refused != nil {
				b.Fatal(refused)
			}
		}
	})
}
