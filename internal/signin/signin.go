package signin

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/alexedwards/scs/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/audit"
)

// SignIn finds out who sends a request to the console.
type SignIn struct {
	settings *Settings
	logger   *zap.Logger
	warnings *zap.Logger // writes one line a second of each kind, because anybody can send requests
	now      func() time.Time

	// who returns the person of a request. With done, it has answered the request itself.
	who  func(w http.ResponseWriter, r *http.Request, refuse Refuse) (p Person, done bool)
	oidc *openID // nil: another sign-in

	sessions *scs.SessionManager // nil: each request says who sends it
	signIns  *prometheus.CounterVec
}

// DevUser is the name of the development user, for a banner on each page; empty if persons sign in.
func (s *SignIn) DevUser() string { return s.settings.dev.Name }

// CanSignOut reports whether the console itself ends sessions.
func (s *SignIn) CanSignOut() bool { return s.sessions != nil }

// Paths of the sign-in.
const (
	signInPath   = "/sign-in"
	callbackPath = "/sign-in/callback"
	SignOutPath  = "/sign-out"
)

// Guard lets only signed-in persons with a role pass, and no request that another site makes a browser send.
func (s *SignIn) Guard(next http.Handler, refuse Refuse) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, otherOrigin)
	}))
	guarded := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		switch {
		case s.oidc != nil && r.URL.Path == signInPath && r.Method == http.MethodGet:
			s.oidc.begin(w, r, refuse)
			return
		case s.oidc != nil && r.URL.Path == callbackPath && r.Method == http.MethodGet:
			s.oidc.finish(w, r, refuse)
			return
		}
		p, done := s.who(w, r, refuse)
		switch {
		case done:
		case len(p.Roles) == 0:
			s.warnings.Warn("person without a role", zap.String("person", p.Name), zap.String("sign_in", p.SignIn))
			refuse(w, r, noRole, p.Name)
		case s.sessions != nil && r.URL.Path == SignOutPath && r.Method == http.MethodPost:
			s.signOut(w, r, refuse)
		default:
			next.ServeHTTP(w, r.WithContext(With(r.Context(), p)))
		}
	}))
	if s.sessions != nil {
		guarded = s.sessions.LoadAndSave(guarded)
	}
	return protection.Handler(guarded)
}

// devUser believes a request of this machine to this machine. A proxy on this machine may pass on what others send.
func (s *SignIn) devUser(w http.ResponseWriter, r *http.Request, refuse Refuse) (Person, bool) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() || !isLocal(r.Host) || passedOn(r.Header) {
		refuse(w, r, devUserAbroad)
		return Person{}, true
	}
	return s.settings.dev, false
}

// Headers of a proxy.
const (
	userHeader   = "X-Forwarded-User"
	groupsHeader = "X-Forwarded-Groups"
	// maxName is the width of the columns for names, in characters.
	maxName = 100
	// maxSignIn is the width of the columns for Person.SignIn.
	maxSignIn = 400
)

// proxied believes the headers of a trusted proxy. A header that was sent twice, or in another spelling, is refused:
// the proxy may have let that of the client pass.
func (s *SignIn) proxied(w http.ResponseWriter, r *http.Request, refuse Refuse) (Person, bool) {
	trusted := s.settings.proxies.Sent(r)
	user, ok := single(r.Header, userHeader)
	groups, okGroups := single(r.Header, groupsHeader)
	if !trusted || !ok || !okGroups || !goodName(user) {
		s.warnings.Warn("X-Forwarded-User is not believed", zap.String("remote", r.RemoteAddr),
			zap.Bool("trusted", trusted))
		refuse(w, r, notBelieved)
		return Person{}, true
	}
	var all []string
	for group := range strings.SplitSeq(groups, ",") {
		all = append(all, strings.TrimSpace(group))
	}
	return Person{Name: user, Roles: s.settings.rolesOf(all), SignIn: user}, false
}

// single returns the value of a header. It is not ok if the header was sent twice, or in a spelling that is not
// canonical.
func single(h http.Header, name string) (value string, ok bool) {
	for key := range h {
		if key != name && plain(key) == plain(name) {
			return "", false
		}
	}
	return h.Get(name), len(h[name]) <= 1
}

// passedOn reports whether a proxy has passed a request on.
func passedOn(h http.Header) bool {
	for key := range h {
		if name := plain(key); strings.HasPrefix(name, "x-forwarded-") ||
			slices.Contains([]string{"via", "forwarded", "x-real-ip"}, name) {
			return true
		}
	}
	return false
}

// plain maps the spellings that programs take for the same header to one.
func plain(header string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(header))
}

// goodName reports whether a name can be that of a person. The program's own name and those of keys are nobody's.
func goodName(name string) bool {
	return Visible(name) && !audit.NamesProgram(name) && !audit.NamesKey(name) &&
		utf8.RuneCountInString(name) <= maxName
}

// Visible reports whether a name is seen, and no part of it is invisible, so that two persons do not look like one.
func Visible(name string) bool {
	invisible := func(r rune) bool {
		// U+2800 is a blank of Braille.
		return !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point,
			unicode.Variation_Selector) || r == '\u2800'
	}
	seen := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }
	return strings.ContainsFunc(name, seen) && !strings.ContainsFunc(name, invisible) && utf8.ValidString(name)
}
