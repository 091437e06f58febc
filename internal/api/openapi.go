package api

import (
	"net/http"

	"github.com/jajeong/jajeong/docs"
)

// Header values of the document.
var (
	forFiveMinutes = []string{"public, max-age=300"} // longest time until clients see a new version
	yaml           = []string{"application/yaml"}
)

// openAPI is GET /openapi.yaml. It needs no user.
func (s *server) openAPI(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	s.setCommon(header, r)
	header["Cache-Control"] = forFiveMinutes
	header["Content-Type"] = yaml
	_, _ = w.Write(docs.OpenAPI)
}
