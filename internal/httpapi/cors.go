package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/rs/cors"
	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"
)

// corsMaxAge is how long browsers remember what a preflight request was answered.
const corsMaxAge = 10 * time.Minute

// Pages says which pages of other origins may use an API.
type Pages struct {
	Origins []string // of the pages
	Headers []string // which they may send beside ownHeaders
}

// ownHeaders are the request headers that mean something to the APIs. X-User-ID is not among them: only the gateway sets it.
var ownHeaders = []string{"Authorization", "Content-Type", "Accept-Language", "Cache-Control", "If-None-Match", "Last-Event-ID", "X-Request-ID"}

// CrossOrigin lets pages use an API with these methods, and read its answers. A browser sends the gateway's cookies along.
// Preflight requests of other pages get the answer that any other OPTIONS gets.
func CrossOrigin(pages Pages, next http.Handler, methods ...string) http.Handler {
	if len(pages.Origins) == 0 {
		return next
	}
	policy := cors.New(cors.Options{
		AllowedOrigins:   pages.Origins,
		AllowedMethods:   methods,
		AllowedHeaders:   slices.Concat(ownHeaders, pages.Headers),
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

// ForeignPages returns a check whether a page sends a request that may change something, and is neither of the request's host nor of
// these origins. A browser would send the gateway's cookies along. Programs send no Origin.
func ForeignPages(origins []string) func(r *http.Request) bool {
	protection := http.NewCrossOriginProtection()
	for _, origin := range origins {
		if err := protection.AddTrustedOrigin(origin); err != nil {
			panic(err) // Settings.Validate has refused such an origin
		}
	}
	return func(r *http.Request) bool { return r.Header.Get("Origin") != "" && protection.Check(r) != nil }
}

// LogForeignPage is for a setting that is missing: whoever sees the line can compare both names.
func LogForeignPage(logger *zap.Logger, r *http.Request) {
	logger.Warn("request of another origin's page refused; CORS_ORIGINS names the origins of pages, and proxies pass on Host", LogRequest(r),
		zap.String("origin", r.Header.Get("Origin")), zap.String("host", r.Host))
}

// pageSchemes are the schemes of pages on the web and in apps by Capacitor and Ionic.
var pageSchemes = []string{"http", "https", "capacitor", "ionic"}

// isOrigin reports whether text is an origin as browsers send it: scheme, host, and the port unless it is the usual one.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	if err != nil || !slices.Contains(pageSchemes, u.Scheme) || u.Hostname() == "" || strings.Contains(text, "*") {
		return false
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) { // browsers send punycode
		return false
	}
	usual := u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443"
	return !usual && text == strings.ToLower(u.Scheme+"://"+u.Host)
}

// isPageHeader reports whether a page may send a header of this name. By X-User-ID it could pretend to be anybody.
func isPageHeader(name string) bool {
	return httpguts.ValidHeaderFieldName(name) && name != "*" && !strings.EqualFold(name, "X-User-ID")
}
