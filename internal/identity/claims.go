package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
)

// claims are the claims of a token, by their exact names, as they are written. A struct would take UID for uid, and a map of values
// would round numbers; decoding either takes twice as long.
type claims struct{ members []member }

type member struct {
	name  []byte
	value json.RawMessage
}

// of returns a claim, or nil. If a name comes twice, the last one counts, as for other readers of JSON.
func (c *claims) of(name string) (value json.RawMessage) {
	for _, m := range c.members {
		if string(m.name) == name {
			value = m.value
		}
	}
	return value
}

var errNoObject = errors.New("no JSON object")

// parseClaims splits a JSON object into its members.
func parseClaims(text []byte) (*claims, error) {
	text = text[blanks(text):]
	if !json.Valid(text) || text[0] != '{' {
		return nil, errNoObject
	}
	c := new(claims)
	c.members = make([]member, 0, 12)
	for at := 1; ; at++ { // behind { or a comma
		at += blanks(text[at:])
		if text[at] == '}' { // of an empty object
			return c, nil
		}
		end := at + length(text[at:])
		name, err := textOf(text[at:end])
		if err != nil {
			return nil, err
		}
		at = end + blanks(text[end:]) + 1 // behind the colon
		at += blanks(text[at:])
		end = at + length(text[at:])
		c.members = append(c.members, member{name, trimmed(text[at:end])})
		if at = end; text[at] == '}' {
			return c, nil
		}
	}
}

func isBlank(b byte) bool { return b == ' ' || b == '\t' || b == '\r' || b == '\n' }

func blanks(text []byte) (n int) {
	for n < len(text) && isBlank(text[n]) {
		n++
	}
	return n
}

// trimmed returns a value without the blanks behind it.
func trimmed(value []byte) []byte {
	for len(value) > 0 && isBlank(value[len(value)-1]) {
		value = value[:len(value)-1]
	}
	return value
}

// length returns the length of the valid value at the start of text, with the blanks behind it, up to the comma, colon or brace
// that follows.
func length(text []byte) int {
	depth, quoted := 0, false
	for n := 0; n < len(text); n++ {
		switch b := text[n]; {
		case quoted:
			if b == '\\' {
				n++
			} else if b == '"' {
				quoted = false
			}
		case b == '"':
			quoted = true
		case b == '{' || b == '[':
			depth++
		case depth == 0 && (b == ',' || b == ':' || b == '}' || b == ']'):
			return n
		case b == '}' || b == ']':
			depth--
		}
	}
	return len(text)
}

// textOf reads a text. The error says that value is another one.
func textOf(value json.RawMessage) ([]byte, error) {
	value = trimmed(value)
	if plain := len(value) >= 2 && value[0] == '"' && bytes.IndexByte(value, '\\') < 0 && utf8.Valid(value); plain {
		return value[1 : len(value)-1], nil
	}
	var text string
	err := json.Unmarshal(value, &text)
	return []byte(text), err
}

func stringOf(value json.RawMessage) (string, error) {
	text, err := textOf(value)
	return string(text), err
}

func (c *claims) GetIssuer() (string, error)  { return c.text("iss") }
func (c *claims) GetSubject() (string, error) { return c.text("sub") }

func (c *claims) text(name string) (string, error) {
	value := c.of(name)
	if value == nil {
		return "", nil
	}
	return stringOf(value)
}

func (c *claims) GetAudience() (jwt.ClaimStrings, error) {
	value := c.of("aud")
	if value == nil {
		return nil, nil
	}
	if value[0] == '"' {
		one, err := stringOf(value)
		return jwt.ClaimStrings{one}, err
	}
	var all jwt.ClaimStrings
	return all, json.Unmarshal(value, &all)
}

func (c *claims) GetExpirationTime() (*jwt.NumericDate, error) { return c.date("exp") }
func (c *claims) GetNotBefore() (*jwt.NumericDate, error)      { return c.date("nbf") }
func (c *claims) GetIssuedAt() (*jwt.NumericDate, error)       { return c.date("iat") }

// date reads seconds since 1970. Most tokens have whole seconds.
func (c *claims) date(name string) (*jwt.NumericDate, error) {
	value := c.of(name)
	if value == nil {
		return nil, nil
	}
	if seconds, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return &jwt.NumericDate{Time: time.Unix(seconds, 0)}, nil
	}
	date := new(jwt.NumericDate)
	return date, json.Unmarshal(value, date)
}

// user reads a user id: a text or a whole number, as a canonical decimal from 1 to 2^63-1. 0: it is none.
func (c *claims) user(name string) coupon.UserID {
	value := c.of(name)
	digits := string(value)
	if len(value) > 0 && value[0] == '"' {
		text, err := stringOf(value)
		if err != nil {
			return 0
		}
		digits = text
	}
	if id, ok := httpapi.ParseID[coupon.UserID](digits); ok && id <= math.MaxInt64 {
		return id
	}
	return 0
}

// serviceForm is the form of the name of a service: that of a service key.
var serviceForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// service returns the name of the service whose token has the scope redeem.
func (c *claims) service() string {
	if !hasScope(c.of("scope")) && !hasScope(c.of("scp")) {
		return ""
	}
	for _, claim := range []string{"client_id", "azp", "sub"} {
		if name, err := c.text(claim); err == nil && serviceForm.MatchString(name) {
			return name
		}
	}
	return ""
}

// hasScope reads scopes as a text with spaces, or as a list.
func hasScope(value json.RawMessage) bool {
	if !bytes.Contains(value, []byte(redeem)) {
		return false
	}
	var list []string
	if json.Unmarshal(value, &list) != nil {
		text, err := stringOf(value)
		if err != nil {
			return false
		}
		list = strings.Fields(text)
	}
	for _, one := range list {
		if one == redeem {
			return true
		}
	}
	return false
}
