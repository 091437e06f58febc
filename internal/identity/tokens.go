package identity

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/jajeong/jajeong/internal/coupon"
)

const (
	// leeway is how far the clocks of this server and of the issuer may differ.
	leeway = 30 * time.Second
	// maxToken is in bytes. Tokens with many groups have a few thousand.
	maxToken = 8 << 10
	// maxKnown bounds the tokens that are remembered: about 20 MB.
	maxKnown = 100_000
	// maxHeaders bounds the headers that are remembered: one for each key, and for each spelling of its issuers.
	maxHeaders = 100
	// redeem is the scope that opens the calls of a checkout.
	redeem = "redeem"
)

// sender is who sends a token.
type sender struct {
	user    coupon.UserID // 0: the token has no user id
	service string        // empty: the token has no scope redeem, or no usable name
}

// tokens verifies tokens.
type tokens struct {
	keys      keys
	methods   []string // names of the algorithms that are accepted
	validator *jwt.Validator
	claim     string
	now       func() time.Time
	known     *lru.Cache[[sha256.Size]byte, verified]
	headers   *lru.Cache[string, tokenHeader] // headers of verified tokens; all tokens of a key have the same one
}

// verified is a token that was verified.
type verified struct {
	sender
	until time.Time
	by    *key // the first key of those in use at that time; it identifies them all
}

// keys are where the keys come from.
type keys interface {
	// Keys returns the keys in use. While they do not change, it returns the same slice.
	Keys() []key
	// Seek is called when a token has an unknown key.
	Seek()
}

func newTokens(from keys, methods []string, issuer, audience, claim string, now func() time.Time) *tokens {
	known, _ := lru.New[[sha256.Size]byte, verified](maxKnown) // fails only for a size below 1
	headers, _ := lru.New[string, tokenHeader](maxHeaders)
	return &tokens{keys: from, methods: methods, claim: claim, now: now, known: known, headers: headers,
		validator: jwt.NewValidator(jwt.WithIssuer(issuer), jwt.WithAudience(audience), jwt.WithExpirationRequired(),
			jwt.WithLeeway(leeway), jwt.WithTimeFunc(now))}
}

// of returns the sender of a request.
func (t *tokens) of(r *http.Request) (sender, reason) {
	given := r.Header["Authorization"]
	if len(given) == 0 {
		return sender{}, noToken
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	switch {
	case len(given) > 1:
		return sender{}, malformed
	case !strings.EqualFold(scheme, "Bearer") || token == "":
		return sender{}, noToken
	case len(token) > maxToken:
		return sender{}, malformed
	}
	return t.verify(token)
}

func (t *tokens) verify(token string) (sender, reason) {
	all := t.keys.Keys()
	if len(all) == 0 {
		return sender{}, unknownKey
	}
	var sum [sha256.Size]byte
	remembered := all[0].method != secretMethods[0] // an HMAC is checked as fast as it is remembered
	if remembered {
		sum = sha256.Sum256([]byte(token))
		if found, ok := t.known.Get(sum); ok && found.by == &all[0] && t.now().Before(found.until) {
			return found.sender, accepted
		}
	}
	signed, why := t.checkSignature(all, token)
	if why == unknownKey {
		t.keys.Seek()
	}
	if why != accepted {
		return sender{}, why
	}
	said, err := parseClaims(signed)
	if err != nil {
		return sender{}, malformed
	}
	if err := t.validator.Validate(said); err != nil {
		return sender{}, reasonOf(err)
	}
	who := sender{user: said.user(t.claim), service: said.service()}
	if remembered {
		t.known.Add(sum, verified{who, said.ExpiresAt.Add(leeway), &all[0]})
	}
	return who, accepted
}

// tokenHeader is the header of a token.
type tokenHeader struct {
	method jwt.SigningMethod
	named  bool // it has a key id
	id     string
}

// checkSignature returns the claims of a token, in JSON, if a key has signed them.
func (t *tokens) checkSignature(all []key, token string) (signed []byte, why reason) {
	first, rest, _ := strings.Cut(token, ".")
	second, third, found := strings.Cut(rest, ".")
	if !found || strings.Contains(third, ".") {
		return nil, malformed
	}
	header, known := t.headers.Get(first)
	if !known {
		if header, why = t.parseHeader(first); why != accepted {
			return nil, why
		}
	}
	signature, err := base64.RawURLEncoding.Strict().DecodeString(third)
	if err != nil {
		return nil, malformed
	}
	why = unknownKey
	for _, k := range all {
		if !k.mayHaveSigned(header, len(all)) {
			continue
		}
		why = wrongSign
		if header.method.Verify(token[:len(first)+1+len(second)], signature, k.verifier) == nil {
			why = accepted
			break
		}
	}
	if why != accepted {
		return nil, why
	}
	if !known {
		t.headers.Add(strings.Clone(first), header)
	}
	if signed, err = base64.RawURLEncoding.Strict().DecodeString(second); err != nil {
		return nil, malformed
	}
	return signed, accepted
}

// mayHaveSigned reports whether a token with this header is to be compared with the key. Secrets have no id. A token
// without a key id is good if there is one key.
func (k key) mayHaveSigned(h tokenHeader, keys int) bool {
	if k.method != h.method.Alg() {
		return false
	}
	return k.method == secretMethods[0] || h.named && k.id == h.id || !h.named && keys == 1
}

func (t *tokens) parseHeader(encoded string) (h tokenHeader, why reason) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return h, malformed
	}
	said, err := members(text)
	if err != nil || said["crit"] != nil { // crit names extensions that must be understood
		return h, malformed
	}
	var method string
	if json.Unmarshal(said["alg"], &method) != nil || method == "" {
		return h, malformed
	}
	if !slices.Contains(t.methods, method) {
		return h, wrongMethod
	}
	h.method, h.named = jwt.GetSigningMethod(method), said["kid"] != nil
	if h.named && json.Unmarshal(said["kid"], &h.id) != nil {
		return h, malformed
	}
	return h, accepted
}

// reasonOf names the first thing that is wrong with the claims of a token.
func reasonOf(err error) reason {
	for _, one := range []struct {
		is  error
		why reason
	}{
		{jwt.ErrTokenExpired, expired}, {jwt.ErrTokenNotValidYet, early}, {jwt.ErrTokenInvalidIssuer, wrongIssuer},
		{jwt.ErrTokenInvalidAudience, wrongAudience},
	} {
		if errors.Is(err, one.is) {
			return one.why
		}
	}
	return malformed
}
