package identity

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
)

const (
	// leeway is how far the clocks of this server and of the issuer may differ.
	leeway = 30 * time.Second
	// maxToken is in bytes. Tokens with many groups have a few thousand.
	maxToken = 8 << 10
	// maxKnown bounds the tokens that are remembered: about 20 MB.
	maxKnown = 100_000
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
	keys    keys
	parser  *jwt.Parser
	methods []string
	claim   string
	now     func() time.Time
	known   *lru.Cache[[sha256.Size]byte, verified]
}

// verified is a token that was verified.
type verified struct {
	sender
	until time.Time
	by    *key // first of the keys in use at that time, which stand for all of them
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
	return &tokens{keys: from, methods: methods, claim: claim, now: now, known: known,
		parser: jwt.NewParser(jwt.WithValidMethods(methods), jwt.WithIssuer(issuer), jwt.WithAudience(audience), jwt.WithExpirationRequired(),
			jwt.WithLeeway(leeway), jwt.WithTimeFunc(now), jwt.WithJSONNumber(), jwt.WithStrictDecoding())}
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
	sum := sha256.Sum256([]byte(token))
	if found, ok := t.known.Get(sum); ok && found.by == &all[0] && t.now().Before(found.until) {
		return found.sender, accepted
	}
	claims := jwt.MapClaims{}
	if _, err := t.parser.ParseWithClaims(token, claims, func(parsed *jwt.Token) (any, error) { return keyOf(all, parsed) }); err != nil {
		if errors.Is(err, errUnknownKey) {
			t.keys.Seek()
		}
		return sender{}, t.reasonOf(err, token)
	}
	who := sender{user: userOf(claims[t.claim]), service: serviceOf(claims)}
	if until, err := claims.GetExpirationTime(); err == nil && until != nil {
		t.known.Add(sum, verified{who, until.Add(leeway), &all[0]})
	}
	return who, accepted
}

var (
	errUnknownKey = errors.New("the key is not known")
	errCritical   = errors.New("the token has extensions that must be understood")
)

// keyOf returns the key, or the keys, by which a token must be signed.
func keyOf(all []key, t *jwt.Token) (any, error) {
	if _, ok := t.Header["crit"]; ok {
		return nil, errCritical
	}
	if all[0].method == jwt.SigningMethodHS256.Alg() { // each may have signed it: secrets have no id
		set := jwt.VerificationKeySet{}
		for _, k := range all {
			set.Keys = append(set.Keys, k.verifier)
		}
		return set, nil
	}
	id, named := t.Header["kid"].(string)
	for _, k := range all {
		if k.method == t.Method.Alg() && (named && k.id == id || !named && len(all) == 1) {
			return k.verifier, nil
		}
	}
	return nil, errUnknownKey
}

// reasonOf names the first thing that is wrong with a token.
func (t *tokens) reasonOf(err error, token string) reason {
	for _, one := range []struct {
		is  error
		why reason
	}{
		{jwt.ErrTokenMalformed, malformed}, {errCritical, malformed}, {errUnknownKey, unknownKey}, {jwt.ErrTokenSignatureInvalid, wrongSign},
		{jwt.ErrTokenExpired, expired}, {jwt.ErrTokenNotValidYet, early}, {jwt.ErrTokenInvalidIssuer, wrongIssuer},
		{jwt.ErrTokenInvalidAudience, wrongAudience},
	} {
		if !errors.Is(err, one.is) {
			continue
		}
		if one.why == wrongSign && !t.acceptsMethodOf(token) {
			return wrongMethod
		}
		return one.why
	}
	return malformed
}

// acceptsMethodOf reports whether the algorithm of a token is accepted: the error of the parser is that of a wrong signature.
func (t *tokens) acceptsMethodOf(token string) bool {
	parsed, _, err := t.parser.ParseUnverified(token, jwt.MapClaims{})
	if err != nil {
		return false
	}
	for _, method := range t.methods {
		if parsed.Method.Alg() == method {
			return true
		}
	}
	return false
}

// userOf reads a user id: a string or a whole number, as a canonical decimal from 1 to 2^63-1.
func userOf(claim any) coupon.UserID {
	var digits string
	switch is := claim.(type) {
	case string:
		digits = is
	case json.Number:
		digits = is.String()
	}
	if id, ok := httpapi.ParseID[coupon.UserID](digits); ok && id <= math.MaxInt64 {
		return id
	}
	return 0
}

// serviceForm is the form of the name of a service: that of a service key.
var serviceForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// serviceOf returns the name of the service whose token has the scope redeem.
func serviceOf(claims jwt.MapClaims) string {
	if !hasScope(claims["scope"]) && !hasScope(claims["scp"]) {
		return ""
	}
	for _, claim := range []string{"client_id", "azp", "sub"} {
		if name, ok := claims[claim].(string); ok && serviceForm.MatchString(name) {
			return name
		}
	}
	return ""
}

// hasScope reads scopes as a text with spaces, or as a list.
func hasScope(claim any) bool {
	switch is := claim.(type) {
	case string:
		for one := range strings.FieldsSeq(is) {
			if one == redeem {
				return true
			}
		}
	case []any:
		for _, one := range is {
			if one == redeem {
				return true
			}
		}
	}
	return false
}
