package httpapi

import (
	"bytes"
	"io"
	"net/http"
)

// MaxContent is the maximum of a request's content, in bytes. It leaves space for white space.
const MaxContent = 1 << 10

// HasNoContent reports whether a request has no content. An empty JSON object counts as none, because some clients
// always send one. Content that is too long, or does not arrive completely, counts as some.
func HasNoContent(w http.ResponseWriter, r *http.Request) bool {
	if r.ContentLength == 0 {
		return true
	}
	content, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxContent))
	written := bytes.Join(bytes.Fields(content), nil)
	return err == nil && (len(written) == 0 || string(written) == "{}")
}
