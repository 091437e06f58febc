// Package console shows the verbs of settle as pages, for people without a shell.
//
// A page is what a verb prints, in the reader's language, with links, and names the command. A change is a form, made
// of the declaration of its verb: its preview is what the verb prints with --dry-run, and its execution is the verb
// with the name of the signed-in person.
// The console therefore decides nothing about coupons; it decides who may see and do what. A change that the policy
// names is asked for instead, and executed after another person has approved it.
//
// Changes run in jobs: leaving a page stops nothing. The id of a job is made with its form, so that a form that is sent
// twice runs once. What a job prints is in memory; its row is for others, such as the management API. What jobs do is
// safe to kill, as in the terminal.
package console

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/httpapi"
	record "github.com/jajeong/jajeong/internal/job"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/overview"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
)

// besides returns what is wrong with values, in a fixed order, without what stands beside the fields of a form, which
// may be nil.
func besides(f *form, wrong map[string]string) []string {
	rest := maps.Clone(wrong)
	if f != nil {
		for _, field := range f.Fields {
			delete(rest, field.Name)
		}
	}
	return slices.Sorted(maps.Values(rest))
}

// Config is what the console needs. All fields are required.
type Config struct {
	Verbs   verb.Verbs
	Run     func(ctx context.Context, c verb.Call) verb.Answer
	SignIn  *signin.SignIn
	DB      mysqltx.Querier
	Jobs    *record.Runner
	Lists   *httpapi.Lists
	Reads   *overview.Reader
	Zone    func(ctx context.Context) (*time.Location, error) // time zone of the nights and of the times on pages
	Now     func() time.Time
	Logger  *zap.Logger
	Metrics prometheus.Registerer
	Version string
}

// Console is an http.Handler.
type Console struct {
	Config
	handler http.Handler
	sets    map[text.Language]*template.Template
	kept    kept
	metrics metrics
}

//go:embed pages/*.html
var sources embed.FS

//go:embed pages/style.css
var style []byte

// stylePath changes with the style sheet, so that browsers keep it for long.
var stylePath = func() string {
	sum := sha256.Sum256(style)
	return "/style-" + hex.EncodeToString(sum[:6]) + ".css"
}()

func New(config Config) *Console {
	c := &Console{Config: config, sets: map[text.Language]*template.Template{}, metrics: newMetrics(config.Metrics)}
	config.Metrics.MustRegister(config.SignIn.Metrics())
	for _, language := range []text.Language{text.Korean, text.English} {
		c.sets[language] = template.Must(template.New("").Option("missingkey=error").Funcs(template.FuncMap{
			"w": func(name string) (string, error) { return word(language, name) },
		}).ParseFS(sources, "pages/*.html"))
	}
	open := http.NewServeMux()
	open.HandleFunc("GET "+stylePath, serveStyle)
	open.HandleFunc("GET /language", c.setLanguage)
	open.Handle("/", config.SignIn.Guard(c.routes(), c.notLetIn))
	c.handler = secured(open)
	return c
}

func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// word returns a word of the pages.
func word(language text.Language, name string) (string, error) {
	m, known := text.ConsoleWords[name]
	if !known {
		return "", fmt.Errorf("the pages have no word %q", name)
	}
	return m.In(language), nil
}

const (
	// maxBody is enough for a form with a receipt. One with a list may have more.
	maxBody = 16 << 10
	// pageTimeout bounds a page. Reports, lists of winners, and lists that are sent have fileTimeout.
	pageTimeout = 20 * time.Second
	fileTimeout = httpapi.ListArrives
)

// secured adds the headers that every answer has, and bounds its request.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy",
			"default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; "+
				"base-uri 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		r.Body = http.MaxBytesReader(w, r.Body, bodyLimit(r))
		next.ServeHTTP(w, r)
	})
}

func serveStyle(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(style)
}

const languageCookie = "__Host-jajeong-language"

// language is the one that the reader has chosen, or that of the browser.
func language(r *http.Request) text.Language {
	if cookie, err := r.Cookie(languageCookie); err == nil {
		switch chosen := text.Language(cookie.Value); chosen {
		case text.Korean, text.English:
			return chosen
		}
	}
	return httpapi.LanguageOf(r.Header)
}

func (c *Console) setLanguage(w http.ResponseWriter, r *http.Request) {
	chosen := text.Korean
	if r.URL.Query().Get("to") == string(text.English) {
		chosen = text.English
	}
	http.SetCookie(w, &http.Cookie{Name: languageCookie, Value: string(chosen), Path: "/", MaxAge: 365 * 24 * 3600,
		HttpOnly: true, Secure: true,
		SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, signin.LocalPath(r.URL.Query().Get("back")), http.StatusSeeOther)
}

// page is what the layout shows.
type page struct {
	Title    string
	Language text.Language
	Person   signin.Person
	DevUser  string
	SignOut  bool
	Menu     []link
	Style    string
	Here     string // path and query of this page, for the choice of the language
	Query    string // content of the search box
	Searches bool   // the person may search
	Refresh  bool   // the page loads again by itself
	Version  string

	Lead    []string // sentences above everything else
	Bad     bool     // they are bad news
	Blocks  []block
	leads   func(value any) string // path that a cell leads to, if it is not the usual one; may be nil
	last    any                    // id of the last row of a full table
	away    bool                   // a server is away, and the verb may succeed later
	wrong   bool                   // a value is
	missing bool                   // what the verb was asked about does not exist
	digest  string                 // digest of the preview; empty: it has none
	costWon int64                  // of what is previewed; 0: nothing
	Notes   []string               // what the verb printed to standard error
	Links   []link
	Changes []link // forms of changes
	Form    *form
	Do      *do
	Command string

	Curve    *curve
	Tonight  *tonightPage
	Approval *approvalPage
}

type link struct {
	Text, Href string
	Here       bool
}

func (c *Console) page(r *http.Request, title string) *page {
	p := signin.From(r.Context())
	l := language(r)
	is := &page{Title: title, Language: l, Person: p, DevUser: c.SignIn.DevUser(), SignOut: c.SignIn.CanSignOut(),
		Style: stylePath,
		Here:  r.URL.RequestURI(), Searches: p.May(signin.SeePerson), Version: c.Version}
	if r.Method != http.MethodGet {
		is.Here = "/"
	}
	for _, one := range menu {
		if p.May(one.right) {
			name, _ := word(l, one.word)
			is.Menu = append(is.Menu, link{name, one.path, r.URL.Path == one.path || one.path != "/" &&
				strings.HasPrefix(r.URL.Path, one.path)})
		}
	}
	return is
}

func (c *Console) locale(ctx context.Context, l text.Language) (output.Locale, error) {
	zone, err := c.Zone(ctx)
	return output.Locale{Language: l, Zone: zone}, err
}

var menu = []struct {
	word, path string
	right      signin.Right
}{
	{"tonight", "/", signin.See}, {"coupons", "/coupons", signin.See}, {"runs", "/runs", signin.See},
	{"report", "/report", signin.SeeLists},
	{"dlq", "/dlq", signin.SeeLists}, {"approvals", "/approvals", signin.Act},
}

func (c *Console) show(w http.ResponseWriter, status int, p *page) {
	if status >= http.StatusBadRequest { // nothing leads on from what is not there
		p.Changes = nil
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := c.sets[p.Language].ExecuteTemplate(w, "layout.html", p); err != nil {
		c.Logger.Warn("page not written", zap.String("title", p.Title), zap.Error(err))
	}
}

// refused shows a page instead of what was asked for.
func (c *Console) refused(w http.ResponseWriter, r *http.Request, status int, m text.Message, args ...any) {
	l := language(r)
	p := c.page(r, l.Sprintf(text.ConsoleTitles[status]))
	if status == http.StatusOK {
		p.Title = l.Sprintf(m, args...)
	}
	p.Lead, p.Bad = []string{output.Printable(l.Sprintf(m, args...))}, status >= http.StatusBadRequest
	if p.Person.Name == "" && status != http.StatusForbidden || status == http.StatusOK {
		p.Links = []link{{l.Sprintf(text.ConsoleBegin), "/", false}}
	}
	c.show(w, status, p)
}

// notLetIn shows why the sign-in does not let a request in.
func (c *Console) notLetIn(w http.ResponseWriter, r *http.Request, why signin.Refusal, args ...any) {
	if why.Reason != "" {
		c.metrics.refused.WithLabelValues(why.Reason).Inc()
	}
	c.refused(w, r, why.Status, why.Message, args...)
}

// failed shows an error of a server, or that something does not exist.
func (c *Console) failed(w http.ResponseWriter, r *http.Request, err error) {
	if text.IsMissing(err) {
		c.refused(w, r, http.StatusNotFound, text.ConsoleWrong, text.In(language(r), err))
		return
	}
	c.Logger.Warn("page failed", zap.String("path", r.URL.Path), zap.Error(err))
	c.refused(w, r, http.StatusServiceUnavailable, text.ConsoleServerAway, text.In(language(r), err))
}

// may answers 403 unless the person of the request has the right.
func (c *Console) may(w http.ResponseWriter, r *http.Request, right signin.Right) bool {
	if signin.From(r.Context()).May(right) {
		return true
	}
	c.forbidden(w, r)
	return false
}

// forbidden answers what no role of the person has the right to.
func (c *Console) forbidden(w http.ResponseWriter, r *http.Request) {
	c.metrics.refused.WithLabelValues(noRight).Inc()
	c.refused(w, r, http.StatusForbidden, text.ConsoleNoRight)
}

// policy returns the policy of approvals in force.
func (c *Console) policy(ctx context.Context) (approval.Policy, error) {
	return approval.ReadPolicy(ctx, c.DB)
}

// shell is how a person types words into a shell.
func shell(words []string) string {
	typed := make([]string, len(words))
	for i, word := range words {
		typed[i] = quoted(word)
	}
	return strings.Join(typed, " ")
}

func quoted(arg string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_=.,:/@+", r)
	}
	if arg != "" && strings.IndexFunc(arg, func(r rune) bool { return !plain(r) }) < 0 {
		return arg
	}
	name, value, isFlag := strings.Cut(arg, "=")
	if isFlag && strings.HasPrefix(name, "--") {
		return name + "='" + strings.ReplaceAll(output.Printable(value), "'", `'\''`) + "'"
	}
	return "'" + strings.ReplaceAll(output.Printable(arg), "'", `'\''`) + "'"
}

// query returns a path with a query; empty values are left out.
func query(path string, pairs ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}
