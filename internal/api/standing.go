package api

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
)

// standingTimeout bounds the wait for an answer that Redis gives in a millisecond.
const standingTimeout = 2 * time.Second

type standingBody struct {
	Status    coupon.Standing `json:"status"`
	CouponID  uint64          `json:"couponId"`
	UserID    uint64          `json:"userId"`
	Position  int64           `json:"position,omitempty"`  // while PENDING
	Seats     *uint64         `json:"seats,omitempty"`     // while PENDING
	AppliedAt string          `json:"appliedAt,omitempty"` // if known
	SettlesAt string          `json:"settlesAt,omitempty"` // while PENDING
}

// standing is GET /v1/coupons/{id}/applications/me.
func (s *server) standing(_ http.ResponseWriter, r *http.Request, at time.Time) answer {
	id, user, refusal := s.admit(r, at, &s.metrics.standing)
	if refusal != nil {
		return *refusal
	}
	found, problem := s.lookup(id)
	if problem != "" {
		return refuse(problem)
	}
	semaphore := s.standings.of(s.Shard(id))
	if !semaphore.acquire() {
		return s.metrics.standing.turnAway(overloaded, "in_flight")
	}
	defer semaphore.release()
	ctx, cancel := context.WithTimeout(r.Context(), standingTimeout)
	defer cancel()
	status, err := s.Standings.Status(ctx, id, user)
	// MySQL is asked only for users that Redis does not know, and only when the coupon has been settled.
	if err == nil && status.Standing == coupon.StandingNone && (status.Sold || found.Finalised() || found.IssuedCount > 0) {
		if !s.histories.acquire() {
			return s.metrics.standing.turnAway(overloaded, "histories")
		}
		defer s.histories.release()
		status.Standing, status.Arrival, err = s.History.Standing(ctx, id, user)
	}
	if err != nil {
		s.Logger.Warn("standing unknown", zap.Uint64("coupon_id", id), zap.Error(err))
		return s.metrics.standing.turnAway(standingUnknown, "unanswered")
	}
	a := answer{result: ofStanding(status.Standing), status: http.StatusOK}
	if status.Standing == coupon.StandingNone {
		return a
	}
	body := standingBody{Status: status.Standing, CouponID: id, UserID: user}
	if status.Arrival > 0 {
		body.AppliedAt = s.format(time.UnixMicro(status.Arrival))
	}
	if status.Standing == coupon.StandingPending {
		seats := uint64(found.Free())
		body.Position, body.Seats = status.Position, &seats
		body.SettlesAt = s.format(s.SettlesAt(time.UnixMicro(status.Arrival)))
	}
	a.json = marshal(body)
	return a
}
