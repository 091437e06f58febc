package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/batch"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
)

// maxBodyBytes is above zero because some clients always send a body, such as {}. The body is read and ignored.
const maxBodyBytes = 1 << 10

func (s *server) apply(w http.ResponseWriter, r *http.Request, at time.Time) answer {
	id, user, refusal := s.admit(r, at, &s.metrics.apply)
	if refusal != nil {
		return *refusal
	}
	waited, problem := s.awaitBody(w, r)
	if problem != "" {
		return answer{result: problem, waited: waited}
	}
	a := s.applyFor(r.Context(), id, user)
	a.waited = waited
	return a
}

func (s *server) admit(r *http.Request, at time.Time, m *endpointMetrics) (couponID coupon.CouponID, user coupon.UserID, refusal *answer) {
	var a answer
	if httpapi.IsSurplus(r) {
		a = m.turnAway(overloaded, "connections")
	} else if couponID, user, a.result = ids(r); a.result == "" {
		wait := s.users.Wait(user, at)
		if wait == 0 {
			return couponID, user, nil
		}
		a = m.turnAway(tooManyRequests, "user_rate")
		a.retryAfter = wait
	}
	return 0, 0, &a
}

func (s *server) applyFor(ctx context.Context, id coupon.CouponID, user coupon.UserID) answer {
	found, problem := s.lookup(id)
	if problem != "" {
		return refuse(problem)
	}
	if found.Finalised() {
		return refuse(closed)
	}
	semaphore := s.applying.of(s.Shard(id))
	if !semaphore.acquire() {
		return s.metrics.apply.turnAway(overloaded, "in_flight")
	}
	defer semaphore.release()
	receipt, err := s.Applier.Apply(ctx, id, user)
	if err != nil {
		return s.notAnswered(id, err)
	}
	return s.ofReceipt(receipt, found, user)
}

func (s *server) awaitBody(w http.ResponseWriter, r *http.Request) (waited time.Duration, problem result) {
	if r.ContentLength == 0 {
		return 0, ""
	}
	began := s.Now()
	_, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBodyBytes))
	waited = s.Now().Sub(began)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return waited, bodyTooLarge
	}
	if err != nil {
		return waited, unreadableBody
	}
	return waited, ""
}

// notAnswered returns the response to an application that was not sent to Redis, or got no reply from it.
func (s *server) notAnswered(couponID coupon.CouponID, err error) answer {
	not, ok := errors.AsType[batch.NotSent](err)
	switch {
	case !ok:
		s.Logger.Warn("apply failed", zap.Uint64("coupon_id", uint64(couponID)), zap.Error(err))
		return s.metrics.apply.turnAway(unavailable, "unanswered")
	case not == batch.BreakerOpen:
		return s.metrics.apply.turnAway(resting, string(not))
	default:
		return s.metrics.apply.turnAway(overloaded, string(not))
	}
}

// maxReceipt is in bytes: no ACCEPTED or DUPLICATE is longer.
const maxReceipt = 256

func (s *server) ofReceipt(receipt candidates.Receipt, of coupon.Coupon, user coupon.UserID) answer {
	a := answer{result: result(receipt.Code)} // receipt codes and results have the same names
	switch a.result {
	case accepted:
		a.status = http.StatusAccepted
	case duplicate:
		a.status = http.StatusOK
	case notOpen:
		a.extra = problemDocument{OpensAt: s.format(receipt.OpensAt), ServerTime: s.format(receipt.Now)}
		return a
	case lineFull:
		return s.ofLineFull(receipt, of)
	default:
		return a
	}
	// The JSON is built by hand: no field needs escaping, and encoding/json takes four times as long.
	text := append(make([]byte, 0, maxReceipt), `{"status":"`...)
	text = append(text, a.result...)
	text = strconv.AppendUint(append(text, `","couponId":`...), uint64(of.ID), 10)
	text = strconv.AppendUint(append(text, `,"userId":`...), uint64(user), 10)
	text = strconv.AppendInt(append(text, `,"position":`...), receipt.Position, 10)
	text = strconv.AppendInt(append(text, `,"seats":`...), int64(of.Free()), 10)
	text = httpapi.AppendTime(append(text, `,"appliedAt":"`...), receipt.Arrival.Time().In(s.Zone))
	text = append(append(text, `","cadence":"`...), of.Cadence...)
	text = httpapi.AppendTime(append(text, `","settlesAt":"`...), s.settlesAt(of, receipt.Arrival, receipt.Now).In(s.Zone))
	a.json = append(text, "\"}\n"...)
	return a
}

func ids(r *http.Request) (couponID coupon.CouponID, user coupon.UserID, problem result) {
	user, code := httpapi.UserOf(r)
	if code != "" {
		return 0, 0, result(code)
	}
	couponID, ok := httpapi.ParseID[coupon.CouponID](r.PathValue("id"))
	if !ok {
		return 0, 0, invalidCouponID
	}
	return couponID, user, ""
}

func (s *server) lookup(id coupon.CouponID) (found coupon.Coupon, problem result) {
	if !s.Coupons.Loaded() {
		return found, catalogNotLoaded
	}
	found, ok := s.Coupons.Lookup(id)
	if !ok {
		return found, couponNotFound
	}
	return found, ""
}

// standingTimeout bounds one lookup in Redis and MySQL. Redis usually replies within a millisecond.
const standingTimeout = 2 * time.Second

type standingBody struct {
	Status    coupon.Standing `json:"status"`
	CouponID  coupon.CouponID `json:"couponId"`
	UserID    coupon.UserID   `json:"userId"`
	Position  int64           `json:"position,omitempty"`  // only if Status is PENDING
	Seats     *int            `json:"seats,omitempty"`     // only if Status is PENDING
	AppliedAt string          `json:"appliedAt,omitempty"` // empty: unknown
	Cadence   coupon.Cadence  `json:"cadence,omitempty"`   // only if Status is PENDING
	SettlesAt string          `json:"settlesAt,omitempty"` // only if Status is PENDING
	Delayed   bool            `json:"delayed,omitempty"`   // see server.delayed
}

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
	// MySQL is asked only if Redis does not know the user and the coupon has been settled at least once.
	if err == nil && status.Standing == coupon.StandingNone && (status.Sold || found.Finalised() || found.IssuedCount > 0) {
		if !s.histories.acquire() {
			return s.metrics.standing.turnAway(overloaded, "histories")
		}
		defer s.histories.release()
		status.Standing, status.Arrival, err = s.History.Standing(ctx, id, user)
	}
	if err != nil {
		s.Logger.Warn("standing unknown", zap.Uint64("coupon_id", uint64(id)), zap.Error(err))
		return s.metrics.standing.turnAway(standingUnknown, "unanswered")
	}
	if status.Standing == coupon.StandingNone {
		return refuse(notApplied)
	}
	a := answer{result: result(status.Standing), status: http.StatusOK}
	body := standingBody{Status: status.Standing, CouponID: id, UserID: user}
	if status.Arrival > 0 {
		body.AppliedAt = s.format(status.Arrival.Time())
	}
	if status.Standing == coupon.StandingPending {
		seats := found.Free()
		body.Position, body.Seats, body.Cadence = status.Position, &seats, found.Cadence
		body.SettlesAt = s.format(s.settlesAt(found, status.Arrival, status.Now))
		body.Delayed = s.delayed(found, status.Arrival, status.Now)
	}
	a.json = httpapi.Marshal(body)
	return a
}
