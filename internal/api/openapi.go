package api

import (
	"net/http"

	"github.com/jajeong/jajeong/docs"
)

// Header values of the document.
var (
	forFiveMinutes = []string{"public, max-age=300"} // how long a new version may stay unseen
	yaml           = []string{"application/yaml"}
)

// openAPI is GET /openapi.yaml. It is for everybody: no user is asked for.
func (s *server) openAPI(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	s.guard(header, r)
	header["Cache-Control"] = forFiveMinutes
	header["Content-Type"] = yaml
	_, _ = w.Write(docs.OpenAPI)
}
