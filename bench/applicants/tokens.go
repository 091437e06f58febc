package applicants

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
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
	HS256 = "HS256"
	RS256 = "RS256"
)

const (
	issuer   = "https://login.example.com/"
	audience = "coupons"
	keyID    = "bench"
)

// Mint signs tokens. The applicants get it from the bench.
type Mint struct {
	Method string
	Key    []byte // a secret, or a private key in PKCS #1
	Until  int64  // exp of the tokens
	N      int    // tokens that are signed before the load begins; without Again, one is for one application
}

// NewMint makes a key, and returns the flags by which apply-api knows it.
func NewMint(dir, method string, n int) (m *Mint, flags []string, err error) {
	m = &Mint{Method: method, Until: time.Now().Add(time.Hour).Unix(), N: n}
	path := filepath.Join(dir, "keys-"+method)
	flags = []string{"--identity=jwt", "--jwt-issuer=" + issuer, "--jwt-audience=" + audience, "--jwt-user-claim=sub"}
	if method == HS256 {
		m.Key = make([]byte, 32)
		_, _ = rand.Read(m.Key) // never fails
		content := "base64:" + base64.StdEncoding.EncodeToString(m.Key)
		return m, append(flags, "--jwt-secret-file="+path), os.WriteFile(path, []byte(content), 0o600)
	}
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, nil, err
	}
	about := jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: keyID, USE: jwkset.UseSig}}
	public, err := jwkset.NewJWKFromKey(&private.PublicKey, about)
	if err != nil {
		return nil, nil, err
	}
	content, err := json.Marshal(jwkset.JWKSMarshal{Keys: []jwkset.JWKMarshal{public.Marshal()}})
	if err != nil {
		return nil, nil, err
	}
	m.Key = x509.MarshalPKCS1PrivateKey(private)
	return m, append(flags, "--jwt-jwks-file="+path), os.WriteFile(path, content, 0o600)
}

// Sign returns the tokens of n users from first on, with the claims that identity providers usually set.
func (m *Mint) Sign(first uint64, n int) ([]string, error) {
	var key any = m.Key
	if m.Method == RS256 {
		private, err := x509.ParsePKCS1PrivateKey(m.Key)
		if err != nil {
			return nil, err
		}
		key = private
	}
	all := make([]string, n)
	var signing errgroup.Group
	for worker := range runtime.NumCPU() {
		signing.Go(func() (err error) {
			for i := worker; i < n && err == nil; i += runtime.NumCPU() {
				token := jwt.NewWithClaims(jwt.GetSigningMethod(m.Method), jwt.MapClaims{
					"iss": issuer, "aud": audience, "exp": m.Until, "iat": m.Until - 3600,
					"sub": strconv.FormatUint(first+uint64(i), 10),
					"jti": "0b8f4a52-6f0e-4c55-9d7e-1f6f2f0f8f11", "scope": "openid profile",
				})
				token.Header["kid"] = keyID
				all[i], err = token.SignedString(key)
			}
			return err
		})
	}
	return all, signing.Wait()
}

func (l Load) sign() ([]string, error) {
	switch {
	case l.Tokens == nil:
		return nil, nil
	case l.Again > 0:
		return l.Tokens.Sign(l.First, l.Again*l.Connections)
	default:
		return l.Tokens.Sign(l.First, l.Tokens.N)
	}
}
