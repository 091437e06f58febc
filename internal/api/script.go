package api

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"net/http"
	"strconv"
	"strings"

	"github.com/jajeong/jajeong/internal/httpapi"
)

//go:embed jajeong.js
var source string

// representation is the script for pages in one encoding.
type representation struct {
	body           []byte
	etag, encoding string // encoding: value of Content-Encoding; empty: none
}

var plainScript, gzipScript = newScript(source)

func newScript(source string) (plain, compressed representation) {
	text := []byte(withoutComments(source))
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // fails only for an unknown level
	_, _ = w.Write(text)                                  // a Buffer fails never
	_ = w.Close()
	return representation{text, etagOf(text), ""}, representation{b.Bytes(), etagOf(b.Bytes()), "gzip"}
}

// withoutComments drops indentation, empty lines, and lines that are comments.
func withoutComments(source string) string {
	var b strings.Builder
	for line := range strings.Lines(source) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// Header values are shared by all responses, and never changed.
var (
	byEncoding  = []string{"Accept-Encoding"}
	javaScript  = []string{"text/javascript; charset=utf-8"}
	everyOrigin = []string{"cross-origin"}
)

// script answers with the script that pages of every origin may load.
func (s *server) script(w http.ResponseWriter, r *http.Request) {
	if !httpapi.HasNoContent(w, r) {
		s.write(w, r, refuse(invalidBody))
		return
	}
	as := plainScript
	if acceptsGzip(r.Header.Values("Accept-Encoding")) {
		as = gzipScript
	}
	header := w.Header()
	httpapi.SetFileHeaders(header, s.last(r))
	httpapi.AddVary(header, byEncoding)
	header["Cross-Origin-Resource-Policy"] = everyOrigin
	header["Etag"] = []string{as.etag}
	if matches(r.Header.Values("If-None-Match"), as.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header["Content-Type"] = javaScript
	header["Content-Length"] = []string{strconv.Itoa(len(as.body))}
	if as.encoding != "" {
		header["Content-Encoding"] = []string{as.encoding}
	}
	_, _ = w.Write(as.body)
}

// acceptsGzip reports whether a client takes an answer in gzip.
func acceptsGzip(lists []string) bool {
	for _, list := range lists {
		for coding := range strings.SplitSeq(list, ",") {
			name, weight, _ := strings.Cut(coding, ";")
			if strings.EqualFold(strings.TrimSpace(name), "gzip") {
				_, q, _ := strings.Cut(weight, "=")
				value, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
				return err != nil || value > 0
			}
		}
	}
	return false
}
