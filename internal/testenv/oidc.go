package testenv

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// OIDC is a running OpenID provider with the persons kim and lee (team-finance), park (team-cs), choi (team-ops) and
// yoon (no group), whose passwords are their names.
type OIDC struct {
	Issuer, ClientID, SecretFile string
	stop                         func()
}

// Stop ends the provider.
func (o *OIDC) Stop() { o.stop() }

// StartOIDC starts an OpenID provider as a child process, with one client. It ends with the test.
func StartOIDC(t testing.TB, redirect string) *OIDC {
	t.Helper()
	const secret = "a secret of the console"
	file := filepath.Join(t.TempDir(), "client-secret")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatalf("testenv: OIDC: %v", err)
	}
	cmd := exec.Command(Build(t, "./internal/testenv/oidcserver"), "-client=jajeong", "-secret="+secret,
		"-redirect="+redirect)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("testenv: OIDC: %v", err)
	}
	ended := false
	stop := func() {
		if !ended {
			ended = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(stop)
	issuer, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("testenv: OIDC: it did not start: %v", err)
	}
	return &OIDC{Issuer: strings.TrimSpace(issuer), ClientID: "jajeong", SecretFile: file, stop: stop}
}
