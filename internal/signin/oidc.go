package signin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/alexedwards/scs/v2/memstore"
	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/gorilla/securecookie"
	"go.uber.org/zap"
	"golang.org/x/oauth2"

	"github.com/jajeong/jajeong/internal/text"
)

const (
	sessionCookie = "__Host-jajeong-console"
	// flowCookie is the prefix of a cookie's name; the state follows. Each tab of a browser has a flow of its own.
	flowCookie = "__Host-jajeong-sign-in-"

	sessionEnds = 8 * time.Hour // a working day
	sessionIdle = time.Hour
	// maxSessions bounds the memory of sessions: above it nobody signs in until some end.
	maxSessions = 10_000
	// maxOwnSessions bounds the sessions of one person: a further one ends the oldest.
	maxOwnSessions = 10

	// flowEnds is how long a person may take at the provider.
	flowEnds = 10 * time.Minute
	// maxFlows bounds the cookies of a browser that begins and never ends: the headers of a request are bounded.
	maxFlows = 5
	// maxPath bounds the address to return to, so that its cookie is one that browsers keep.
	maxPath = 1000
	// providerTimeout bounds each call to the provider, and retryAfter how often it is asked while it is away.
	providerTimeout = 5 * time.Second
	retryAfter      = 2 * time.Second
)

// openID speaks with the provider. It is discovered at the first sign-in, and again after a failure.
type openID struct {
	*SignIn
	client  *http.Client
	answers *answers
	flows   *securecookie.SecureCookie // signs the cookies of flows, with a key that ends with the process

	mu       sync.Mutex
	provider *oidc.Provider
	failed   error
	failedAt time.Time
}

func (s *SignIn) openOIDC() {
	from := new(answers)
	flows := securecookie.New([]byte(rand.Text()), nil).MaxAge(int(flowEnds.Seconds())).
		SetSerializer(securecookie.JSONEncoder{})
	s.oidc = &openID{SignIn: s, client: &http.Client{Timeout: providerTimeout, Transport: from}, answers: from,
		flows: flows}
	s.who = s.inSession
	s.sessions = scs.New()
	s.sessions.Store = memstore.New()
	s.sessions.Lifetime, s.sessions.IdleTimeout = sessionEnds, sessionIdle
	s.sessions.HashTokenInStore = true
	s.sessions.Cookie = scs.SessionCookie{Name: sessionCookie, Path: "/", HttpOnly: true, Secure: true,
		SameSite: http.SameSiteLaxMode}
}

// The values of a session.
const (
	nameKey   = "name"
	rolesKey  = "roles"
	signInKey = "sign-in"
)

// inSession returns the person of the session. Without one, a page sends the browser to the provider, and a form is
// refused.
func (s *SignIn) inSession(w http.ResponseWriter, r *http.Request, refuse Refuse) (Person, bool) {
	ctx := r.Context()
	if name := s.sessions.GetString(ctx, nameKey); name != "" {
		p := Person{Name: name, SignIn: s.sessions.GetString(ctx, signInKey)}
		for role := range strings.SplitSeq(s.sessions.GetString(ctx, rolesKey), ",") {
			p.Roles = append(p.Roles, Role(role))
		}
		return p, false
	}
	if r.Method != http.MethodGet {
		refuse(w, r, noSession)
		return Person{}, true
	}
	http.Redirect(w, r, signInPath+"?"+url.Values{"to": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
	return Person{}, true
}

// flow is what the browser keeps between the two steps of a sign-in, under the state.
type flow struct {
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"` // code verifier of PKCE
	To       string `json:"to"`
}

// begin sends the browser to the provider.
func (o *openID) begin(w http.ResponseWriter, r *http.Request, refuse Refuse) {
	provider, err := o.discover()
	if err != nil {
		o.warnings.Warn("the provider of identities is away", zap.Error(err))
		refuse(w, r, o.refused(unavailable))
		return
	}
	if begun := flowsOf(r); len(begun) >= maxFlows {
		for _, cookie := range begun {
			setFlow(w, cookie.Name, "", -1)
		}
	}
	state := rand.Text()
	f := flow{Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), To: LocalPath(r.URL.Query().Get("to"))}
	kept, err := o.flows.Encode(flowCookie+state, f)
	if err != nil {
		o.warnings.Error("sign-in not begun", zap.Error(err))
		refuse(w, r, o.refused(unavailable))
		return
	}
	setFlow(w, flowCookie+state, kept, int(flowEnds.Seconds()))
	http.Redirect(w, r, o.config(provider).AuthCodeURL(state, oidc.Nonce(f.Nonce),
		oauth2.S256ChallengeOption(f.Verifier)), http.StatusSeeOther)
}

func flowsOf(r *http.Request) (all []*http.Cookie) {
	for _, cookie := range r.Cookies() {
		if strings.HasPrefix(cookie.Name, flowCookie) {
			all = append(all, cookie)
		}
	}
	return all
}

func setFlow(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, Secure: true,
		SameSite: http.SameSiteLaxMode})
}

// finish signs the person in whom the provider sends back.
func (o *openID) finish(w http.ResponseWriter, r *http.Request, refuse Refuse) {
	f, err := o.endFlow(w, r)
	var p Person
	if err == nil {
		p, err = o.person(r.Context(), f, r.URL.Query().Get("code"))
	}
	switch {
	case err != nil:
		o.warnings.Warn("sign-in refused", zap.Error(err))
		refuse(w, r, o.refused(failed))
		return
	case len(p.Roles) == 0:
		o.warnings.Warn("person without a role", zap.String("person", p.Name), zap.String("sign_in", p.SignIn))
		refuse(w, r, o.refused(withoutRole), p.Name)
		return
	}
	if err := o.beginSession(r.Context(), p); err != nil {
		o.warnings.Error("session not begun", zap.Error(err))
		refuse(w, r, o.refused(unavailable))
		return
	}
	o.signIns.WithLabelValues(signedIn).Inc()
	o.logger.Info("signed in", zap.String("person", p.Name), zap.String("sign_in", p.SignIn), zap.Any("roles", p.Roles))
	http.Redirect(w, r, f.To, http.StatusSeeOther)
}

// beginSession puts the person into the session of the request. A session that existed before gets another id.
func (s *SignIn) beginSession(ctx context.Context, p Person) error {
	if err := s.sessions.RenewToken(ctx); err != nil {
		return err
	}
	if err := s.makeRoom(p.SignIn); err != nil {
		return err
	}
	var roles []string
	for _, role := range p.Roles {
		roles = append(roles, string(role))
	}
	s.sessions.Put(ctx, nameKey, p.Name)
	s.sessions.Put(ctx, rolesKey, strings.Join(roles, ","))
	s.sessions.Put(ctx, signInKey, p.SignIn)
	return nil
}

// makeRoom ends the oldest sessions of a person who has too many. It fails while there are too many sessions of all
// persons.
func (s *SignIn) makeRoom(signIn string) error {
	store := s.sessions.Store.(*memstore.MemStore)
	all, err := store.All()
	if err != nil {
		return err
	}
	ends := map[string]time.Time{} // the person's sessions; all sessions live equally long
	for id, stored := range all {
		end, values, err := s.sessions.Codec.Decode(stored)
		if err != nil {
			return err
		}
		if values[signInKey] == signIn {
			ends[id] = end
		}
	}
	oldest := slices.SortedFunc(maps.Keys(ends), func(a, b string) int { return ends[a].Compare(ends[b]) })
	for len(oldest) >= maxOwnSessions {
		if err := store.Delete(oldest[0]); err != nil {
			return err
		}
		oldest = oldest[1:]
	}
	if len(all) >= maxSessions {
		return fmt.Errorf("%d sessions: nobody can sign in until some end", len(all))
	}
	return nil
}

func (s *SignIn) signOut(w http.ResponseWriter, r *http.Request, refuse Refuse) {
	if err := s.sessions.Destroy(r.Context()); err != nil {
		refuse(w, r, Refusal{Status: http.StatusServiceUnavailable, Message: text.ProviderAway})
		return
	}
	refuse(w, r, Refusal{Status: http.StatusOK, Message: text.SignedOut})
}

// endFlow returns the flow of the browser that the provider sends back, and takes its cookie away. A cookie that this
// process has not made is refused before anything is asked of the provider.
func (o *openID) endFlow(w http.ResponseWriter, r *http.Request) (f flow, err error) {
	given := r.URL.Query()
	cookie, err := r.Cookie(flowCookie + given.Get("state"))
	if err != nil {
		return f, errors.New("the browser did not begin this sign-in, or more than 10 minutes ago")
	}
	setFlow(w, cookie.Name, "", -1)
	if err := o.flows.Decode(cookie.Name, cookie.Value, &f); err != nil {
		return f, fmt.Errorf("read cookie of the sign-in: %w", err)
	}
	if refusal := given.Get("error"); refusal != "" {
		return f, fmt.Errorf("the provider answers %q", refusal)
	}
	return f, nil
}

// LocalPath returns a path of the console to return to; "/" for anything else.
func LocalPath(to string) string {
	at, err := url.Parse(to)
	if err != nil || len(to) > maxPath || at.IsAbs() || at.Host != "" || !strings.HasPrefix(at.Path, "/") ||
		strings.HasPrefix(at.Path, "//") || strings.Contains(to, "\\") {
		return "/"
	}
	clean := url.URL{Path: at.Path, RawQuery: at.RawQuery}
	return clean.String()
}

func (o *openID) config(provider *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{ClientID: o.settings.ClientID, ClientSecret: o.settings.secret, Endpoint: provider.Endpoint(),
		RedirectURL: o.settings.URL + callbackPath, Scopes: strings.Fields(o.settings.Scopes)}
}

func (o *openID) discover() (*oidc.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.provider != nil {
		return o.provider, nil
	}
	if o.failed != nil && o.now().Sub(o.failedAt) < retryAfter {
		return nil, o.failed
	}
	ctx := oidc.ClientContext(context.Background(), o.client) // the provider keeps it for its keys
	found, err := oidc.NewProvider(ctx, o.settings.Issuer)
	if err == nil {
		err = o.answers.readKeysAt(found)
	}
	if err == nil {
		o.provider = found
	}
	o.failed, o.failedAt = err, o.now()
	return o.provider, o.failed
}

// claims of the id token and of the userinfo document.
type claims struct {
	name   string
	groups []string
	found  bool // the document has the claim of groups
}

func readClaims(from interface{ Claims(any) error }, groupsClaim string) (c claims, err error) {
	var all map[string]any
	if err := from.Claims(&all); err != nil {
		return c, err
	}
	for _, key := range []string{"preferred_username", "email", "sub"} {
		if key == "email" && all["email_verified"] != true { // anybody could have entered it
			continue
		}
		if name, ok := all[key].(string); ok && c.name == "" {
			c.name = name
		}
	}
	switch groups := all[groupsClaim].(type) {
	case []any:
		c.found = true
		for _, group := range groups {
			if name, ok := group.(string); ok {
				c.groups = append(c.groups, name)
			}
		}
	case string:
		c.found, c.groups = true, []string{groups}
	}
	return c, nil
}

// person asks the provider who has signed in. The groups may be in the id token or, with other providers, in the
// userinfo document.
func (o *openID) person(ctx context.Context, f flow, code string) (Person, error) {
	provider, err := o.discover()
	if err != nil {
		return Person{}, err
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, o.client), providerTimeout)
	defer cancel()
	token, err := o.config(provider).Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return Person{}, fmt.Errorf("exchange code: %w", err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return Person{}, errors.New("the provider sent no id token")
	}
	id, err := provider.Verifier(&oidc.Config{ClientID: o.settings.ClientID, Now: o.now}).Verify(ctx, raw)
	if err != nil {
		return Person{}, fmt.Errorf("verify id token: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(f.Nonce)) != 1 {
		return Person{}, errors.New("the id token has another nonce")
	}
	c, err := readClaims(id, o.settings.GroupsClaim)
	if err == nil && !c.found && provider.UserInfoEndpoint() != "" {
		c, err = o.userInfo(ctx, provider, token, id.Subject)
	}
	if err != nil {
		return Person{}, err
	}
	// A name may change, or be given to another person. The subject may not.
	signIn := id.Issuer + " " + id.Subject
	if !goodName(c.name) || id.Subject == "" || len([]rune(signIn)) > maxSignIn {
		return Person{}, errors.New("the id token has no usable name or subject")
	}
	return Person{Name: c.name, Roles: o.settings.rolesOf(c.groups), SignIn: signIn}, nil
}

func (o *openID) userInfo(ctx context.Context, provider *oidc.Provider, token *oauth2.Token,
	subject string) (claims, error) {
	info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	switch {
	case err != nil:
		return claims{}, fmt.Errorf("read userinfo: %w", err)
	case info.Subject != subject:
		return claims{}, errors.New("the userinfo document is about another person")
	}
	return readClaims(info, o.settings.GroupsClaim)
}
