package identity

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/ops"
)

// reason says why a request has no identity. It is a label in the metrics.
type reason string

const (
	accepted reason = ""

	// The reasons about X-User-ID.
	noHeader     reason = "no_header"
	untrusted    reason = "untrusted_proxy"
	wrongHeader  reason = "wrong_header"  // it is no user id
	doubleHeader reason = "double_header" // it was sent twice, or in two spellings

	// The reasons about tokens.
	noToken       reason = "no_token"
	malformed     reason = "malformed"
	wrongMethod   reason = "algorithm" // not the algorithm of the key
	unknownKey    reason = "unknown_key"
	wrongSign     reason = "signature"
	expired       reason = "expired"
	early         reason = "not_yet_valid"
	wrongIssuer   reason = "issuer"
	wrongAudience reason = "audience"
	wrongClaim    reason = "user_claim" // it is no user id
	noScope       reason = "scope"
)

// words say to the client what is wrong with its token.
var words = map[reason]string{
	malformed:     "the token is malformed",
	wrongMethod:   "the token is signed by an algorithm that is not accepted",
	unknownKey:    "the key of the token is not known",
	wrongSign:     "the signature is wrong",
	expired:       "the token has expired",
	early:         "the token is not valid yet",
	wrongIssuer:   "the token has another issuer",
	wrongAudience: "the token has another audience",
	wrongClaim:    "the token has no user id",
}

var reasons = []reason{noHeader, untrusted, wrongHeader, doubleHeader, noToken, malformed, wrongMethod, unknownKey,
	wrongSign, expired, early, wrongIssuer, wrongAudience, wrongClaim, noScope}

// Refusal says that a request has no identity.
type Refusal struct {
	Code      httpapi.Result // Unauthenticated or InvalidUserID
	Challenge string         // value of the header WWW-Authenticate; empty: none
	Forbidden bool           // the token is good, but lacks the scope
}

// Identity finds out who sends a request. It is safe for concurrent use.
type Identity struct {
	proxies ops.Proxies
	tokens  *tokens               // nil: the identity comes from X-User-ID
	watch   func(context.Context) // follows the keys of tokens; nil: there is nothing to follow
	ready   func() error          // returns an error until there are keys; nil: there always are
	refused map[reason]prometheus.Counter
	metrics []prometheus.Collector
	logger  *zap.Logger // at most one line a second
}

// FromHeader believes the header X-User-ID of connections from these addresses.
func FromHeader(logger *zap.Logger, proxies ...netip.Prefix) *Identity {
	i := &Identity{proxies: proxies}
	i.observe(logger)
	return i
}

// Anywhere are all addresses, for FromHeader.
func Anywhere() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
}

// User returns the user who sends a request.
func (i *Identity) User(r *http.Request) (coupon.UserID, *Refusal) {
	if i.tokens == nil {
		user, why := i.userOfHeader(r)
		return user, i.refuse(r, why)
	}
	found, why := i.tokens.of(r)
	if why == accepted && found.user == 0 {
		why = wrongClaim
	}
	if why != accepted {
		return 0, i.refuse(r, why)
	}
	return found.user, nil
}

// Watch follows the keys of tokens until ctx ends.
func (i *Identity) Watch(ctx context.Context) {
	if i.watch != nil {
		i.watch(ctx)
	}
}

// Ready returns an error while no token can be verified, because no key is known yet.
func (i *Identity) Ready() error {
	if i.ready == nil {
		return nil
	}
	return i.ready()
}

// TakesTokens reports whether Service can succeed.
func (i *Identity) TakesTokens() bool { return i.tokens != nil }

// Service returns the name of the service that sends a request with a token of the scope redeem.
func (i *Identity) Service(r *http.Request) (name string, refusal *Refusal) {
	if i.tokens == nil {
		return "", i.refuse(r, noToken)
	}
	found, why := i.tokens.of(r)
	if why == accepted && found.service == "" {
		why = noScope
	}
	if why != accepted {
		return "", i.refuse(r, why)
	}
	return found.service, nil
}

// userID is the canonical spelling of X-User-ID.
const userID = "X-User-Id"

func (i *Identity) userOfHeader(r *http.Request) (coupon.UserID, reason) {
	ids := r.Header[userID]
	for name := range r.Header {
		if len(name) == len(userID) && name != userID && isTwin(name) {
			return 0, doubleHeader
		}
	}
	switch {
	case len(ids) == 0 || len(ids) == 1 && ids[0] == "":
		return 0, noHeader
	case !i.proxies.Sent(r):
		return 0, untrusted
	case len(ids) > 1:
		return 0, doubleHeader
	}
	user, ok := httpapi.ParseID[coupon.UserID](ids[0])
	if !ok {
		return 0, wrongHeader
	}
	return user, accepted
}

// isTwin reports whether a program that does not tell - from other separators takes the name for X-User-ID.
func isTwin(name string) bool {
	for n := range len(userID) {
		a, b := userID[n]|0x20, name[n]|0x20
		switch {
		case a == '-'|0x20 && !('a' <= b && b <= 'z'):
		case a != b:
			return false
		}
	}
	return true
}

func (i *Identity) refuse(r *http.Request, why reason) *Refusal {
	if why == accepted {
		return nil
	}
	i.refused[why].Inc()
	refusal := &Refusal{Code: httpapi.Unauthenticated}
	switch why {
	case noHeader:
	case wrongHeader, doubleHeader:
		refusal.Code = httpapi.InvalidUserID
	case untrusted:
		i.logger.Warn("X-User-ID is not believed: the connection comes from no address of TRUSTED_PROXIES",
			httpapi.LogRequest(r), zap.String("remote", r.RemoteAddr))
	case noToken:
		refusal.Challenge = "Bearer"
	case noScope:
		refusal.Forbidden, refusal.Challenge = true, `Bearer error="insufficient_scope", scope="`+redeem+`"`
	default:
		refusal.Challenge = `Bearer error="invalid_token", error_description="` + words[why] + `"`
		i.logger.Warn("tokens are refused", httpapi.LogRequest(r), zap.String("reason", string(why)))
	}
	return refusal
}
