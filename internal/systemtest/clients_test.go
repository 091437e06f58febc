package systemtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// oapiCodegen is the version that docs/integrate.md names, too.
const oapiCodegen = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"

// contracts are the documents by the name of the generated client.
var contracts = map[string]string{"apply": "openapi.yaml", "wallet": "openapi-wallet.yaml", "admin": "openapi-admin.yaml"}

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
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -trimpath", "GOWORK=off", "CGO_ENABLED=0",
		"npm_config_update_notifier=false")
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
	keys, lines := filepath.Join(t.TempDir(), "keys"), ""
	for _, role := range []string{"marketing", "finance"} { // the key is the role
		sum := sha256.Sum256([]byte(role))
		lines += fmt.Sprintln("campaigns-"+role, role, hex.EncodeToString(sum[:]))
	}
	require.NoError(t, os.WriteFile(keys, []byte(lines), 0o600))
	console := d.Start(d.Environment(), "./cmd/settle", append([]string{"console", "--listen=127.0.0.1:0",
		"--console-dev-user=kim", "--admin-api-listen=127.0.0.1:0", "--admin-keys-file=" + keys},
		d.Flags(d.Operator)...)...)
	t.Run("GoByOapiCodegen", func(t *testing.T) {
		t.Parallel()
		w := newWorkshop(t, "go")
		for name, document := range contracts {
			require.NoError(t, os.Mkdir(filepath.Join(w.folder, name), 0o700))
			w.must("go", "run", oapiCodegen, "-generate", "types,client", "-package", name, "-o", name+"/client.go",
				document)
		}
		w.must("go", "run", ".", "http://"+pod.Apply, id.String(), "http://"+console.API, "marketing", "finance")
	})
	t.Run("TypeScriptByOpenAPITypeScript", func(t *testing.T) {
		t.Parallel()
		w := newWorkshop(t, "typescript")
		w.must("npm", "install", "--no-save", "--no-package-lock", "--no-audit", "--no-fund")
		for name, document := range contracts {
			w.must("node_modules/.bin/openapi-typescript", document, "-o", name+".ts")
		}
		w.must("node_modules/.bin/tsc")
		w.must("node", "built/client.js", "http://"+pod.Apply, "http://"+pod.Live, id.String(), "http://"+console.API,
			"marketing", "finance")

		source, err := os.ReadFile(filepath.Join(w.folder, "wrong.ts"))
		require.NoError(t, err)
		errors, ok := w.run("node_modules/.bin/tsc", "--strict", "--noEmit", "--skipLibCheck", "--module", "NodeNext",
			"wrong.ts")
		require.False(t, ok)
		require.Equal(t, strings.Count(string(source), "export const"), strings.Count(errors, "wrong.ts("), errors)
		require.NotContains(t, errors, "Cannot find", errors)
	})
}
