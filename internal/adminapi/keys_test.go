package adminapi_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/adminapi"
	"github.com/jajeong/jajeong/internal/testenv"
)

func TestKeys_WrongLines(t *testing.T) {
	t.Parallel()
	good := line("shop", "marketing", "a")
	for content, want := range map[string]string{
		good: "", "# a comment\n\n" + good: "", good + line("shop", "marketing", "b"): "", "": "",
		line("shop", "marketing", "a", "2030-01-01T00:00:00+09:00"): "",
		line("shop", "marketing", "a", "2030-01-01"):                "line 1", line("shop", "king", "a"): "line 1",
		line("shop/x", "marketing", "a"): "line 1", "shop marketing abc\n": "line 1", "shop " + good: "line 1",
		strings.Replace(good, "marketing", "", 1): "line 1", good + strings.ReplaceAll(good, "a", "z"): "line 2",
		good + good: "lines 1 and 2", good + line("shop", "operator", "b"): "another role",
	} {
		file := filepath.Join(t.TempDir(), "keys")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		_, err := adminapi.LoadKeys(file)
		if want == "" {
			require.NoError(t, err, content)
			continue
		}
		require.ErrorContains(t, err, want, content)
		require.NotContains(t, err.Error(), "shop", "the key itself may stand there")
	}
	_, err := adminapi.LoadKeys(filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "ADMIN_KEYS_FILE")
}

// Nothing but a valid key counts.
func TestAPI_OnlyKeysCount(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.AddCoupon(5)
	at := func(later time.Duration) string { return time.Now().Add(later).UTC().Format(time.RFC3339) }
	past, future := at(-time.Minute), at(time.Hour)
	s.setKeys(line("old", "operator", "expired", past) + line("new", "operator", "valid", future) + line("new", "operator", "second"))
	s.restart()
	shown := func(headers ...string) int {
		var got reply
		testenv.Eventually(t, "the address is not limited any more", func() bool {
			var err error
			got, err = s.ask("", http.MethodGet, "/v1/coupons", "", headers...)
			require.NoError(t, err)
			return got.status != http.StatusTooManyRequests
		})
		return got.status
	}
	for _, right := range []string{"Bearer valid", "bearer second"} {
		require.Equal(t, http.StatusOK, shown("Authorization", right), right)
	}
	for _, wrong := range [][]string{
		nil, {"Authorization", "Bearer expired"}, {"Authorization", "Bearer other"}, {"Authorization", "valid"},
		{"Authorization", "Basic valid"}, {"Authorization", "Bearer "}, {"Authorization", "Bearer  valid"},
		{"Cookie", "__Host-jajeong-console=x; key=valid"}, {"X-Forwarded-User", "kim"}, {"X-User-ID", "1"},
		{"X-Forwarded-User", "kim", "X-Forwarded-Groups", "team-ops", "X-Forwarded-Authorization", "Bearer valid"},
	} {
		require.Equal(t, http.StatusUnauthorized, shown(wrong...), "%v", wrong)
	}
	request, err := http.NewRequestWithContext(testenv.Patient(t), http.MethodGet, s.api+"/v1/coupons", nil)
	require.NoError(t, err)
	request.Header["Authorization"] = []string{"Bearer valid", "Bearer valid"}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Contains(t, []int{http.StatusUnauthorized, http.StatusTooManyRequests}, response.StatusCode)
	limited := 0
	for range 50 {
		got, err := s.ask("wrong", http.MethodGet, "/v1/coupons", "", "X-Forwarded-For", "203.0.113.1")
		require.NoError(t, err)
		if got.status == http.StatusTooManyRequests {
			limited++
		}
	}
	require.Greater(t, limited, 10)
	require.Equal(t, http.StatusOK, s.get("valid", "/v1/coupons").status, "a valid key always passes")

	// The console knows neither keys nor the addresses of the API.
	console, err := http.Get("http://" + s.program.Console + "/v1/coupons")
	require.NoError(t, err)
	require.NoError(t, console.Body.Close())
	require.Equal(t, http.StatusNotFound, console.StatusCode)

	// The file is read again: a new key works, and one that was removed does not.
	s.setKeys(line("new", "operator", "third"))
	testenv.Eventually(t, "the new key is known", func() bool {
		got, err := s.ask("third", http.MethodGet, fmt.Sprint("/v1/coupons/", id), "")
		require.NoError(t, err)
		return got.status == http.StatusOK
	})
	require.Equal(t, http.StatusUnauthorized, shown("Authorization", "Bearer valid"))
}

// Each operation is for its roles alone, also for those whose right depends on values.
func TestAPI_Roles(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.AddCoupon(5)
	roles := []string{"viewer", "marketing", "cs", "finance", "operator"}
	for call, want := range map[string]string{
		"GET /v1/coupons": "+++++", "GET /v1/coupons/%d": "+++++", "GET /v1/runs": "+++++", "GET /v1/dlq": "---++",
		"GET /v1/report?month=2026-11": "---++", "GET /v1/users/1": "--+++", "GET /v1/coupons/%d/users/1": "--+++",
		"POST /v1/coupons/%d/close": "-+--+", "POST /v1/coupons/%d/freeze": "----+", "POST /v1/coupons/%d/users/1/grant": "--+-+",
		"POST /v1/runs": "---++", "POST /v1/coupons": "-+--+", "POST /v1/coupons/%d/restore": "----+",
		`POST /v1/coupons/%d/dlq/drop {"user":["1"],"dryRun":true}`:        "--+++",
		`POST /v1/coupons/%d/dlq/drop {"cause":["BAD_ROW"],"dryRun":true}`: "---++",
		`POST /v1/coupons/%d/dlq/drop {"user":["1","2"],"dryRun":true}`:    "---++",
	} {
		call = strings.ReplaceAll(call, "%d", id.String())
		method, rest, _ := strings.Cut(call, " ")
		path, body, given := strings.Cut(rest, " ")
		if !given {
			body = map[string]string{"POST": `{"dryRun":true}`}[method]
		}
		may := ""
		for _, role := range roles {
			got, err := s.ask(role, method, path, body)
			require.NoError(t, err)
			if got.status == http.StatusForbidden {
				may += "-"
			} else {
				may += "+"
			}
		}
		require.Equal(t, want, may, call)
	}
}
