package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jajeong/jajeong/internal/testenv/process"
)

// buildWithin is for a first build, which compiles every dependency, perhaps beside other tests.
const buildWithin = 5 * time.Minute

// built are the programs that this process has built, by package.
var built struct {
	mu    sync.Mutex
	dir   *process.Folder
	paths map[string]string
	errs  map[string]error
}

// Build builds a command of this module, such as "./cmd/settle", once per process, and returns the path of the program.
func Build(t testing.TB, pkg string) string {
	t.Helper()
	built.mu.Lock()
	defer built.mu.Unlock()
	if built.dir == nil {
		var err error
		if built.dir, err = process.NewFolder("jajeong-bin-"); err != nil {
			t.Fatalf("testenv: build %s: %v", pkg, err)
		}
		built.paths, built.errs = map[string]string{}, map[string]error{}
	}
	if built.paths[pkg] == "" && built.errs[pkg] == nil {
		ctx, cancel := context.WithTimeout(context.Background(), buildWithin)
		defer cancel()
		built.paths[pkg], built.errs[pkg] = BuildBinary(ctx, built.dir.Path, pkg)
	}
	if err := built.errs[pkg]; err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return built.paths[pkg]
}

func removeBuilt() error {
	built.mu.Lock()
	defer built.mu.Unlock()
	if built.dir == nil {
		return nil
	}
	err := built.dir.Remove()
	built.dir = nil
	return err
}

// buildEndsWithin limits the clean-up of an interrupted build.
const buildEndsWithin = 5 * time.Second

// BuildBinary builds the command pkg, a path relative to the module's root, into dir and returns the path of the program.
// The program is static, as it is released.
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
