package signin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/alexedwards/scs/v2/memstore"
	"github.com/coreos/go-oidc/v3/oidc"
	"go.uber.org/zap"
	"golang.org/x/oauth2"

	"github.com/jajeong/jajeong/internal/text"
)

const (
	sessionCookie = "__Host-jajeong-console"
	flowCookie    = "__Host-jajeong-sign-in"

	sessionEnds = 8 * time.Hour // a working day
	sessionIdle = time.Hour
	// maxSessions bounds the memory of sessions: above it nobody signs in until some end.
	maxSessions = 10_000

	// flowEnds is how long a person may take at the provider.
	flowEnds = 10 * time.Minute
	// providerTimeout bounds each call to the provider, and retryAfter how often it is asked while it is away.
	providerTimeout = 5 * time.Second
	retryAfter      = 2 * time.Second
	maxAnswerBytes  = 1 << 20
)

// openID speaks with the provider. It is discovered at the first sign-in, and again after a failure.
type openID struct {
	*SignIn
	client *http.Client

	mu       sync.Mutex
	provider *oidc.Provider
	failed   error
	failedAt time.Time
}

func (s *SignIn) openOIDC() {
	s.oidc = &openID{SignIn: s, client: &http.Client{Timeout: providerTimeout}}
	s.who = s.inSession
	s.sessions = scs.New()
	s.sessions.Store = memstore.New()
	s.sessions.Lifetime, s.sessions.IdleTimeout = sessionEnds, sessionIdle
	s.sessions.HashTokenInStore = true
	s.sessions.Cookie = scs.SessionCookie{Name: sessionCookie, Path: "/", HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode}
}

// The values of a session.
const (
	nameKey   = "name"
	rolesKey  = "roles"
	signInKey = "sign-in"
)

// inSession returns the person of the session. Without one, a page sends the browser to the provider, and a form is refused.
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
		refuse(w, r, http.StatusUnauthorized, text.SessionEnded)
		return Person{}, true
	}
	http.Redirect(w, r, signInPath+"?"+url.Values{"to": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
	return Person{}, true
}

// flow is what the browser keeps between the two steps of a sign-in.
type flow struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"` // of PKCE
	To       string `json:"to"`
}

// begin sends the browser to the provider.
func (o *openID) begin(w http.ResponseWriter, r *http.Request, refuse Refuse) {
	provider, err := o.discover()
	if err != nil {
		o.logger.Warn("the provider of identities is away", zap.Error(err))
		refuse(w, r, http.StatusServiceUnavailable, text.ProviderAway)
		return
	}
	f := flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), To: LocalPath(r.URL.Query().Get("to"))}
	kept, _ := json.Marshal(f) // texts alone
	http.SetCookie(w, &http.Cookie{Name: flowCookie, Value: base64.RawURLEncoding.EncodeToString(kept), Path: "/", MaxAge: int(flowEnds.Seconds()),
		HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, o.config(provider).AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), http.StatusSeeOther)
}

// finish signs the person in whom the provider sends back.
func (s *SignIn) finish(w http.ResponseWriter, r *http.Request, refuse Refuse) {
	f, err := readFlow(r)
	http.SetCookie(w, &http.Cookie{Name: flowCookie, Path: "/", MaxAge: -1, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode})
	if err != nil {
		s.logger.Warn("sign-in refused", zap.Error(err))
		refuse(w, r, http.StatusForbidden, text.SignInFailed)
		return
	}
	p, err := s.oidc.person(r.Context(), f, r.URL.Query().Get("code"))
	switch {
	case err != nil:
		s.logger.Warn("sign-in refused", zap.Error(err))
		refuse(w, r, http.StatusForbidden, text.SignInFailed)
		return
	case len(p.Roles) == 0:
		s.logger.Warn("person without a role", zap.String("person", p.Name))
		refuse(w, r, http.StatusForbidden, text.NoRole, p.Name)
		return
	case s.full():
		s.logger.Error("too many sessions: nobody can sign in until some end", zap.Int("sessions", maxSessions))
		refuse(w, r, http.StatusServiceUnavailable, text.ProviderAway)
		return
	}
	if err := s.sessions.RenewToken(r.Context()); err != nil { // a session that existed before gets another id
		refuse(w, r, http.StatusServiceUnavailable, text.ProviderAway)
		return
	}
	var roles []string
	for _, role := range p.Roles {
		roles = append(roles, string(role))
	}
	s.sessions.Put(r.Context(), nameKey, p.Name)
	s.sessions.Put(r.Context(), rolesKey, strings.Join(roles, ","))
	s.sessions.Put(r.Context(), signInKey, p.SignIn)
	s.logger.Info("signed in", zap.String("person", p.Name), zap.Strings("roles", roles))
	http.Redirect(w, r, f.To, http.StatusSeeOther)
}

func (s *SignIn) full() bool {
	all, err := s.sessions.Store.(*memstore.MemStore).All()
	return err != nil || len(all) >= maxSessions
}

func (s *SignIn) signOut(w http.ResponseWriter, r *http.Request, refuse Refuse) {
	if err := s.sessions.Destroy(r.Context()); err != nil {
		refuse(w, r, http.StatusServiceUnavailable, text.ProviderAway)
		return
	}
	refuse(w, r, http.StatusOK, text.SignedOut)
}

// readFlow returns the flow of the browser that the provider sends back.
func readFlow(r *http.Request) (f flow, err error) {
	cookie, err := r.Cookie(flowCookie)
	if err != nil {
		return f, errors.New("the browser did not begin this sign-in, or more than 10 minutes ago")
	}
	kept, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err == nil {
		err = json.Unmarshal(kept, &f)
	}
	switch given := r.URL.Query(); {
	case err != nil:
		return f, fmt.Errorf("read cookie %s: %w", flowCookie, err)
	case f.State == "" || f.Nonce == "" || f.Verifier == "" || subtle.ConstantTimeCompare([]byte(f.State), []byte(given.Get("state"))) != 1:
		return f, errors.New("the state is not that of this browser")
	case given.Get("error") != "":
		return f, fmt.Errorf("the provider answers %q", given.Get("error"))
	}
	f.To = LocalPath(f.To)
	return f, nil
}

// LocalPath returns a path of the console to return to; "/" for anything else.
func LocalPath(to string) string {
	at, err := url.Parse(to)
	if err != nil || at.IsAbs() || at.Host != "" || !strings.HasPrefix(at.Path, "/") || strings.HasPrefix(at.Path, "//") || strings.Contains(to, "\\") {
		return "/"
	}
	clean := url.URL{Path: at.Path, RawQuery: at.RawQuery}
	return clean.String()
}

func (o *openID) config(provider *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{ClientID: o.settings.ClientID, ClientSecret: o.settings.secret, Endpoint: provider.Endpoint(),
		RedirectURL: o.settings.URL + callbackPath, Scopes: []string{oidc.ScopeOpenID, "profile", "email", o.settings.GroupsClaim}}
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
	o.provider, o.failed = oidc.NewProvider(ctx, o.settings.Issuer)
	o.failedAt = o.now()
	return o.provider, o.failed
}

// claims of the id token and of the userinfo document.
type claims struct {
	name   string
	groups []string
	found  bool // the claim of groups is there
}

func readClaims(from interface{ Claims(any) error }, groupsClaim string) (c claims, err error) {
	var all map[string]any
	if err := from.Claims(&all); err != nil {
		return c, err
	}
	for _, key := range []string{"preferred_username", "email", "sub"} {
		if key == "email" && all["email_verified"] == false {
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

// person asks the provider who has signed in. The groups may be in the id token or, with other providers, in the userinfo document.
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

func (o *openID) userInfo(ctx context.Context, provider *oidc.Provider, token *oauth2.Token, subject string) (claims, error) {
	info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	switch {
	case err != nil:
		return claims{}, fmt.Errorf("read userinfo: %w", err)
	case info.Subject != subject:
		return claims{}, errors.New("the userinfo document is about another person")
	}
	return readClaims(info, o.settings.GroupsClaim)
}
