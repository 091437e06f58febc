package signin

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/keysfile"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/text"
)

// Settings say how persons sign in: by OpenID Connect, at a proxy, or as the development user.
type Settings struct {
	URL            string   `name:"console-url" env:"CONSOLE_URL" placeholder:"URL"`
	Issuer         string   `name:"oidc-issuer" env:"CONSOLE_OIDC_ISSUER" placeholder:"URL"`
	ClientID       string   `name:"oidc-client-id" env:"CONSOLE_OIDC_CLIENT_ID" placeholder:"ID"`
	SecretFile     string   `name:"oidc-client-secret-file" env:"CONSOLE_OIDC_CLIENT_SECRET_FILE" type:"path" placeholder:"FILE"`
	Scopes         string   `name:"oidc-scopes" env:"CONSOLE_OIDC_SCOPES" default:"openid profile email" placeholder:"NAMES"`
	GroupsClaim    string   `name:"oidc-groups-claim" env:"CONSOLE_OIDC_GROUPS_CLAIM" default:"groups" placeholder:"NAME"`
	TrustedProxies []string `name:"console-trusted-proxies" env:"CONSOLE_TRUSTED_PROXIES" placeholder:"CIDR"`
	Roles          []string `name:"console-roles" env:"CONSOLE_ROLES" placeholder:"GROUP=ROLE"`
	DevUser        string   `name:"console-dev-user" env:"CONSOLE_DEV_USER" placeholder:"NAME"`

	secret  string            `kong:"-"` // these four are set by Validate
	proxies ops.Proxies       `kong:"-"`
	roles   map[string][]Role `kong:"-"` // roles of each group
	dev     Person            `kong:"-"`
}

// maxSecretBytes bounds the file of the client's secret.
const maxSecretBytes = 4096

func (s *Settings) Validate() error {
	oidc := s.oidcSettings()
	ways := slices.DeleteFunc([]string{strings.Join(oidc, ", "),
		nameIf("CONSOLE_TRUSTED_PROXIES", len(s.TrustedProxies) > 0),
		nameIf("CONSOLE_DEV_USER", s.DevUser != "")}, func(settings string) bool { return settings == "" })
	switch len(ways) {
	case 0:
		return text.UsageErrorf(text.OneSignIn)
	case 1:
	default:
		return text.UsageErrorf(text.SeveralSignIns, strings.Join(ways, "; "))
	}
	if s.DevUser != "" {
		return s.validateDevUser()
	}
	problems := []error{s.validateRoles()}
	if len(oidc) > 0 {
		problems = append(problems, s.validateOIDC())
	}
	var err error
	s.proxies, err = ops.ParseProxies(s.TrustedProxies, text.WrongConsoleProxy)
	return errors.Join(append(problems, err)...)
}

// KeepsIdle reports whether idle connections of an address are kept for a load balancer: those of
// CONSOLE_TRUSTED_PROXIES. With OpenID Connect these are not set, because nothing that a proxy sends is believed, and
// any address inside may be the balancer's.
func (s *Settings) KeepsIdle(address netip.Addr) bool {
	if len(s.proxies) == 0 {
		return ops.IsInside(address)
	}
	return s.proxies.Have(address)
}

// oidcSettings are the names of the settings of OpenID Connect that are given.
func (s *Settings) oidcSettings() []string {
	all := []string{nameIf("CONSOLE_URL", s.URL != ""), nameIf("CONSOLE_OIDC_ISSUER", s.Issuer != ""),
		nameIf("CONSOLE_OIDC_CLIENT_ID", s.ClientID != ""),
		nameIf("CONSOLE_OIDC_CLIENT_SECRET_FILE", s.SecretFile != "")}
	return slices.DeleteFunc(all, func(name string) bool { return name == "" })
}

func nameIf(name string, given bool) string {
	if given {
		return name
	}
	return ""
}

func (s *Settings) validateDevUser() error {
	name, role, given := strings.Cut(s.DevUser, "=")
	if !given {
		role = string(Operator)
	}
	if name, role = strings.TrimSpace(name), strings.TrimSpace(role); !goodName(name) ||
		!slices.Contains(allRoles, Role(role)) {
		return text.UsageErrorf(text.WrongDevUser, s.DevUser)
	}
	s.dev = Person{Name: name, Roles: []Role{Role(role)}, SignIn: name}
	return nil
}

func (s *Settings) validateRoles() error {
	s.roles = map[string][]Role{}
	for _, pair := range s.Roles {
		at := strings.LastIndex(pair, "=")
		group, role := strings.TrimSpace(pair[:max(0, at)]), Role(strings.TrimSpace(pair[at+1:]))
		if group == "" || !slices.Contains(allRoles, role) {
			return text.UsageErrorf(text.WrongConsoleRole, pair)
		}
		s.roles[group] = append(s.roles[group], role)
	}
	if len(s.roles) == 0 {
		return text.UsageErrorf(text.NoConsoleRoles)
	}
	return nil
}

func (s *Settings) validateOIDC() error {
	var problems []error
	for _, one := range []struct{ name, value string }{{"CONSOLE_URL", s.URL}, {"CONSOLE_OIDC_ISSUER", s.Issuer},
		{"CONSOLE_OIDC_CLIENT_ID", s.ClientID}, {"CONSOLE_OIDC_CLIENT_SECRET_FILE", s.SecretFile}} {
		if one.value == "" {
			problems = append(problems, text.UsageErrorf(text.OIDCSettingMissing, one.name))
		}
	}
	for name, value := range map[string]string{"CONSOLE_URL": s.URL, "CONSOLE_OIDC_ISSUER": s.Issuer} {
		at, err := url.Parse(value)
		if value != "" && (err != nil || at.Host == "" || at.User != nil || at.RawQuery != "" || at.Fragment != "" ||
			at.Scheme != "https" && !(at.Scheme == "http" && local(at.Hostname()))) {
			problems = append(problems, text.UsageErrorf(text.WrongConsoleURL, name))
		}
	}
	if !slices.Contains(strings.Fields(s.Scopes), "openid") {
		problems = append(problems, text.UsageErrorf(text.WrongScopes, s.Scopes))
	}
	if at, err := url.Parse(s.URL); err == nil && strings.Trim(at.Path, "/") != "" {
		problems = append(problems, text.UsageErrorf(text.WrongConsoleURL, "CONSOLE_URL"))
	}
	s.URL = strings.TrimSuffix(s.URL, "/")
	if s.SecretFile != "" {
		content, err := keysfile.Read("CONSOLE_OIDC_CLIENT_SECRET_FILE", s.SecretFile, maxSecretBytes)
		if s.secret = strings.TrimSpace(string(content)); err == nil && s.secret == "" {
			err = text.UsageErrorf(text.SecretEmpty, "CONSOLE_OIDC_CLIENT_SECRET", s.SecretFile)
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// local reports whether a host is this machine.
func local(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// isLocal reports whether a Host header, with or without a port, names this machine.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return local(name)
	}
	return local(strings.Trim(host, "[]"))
}

// Open returns the sign-in of the settings, which are valid.
func (s *Settings) Open(logger *zap.Logger, now func() time.Time) *SignIn {
	in := &SignIn{settings: s, logger: logger, warnings: ops.Sampled(logger, 1), now: now, signIns: newSignIns()}
	switch {
	case s.DevUser != "":
		in.who = in.devUser
		logger.Warn("no sign-in: the development user reaches the console from this machine",
			zap.String("user", s.dev.Name))
	case len(s.proxies) > 0:
		in.who = in.proxied
		if s.proxies.ArePublic() {
			logger.Warn(
				"CONSOLE_TRUSTED_PROXIES has public addresses: whoever reaches the console from one of them can " +
					"pretend to be anybody")
		}
		logger.Info("persons are signed in by X-Forwarded-User from these addresses",
			zap.Stringers("trusted_proxies", s.proxies))
	default:
		in.openOIDC()
		logger.Info("persons sign in by OpenID Connect", zap.String("issuer", s.Issuer))
	}
	return in
}

// rolesOf returns the roles of groups.
func (s *Settings) rolesOf(groups []string) (roles []Role) {
	for _, group := range groups {
		roles = append(roles, s.roles[group]...)
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}
