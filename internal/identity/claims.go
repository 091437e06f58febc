package identity

import (
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
)

var (
	errNoObject = errors.New("no JSON object")
	errTwice    = errors.New("a name comes twice")
)

// members returns the members of a JSON object by their exact names: decoding into a struct would take UID for uid.
// A name that comes twice is refused, because other readers may take the other value.
func members(text []byte) (all map[string]json.RawMessage, err error) {
	if json.Unmarshal(text, &all) != nil || all == nil {
		return nil, errNoObject
	}
	if len(all) != names(text) {
		return nil, errTwice
	}
	return all, nil
}

// names counts the names in a valid JSON object: each is before a colon that is neither in a text nor in a member.
func names(object []byte) (count int) {
	depth, quoted := 0, false
	for i := 0; i < len(object); i++ {
		switch b := object[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{' || b == '[':
			depth++
		case b == '}' || b == ']':
			depth--
		case b == ':' && depth == 1:
			count++
		}
	}
	return count
}

// claims are the claims of a token. Those that the validator checks are typed; any other is decoded when it is used.
type claims struct {
	jwt.RegisteredClaims // iat, sub and jti are not set
	all                  map[string]json.RawMessage
}

func parseClaims(text []byte) (*claims, error) {
	all, err := members(text)
	if err != nil {
		return nil, err
	}
	c := &claims{all: all}
	for _, claim := range []struct {
		name string
		into any
	}{{"iss", &c.Issuer}, {"aud", &c.Audience}, {"exp", &c.ExpiresAt}, {"nbf", &c.NotBefore}} {
		if value := all[claim.name]; value != nil {
			if err := json.Unmarshal(value, claim.into); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// user reads a user id: a text or a whole number, as a canonical decimal from 1 to 2^63-1. 0: it is none. A number is
// read by its digits, because floating point would round it.
func (c *claims) user(name string) coupon.UserID {
	var digits json.Number
	if json.Unmarshal(c.all[name], &digits) != nil {
		return 0
	}
	if id, ok := httpapi.ParseID[coupon.UserID](digits.String()); ok && id <= math.MaxInt64 {
		return id
	}
	return 0
}

// serviceForm is the form of the name of a service: that of a service key.
var serviceForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// service returns the name of the service whose token has the scope redeem.
func (c *claims) service() string {
	if !hasScope(c.all["scope"]) && !hasScope(c.all["scp"]) {
		return ""
	}
	for _, claim := range []string{"client_id", "azp", "sub"} {
		var name string
		if json.Unmarshal(c.all[claim], &name) == nil && serviceForm.MatchString(name) {
			return name
		}
	}
	return ""
}

// hasScope reads scopes as a text with spaces, or as a list.
func hasScope(value json.RawMessage) bool {
	if value == nil {
		return false
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return slices.Contains(strings.Fields(text), redeem)
	}
	var list []string
	return json.Unmarshal(value, &list) == nil && slices.Contains(list, redeem)
}
