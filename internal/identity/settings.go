package identity

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/keysfile"
	"github.com/jajeong/jajeong/internal/ops"
	"github.com/jajeong/jajeong/internal/text"
)

// The values of IDENTITY.
const (
	header = "header"
	token  = "jwt"
)

// Settings say how the programs with a public port find out who sends a request.
type Settings struct {
	Identity       string   `name:"identity" env:"IDENTITY" enum:"header,jwt" default:"header"`
	TrustedProxies []string `name:"trusted-proxies" env:"TRUSTED_PROXIES" default:"127.0.0.0/8,::1,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,fc00::/7" placeholder:"CIDR"`
	SecretFile     string   `name:"jwt-secret-file" env:"JWT_SECRET_FILE" type:"path" placeholder:"FILE"`
	JWKSURL        string   `name:"jwt-jwks-url" env:"JWT_JWKS_URL" placeholder:"URL"`
	JWKSFile       string   `name:"jwt-jwks-file" env:"JWT_JWKS_FILE" type:"path" nosecret:"" placeholder:"FILE"`
	Issuer         string   `name:"jwt-issuer" env:"JWT_ISSUER" placeholder:"TEXT"`
	Audience       string   `name:"jwt-audience" env:"JWT_AUDIENCE" placeholder:"TEXT"`
	UserClaim      string   `name:"jwt-user-claim" env:"JWT_USER_CLAIM" placeholder:"NAME"`

	proxies ops.Proxies         `kong:"-"` // set by Validate
	file    *keysfile.File[key] `kong:"-"` // JWT_SECRET_FILE or JWT_JWKS_FILE; nil: neither is set; set by Validate
}

func (s *Settings) Validate() error {
	if s.Identity == token {
		return errors.Join(s.validateProxies(), s.validateTokens())
	}
	var problems []error
	for _, one := range s.tokenSettings() {
		if one.value != "" {
			problems = append(problems, text.UsageErrorf(text.TokensNotAsked, one.name))
		}
	}
	return errors.Join(append(problems, s.validateProxies())...)
}

// IsProxy reports whether an address is one of TRUSTED_PROXIES.
func (s *Settings) IsProxy(address netip.Addr) bool {
	return s.proxies.Have(address)
}

func (s *Settings) validateProxies() (err error) {
	s.proxies, err = ops.ParseProxies(s.TrustedProxies, text.WrongProxy)
	return err
}

type setting struct{ name, value string }

func (s *Settings) tokenSettings() []setting {
	return append(s.keySettings(), s.claimSettings()...)
}

func (s *Settings) keySettings() []setting {
	return []setting{{"JWT_SECRET_FILE", s.SecretFile}, {"JWT_JWKS_URL", s.JWKSURL}, {"JWT_JWKS_FILE", s.JWKSFile}}
}

func (s *Settings) claimSettings() []setting {
	return []setting{{"JWT_ISSUER", s.Issuer}, {"JWT_AUDIENCE", s.Audience}, {"JWT_USER_CLAIM", s.UserClaim}}
}

func (s *Settings) validateTokens() (err error) {
	var problems []error
	sources := 0
	for _, one := range s.keySettings() {
		if one.value != "" {
			sources++
		}
	}
	if sources != 1 {
		problems = append(problems, text.UsageErrorf(text.OneKeySource))
	}
	for _, one := range s.claimSettings() {
		if one.value == "" {
			problems = append(problems, text.UsageErrorf(text.TokenSettingMissing, one.name))
		}
	}
	if at, wrong := url.Parse(s.JWKSURL); s.JWKSURL != "" &&
		(wrong != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" || at.User != nil) {
		problems = append(problems, text.UsageErrorf(text.WrongJWKSURL))
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	format := keysfile.Format[key]{Read: "keys of tokens read",
		Failed: "keys of tokens not read; the earlier keys stay in use"}
	switch {
	case s.SecretFile != "":
		format.Setting, format.Parse = "JWT_SECRET_FILE", parseSecrets
		s.file, err = keysfile.Load(s.SecretFile, format)
	case s.JWKSFile != "":
		format.Setting, format.Parse = "JWT_JWKS_FILE", parseJWKSFile
		s.file, err = keysfile.Load(s.JWKSFile, format)
	}
	return err
}

// Open returns the identity of the settings, which are valid, and says in the log what is believed.
func (s *Settings) Open(logger *zap.Logger, now func() time.Time) *Identity {
	if s.Identity == header {
		if s.proxies.ArePublic() {
			logger.Warn(
				"TRUSTED_PROXIES has public addresses: whoever reaches the public port from one of them can pretend " +
					"to be any user")
		}
		logger.Info("users are identified by X-User-ID from these addresses",
			zap.Stringers("trusted_proxies", s.proxies))
		return FromHeader(logger, s.proxies...)
	}
	logger.Info("users are identified by tokens", zap.String("issuer", s.Issuer), zap.String("audience", s.Audience),
		zap.String("user_claim", s.UserClaim))
	i := &Identity{}
	var from keys
	if s.file != nil {
		from, i.watch = fileKeys{s.file}, func(ctx context.Context) { s.file.Watch(ctx, logger) }
	} else {
		remote := newFetched(s.JWKSURL, now)
		if !strings.HasPrefix(s.JWKSURL, "https:") {
			logger.Warn("JWT_JWKS_URL is not https: an attacker in the network can replace the keys",
				zap.String("url", remote.shown()))
		}
		from, i.watch, i.ready = remote, func(ctx context.Context) { remote.Watch(ctx, logger) }, remote.ready
		i.metrics = append(i.metrics, remote.age())
	}
	i.metrics = append(i.metrics, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "jajeong_identity_keys", Help: "Keys of tokens in use.",
	}, func() float64 { return float64(len(from.Keys())) }))
	methods := publicMethods
	if s.SecretFile != "" {
		methods = secretMethods
	}
	i.tokens = newTokens(from, methods, s.Issuer, s.Audience, s.UserClaim, now)
	i.observe(logger)
	return i
}

// age is a metric. Before the first keys, it is the time since the start.
func (f *fetched) age() prometheus.Collector {
	began := f.now()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "jajeong_identity_keys_age_seconds",
		Help: "Time since the keys of tokens were last fetched from JWT_JWKS_URL.",
	}, func() float64 {
		last := began
		if at := f.at.Load(); at > 0 {
			last = time.UnixMicro(at)
		}
		return f.now().Sub(last).Seconds()
	})
}

// observe makes the metrics, and bounds the log.
func (i *Identity) observe(logger *zap.Logger) {
	i.logger = ops.Sampled(logger, 1)
	vector := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "jajeong_identity_refused_total", Help: "Requests without a usable identity, by reason.",
	}, []string{"reason"})
	i.refused = make(map[reason]prometheus.Counter, len(reasons))
	for _, why := range reasons {
		i.refused[why] = vector.WithLabelValues(string(why))
	}
	i.metrics = append(i.metrics, vector)
}

// Metrics returns the metrics of the identity.
func (i *Identity) Metrics() []prometheus.Collector { return i.metrics }
