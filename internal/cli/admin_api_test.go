package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/docs"
	"github.com/jajeong/jajeong/internal/adminapi"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/job"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
)

// contractOfAPI returns the operations of the document that have an address below /v1, by method and path.
func contractOfAPI(t *testing.T) map[string]*openapi3.Operation {
	t.Helper()
	document, err := openapi.Admin.Document()
	require.NoError(t, err)
	found := map[string]*openapi3.Operation{}
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			if strings.HasPrefix(path, "/v1/") {
				found[method+" "+path] = operation
			}
		}
	}
	return found
}

// The operations of the document are the verbs that declare one, and those of jobs. Each takes the values that the
// verb takes.
func TestAdminAPI_IsWhatVerbsDeclare(t *testing.T) {
	t.Parallel()
	documented := contractOfAPI(t)
	declared := []string{"GET /v1/jobs", "GET /v1/jobs/{job}"}
	for _, v := range declaredVerbs(t) {
		if v.Upload != "" {
			declared = append(declared, v.Upload)
			takes := []string{"Idempotency-Key"}
			for _, flag := range []string{"reason", "dry-run", "expect-digest", "ask", "approval"} {
				takes = append(takes, adminapi.MemberOf(flag))
			}
			var documents []string
			for _, parameter := range documented[v.Upload].Parameters {
				documents = append(documents, parameter.Value.Name)
			}
			require.ElementsMatch(t, takes, documents, v.Upload)
		}
		if v.API == "" {
			continue
		}
		declared = append(declared, v.API)
		operation := documented[v.API]
		require.NotNil(t, operation, v.API)
		var values []string
		for _, f := range v.Fields {
			if !strings.Contains(v.API, "{"+f.Name+"}") && f.Kind != verb.File {
				values = append(values, adminapi.MemberOf(f.Name))
			}
		}
		var takes []string
		if strings.HasPrefix(v.API, "GET ") {
			for _, parameter := range operation.Parameters {
				takes = append(takes, parameter.Value.Name)
			}
		} else {
			for _, flag := range []string{"reason", "dry-run", "expect-digest", "ask", "approval", "key"} {
				if v.Has(flag) {
					values = append(values, adminapi.MemberOf(flag))
				}
			}
			for name := range operation.RequestBody.Value.Content["application/json"].Schema.Value.Properties {
				takes = append(takes, name)
			}
			require.True(t, v.Form, "%s changes something", v.API)
		}
		require.ElementsMatch(t, values, takes, v.API)
	}
	var all []string
	for call := range documented {
		all = append(all, call)
	}
	require.ElementsMatch(t, declared, all)
}

// What no program may do has no address.
func TestAdminAPI_LeavesOut(t *testing.T) {
	t.Parallel()
	verbs := declaredVerbs(t)
	for _, path := range []string{"migrate", "user forget", "user export", "purge", "policy set", "policy show", "approve", "serve",
		"console", "receipt honour", "receipt show", "coupon winners", "events replay", "verify"} {
		require.NotNil(t, verbs.At(path), path)
		require.Empty(t, verbs.At(path).API, path)
	}
	for _, v := range verbs {
		for _, f := range v.Fields { // a file would be one of the server
			if f.Kind == verb.File { // it comes with the request
				continue
			}
			require.NotContains(t, []string{"file", "out", "output", "operator", "yes", "push-gateway"}, f.Name, v.Path)
		}
	}
}

// The right of an operation is the one that the document names.
func TestAdminAPI_RolesAreDocumented(t *testing.T) {
	t.Parallel()
	documented := contractOfAPI(t)
	for _, v := range declaredVerbs(t) {
		if v.API == "" {
			continue
		}
		given := verb.Values{}
		if strings.Contains(v.API, "{user}") {
			given["user"] = "7"
		}
		var may []string
		for _, role := range []signin.Role{signin.Viewer, signin.Marketing, signin.CS, signin.Finance,
			signin.Operator} {
			if (signin.Person{Roles: []signin.Role{role}}).May(v.RightFor(given)) {
				may = append(may, "`"+string(role)+"`")
			}
		}
		want := "Roles: " + strings.Join(may, ", ")
		switch len(may) {
		case 1:
			want = "Role: " + may[0]
		case 4:
			want = "Roles: all but `viewer`"
		case 5:
			want = "Role: any"
		}
		require.Contains(t, documented[v.API].Description, want, v.API)
		require.Equal(t, len(may) < 5, documented[v.API].Responses.Status(http.StatusForbidden) != nil, v.API)
	}
}

// provocation is an API whose verbs answer what a test wants.
type provocation struct {
	*openapi.Provoker
	t       *testing.T
	handler http.Handler
	answer  func(c verb.Call) verb.Answer
	count   int
	uploads map[string]bool // the operations whose body is a list
}

// asUpload turns a JSON body into the query of an upload, and a body that cannot be into one that cannot be either.
func asUpload(t *testing.T, body string) (query, list string) {
	t.Helper()
	var values map[string]string
	switch {
	case len(body) > 64<<10:
		return "?digest=sha256:0000000000000000000000000000000000000000000000000000000000000000", strings.Repeat("7\n", 17<<20)
	case json.Unmarshal([]byte(body), &values) != nil:
		return "?digest=sha256:0000000000000000000000000000000000000000000000000000000000000000", ""
	}
	given := url.Values{}
	for name, value := range values {
		given.Set(name, value)
	}
	return "?" + given.Encode(), "7\n"
}

func exampleOf(operation *openapi3.Operation) string {
	content := operation.Responses.Status(http.StatusOK).Value.Content["application/json"]
	written, _ := json.Marshal(content.Example)
	return string(written)
}

func (p *provocation) said(exit int, errs ...error) func(verb.Call) verb.Answer {
	return func(c verb.Call) verb.Answer {
		for _, err := range errs {
			fmt.Fprintln(c.Stderr, "settle:", err)
		}
		return verb.Answer{Exit: exit, Errs: errs}
	}
}

// send provokes one response. Each has an Idempotency-Key of its own, unless headers have another.
func (p *provocation) send(method, path, body string, headers ...string) *http.Response {
	p.t.Helper()
	p.count++
	id := "7"
	if strings.Contains(path, "{job}") {
		id = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	}
	all := append([]string{"Authorization", "Bearer operator", "Idempotency-Key", fmt.Sprint("k-", p.count)}, headers...)
	if p.uploads[method+" "+path] {
		query, list := asUpload(p.t, body)
		request := httptest.NewRequest(method, strings.ReplaceAll(path, "{coupon}", id)+query, strings.NewReader(list))
		for i := 0; i < len(all); i += 2 {
			request.Header.Set(all[i], all[i+1])
		}
		return p.Send(p.handler, path, request)
	}
	return p.Provoke(p.handler, method, path, id, strings.NewReader(body), all...)
}

// Each response of each operation is provoked; together they are exactly the documented ones.
func TestAdminAPI_EveryResponseIsDocumentedAndHappens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := &provocation{Provoker: openapi.Admin.Provoker(t), t: t}
	file := filepath.Join(t.TempDir(), "keys")
	lines := ""
	for _, role := range []string{"viewer", "operator"} {
		sum := sha256.Sum256([]byte(role))
		lines += fmt.Sprintln(role, role, hex.EncodeToString(sum[:]))
	}
	require.NoError(t, os.WriteFile(file, []byte(lines), 0o600))
	keys, err := adminapi.LoadKeys(file)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	newAPI := func(quickly time.Duration, db string) (*adminapi.API, *job.Runner) {
		pool, err := (&connect.MySQLSettings{MySQLDSN: db}).Open(connect.Patient, zap.NewNop())
		require.NoError(t, err)
		t.Cleanup(func() { _ = pool.Close() })
		jobs := job.NewRunner(ctx, mysqltx.New(pool), zap.NewNop())
		return adminapi.New(adminapi.Config{Verbs: declaredVerbs(t), Keys: keys, Quickly: quickly,
			Jobs: jobs, Lists: new(httpapi.Lists), DB: pool, Now: time.Now, Logger: zap.NewNop(),
			Metrics: prometheus.NewRegistry(),
			Run:     func(_ context.Context, c verb.Call) verb.Answer { return p.answer(c) }}), jobs
	}
	api, jobs := newAPI(time.Hour, w.Accounts["jajeong_operator"])
	hasty, hastyJobs := newAPI(time.Millisecond, w.Accounts["jajeong_operator"])
	away, _ := newAPI(time.Hour, "root@tcp("+nowhere+")/coupons")
	defer jobs.Wait()
	defer hastyJobs.Wait()
	defer stop()

	const carried = `{"digest": "sha256:0000000000000000000000000000000000000000000000000000000000000000", "reason": "r"}`
	p.uploads = map[string]bool{}
	for _, v := range declaredVerbs(t) {
		p.uploads[v.Upload] = true
	}
	for call, operation := range contractOfAPI(t) {
		method, path, _ := strings.Cut(call, " ")
		changes, ofJobs := method == "POST", strings.HasPrefix(path, "/v1/jobs")
		body := ""
		if changes {
			body = carried
		}
		example := exampleOf(operation)
		fine := func(c verb.Call) verb.Answer {
			fmt.Fprint(c.Stdout, example)
			return verb.Answer{}
		}
		refuse := func(m text.Message) func(verb.Call) verb.Answer { return p.said(exitUse, text.UsageErrorf(m)) }
		p.handler, p.answer = api, fine
		if path == "/v1/jobs/{job}" {
			w.Exec("INSERT INTO job (id, caller, verb, digest, state, began_at, at) VALUES ('ABCDEFGHIJKLMNOPQRSTUVWXYZ', " +
				"'key:other', 'coupon close', '', 'RUNNING', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))")
		}
		require.Equal(t, http.StatusOK, p.send(method, path, body).StatusCode, call)
		p.send(method, path, body, "Authorization", "Bearer viewer")
		p.handler, _ = newAPI(time.Hour, w.Accounts["jajeong_operator"])
		for range 20 { // then it comes too often
			p.send(method, path, body, "Authorization", "Bearer other")
		}
		p.handler = api
		if ofJobs {
			p.handler = away
			p.send(method, path, body)
			continue
		}
		for _, answer := range []func(verb.Call) verb.Answer{
			p.said(exitInfrastructure), p.said(exitUse, fmt.Errorf("no grant")),
			p.said(exitUse, text.MissingErrorf(text.NoSuchCoupon, 7)), refuse(text.FlagsMissing),
			func(verb.Call) verb.Answer {
				return verb.Answer{Exit: exitUse, Invalid: true, Wrong: map[string]string{"seats": "wrong"}}
			},
		} {
			p.answer = answer
			p.send(method, path, body)
		}
		p.answer = func(c verb.Call) verb.Answer {
			_, err := c.Stdout.Write(make([]byte, 9<<20))
			require.Error(t, err)
			return verb.Answer{Exit: exitInfrastructure}
		}
		p.send(method, path, body)
		if !changes {
			continue
		}
		p.answer = fine
		p.send(method, path, "{")
		p.send(method, path, "{}")
		p.send(method, path, strings.Repeat(" ", 65<<10))
		p.send(method, path, body, "Idempotency-Key", "a b")
		p.send(method, path, body, "Idempotency-Key", call)
		reused := strings.ReplaceAll(call, " ", "")
		p.send(method, path, body, "Idempotency-Key", reused)
		p.send(method, path, `{"digest": "sha256:1111111111111111111111111111111111111111111111111111111111111111", "reason": "r"}`, "Idempotency-Key", reused)
		conflicts := []func(verb.Call) verb.Answer{p.said(exitInvariant), refuse(text.PreviewChanged)}
		if path != "/v1/coupons/{coupon}/dlq/retry" {
			conflicts = append(conflicts, refuse(text.ApprovalNeeded), refuse(text.ApprovalNotGiven))
		}
		if path == "/v1/coupons" {
			conflicts = append(conflicts, refuse(text.KeyReused))
		}
		for _, answer := range conflicts {
			p.answer = answer
			p.send(method, path, body)
		}
		p.answer = p.said(exitInfrastructure)
		p.send(method, path, body, "Idempotency-Key", "twice"+reused)
		p.answer = refuse(text.PreviewChanged)
		p.send(method, path, body, "Idempotency-Key", "twice"+reused)
		began, hang := make(chan struct{}), make(chan struct{})
		p.handler, p.answer = hasty, func(c verb.Call) verb.Answer {
			if c.Stdin != nil {
				_, _ = io.Copy(io.Discard, c.Stdin)
			}
			close(began)
			<-hang
			return fine(c)
		}
		for range 2 {
			p.send(method, path, body, "Idempotency-Key", "slow"+reused)
		}
		<-began
		close(hang)
	}
	p.send("GET", "/openapi.yaml", "")
	p.RequireAll()

	// Requests that no operation takes.
	for _, c := range []struct{ method, path string }{
		{"PUT", "/v1/coupons"}, {"DELETE", "/v1/coupons/{coupon}"}, {"GET", "/v1/coupons/{coupon}/close"}, {"GET", "/"},
		{"POST", "/v1/approvals/{id}"}, {"POST", "/v1/approvals/{id}/approve"}, {"POST", "/v1/policy"}, {"POST", "/v1/migrate"},
		{"POST", "/v1/purge"}, {"POST", "/v1/users/{user}/forget"}, {"POST", "/v1/receipts"}, {"GET", "/v1/coupons//close"},
	} {
		status := p.send(c.method, c.path, "").StatusCode
		require.True(t, slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed}, status), "%v", c)
	}
	recorder := httptest.NewRecorder()
	api.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/openapi.yaml", nil))
	require.Equal(t, string(docs.OpenAPIAdmin), recorder.Body.String())
}
