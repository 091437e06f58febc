package receipt

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"math"
	"regexp"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/keysfile"
	"github.com/jajeong/jajeong/internal/text"
)

// minSecret is the length of an HMAC-SHA-256, in bytes. A shorter secret is weaker than the signature.
const minSecret = 32

// idForm is the form of a key id. No character needs escaping in JSON.
var idForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,32}$`)

// key is a line of RECEIPT_KEYS_FILE.
type key struct {
	id     string
	secret []byte
	until  int64  // receipts signed later are refused; s since 1970
	header string // encoded header of the tokens that this key signs, and the dot after it

	signers *sync.Pool // unused values of *signer
}

type signer struct {
	mac    hash.Hash
	buffer []byte
}

func newKey(id string, secret []byte, until int64) key {
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"`+id+`","typ":"JWT"}`)) + "."
	return key{id, secret, until, header,
		&sync.Pool{New: func() any { return &signer{mac: hmac.New(sha256.New, secret)} }}}
}

// Keys are the keys of receipts. They follow their file.
type Keys struct{ file *keysfile.File[key] }

// Load reads the keys of a program that signs receipts: it refuses a file whose first key has ended. An empty path
// means that there are no keys.
func Load(path string, now func() time.Time) (*Keys, error) {
	return load(path, func(content []byte) ([]key, error) {
		keys, err := parse(content)
		if err == nil && keys[0].until < now().Unix() {
			return nil, text.UsageErrorf(text.ReceiptKeyEnded, time.Unix(keys[0].until, 0).UTC().Format(time.RFC3339))
		}
		return keys, err
	})
}

// LoadToCheck reads the keys of a program that only checks receipts.
func LoadToCheck(path string) (*Keys, error) { return load(path, parse) }

func load(path string, parse func([]byte) ([]key, error)) (*Keys, error) {
	file, err := keysfile.Load(path, keysfile.Format[key]{
		Setting: "RECEIPT_KEYS_FILE", Parse: parse,
		Read: "receipt keys read", Failed: "receipt keys not read; the earlier keys stay in use",
	})
	return &Keys{file}, err
}

// Watch follows the file until ctx ends.
func (k *Keys) Watch(ctx context.Context, logger *zap.Logger) { k.file.Watch(ctx, logger) }

// parse reads lines `kid secret [until]`. Errors quote nothing but the number of the line, because secrets are not
// shown.
func parse(content []byte) (keys []key, err error) {
	lines := map[string]int{} // line number by key id
	for number, fields := range keysfile.Lines(content) {
		key, ok := parseLine(fields)
		if !ok {
			return nil, text.UsageErrorf(text.WrongReceiptKey, number, minSecret)
		}
		if earlier := lines[key.id]; earlier > 0 {
			return nil, text.UsageErrorf(text.ReceiptKeyTwice, earlier, number)
		}
		lines[key.id] = number
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, text.UsageErrorf(text.NoReceiptKey)
	}
	return keys, nil
}

func parseLine(fields []string) (key, bool) {
	if len(fields) < 2 || len(fields) > 3 || !idForm.MatchString(fields[0]) {
		return key{}, false
	}
	secret, err := decodeSecret(fields[1])
	if err != nil || len(secret) < minSecret {
		return key{}, false
	}
	until := int64(math.MaxInt64)
	if len(fields) == 3 {
		end, err := time.Parse(time.RFC3339, fields[2])
		if err != nil {
			return key{}, false
		}
		until = end.Unix()
	}
	return newKey(fields[0], secret, until), true
}

// decodeSecret reads base64 of both alphabets, with or without padding.
func decodeSecret(encoded string) ([]byte, error) {
	standard := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(encoded, "="))
	return base64.RawStdEncoding.Strict().DecodeString(standard)
}
