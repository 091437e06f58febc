package api

import (
	"net/http"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Streams tell users what becomes of their applications. Serve answers a whole request; Later answers one of a user who
// asks too often.
type Streams interface {
	Serve(w http.ResponseWriter, r *http.Request, of coupon.Coupon, user coupon.UserID)
	Later(w http.ResponseWriter)
}

// NewLive returns the handler of the live port. Of the options, it uses Coupons, Identity, Limits.UserRate, Origins,
// Draining, Logger and Now.
func NewLive(o Options, streams Streams) http.Handler {
	s := newServer(o)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/live/coupons/{id}/me",
		func(w http.ResponseWriter, r *http.Request) { s.stream(streams, w, r) })
	mux.HandleFunc("/v1/live/coupons/{id}/me", s.only("GET, HEAD"))
	return s.site(mux)
}

// stream answers a wrong question with a problem, and a right one with a stream: any status but 200 ends the
// EventSource of a browser for good.
func (s *server) stream(streams Streams, w http.ResponseWriter, r *http.Request) {
	refusal := s.decide(s.contentless(func(w http.ResponseWriter, r *http.Request, at time.Time) answer {
		id, user, refusal := s.ids(r)
		if refusal.result != "" {
			return refusal
		}
		found, problem := s.lookup(id)
		switch {
		case problem == catalogNotLoaded || problem == "" && s.users.Wait(user, at) > 0:
			streams.Later(w)
		case problem != "":
			return refuse(problem)
		default:
			streams.Serve(w, r, found, user)
		}
		return answer{}
	}), w, r, s.Now())
	if refusal.result != "" {
		s.write(w, r, refusal)
	}
}
