package receipt

import (
	"errors"
	"regexp"

	"github.com/golang-jwt/jwt/v5"

	"github.com/jajeong/jajeong/internal/text"
)

// claims are a Receipt for the library. They have no registered claim but iat, which the keys limit.
type claims struct {
	Receipt
	jwt.RegisteredClaims `json:"-"`
}

var (
	parser = jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
		jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation())

	// tokenForm is header, claims and a whole signature. It keeps line breaks out, which the decoder of base64 would
	// skip.
	tokenForm = regexp.MustCompile(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{43}$`)
)

var (
	errNoKeyID    = errors.New("no key id")
	errForeignKey = errors.New("unknown key id")
)

// Check returns the claims of a receipt. Anything else is a *text.UsageError: text.ReceiptMalformed, ReceiptForeignKey,
// ReceiptForged or ReceiptExpiredKey. No error quotes the token.
func (k *Keys) Check(token string) (Receipt, error) {
	if len(token) > MaxToken || !tokenForm.MatchString(token) {
		return Receipt{}, text.UsageErrorf(text.ReceiptMalformed)
	}
	var c claims
	var by *key
	id := ""
	_, err := parser.ParseWithClaims(token, &c, func(t *jwt.Token) (any, error) {
		if id, _ = t.Header["kid"].(string); !idForm.MatchString(id) {
			return nil, errNoKeyID
		}
		if by = k.find(id); by == nil {
			return nil, errForeignKey
		}
		return by.secret, nil
	})
	switch {
	case errors.Is(err, errForeignKey):
		return Receipt{}, text.UsageErrorf(text.ReceiptForeignKey, id)
	case by != nil && errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return Receipt{}, text.UsageErrorf(text.ReceiptForged)
	case err != nil, !c.valid():
		return Receipt{}, text.UsageErrorf(text.ReceiptMalformed)
	case c.SignedAt > by.until:
		return Receipt{}, text.UsageErrorf(text.ReceiptExpiredKey, id)
	default:
		return c.Receipt, nil
	}
}

func (k *Keys) find(id string) *key {
	keys := k.file.Keys()
	for i := range keys {
		if keys[i].id == id {
			return &keys[i]
		}
	}
	return nil
}
