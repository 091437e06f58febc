package walletapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/keysfile"
	"github.com/jajeong/jajeong/internal/text"
)

// serviceKey is a line of SERVICE_KEYS_FILE.
type serviceKey struct {
	name string
	hash [sha256.Size]byte
}

// nameForm is the form of a service's name.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// parseKeys reads lines `name sha256`. Errors do not quote the content, because somebody may have written the key
// itself.
func parseKeys(content []byte) (keys []serviceKey, err error) {
	lines := map[[sha256.Size]byte]int{} // line number by hash
	for number, fields := range keysfile.Lines(content) {
		key := serviceKey{name: fields[0]}
		if len(fields) != 2 || !nameForm.MatchString(key.name) || audit.NamesProgram(key.name) ||
			len(fields[1]) != hex.EncodedLen(len(key.hash)) {
			return nil, text.UsageErrorf(text.WrongKeyLine, number)
		}
		if _, err := hex.Decode(key.hash[:], []byte(fields[1])); err != nil {
			return nil, text.UsageErrorf(text.WrongKeyLine, number)
		}
		if earlier := lines[key.hash]; earlier > 0 {
			return nil, text.UsageErrorf(text.KeyTwice, earlier, number)
		}
		lines[key.hash] = number
		keys = append(keys, key)
	}
	return keys, nil
}

// ServiceKeys are the keys by which checkout services identify themselves. They follow their file.
type ServiceKeys struct{ file *keysfile.File[serviceKey] }

// LoadKeys reads the file. An empty path means that there are no keys.
func LoadKeys(path string) (*ServiceKeys, error) {
	file, err := keysfile.Load(path, keysfile.Format[serviceKey]{
		Setting: "SERVICE_KEYS_FILE", Parse: parseKeys,
		Read: "service keys read", Failed: "service keys not read; the earlier keys stay in use",
	})
	return &ServiceKeys{file}, err
}

// Watch follows the file until ctx ends.
func (k *ServiceKeys) Watch(ctx context.Context, logger *zap.Logger) { k.file.Watch(ctx, logger) }

func (k *ServiceKeys) empty() bool { return len(k.file.Keys()) == 0 }

// nameOf returns the name of a key. It compares all hashes, so that its duration tells nothing.
func (k *ServiceKeys) nameOf(key string) (name string, known bool) {
	hash := sha256.Sum256([]byte(key))
	for _, one := range k.file.Keys() {
		if subtle.ConstantTimeCompare(one.hash[:], hash[:]) == 1 {
			name, known = one.name, true
		}
	}
	return name, known
}

func (k *ServiceKeys) metrics() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "jajeong_wallet_service_keys", Help: "Service keys in use; without any, checkout calls get 503.",
		}, func() float64 { return float64(len(k.file.Keys())) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "jajeong_wallet_service_keys_stale",
			Help: "1 if SERVICE_KEYS_FILE is missing or wrong, and earlier keys are in use.",
		}, func() float64 {
			if k.file.Stale() {
				return 1
			}
			return 0
		}),
	}
}
