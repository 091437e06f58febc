package httpapi

import (
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/rs/cors"
)

// corsMaxAge is how long browsers remember what a preflight request was answered.
const corsMaxAge = 10 * time.Minute

// CrossOrigin lets pages of these origins use an API with these methods, and read its answers. A browser sends the
// gateway's cookies along. X-User-ID is not among the headers that a page may send: only the gateway sets it. Preflight
// requests of other pages get the answer that any other OPTIONS gets.
func CrossOrigin(origins []string, next http.Handler, methods ...string) http.Handler {
	if len(origins) == 0 {
		return next
	}
	policy := cors.New(cors.Options{
		AllowedOrigins:   origins,
		AllowedMethods:   methods,
		AllowedHeaders:   []string{"Authorization", "Content-Type", "Accept-Language", "Cache-Control", "Last-Event-ID", "X-Request-ID"},
		ExposedHeaders:   []string{"X-Request-ID", "Retry-After", "ETag", "WWW-Authenticate"},
		AllowCredentials: true,
		MaxAge:           int(corsMaxAge.Seconds()),
	})
	answered := policy.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodOptions && !policy.OriginAllowed(r) {
			w.Header()["Vary"] = []string{"Origin"}
			next.ServeHTTP(w, r)
			return
		}
		answered.ServeHTTP(w, r)
	})
}

// isOrigin reports whether text is an origin as browsers send it: scheme, host, and the port unless it is the usual one.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.Contains(text, "*") {
		return false
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) { // browsers send punycode
		return false
	}
	usual := u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443"
	return !usual && text == strings.ToLower(u.Scheme+"://"+u.Host)
}
