package output

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// WriteFile replaces a file atomically. It writes into devices and pipes directly, and keeps links.
func WriteFile(path string, write func(io.Writer) error) error {
	if there, err := os.Stat(path); err == nil {
		if !there.Mode().IsRegular() {
			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			return errors.Join(write(file), file.Close())
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // fails after the rename
	if err := errors.Join(write(file), file.Chmod(0o644), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
