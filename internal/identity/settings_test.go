package identity

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func written(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestSettings_Wrong(t *testing.T) {
	t.Parallel()
	good := func(change func(s *Settings)) Settings {
		s := Settings{Identity: "jwt", JWKSURL: "https://login.example.com/keys", Issuer: issuer, Audience: audience,
			UserClaim: "uid"}
		change(&s)
		return s
	}
	for problem, s := range map[string]Settings{
		`TRUSTED_PROXIES has "gateway"`:     {Identity: "header", TrustedProxies: []string{"gateway"}},
		`TRUSTED_PROXIES has "10.0.0.0/33"`: {Identity: "header", TrustedProxies: []string{"10.0.0.0/33"}},
		`TRUSTED_PROXIES has "10.0.0.1/8"`:  {Identity: "header", TrustedProxies: []string{"10.0.0.1/8"}},
		`JWT_ISSUER is set, but IDENTITY`:   {Identity: "header", Issuer: issuer},
		"needs one of JWT_SECRET_FILE":      good(func(s *Settings) { s.JWKSURL = "" }),
		"and only one": good(
			func(s *Settings) { s.SecretFile = written(t, strings.Repeat("s", 32)) }),
		"needs JWT_ISSUER":                   good(func(s *Settings) { s.Issuer = "" }),
		"needs JWT_AUDIENCE":                 good(func(s *Settings) { s.Audience = "" }),
		"needs JWT_USER_CLAIM":               good(func(s *Settings) { s.UserClaim = "" }),
		"JWT_JWKS_URL is not an address":     good(func(s *Settings) { s.JWKSURL = "login.example.com" }),
		"without a user name":                good(func(s *Settings) { s.JWKSURL = "file:///keys" }),
		`TRUSTED_PROXIES has "fe80::1%eth0"`: {Identity: "header", TrustedProxies: []string{"fe80::1%eth0"}},
		"JWT_SECRET_FILE: line 2 is wrong": good(func(s *Settings) {
			s.JWKSURL, s.SecretFile = "",
				written(t, "# old\nshort")
		}),
		"JWT_SECRET_FILE: line 1 is wrong": good(func(s *Settings) {
			s.JWKSURL, s.SecretFile = "",
				written(t, "base64:AAAA")
		}),
		"JWT_SECRET_FILE has 0 secrets": good(func(s *Settings) {
			s.JWKSURL, s.SecretFile = "",
				written(t, "\n")
		}),
		"JWT_SECRET_FILE cannot be read": good(func(s *Settings) { s.JWKSURL, s.SecretFile = "", "/nowhere" }),
		"JWT_JWKS_FILE is wrong: the JSON Web Key Set has 0 usable keys of 1": good(func(s *Settings) {
			s.JWKSURL,
				s.JWKSFile = "", written(t, `{"keys":[{"kty":"oct"}]}`)
		}),
		"JWT_JWKS_FILE is wrong: not a JSON Web Key Set": good(func(s *Settings) {
			s.JWKSURL,
				s.JWKSFile = "", written(t, "-----BEGIN PUBLIC KEY-----")
		}),
	} {
		require.ErrorContains(t, s.Validate(), problem)
	}
	secret := good(func(s *Settings) { s.JWKSURL, s.SecretFile = "", written(t, "secretsecret") })
	require.NotContains(t, secret.Validate().Error(), "secretsecret")
	for _, address := range []string{"https://user:secretsecret@login.example.com/keys",
		"https://user:secretsecret%zz@login.example.com/keys"} {
		secret = good(func(s *Settings) { s.JWKSURL = address })
		require.ErrorContains(t, secret.Validate(), "JWT_JWKS_URL is not an address")
		require.NotContains(t, secret.Validate().Error(), "secretsecret")
	}
}

func TestSettings_Open(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.WarnLevel)
	for _, network := range []string{"0.0.0.0/0", "::/0", "128.0.0.0/1"} {
		wide := Settings{Identity: "header", TrustedProxies: []string{"10.0.0.0/8", network}}
		require.NoError(t, wide.Validate())
		wide.Open(zap.New(core), time.Now)
		require.Len(t, logs.TakeAll(), 1, network)
	}
	header := Settings{Identity: "header", TrustedProxies: []string{"192.0.2.1", "10.0.0.0/8", "fc00::/7"}}
	require.NoError(t, header.Validate())
	users := header.Open(zap.New(core), time.Now)
	require.Empty(t, logs.All())
	require.NoError(t, users.Ready())
	user, refused := users.User(request("192.0.2.1:1", "X-User-ID", "7"))
	require.Nil(t, refused)
	require.EqualValues(t, 7, user)
	_, refused = users.User(request("192.0.2.2:1", "X-User-ID", "7"))
	require.NotNil(t, refused)

	binary := []byte(strings.Repeat("\x00\xff", 16))
	secrets := Settings{Identity: "jwt", SecretFile: written(t,
		"# of the gateway\n"+strings.Repeat("s", 32)+"\nbase64:"+base64.StdEncoding.EncodeToString(binary)+"\n"),
		Issuer: issuer, Audience: audience, UserClaim: "uid"}
	public := Settings{Identity: "jwt", JWKSFile: written(t, jwks(t, signers().ec)), Issuer: issuer, Audience: audience,
		UserClaim: "uid"}
	for _, c := range []struct {
		settings *Settings
		by       signer
		good     bool
	}{
		{&secrets, signer{"", jwt.SigningMethodHS256, []byte(strings.Repeat("s", 32)), nil}, true},
		{&secrets, signer{"", jwt.SigningMethodHS256, binary, nil}, true},
		{&secrets, signers().ec, false},
		{&public, signers().ec, true},
		{&public, signers().ed, false},
		{&public, signer{"", jwt.SigningMethodHS256, []byte(strings.Repeat("s", 32)), nil}, false},
	} {
		require.NoError(t, c.settings.Validate())
		users := c.settings.Open(zap.NewNop(), time.Now)
		require.NoError(t, users.Ready())
		_, refused := users.User(bearing(c.by.sign(t, time.Now(), nil)))
		require.Equal(t, c.good, refused == nil)
	}

	remote := Settings{Identity: "jwt", JWKSURL: "https://login.example.com/keys", Issuer: issuer, Audience: audience,
		UserClaim: "uid"}
	require.NoError(t, remote.Validate())
	require.ErrorContains(t, remote.Open(zap.NewNop(), time.Now).Ready(), "being fetched")
}
