package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// keptPath returns a path in bin/testenv of the module. What is made there serves later processes of the same
// checkout.
func keptPath(name string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(root, "bin", "testenv")
	return filepath.Join(folder, name), os.MkdirAll(folder, 0o755)
}

// locked calls do while no other process does the same at this path. The lock ends with the process.
func locked(path string, do func() error) error {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	for {
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			if err != nil {
				return fmt.Errorf("lock %s: %w", lock.Name(), err)
			}
			return do()
		}
	}
}
