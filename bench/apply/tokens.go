package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/sync/errgroup"
)

// The algorithms of tokens.
const (
	hs256 = "HS256"
	rs256 = "RS256"
)

const (
	tokenIssuer   = "https://login.example.com/"
	tokenAudience = "coupons"
)

// mint signs tokens. The load generator gets it from the bench.
type mint struct {
	Method string
	Key    []byte // a secret, or a private key in PKCS #1
	Until  int64  // exp of the tokens

	private any
}

// perSecond is how many tokens a load needs in a second at most. RS256 signs 1,500 in a second and core.
var perSecond = map[string]int{hs256: 120_000, rs256: 45_000}

// newMint makes a key, and returns the flags by which apply-api knows it.
func newMint(dir, method string) (m *mint, flags []string, err error) {
	m = &mint{Method: method, Until: time.Now().Add(time.Hour).Unix()}
	path, content := filepath.Join(dir, "keys-"+method), []byte(nil)
	if method == hs256 {
		m.Key = make([]byte, 32)
		_, _ = rand.Read(m.Key) // never fails
		content, flags = []byte("base64:"+base64.StdEncoding.EncodeToString(m.Key)), []string{"--jwt-secret-file=" + path}
	} else {
		private, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return nil, nil, err
		}
		public, err := jwkset.NewJWKFromKey(&private.PublicKey, jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: "bench", USE: jwkset.UseSig}})
		if err != nil {
			return nil, nil, err
		}
		if content, err = json.Marshal(jwkset.JWKSMarshal{Keys: []jwkset.JWKMarshal{public.Marshal()}}); err != nil {
			return nil, nil, err
		}
		m.Key, flags = x509.MarshalPKCS1PrivateKey(private), []string{"--jwt-jwks-file=" + path}
	}
	return m, flags, os.WriteFile(path, content, 0o600)
}

// sign returns the token of a user, with the claims that identity providers usually set.
func (m *mint) sign(user uint64) (string, error) {
	if m.private == nil {
		m.private = m.Key
		if m.Method == rs256 {
			private, err := x509.ParsePKCS1PrivateKey(m.Key)
			if err != nil {
				return "", err
			}
			m.private = private
		}
	}
	token := jwt.NewWithClaims(jwt.GetSigningMethod(m.Method), jwt.MapClaims{"iss": tokenIssuer, "aud": tokenAudience, "exp": m.Until,
		"iat": m.Until - 3600, "sub": strconv.FormatUint(user, 10), "jti": "0b8f4a52-6f0e-4c55-9d7e-1f6f2f0f8f11", "scope": "openid profile"})
	token.Header["kid"] = "bench"
	return token.SignedString(m.private)
}

// sign signs the tokens of all senders before the load begins.
func (l load) sign(senders []*sender) error {
	each := l.Again
	if each == 0 {
		each = int((l.Warmup+l.Length).Seconds()*float64(perSecond[l.Tokens.Method]))/len(senders) + 1
	}
	if _, err := l.Tokens.sign(1); err != nil { // reads the key
		return err
	}
	var signing errgroup.Group
	signing.SetLimit(runtime.NumCPU())
	for _, s := range senders {
		signing.Go(func() error {
			for n := range each {
				token, err := l.Tokens.sign(s.first + uint64(n))
				if err != nil {
					return fmt.Errorf("sign a token: %w", err)
				}
				s.signed = append(s.signed, token)
			}
			return nil
		})
	}
	return signing.Wait()
}
