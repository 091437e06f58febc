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

// A first build compiles every dependency, perhaps beside other tests.
const buildWithin = 5 * time.Minute

// built are the commands that this process has built.
var built struct {
	mu    sync.Mutex
	dir   string
	keep  *supervisor // removes dir when this process does not
	paths map[string]string
	errs  map[string]error
}

// Build builds a command of this module, such as "./cmd/settle", once in this process, and returns
// the path of the program.
func Build(t testing.TB, pkg string) string {
	t.Helper()
	built.mu.Lock()
	defer built.mu.Unlock()
	if built.keep == nil {
		if err := keepBuilt(); err != nil {
			t.Fatalf("testenv: build %s: %v", pkg, err)
		}
	}
	if built.paths[pkg] == "" && built.errs[pkg] == nil {
		ctx, cancel := context.WithTimeout(context.Background(), buildWithin)
		defer cancel()
		built.paths[pkg], built.errs[pkg] = BuildBinary(ctx, built.dir, pkg)
	}
	if err := built.errs[pkg]; err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return built.paths[pkg]
}

func keepBuilt() error {
	dir, err := os.MkdirTemp("", "jajeong-bin-")
	if err != nil {
		return err
	}
	keep, err := supervise(dir)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	built.dir, built.keep = dir, keep
	built.paths, built.errs = map[string]string{}, map[string]error{}
	return nil
}

func removeBuilt() error {
	built.mu.Lock()
	defer built.mu.Unlock()
	if built.keep == nil {
		return nil
	}
	err := built.keep.stop()
	built.keep = nil
	return err
}

// buildEndsWithin is how long an interrupted build may tidy up.
const buildEndsWithin = 5 * time.Second

// BuildBinary builds the command pkg, given relative to the root of the module around the working
// folder, into dir as it is shipped: static. It returns the path of the program.
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
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, pkg)
	cmd.Dir = root
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // lets go remove its temporary files
	cmd.WaitDelay = buildEndsWithin
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, output)
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
