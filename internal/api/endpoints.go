package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/batch"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/receipt"
	"github.com/jajeong/jajeong/internal/standing"
)

func (s *server) apply(_ http.ResponseWriter, r *http.Request, at time.Time) answer {
	id, user, refusal := s.admit(r, at, &s.metrics.apply)
	if refusal.result != "" {
		return refusal
	}
	return s.applyFor(r, id, user)
}

// admit returns coupon and user of a request that is within the limits. The refusal is the zero answer if there is
// none.
func (s *server) admit(r *http.Request, at time.Time,
	m *endpointMetrics) (couponID coupon.CouponID, user coupon.UserID, refusal answer) {
	if httpapi.IsSurplus(r) {
		return 0, 0, m.turnAway(overloaded, "connections")
	}
	if couponID, user, refusal = s.ids(r); refusal.result != "" {
		return 0, 0, refusal
	}
	if wait := s.users.Wait(user, at); wait > 0 {
		refusal = m.turnAway(tooManyRequests, "user_rate")
		refusal.retryAfter = wait
	}
	return couponID, user, refusal
}

func (s *server) applyFor(r *http.Request, id coupon.CouponID, user coupon.UserID) answer {
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
	reply, err := s.Applier.Apply(r.Context(), id, user)
	if err != nil {
		return s.notAnswered(r, id, err)
	}
	return s.ofReply(reply, found, user, r.Header)
}

// notAnswered returns the response to an application that was not sent to Redis, or got no reply from it.
func (s *server) notAnswered(r *http.Request, couponID coupon.CouponID, err error) answer {
	not, ok := errors.AsType[batch.NotSent](err)
	switch {
	case !ok:
		s.Logger.Warn("apply failed", httpapi.LogRequest(r), zap.Uint64("coupon_id", uint64(couponID)), zap.Error(err))
		return s.metrics.apply.turnAway(unavailable, "unanswered")
	case not == batch.BreakerOpen:
		return s.metrics.apply.turnAway(resting, string(not))
	default:
		return s.metrics.apply.turnAway(overloaded, string(not))
	}
}

// maxReply is in bytes: the longest ACCEPTED or DUPLICATE has this length. The first number is that without a receipt.
const maxReply = 562 + len(receiptMember) + receipt.MaxToken

const receiptMember = `","receipt":"`

// buffers are for replies. write gives them back.
var buffers = sync.Pool{New: func() any { return new([maxReply]byte) }}

func (s *server) ofReply(reply candidates.Receipt, of coupon.Coupon, user coupon.UserID, asked http.Header) answer {
	a := answer{result: result(reply.Code)} // codes of Redis and results have the same names
	switch a.result {
	case accepted:
		a.status = http.StatusAccepted
	case duplicate:
		a.status = http.StatusOK
	case notOpen:
		a.extra = problemDocument{OpensAt: s.Terms.Format(reply.OpensAt), ServerTime: s.Terms.Format(reply.Now)}
		return a
	case lineFull:
		return s.ofLineFull(reply, of)
	default:
		return a
	}
	// The JSON is built by hand: no field needs escaping, and encoding/json takes four times as long.
	a.buffer = buffers.Get().(*[maxReply]byte)
	text := append(a.buffer[:0], `{"status":"`...)
	text = append(text, a.result...)
	text = strconv.AppendUint(append(text, `","couponId":`...), uint64(of.ID), 10)
	text = strconv.AppendUint(append(text, `,"userId":`...), uint64(user), 10)
	text = strconv.AppendInt(append(text, `,"position":`...), reply.Position, 10)
	text = strconv.AppendInt(append(text, `,"seats":`...), int64(of.Free()), 10)
	withinSeats := standing.WithinSeats(reply.Position, of.Free())
	text = strconv.AppendBool(append(text, `,"withinSeats":`...), withinSeats)
	text = httpapi.AppendTime(append(text, `,"appliedAt":"`...), reply.Arrival.Time().In(s.Terms.Zone()))
	text = append(append(text, `","cadence":"`...), of.Cadence...)
	text = httpapi.AppendTime(append(text, `","settlesAt":"`...),
		s.Terms.SettlesAt(of, reply.Arrival, reply.Now).In(s.Terms.Zone()))
	if s.Receipts != nil {
		text = s.appendReceipt(text, receipt.Receipt{Coupon: of.ID, User: user, Arrival: reply.Arrival,
			Position: reply.Position, SignedAt: reply.Now.Unix()})
	}
	a.language = httpapi.Negotiate(asked)
	text = appendDetail(append(text, `","detail":"`...), a.language, a.result, of, withinSeats)
	a.json = append(text, "\"}\n"...)
	return a
}

// appendReceipt adds nothing if no key may sign any more.
func (s *server) appendReceipt(text []byte, r receipt.Receipt) []byte {
	with, signed := s.Receipts.Append(append(text, receiptMember...), r)
	if !signed {
		return text
	}
	return with
}

// ids returns coupon and user of a request. The refusal is the zero answer if there is none.
func (s *server) ids(r *http.Request) (couponID coupon.CouponID, user coupon.UserID, refusal answer) {
	user, refused := s.Identity.User(r)
	if refused != nil {
		return 0, 0, answer{result: refused.Code, challenge: refused.Challenge}
	}
	couponID, ok := httpapi.ParseID[coupon.CouponID](r.PathValue("id"))
	if !ok {
		return 0, 0, refuse(invalidCouponID)
	}
	return couponID, user, answer{}
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

func (s *server) standing(_ http.ResponseWriter, r *http.Request, at time.Time) answer {
	id, user, refusal := s.admit(r, at, &s.metrics.standing)
	if refusal.result != "" {
		return refusal
	}
	found, problem := s.lookup(id)
	if problem != "" {
		return refuse(problem)
	}
	ctx, cancel := context.WithTimeout(r.Context(), standingTimeout)
	defer cancel()
	queue, is, books, limit, err := s.find(ctx, found, user)
	if limit != "" {
		return s.metrics.standing.turnAway(overloaded, limit)
	}
	switch {
	case err != nil:
		return s.standingUnknown(r, id, err)
	case is.Is == coupon.StandingNone:
		return s.ofNobody(found, queue, books)
	}
	document := s.Terms.Describe(found, user, is, queue.Now)
	return answer{result: result(is.Is), status: http.StatusOK, json: httpapi.Marshal(document)}
}

// find looks a user up. limit is the limit that stopped it; empty: none. The books are zero if MySQL was not asked.
func (s *server) find(ctx context.Context, of coupon.Coupon, user coupon.UserID) (
	queue candidates.Watch, is standing.Conclusion, books promise.Books, limit string, err error,
) {
	semaphore := s.questions.of(s.Shard(of.ID))
	if !semaphore.acquire() {
		return queue, is, books, "in_flight", nil
	}
	defer semaphore.release()
	if queue, err = s.Queue.Watch(ctx, of.ID, 0, user); err != nil {
		return queue, is, books, "", err
	}
	facts := standing.Facts{Found: queue.Users[0]}
	if is = facts.Conclude(); !standing.MustAsk(of, queue, is.Is) {
		return queue, is, books, "", nil
	}
	if !s.histories.acquire() {
		return queue, is, books, "histories", nil
	}
	defer s.histories.release()
	outcomes, books, err := s.Records.Read(ctx, of.ID, user)
	facts.Asked, facts.Outcomes = true, outcomes[user]
	return queue, facts.Conclude(), books, "", err
}

// ofNobody answers a user whose application was found nowhere.
func (s *server) ofNobody(of coupon.Coupon, queue candidates.Watch, books promise.Books) answer {
	verdict := s.Losses.Judge(of, queue, books)
	if verdict == standing.Restoring {
		return refuse(restoring)
	}
	return answer{result: notApplied, extra: problemDocument{MayBeLost: verdict == standing.MayBeLost}}
}

func (s *server) standingUnknown(r *http.Request, id coupon.CouponID, err error) answer {
	s.Logger.Warn("standing unknown", httpapi.LogRequest(r), zap.Uint64("coupon_id", uint64(id)), zap.Error(err))
	return s.metrics.standing.turnAway(standingUnknown, "unanswered")
}
