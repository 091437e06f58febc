package walletapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/text"
)

const (
	maxKeysFile = 64 << 10 // bytes of SERVICE_KEYS_FILE
	maxKeys     = 100      // every call compares its key with all of them

	// keysInterval is short: an operator who replaces a key does not want to wait. A change takes two looks.
	keysInterval = 3 * time.Second
)

// serviceKey is a line of SERVICE_KEYS_FILE.
type serviceKey struct {
	name string
	hash [sha256.Size]byte
}

var serviceName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// parseKeys reads lines `name sha256`. Empty lines and lines that begin with # are skipped. Errors do not quote the content,
// because somebody may have written the key itself.
func parseKeys(content []byte) (keys []serviceKey, err error) {
	if len(content) > maxKeysFile {
		return nil, text.UsageErrorf(text.KeysFileTooLong, maxKeysFile)
	}
	lines := map[[sha256.Size]byte]int{} // line number by hash
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		key := serviceKey{name: fields[0]}
		if len(fields) != 2 || !serviceName.MatchString(key.name) || len(fields[1]) != hex.EncodedLen(len(key.hash)) {
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
	if len(keys) > maxKeys {
		return nil, text.UsageErrorf(text.TooManyKeys, len(keys), maxKeys)
	}
	return keys, nil
}

// ServiceKeys are the keys by which checkout services identify themselves. They follow their file.
type ServiceKeys struct {
	path    string // empty: there are no keys
	content []byte // of the keys in use; only Watch uses it after LoadKeys
	seen    []byte // other content, which Watch has seen once
	failed  string // error of the last look at the file; empty: it was fine
	current atomic.Pointer[[]serviceKey]
	stale   atomic.Bool // the file is wrong, and earlier keys are in use
}

// LoadKeys reads the file. An empty path means that there are no keys.
func LoadKeys(path string) (*ServiceKeys, error) {
	k := &ServiceKeys{path: path}
	k.current.Store(new([]serviceKey))
	if path == "" {
		return k, nil
	}
	content, keys, err := readKeys(path)
	if err != nil {
		return nil, err
	}
	k.content = content
	k.current.Store(&keys)
	return k, nil
}

func readKeys(path string) (content []byte, keys []serviceKey, err error) {
	is, err := os.Stat(path)
	if err == nil && !is.Mode().IsRegular() { // opening a pipe would wait for a writer
		err = &os.PathError{Op: "read", Path: path, Err: errors.New("no regular file")}
	}
	var file *os.File
	if err == nil {
		file, err = os.Open(path)
	}
	if err == nil {
		defer file.Close()
		content, err = io.ReadAll(io.LimitReader(file, maxKeysFile+1))
	}
	if err != nil {
		return nil, nil, text.UsageErrorf(text.KeysUnreadable, err)
	}
	keys, err = parseKeys(content)
	return content, keys, err
}

// Watch reads the file again and again until ctx ends. New content is used when it is the same at two looks. A file that is
// missing, wrong or empty changes nothing: the earlier keys stay in use, and the log says so.
func (k *ServiceKeys) Watch(ctx context.Context, logger *zap.Logger) {
	if k.path == "" {
		return
	}
	tick := time.NewTicker(keysInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			k.look(logger)
		case <-ctx.Done():
			return
		}
	}
}

func (k *ServiceKeys) look(logger *zap.Logger) {
	content, keys, err := readKeys(k.path)
	if err == nil && len(keys) == 0 && !k.empty() {
		err = text.UsageErrorf(text.KeysFileEmpty)
	}
	k.stale.Store(err != nil)
	if err != nil {
		if k.failed != err.Error() {
			k.failed = err.Error()
			logger.Error("service keys not read; the earlier keys stay in use", zap.Error(err))
		}
		return
	}
	again := k.failed != ""
	k.failed = ""
	switch {
	case bytes.Equal(content, k.content):
		k.seen = nil
		if !again {
			return
		}
	case !bytes.Equal(content, k.seen): // somebody may still be writing the file
		k.seen = content
		return
	}
	k.content, k.seen = content, nil
	k.current.Store(&keys)
	logger.Info("service keys read", zap.Int("keys", len(keys)))
}

func (k *ServiceKeys) empty() bool { return len(*k.current.Load()) == 0 }

// nameOf returns the name of a key. It compares all hashes, so that its duration tells nothing.
func (k *ServiceKeys) nameOf(key string) (name string, known bool) {
	hash := sha256.Sum256([]byte(key))
	for _, one := range *k.current.Load() {
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
		}, func() float64 { return float64(len(*k.current.Load())) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "jajeong_wallet_service_keys_stale", Help: "1 if SERVICE_KEYS_FILE is missing or wrong, and earlier keys are in use.",
		}, func() float64 {
			if k.stale.Load() {
				return 1
			}
			return 0
		}),
	}
}
