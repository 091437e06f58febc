package adminapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"regexp"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/keysfile"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
)

// key is a line of ADMIN_KEYS_FILE.
type key struct {
	name    string
	role    signin.Role
	hash    [sha256.Size]byte
	expires time.Time // exclusive; zero: never
}

// caller is who a key stands for.
func (k key) caller() signin.Person {
	name := audit.KeyActor + k.name
	return signin.Person{Name: name, Roles: []signin.Role{k.role}, SignIn: name}
}

// nameForm is the form of a key's name.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// parseKeys reads lines `name role sha256 [expires]`. Errors do not quote the content, because somebody may have
// written the key itself.
func parseKeys(content []byte) (keys []key, err error) {
	lines := map[[sha256.Size]byte]int{} // line number by hash
	roles := map[string]signin.Role{}    // by name
	for number, fields := range keysfile.Lines(content) {
		k, ok := parseKey(fields)
		if !ok {
			return nil, text.UsageErrorf(text.WrongAdminKeyLine, number)
		}
		if earlier := lines[k.hash]; earlier > 0 {
			return nil, text.UsageErrorf(text.AdminKeyTwice, earlier, number)
		}
		if role := roles[k.name]; role != "" && role != k.role {
			return nil, text.UsageErrorf(text.AdminKeyOfTwoRoles, number)
		}
		lines[k.hash], roles[k.name] = number, k.role
		keys = append(keys, k)
	}
	return keys, nil
}

func parseKey(fields []string) (k key, ok bool) {
	if len(fields) < 3 || len(fields) > 4 || !nameForm.MatchString(fields[0]) || !signin.IsRole(fields[1]) ||
		len(fields[2]) != hex.EncodedLen(len(k.hash)) {
		return k, false
	}
	k.name, k.role = fields[0], signin.Role(fields[1])
	if _, err := hex.Decode(k.hash[:], []byte(fields[2])); err != nil {
		return k, false
	}
	if len(fields) == 4 {
		var err error
		if k.expires, err = time.Parse(time.RFC3339, fields[3]); err != nil {
			return k, false
		}
	}
	return k, true
}

// Keys are the keys of programs. They follow their file.
type Keys struct{ file *keysfile.File[key] }

// LoadKeys reads the file.
func LoadKeys(path string) (*Keys, error) {
	file, err := keysfile.Load(path, keysfile.Format[key]{
		Setting: "ADMIN_KEYS_FILE", Parse: parseKeys,
		Read: "management keys read", Failed: "management keys not read; the earlier keys stay in use",
	})
	return &Keys{file}, err
}

// Watch follows the file until ctx ends.
func (k *Keys) Watch(ctx context.Context, logger *zap.Logger) { k.file.Watch(ctx, logger) }

// callerOf returns who has sent a request. It compares all hashes, so that its duration tells nothing.
func (k *Keys) callerOf(r *http.Request, now time.Time) (caller signin.Person, known bool) {
	sent := r.Header["Authorization"]
	if len(sent) != 1 {
		return caller, false
	}
	scheme, secret, _ := strings.Cut(sent[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return caller, false
	}
	hash := sha256.Sum256([]byte(secret))
	for _, one := range k.file.Keys() {
		if subtle.ConstantTimeCompare(one.hash[:], hash[:]) == 1 &&
			(one.expires.IsZero() || now.Before(one.expires)) {
			caller, known = one.caller(), true
		}
	}
	return caller, known
}
