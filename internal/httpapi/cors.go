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
)

// corsMaxAge is how long browsers remember what a preflight request was answered.
const corsMaxAge = 10 * time.Minute

// CrossOrigin lets pages of these origins use an API with these methods, and read its answers. A browser sends the
// gateway's cookies along. They may send every header but X-User-ID: shops measure and trace by headers of their own,
// and those that an API does not know do nothing. Preflight requests of other pages get the answer that any other
// OPTIONS gets.
func CrossOrigin(origins []string, next http.Handler, methods ...string) http.Handler {
	if len(origins) == 0 {
		return next
	}
	policy := cors.New(cors.Options{
		AllowedOrigins:   origins,
		AllowedMethods:   methods,
		AllowedHeaders:   []string{"*"},
		ExposedHeaders:   []string{"X-Request-ID", "Retry-After", "ETag", "WWW-Authenticate"},
		AllowCredentials: true,
		MaxAge:           int(corsMaxAge.Seconds()),
	})
	answered := policy.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodOptions && (!policy.OriginAllowed(r) || wouldSendUserID(r)) {
			w.Header()["Vary"] = []string{"Origin"}
			next.ServeHTTP(w, r)
			return
		}
		answered.ServeHTTP(w, r)
	})
}

// ForeignPages returns a check whether a page sends a request that may change something, and is neither of the
// request's host nor of these origins. A browser would send the gateway's cookies along. Programs send no Origin.
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
	logger.Warn(
		"request of another origin's page refused; CORS_ORIGINS names the origins of pages, and proxies pass on Host",
		LogRequest(r),
		zap.String("origin", r.Header.Get("Origin")), zap.String("host", r.Host))
}

// pageSchemes are the schemes of pages on the web and in apps by Capacitor and Ionic.
var pageSchemes = []string{"http", "https", "capacitor", "ionic"}

// isOrigin reports whether text is an origin as browsers send it: scheme, host, and the port unless it is the usual
// one.
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

// wouldSendUserID reports whether a preflight request asks for X-User-ID, by which a page could pretend to be anybody.
func wouldSendUserID(r *http.Request) bool {
	for name := range strings.SplitSeq(strings.Join(r.Header.Values("Access-Control-Request-Headers"), ","), ",") {
		if strings.EqualFold(strings.TrimSpace(name), "X-User-ID") {
			return true
		}
	}
	return false
}
