package api

import (
	"net/http"

	"github.com/jajeong/jajeong/docs"
)

// Values of headers, shared by all responses: nobody changes one in place, and none needs memory of its own.
var (
	noStore = []string{"no-store"}
	// A browser that is led here by somebody else's page neither guesses a type nor loads or frames anything.
	noSniff   = []string{"nosniff"}
	noContent = []string{"default-src 'none'; frame-ancestors 'none'"}

	forFiveMinutes = []string{"public, max-age=300"} // how long a new version may stay unseen
	yaml           = []string{"application/yaml"}
)

// openAPI is GET /openapi.yaml. It is for everybody: no user is asked for.
func (s *server) openAPI(w http.ResponseWriter, _ *http.Request) {
	header := w.Header()
	s.guard(header)
	header["Cache-Control"] = forFiveMinutes
	header["Content-Type"] = yaml
	_, _ = w.Write(docs.OpenAPI)
}

// guard sets what every response has.
func (s *server) guard(header http.Header) {
	header["X-Content-Type-Options"] = noSniff
	header["Content-Security-Policy"] = noContent
	if s.Draining != nil && s.Draining() {
		header.Set("Connection", "close")
	}
}
