package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// built are the programs that this process has built, by package.
var built struct {
	mu    sync.Mutex
	paths map[string]string
	errs  map[string]error
}

// Build builds a command of this module, such as "./cmd/settle", once per process, and returns the path of the
// program. The program is kept in bin/testenv: go builds it again only if its source has changed.
func Build(t testing.TB, pkg string) string {
	t.Helper()
	built.mu.Lock()
	defer built.mu.Unlock()
	if built.paths == nil {
		built.paths, built.errs = map[string]string{}, map[string]error{}
	}
	if built.paths[pkg] == "" && built.errs[pkg] == nil {
		built.paths[pkg], built.errs[pkg] = KeepBinary(Patient(t), pkg)
	}
	if err := built.errs[pkg]; err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return built.paths[pkg]
}

// KeepBinary builds a command as Build does, for a program that is no test.
func KeepBinary(ctx context.Context, pkg string) (program string, err error) {
	program, err = keptPath(path.Base(pkg))
	if err != nil {
		return "", fmt.Errorf("build %s: %w", pkg, err)
	}
	return program, locked(program, func() error {
		_, err := BuildBinary(ctx, filepath.Dir(program), pkg)
		return err
	})
}

// buildEndsWithin limits the clean-up of an interrupted build.
const buildEndsWithin = 5 * time.Second

// BuildBinary builds the command pkg, a path relative to the module's root, into dir and returns the path of the
// program. The program is static, as it is released.
func BuildBinary(ctx context.Context, dir, pkg string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", fmt.Errorf("build %s: %w", pkg, err)
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", pkg, err)
	}
	program := filepath.Join(dir, path.Base(pkg))
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", program, pkg)
	cmd.Dir = root
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // lets go remove its temporary files
	cmd.WaitDelay = buildEndsWithin
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, errors.Join(context.Cause(ctx), err), output)
	}
	return program, nil
}

func moduleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod in %s or above", start)
		}
	}
}
