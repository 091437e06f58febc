package output

import (
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/jajeong/jajeong/internal/text"
)

// WriteFile replaces a file only when the new one is complete. It follows links, and writes to devices and pipes
// directly. The error is a UsageError if the path cannot be opened, and a RetryableError if writing fails.
func WriteFile(path string, write func(io.Writer) error) error {
	file, replaced, err := openFile(path)
	if err != nil {
		return text.UsageErrorf(text.OutNotWritten, err)
	}
	stream := NewStream(file)
	err = write(stream)
	err = cmp.Or(stream.Failure(), err)
	if replaced != "" {
		defer os.Remove(file.Name()) // after the rename the file is gone, and Remove fails without harm
		err = errors.Join(err, file.Chmod(0o644), file.Sync())
	}
	if err = errors.Join(err, file.Close()); err == nil && replaced != "" {
		err = os.Rename(file.Name(), replaced)
	}
	if err != nil {
		return text.RetryableErrorf(text.FileNotWritten, err)
	}
	return nil
}

// openFile opens a device or a pipe. For another path it creates a temporary file beside replaced, the file to replace.
func openFile(path string) (file *os.File, replaced string, err error) {
	there, err := os.Stat(path)
	switch {
	case err != nil:
		replaced = path
	case there.Mode().IsRegular():
		if replaced, err = filepath.EvalSymlinks(path); err != nil {
			return nil, "", err
		}
	default:
		file, err = os.OpenFile(path, os.O_WRONLY, 0)
		return file, "", err
	}
	file, err = os.CreateTemp(filepath.Dir(replaced), filepath.Base(replaced)+".*.part")
	return file, replaced, err
}
