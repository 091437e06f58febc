// Package keysfile reads the keys of a program from a file, and follows the file while it changes.
package keysfile

import (
	"bytes"
	"context"
	"errors"
	"io"
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
	content []byte // of the keys in use; only Look uses it after Load
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
	is, err := os.Stat(f.path)
	if err == nil && !is.Mode().IsRegular() { // opening a pipe would wait for a writer
		err = &os.PathError{Op: "read", Path: f.path, Err: errors.New("no regular file")}
	}
	var file *os.File
	if err == nil {
		file, err = os.Open(f.path)
	}
	if err == nil {
		defer file.Close()
		content, err = io.ReadAll(io.LimitReader(file, maxFile+1))
	}
	switch {
	case err != nil:
		return nil, nil, text.UsageErrorf(text.KeysUnreadable, f.Setting, err)
	case len(content) > maxFile:
		return nil, nil, text.UsageErrorf(text.KeysFileTooLong, f.Setting, maxFile)
	}
	if keys, err = f.Parse(content); err == nil && len(keys) > maxKeys {
		err = text.UsageErrorf(text.TooManyKeys, f.Setting, len(keys), maxKeys)
	}
	return content, keys, err
}

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

// Watch reads the file again and again until ctx ends. New content is used when it is the same at two looks. A file that is
// missing, wrong or empty changes nothing: the earlier keys stay in use, and the log says so.
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
