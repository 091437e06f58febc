package walletapi_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/jajeong/jajeong/internal/walletapi"
)

func hashOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// fileOf is a file with pairs of name and key.
func fileOf(pairs ...string) string {
	text := "# service keys\n\n"
	for i := 0; i < len(pairs); i += 2 {
		text += pairs[i] + " " + hashOf(pairs[i+1]) + "\n"
	}
	return text
}

// keysOf loads a file with pairs of name and key.
func keysOf(t *testing.T, pairs ...string) *walletapi.ServiceKeys {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte(fileOf(pairs...)), 0o600))
	keys, err := walletapi.LoadKeys(path)
	require.NoError(t, err)
	return keys
}

var routes = []struct{ method, path string }{
	{"PUT", "/v1/orders/DONE/coupon"}, {"DELETE", "/v1/orders/DONE/coupon"},
	{"POST", "/v1/orders/DONE/coupon/confirm"}, {"POST", "/v1/orders/DONE/coupon/refund"},
	{"GET", "/v1/orders/DONE/coupon"},
}

// statuses are the statuses of all routes of orders with these Authorization headers.
func statuses(handler http.Handler, authorization ...string) (all []int) {
	for _, route := range routes {
		request := httptest.NewRequest(route.method, route.path, contentOf(route.method))
		request.Header["Authorization"] = authorization
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		if recorder.Code == http.StatusUnauthorized && recorder.Header().Get("WWW-Authenticate") != "Bearer" {
			recorder.Code = 0
		}
		all = append(all, recorder.Code)
	}
	return all
}

var (
	taken   = []int{201, 200, 200, 200, 200}
	refused = []int{401, 401, 401, 401, 401}
	off     = []int{503, 503, 503, 503, 503}
)

func TestServiceKeys_EveryRoute(t *testing.T) {
	t.Parallel()
	handler := newHandler(walletapi.Options{Keys: keysOf(t, "checkout", "old", "checkout", "new", "till", "other")})
	for _, key := range []string{"old", "new", "other"} {
		require.Equal(t, taken, statuses(handler, "Bearer "+key), key)
		require.Equal(t, taken, statuses(handler, "bearer "+key), key)
	}
	for _, wrong := range [][]string{nil, {""}, {"Bearer"}, {"Bearer "}, {"Bearer wrong"}, {"Bearer old "},
		{"Basic old"}, {"old"},
		{"Bearer " + hashOf("old")}, {"Bearer checkout"}, {"Bearer old", "Bearer old"}} {
		require.Equal(t, refused, statuses(handler, wrong...), "%q", wrong)
	}
	require.Equal(t, off, statuses(newHandler(walletapi.Options{Keys: keysOf(t)}), "Bearer old"))
	none, err := walletapi.LoadKeys("")
	require.NoError(t, err)
	require.Equal(t, off, statuses(newHandler(walletapi.Options{Keys: none}), "Bearer old"))
}

// Kubernetes changes a mounted Secret by moving a symbolic link.
func TestServiceKeys_FollowTheirFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	link := filepath.Join(folder, "keys")
	mount := func(version, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(folder, version), []byte(text), 0o600))
		require.NoError(t, os.Symlink(version, link+".new"))
		require.NoError(t, os.Rename(link+".new", link))
	}
	mount("1", fileOf("checkout", "old"))
	keys, err := walletapi.LoadKeys(link)
	require.NoError(t, err)
	handler := newHandler(walletapi.Options{Keys: keys})
	core, logs := observer.New(zap.InfoLevel)
	look := func() { keys.Look(zap.New(core)) }

	mount("2", fileOf("checkout", "new"))
	look()
	require.Equal(t, refused, statuses(handler, "Bearer new"), "the file may still be written")
	look()
	require.Equal(t, refused, statuses(handler, "Bearer old"))
	require.Equal(t, taken, statuses(handler, "Bearer new"))

	mount("3", "checkout not-a-hash-but-perhaps-a-key\n")
	look()
	look()
	require.Equal(t, taken, statuses(handler, "Bearer new"), "the earlier keys stay")
	require.Equal(t, 2, logs.Len())
	require.NotContains(t, fmt.Sprint(logs.All()[1].ContextMap()), "perhaps-a-key")
}

func TestServiceKeys_WrongFilesAreRefused(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for _, path := range []string{filepath.Join(t.TempDir(), "missing"), t.TempDir(), pipe} {
		_, err := walletapi.LoadKeys(path)
		require.ErrorContains(t, err, "SERVICE_KEYS_FILE cannot be read", path)
	}
	hash := hashOf("k")
	for text, want := range map[string]string{
		"checkout":                            "line 1",
		"\n\ncheckout " + hash + "0":          "line 3",
		"checkout " + hash + " more":          "line 1",
		"check/out " + hash:                   "line 1",
		"settle " + hash:                      "line 1",
		"checkout " + strings.Repeat("g", 64): "line 1",
		strings.Repeat("n", 65) + " " + hash:  "line 1",
		"a " + hash + "\nb " + hash:           "lines 1 and 2",
		strings.Repeat("#", 64<<10+1):         "65536 bytes",
	} {
		path := filepath.Join(t.TempDir(), "keys")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := walletapi.LoadKeys(path)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), hash)
	}
}
