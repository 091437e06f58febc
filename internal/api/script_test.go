package api_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/testenv"
)

const script = "/v1/jajeong.js"

// maxScript is in bytes, as a browser gets it: pages wait for it before they count down.
const maxScript = 3000

func TestScript_IsSmallAndCached(t *testing.T) {
	t.Parallel()
	handler := newHandler(api.Options{Origins: []string{shop}})
	plain := request(handler, http.MethodGet, script)
	compressed := request(handler, http.MethodGet, script, "Accept-Encoding", "gzip, deflate, br, zstd", "Origin", shop)
	require.Equal(t, "gzip", compressed.Header().Get("Content-Encoding"))
	require.LessOrEqual(t, compressed.Body.Len(), maxScript)
	require.Equal(t, []string{"Origin", "Accept-Encoding"}, compressed.Header()["Vary"])
	require.Equal(t, []string{"Origin", "Accept-Encoding"}, plain.Header()["Vary"])
	reader, err := gzip.NewReader(compressed.Body)
	require.NoError(t, err)
	text, err := io.ReadAll(reader)
	require.NoError(t, err)
	require.Equal(t, plain.Body.String(), string(text))
	require.NotContains(t, plain.Body.String(), "//")
	require.NotEqual(t, plain.Header().Get("ETag"), compressed.Header().Get("ETag"), "a tag names one representation")

	for coding, answer := range map[string]http.Header{"": plain.Header(), "gzip": compressed.Header()} {
		require.Equal(t, "text/javascript; charset=utf-8", answer.Get("Content-Type"))
		require.Equal(t, "public, max-age=300", answer.Get("Cache-Control"))
		require.Equal(t, "cross-origin", answer.Get("Cross-Origin-Resource-Policy"))
		require.Equal(t, "nosniff", answer.Get("X-Content-Type-Options"))
		again := request(handler, http.MethodGet, script, "Accept-Encoding", coding, "If-None-Match",
			answer.Get("ETag"))
		require.Equal(t, http.StatusNotModified, again.Code)
		require.Empty(t, again.Body.Bytes())
		require.Equal(t, answer.Get("ETag"), again.Header().Get("ETag"))
	}
	for _, header := range []string{"gzip;q=0", "br", "gzip; q=0.0, br", "gzipped"} {
		require.Empty(t, request(handler, http.MethodGet, script, "Accept-Encoding",
			header).Header().Get("Content-Encoding"), header)
	}
	for _, header := range []string{"gzip;q=0.5", "br, GZIP", "br;q=1, gzip;q=x"} {
		require.Equal(t, "gzip", request(handler, http.MethodGet, script, "Accept-Encoding",
			header).Header().Get("Content-Encoding"), header)
	}
	head := request(handler, http.MethodHead, script)
	require.Equal(t, plain.Header().Get("Content-Length"), head.Header().Get("Content-Length"))
}

// A strict Content-Security-Policy and Trusted Types allow what the script does, and each text is there in both
// languages.
func TestScript_IsStrictAndBilingual(t *testing.T) {
	t.Parallel()
	source := testenv.Content(t, "jajeong.js")
	require.NotRegexp(t, `\beval\b|Function\(|innerHTML|insertAdjacent|\.style\b|document\.write|\son\w+=`,
		string(source))
	texts := regexp.MustCompile(`(?m)^  (\w+): \['(.*)', '(.*)'\],$`).FindAllStringSubmatch(string(source), -1)
	byName := map[string]bool{}
	for _, text := range texts {
		name, korean, english := text[1], text[2], text[3]
		byName[name] = true
		require.Equal(t, name != "language", hasHangul(korean), name)
		require.False(t, hasHangul(english), name)
	}
	for _, state := range []string{"UPCOMING", "OPEN", "PAUSED", "SOLD_OUT", "CLOSED", "PENDING", "UNDER_REVIEW",
		"ISSUED", "NOT_SELECTED", "REJECTED", "UNKNOWN", "UNAUTHENTICATED"} {
		require.True(t, byName[state], state)
	}
}
