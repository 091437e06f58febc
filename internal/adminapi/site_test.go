package adminapi_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
)

// line is a line of ADMIN_KEYS_FILE.
func line(name, role, secret string, expires ...string) string {
	sum := sha256.Sum256([]byte(secret))
	return strings.Join(append([]string{name, role, hex.EncodeToString(sum[:])}, expires...), " ") + "\n"
}

// site is a deployment with a console that has the management API. Each role has a key with its name.
type site struct {
	*jajeongtest.Deployment
	program *testenv.Program
	file    string // ADMIN_KEYS_FILE
	api     string // http://host:port
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{Deployment: jajeongtest.New(t), file: filepath.Join(t.TempDir(), "keys")}
	var lines strings.Builder
	for _, role := range []string{"viewer", "marketing", "cs", "finance", "operator"} {
		lines.WriteString(line("of-"+role, role, role))
	}
	s.setKeys(lines.String())
	s.start()
	return s
}

func (s *site) setKeys(lines string) {
	s.T.Helper()
	require.NoError(s.T, os.WriteFile(s.file, []byte(lines), 0o600))
}

// start starts a console.
func (s *site) start() {
	s.T.Helper()
	args := append([]string{"console", "--listen=127.0.0.1:0", "--console-dev-user=kim", "--admin-api-listen=127.0.0.1:0",
		"--admin-keys-file=" + s.file}, s.Flags(s.Operator)...)
	command := exec.Command(testenv.Build(s.T, "./cmd/settle"), args...)
	command.Env = s.Environment()
	program, err := testenv.StartProgram(testenv.Patient(s.T), command)
	require.NoError(s.T, err)
	s.T.Cleanup(func() {
		if program == s.program {
			assert.NoError(s.T, program.Stop())
		}
	})
	s.program, s.api = program, "http://"+program.API
}

// restart starts another console after the end of this one.
func (s *site) restart() {
	s.T.Helper()
	require.NoError(s.T, s.program.Stop())
	s.start()
}

// kill kills the console, and starts another one.
func (s *site) kill() {
	s.T.Helper()
	require.NoError(s.T, s.program.Process.Kill())
	require.Error(s.T, s.program.Stop())
	s.start()
}

// reply is a response that conforms to the contract.
type reply struct {
	status int
	header http.Header
	body   map[string]any
	text   string
}

func (r reply) code() any { return r.body["code"] }

// ask sends a request with the key of a role, and pairs of header names and values.
func (s *site) ask(role, method, path, body string, headers ...string) (got reply, err error) {
	request, err := http.NewRequestWithContext(testenv.Patient(s.T), method, s.api+path, strings.NewReader(body))
	if err != nil {
		return got, err
	}
	if role != "" {
		request.Header.Set("Authorization", "Bearer "+role)
	}
	request.Header.Set("Accept-Language", "en")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return got, err
	}
	defer response.Body.Close()
	if err := openapi.Admin.Check(request, response); err != nil {
		return got, fmt.Errorf("%s %s: %w", method, path, err)
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return got, err
	}
	got = reply{status: response.StatusCode, header: response.Header, text: string(content)}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	_ = decoder.Decode(&got.body) // a list stays text
	return got, nil
}

func (s *site) get(role, path string) reply {
	s.T.Helper()
	got, err := s.ask(role, http.MethodGet, path, "")
	require.NoError(s.T, err)
	return got
}

func (s *site) post(role, path, body string, headers ...string) reply {
	s.T.Helper()
	got, err := s.ask(role, http.MethodPost, path, body, headers...)
	require.NoError(s.T, err)
	return got
}

// with is a JSON object with more members.
func with(body, members string) string {
	if body == "{}" {
		return "{" + members + "}"
	}
	return strings.TrimSuffix(body, "}") + "," + members + "}"
}

// preview returns the digest of a change.
func (s *site) preview(role, path, body string) string {
	s.T.Helper()
	got := s.post(role, path, with(body, `"dryRun":true`))
	require.Equal(s.T, http.StatusOK, got.status, got.text)
	digest, _ := got.body["digest"].(string)
	if coupons, ok := got.body["coupons"].([]any); ok {
		shown, _ := coupons[0].(map[string]any)["preview"].(map[string]any)
		digest, _ = shown["digest"].(string)
	}
	require.NotEmpty(s.T, digest, got.text)
	return digest
}

// change previews a change and carries it out.
func (s *site) change(role, path, body, key string) reply {
	s.T.Helper()
	return s.post(role, path, s.carried(role, path, body), "Idempotency-Key", key)
}

// carried is the body that carries out what a preview has shown.
func (s *site) carried(role, path, body string) string {
	s.T.Helper()
	return with(body, fmt.Sprintf(`"reason":"test","digest":%q`, s.preview(role, path, body)))
}

const newCoupon = `{"name":"감사 쿠폰","seats":3,"opens":"%s","closes":"%s","discountWon":5000}`

// creation is the body of a coupon that opens in an hour.
func (s *site) creation() string {
	opens := s.Now().Add(time.Hour).UTC().Truncate(time.Second)
	return fmt.Sprintf(newCoupon, opens.Format(time.RFC3339), opens.Add(time.Hour).Format(time.RFC3339))
}
