package systemtest

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// oapiCodegen is the version that docs/integrate.md names, too.
const oapiCodegen = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"

// contracts are the documents by the name of the generated client.
var contracts = map[string]string{"apply": "openapi.yaml", "wallet": "openapi-wallet.yaml"}

// workshop is a copy of a client's folder, with the contracts.
type workshop struct {
	t      *testing.T
	folder string
}

func newWorkshop(t *testing.T, language string) workshop {
	t.Helper()
	w := workshop{t, t.TempDir()}
	require.NoError(t, os.CopyFS(w.folder, os.DirFS(filepath.Join("testdata", "clients", language))))
	for _, document := range contracts {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", document))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(w.folder, document), text, 0o600))
	}
	return w
}

// run runs a command, and returns what it printed and whether it succeeded.
func (w workshop) run(name string, args ...string) (output string, ok bool) {
	w.t.Helper()
	cmd := exec.CommandContext(testenv.Patient(w.t), name, args...)
	cmd.Dir = w.folder
	// The folder has another name each time. With -trimpath it is no part of the key of Go's cache.
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -trimpath", "GOWORK=off", "CGO_ENABLED=0", "npm_config_update_notifier=false")
	text, err := cmd.CombinedOutput()
	return string(text), err == nil
}

func (w workshop) must(name string, args ...string) {
	w.t.Helper()
	output, ok := w.run(name, args...)
	require.True(w.t, ok, "%s %s: %s", name, strings.Join(args, " "), output)
}

// Each client applies as a user of its own.
func TestClients_Generated(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(10, 1)
	pod := d.Start(d.Environment(), "./cmd/apply-api")
	t.Run("GoByOapiCodegen", func(t *testing.T) {
		t.Parallel()
		w := newWorkshop(t, "go")
		for name, document := range contracts {
			require.NoError(t, os.Mkdir(filepath.Join(w.folder, name), 0o700))
			w.must("go", "run", oapiCodegen, "-generate", "types,client", "-package", name, "-o", name+"/client.go", document)
		}
		w.must("go", "run", ".", "http://"+pod.Apply, id.String())
	})
	t.Run("TypeScriptByOpenAPITypeScript", func(t *testing.T) {
		t.Parallel()
		w := newWorkshop(t, "typescript")
		w.must("npm", "install", "--no-save", "--no-package-lock", "--no-audit", "--no-fund")
		for name, document := range contracts {
			w.must("node_modules/.bin/openapi-typescript", document, "-o", name+".ts")
		}
		w.must("node_modules/.bin/tsc")
		w.must("node", "built/client.js", "http://"+pod.Apply, "http://"+pod.Live, id.String())

		source, err := os.ReadFile(filepath.Join(w.folder, "wrong.ts"))
		require.NoError(t, err)
		errors, ok := w.run("node_modules/.bin/tsc", "--strict", "--noEmit", "--skipLibCheck", "--module", "NodeNext", "wrong.ts")
		require.False(t, ok)
		require.Equal(t, strings.Count(string(source), "export const"), strings.Count(errors, "wrong.ts("), errors)
		require.NotContains(t, errors, "Cannot find", errors)
	})
}

// The page's code in the guide counts down, applies at the right moment and is told the outcome.
func TestClients_CodeOfTheGuide(t *testing.T) {
	testenv.NeedsServers(t)
	t.Parallel()
	code := codeOf(t, "integrate.md")
	require.Equal(t, code, codeOf(t, "integrate.ko.md"))
	testenv.Build(t, "./cmd/apply-api") // before the time counts
	d := jajeongtest.New(t)
	d.AddUsers(7)
	opens := d.Now().Add(8 * time.Second).Truncate(time.Second)
	id := d.AddCouponBetween(10, opens, opens.Add(time.Hour))
	pod := d.Start(d.Environment(), "./cmd/apply-api")

	w := newWorkshop(t, "page")
	driver, err := os.ReadFile(filepath.Join(w.folder, "driver.js"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(w.folder, "page.mjs"), append([]byte(strings.Join(code, "\n")), driver...), 0o600))
	page := exec.CommandContext(testenv.Patient(t), "node", "page.mjs", "http://"+pod.Apply, "http://"+pod.Live, id.String())
	page.Dir = w.folder
	var complaints strings.Builder
	page.Stderr = &complaints
	said, err := page.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, page.Start())
	var heard []string
	for lines := bufio.NewScanner(said); lines.Scan(); {
		heard = append(heard, lines.Text())
		if lines.Text() == "PENDING" {
			d.SettleNow(id)
		}
	}
	require.NoError(t, page.Wait(), complaints.String())
	require.Equal(t, []string{"PENDING", "ISSUED"}, heard)
}

// codeOf returns the JavaScript of a guide that needs no browser.
func codeOf(t *testing.T, guide string) (code []string) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", guide))
	require.NoError(t, err)
	for _, block := range strings.Split(string(text), "```js\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(block, "new EventSource") {
			code = append(code, block)
		}
	}
	require.NotEmpty(t, code)
	return code
}
