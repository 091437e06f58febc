package signin

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jajeong/jajeong/internal/text"
)

// Refuse answers a request that is not let in, with a page.
type Refuse func(w http.ResponseWriter, r *http.Request, why Refusal, args ...any)

// Refusal is why a request is not let in.
type Refusal struct {
	Reason  string // label of metrics, one of Reasons; empty: no refusal, or one that Metrics counts as a sign-in
	Status  int
	Message text.Message
}

var (
	otherOrigin   = Refusal{"origin", http.StatusForbidden, text.OtherOrigin}
	noRole        = Refusal{"no_role", http.StatusForbidden, text.NoRole}
	devUserAbroad = Refusal{"dev_user", http.StatusForbidden, text.DevUserElsewhere}
	notBelieved   = Refusal{"proxy", http.StatusForbidden, text.NotSignedInAtProxy}
	noSession     = Refusal{"session", http.StatusUnauthorized, text.SessionEnded}
)

// Reasons are the reasons of all refusals.
var Reasons = []string{otherOrigin.Reason, noRole.Reason, devUserAbroad.Reason, notBelieved.Reason, noSession.Reason}

// The results of a sign-in with OpenID Connect.
const (
	signedIn    = "signed_in"
	failed      = "failed"
	withoutRole = "no_role"
	unavailable = "unavailable" // the provider is away, or there are too many sessions
)

func newSignIns() *prometheus.CounterVec {
	all := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "jajeong_console_sign_ins_total", Help: "Number of sign-ins with OpenID Connect, by result.",
	}, []string{"result"})
	for _, result := range []string{signedIn, failed, withoutRole, unavailable} {
		all.WithLabelValues(result)
	}
	return all
}

// Metrics counts the sign-ins with OpenID Connect. With another sign-in it counts none.
func (s *SignIn) Metrics() prometheus.Collector { return s.signIns }

// refused counts a sign-in that did not succeed, and returns its refusal.
func (s *SignIn) refused(result string) Refusal {
	s.signIns.WithLabelValues(result).Inc()
	switch result {
	case withoutRole:
		return Refusal{Status: http.StatusForbidden, Message: text.NoRole}
	case failed:
		return Refusal{Status: http.StatusForbidden, Message: text.SignInFailed}
	default:
		return Refusal{Status: http.StatusServiceUnavailable, Message: text.ProviderAway}
	}
}
