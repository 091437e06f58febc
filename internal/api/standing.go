package api

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
)

// standingBody is where an application stands.
type standingBody struct {
	Status    candidates.Standing `json:"status"`
	CouponID  uint64              `json:"couponId"`
	UserID    uint64              `json:"userId"`
	Position  int64               `json:"position,omitempty"`  // while PENDING
	Seats     *uint64             `json:"seats,omitempty"`     // while PENDING
	AppliedAt string              `json:"appliedAt,omitempty"` // where it is known
	SettlesAt string              `json:"settlesAt,omitempty"` // while PENDING
}

// standing is GET /v1/coupons/{id}/applications/me. Redis answers for everybody it knows. Only who it does not know is
// looked up in MySQL, once coupons were given: the application may be history.
func (s *server) standing(_ http.ResponseWriter, r *http.Request, at time.Time) answer {
	if isSurplus(r) {
		return s.metrics.standing.turnAway(overloaded, "connections")
	}
	id, user, refusal := ids(r)
	if refusal != "" {
		return refuse(refusal)
	}
	if wait := s.users.wait(user, at); wait > 0 {
		return s.metrics.standing.tooOften(wait)
	}
	coupon, refusal := s.lookup(id)
	if refusal != "" {
		return refuse(refusal)
	}
	room := s.standings.of(s.Shard(id))
	if !room.enter() {
		return s.metrics.standing.turnAway(overloaded, "in_flight")
	}
	defer room.leave()
	ctx, cancel := context.WithTimeout(r.Context(), standingTimeout)
	defer cancel()
	status, err := s.Standings.Status(ctx, id, user)
	if err == nil && status.Standing == candidates.None && (status.Sold || coupon.Finalised() || coupon.IssuedCount > 0) {
		if !s.histories.enter() {
			return s.metrics.standing.turnAway(overloaded, "histories")
		}
		defer s.histories.leave()
		status, err = s.History.Standing(ctx, id, user)
	}
	if err != nil {
		s.Logger.Warn("standing unknown", zap.Uint64("coupon_id", id), zap.Error(err))
		return s.metrics.standing.turnAway(standingUnknown, "unanswered")
	}
	if status.Standing == candidates.None {
		return refuse(notApplied)
	}
	body := standingBody{Status: status.Standing, CouponID: id, UserID: user}
	if status.Arrival > 0 {
		body.AppliedAt = s.format(time.UnixMicro(status.Arrival))
	}
	if status.Standing == candidates.Pending {
		seats := uint64(coupon.Free())
		body.Position, body.Seats = status.Position, &seats
		body.SettlesAt = s.format(s.SettlesAt(time.UnixMicro(status.Arrival)))
	}
	return answer{outcome: candidates.Code(status.Standing), status: http.StatusOK, json: marshal(body)}
}
