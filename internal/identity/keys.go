package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"

	"github.com/jajeong/jajeong/internal/keysfile"
	"github.com/jajeong/jajeong/internal/text"
)

// key is a key that tokens are signed by. It belongs to one algorithm: a public key is never taken for a secret.
type key struct {
	id       string // kid; empty for a secret
	method   string // alg
	verifier any    // []byte, *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
}

// The algorithms of keys from a JWKS, and of secrets.
var (
	publicMethods = []string{jwt.SigningMethodRS256.Alg(), jwt.SigningMethodES256.Alg(), jwt.SigningMethodEdDSA.Alg()}
	secretMethods = []string{jwt.SigningMethodHS256.Alg()}
)

const (
	minSecret  = 32   // bytes: a shorter secret is weaker than the signature
	minRSA     = 2048 // bits
	maxKeys    = 100  // keys of a JWKS
	maxSecrets = 4    // each token is compared with all of them
)

// parseSecrets reads secrets, one in a line: as it is, or as base64:… for bytes that are no text. Errors do not quote
// the content.
func parseSecrets(content []byte) (all []key, err error) {
	for number, fields := range keysfile.Lines(content) {
		secret := []byte(fields[0])
		if encoded, is := strings.CutPrefix(fields[0], "base64:"); is {
			if secret, err = base64.StdEncoding.DecodeString(encoded); err != nil {
				secret = nil
			}
		}
		if len(fields) != 1 || len(secret) < minSecret {
			return nil, text.UsageErrorf(text.WrongTokenSecret, number, minSecret)
		}
		all = append(all, key{method: secretMethods[0], verifier: secret})
	}
	if len(all) == 0 || len(all) > maxSecrets {
		return nil, text.UsageErrorf(text.TokenSecretCount, len(all), maxSecrets)
	}
	return all, nil
}

// parseJWKS reads a JSON Web Key Set. Members that can sign no token that is accepted are left out, such as keys for
// encryption and what is no key. A set without any other is an error.
func parseJWKS(content []byte) (all []key, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(content, &set); err != nil {
		return nil, text.UsageErrorf(text.WrongJWKS, err)
	}
	for _, member := range set.Keys {
		var one jwkset.JWKMarshal
		if json.Unmarshal(member, &one) != nil {
			continue
		}
		if k, ok := parseKey(one); ok {
			all = append(all, k)
		}
	}
	if len(all) == 0 || len(all) > maxKeys {
		return nil, text.UsageErrorf(text.JWKSKeyCount, len(all), len(set.Keys), maxKeys)
	}
	return all, nil
}

// parseJWKSFile is parseJWKS with errors that name the setting.
func parseJWKSFile(content []byte) ([]key, error) {
	all, err := parseJWKS(content)
	if err != nil {
		return nil, text.UsageErrorf(text.WrongJWKSFile, err)
	}
	return all, nil
}

func parseKey(one jwkset.JWKMarshal) (k key, ok bool) {
	if one.USE != "" && one.USE != jwkset.UseSig || len(one.KEYOPS) > 0 &&
		!slices.Contains(one.KEYOPS, jwkset.KeyOpsVerify) {
		return key{}, false
	}
	// Certificates are not used, and nothing is fetched from an address in a key.
	one.X5U, one.X5C, one.X5T, one.X5TS256 = "", nil, "", ""
	parsed, err := jwkset.NewJWKFromMarshal(one, jwkset.JWKMarshalOptions{},
		jwkset.JWKValidateOptions{SkipUse: true, SkipKeyOps: true})
	if err != nil {
		return key{}, false
	}
	k = key{id: one.KID, verifier: parsed.Key()}
	switch is := k.verifier.(type) {
	case *rsa.PublicKey:
		k.method, ok = jwt.SigningMethodRS256.Alg(), is.N.BitLen() >= minRSA
	case *ecdsa.PublicKey:
		k.method, ok = jwt.SigningMethodES256.Alg(), is.Curve == elliptic.P256()
	case ed25519.PublicKey:
		k.method, ok = jwt.SigningMethodEdDSA.Alg(), true
	}
	return k, ok && (one.ALG == "" || string(one.ALG) == k.method)
}

// fileKeys are keys of a file.
type fileKeys struct{ *keysfile.File[key] }

// Seek does nothing: the file is read every few seconds.
func (fileKeys) Seek() {}
