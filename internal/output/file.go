package output

import (
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/jajeong/jajeong/internal/text"
)

// WriteFile replaces a file by one that is written completely, or leaves it as it is. It writes into devices and pipes directly,
// and keeps links. A path that cannot be opened is wrong use, a failed write is not.
func WriteFile(path string, write func(io.Writer) error) error {
	file, replaced, err := openFile(path)
	if err != nil {
		return text.UsageErrorf(text.OutNotWritten, err)
	}
	stream := NewStream(file)
	err = write(stream)
	err = cmp.Or(stream.Failure(), err)
	if replaced != "" {
		defer os.Remove(file.Name()) // fails after the rename
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

// openFile opens a device or a pipe. Otherwise it creates a file beside the one to be replaced.
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
