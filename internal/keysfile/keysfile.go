// Package keysfile reads files that settings name. It reads the keys of a program, and follows their file while it
// changes.
package keysfile

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/text"
)

const (
	maxFile = 64 << 10 // bytes
	maxKeys = 100      // wallet-api compares every call with all of them

	// interval is short: an operator who replaces a key does not want to wait. A change takes two looks.
	interval = 3 * time.Second
)

// Format says what is in the file.
type Format[Key any] struct {
	Setting string // setting that names the file, for errors
	Parse   func(content []byte) ([]Key, error)
	Read    string // log message for new keys
	Failed  string // log message while the earlier keys stay in use
}

// File has the keys of a file. New keys replace earlier ones; a file without any key does not.
type File[Key any] struct {
	Format[Key]
	path    string // empty: there are no keys
	content []byte // file content of the keys in use; only Look uses it after Load
	seen    []byte // other content, which Look has seen once
	failed  string // error of the last look at the file; empty: it was fine
	current atomic.Pointer[[]Key]
	stale   atomic.Bool
}

// Load reads the file. An empty path means that there are no keys. A wrong file is a *text.UsageError.
func Load[Key any](path string, format Format[Key]) (*File[Key], error) {
	f := &File[Key]{Format: format, path: path}
	f.current.Store(new([]Key))
	if path == "" {
		return f, nil
	}
	content, keys, err := f.read()
	if err != nil {
		return nil, err
	}
	f.content = content
	f.current.Store(&keys)
	return f, nil
}

// Keys returns the keys in use, in the order of the file. The caller must not change them.
func (f *File[Key]) Keys() []Key { return *f.current.Load() }

// Stale reports whether the file is missing or wrong, and earlier keys are in use.
func (f *File[Key]) Stale() bool { return f.stale.Load() }

func (f *File[Key]) read() (content []byte, keys []Key, err error) {
	if content, err = Read(f.Setting, f.path, maxFile); err != nil {
		return nil, nil, err
	}
	if keys, err = f.Parse(content); err == nil && len(keys) > maxKeys {
		err = text.UsageErrorf(text.TooManyKeys, f.Setting, len(keys), maxKeys)
	}
	return content, keys, err
}

// byteOrderMark is what some editors write at the beginning of a file. It is no part of a name or a secret.
var byteOrderMark = []byte("\ufeff")

// Read returns the content of the file that a setting names, of at most limit bytes, without a byte order mark. An
// error is a *text.UsageError. It does not have the path: somebody may have given the secret itself instead.
func Read(setting, path string, limit int64) ([]byte, error) {
	content, err := readFile(path, limit)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err
	}
	switch {
	case err != nil:
		return nil, text.UsageErrorf(text.FileUnreadable, setting, err)
	case int64(len(content)) > limit:
		return nil, text.UsageErrorf(text.FileTooLong, setting, limit)
	default:
		return bytes.TrimPrefix(content, byteOrderMark), nil
	}
}

// readFile reads up to one byte more than limit. Anything but a regular file is refused: a pipe would wait for a
// writer.
func readFile(path string, limit int64) ([]byte, error) {
	is, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !is.Mode().IsRegular() {
		return nil, errNotRegular
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limit+1))
}

var errNotRegular = errors.New("no regular file")

// Lines returns the number, from 1, and the fields of each line. Empty lines and lines that begin with # are left out.
func Lines(content []byte) iter.Seq2[int, []string] {
	return func(yield func(number int, fields []string) bool) {
		number := 0
		for line := range strings.Lines(string(content)) {
			number++
			fields := strings.Fields(line)
			if len(fields) > 0 && !strings.HasPrefix(fields[0], "#") && !yield(number, fields) {
				return
			}
		}
	}
}

// Watch reads the file again and again until ctx ends. New content is used when it is the same at two looks. A file
// that is missing, wrong or empty changes nothing: the earlier keys stay in use, and the log says so.
func (f *File[Key]) Watch(ctx context.Context, logger *zap.Logger) {
	if f.path == "" {
		return
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.Look(logger)
		case <-ctx.Done():
			return
		}
	}
}

// Look reads the file once. Watch calls it, and nobody else meanwhile.
func (f *File[Key]) Look(logger *zap.Logger) {
	content, keys, err := f.read()
	if err == nil && len(keys) == 0 && len(f.Keys()) > 0 {
		err = text.UsageErrorf(text.KeysFileEmpty, f.Setting)
	}
	f.stale.Store(err != nil)
	if err != nil {
		if f.failed != err.Error() {
			f.failed = err.Error()
			logger.Error(f.Failed, zap.Error(err))
		}
		return
	}
	again := f.failed != ""
	f.failed = ""
	switch {
	case bytes.Equal(content, f.content):
		f.seen = nil
		if !again {
			return
		}
	case !bytes.Equal(content, f.seen): // somebody may still be writing the file
		f.seen = content
		return
	}
	f.content, f.seen = content, nil
	f.current.Store(&keys)
	logger.Info(f.Read, zap.Int("keys", len(keys)))
}
