package walletapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/wallet"
)

// orderBody is the state of an order and its coupon.
type orderBody struct {
	OrderID       string                  `json:"orderId"`
	CouponID      coupon.CouponID         `json:"couponId"`
	UserID        coupon.UserID           `json:"userId"`
	UserCouponID  coupon.UserCouponID     `json:"userCouponId"`
	State         coupon.OrderState       `json:"state"`
	AmountWon     int64                   `json:"amountWon"`
	DiscountWon   int64                   `json:"discountWon"`
	FinalWon      int64                   `json:"finalWon"`
	ReservedUntil string                  `json:"reservedUntil,omitempty"` // only if State is RESERVED
	CouponState   coupon.UserCouponStatus `json:"couponState"`
	ValidUntil    string                  `json:"validUntil"` // exclusive
	Now           string                  `json:"now"`
}

func (s *server) ofOrder(verb wallet.Verb) func(http.ResponseWriter, *http.Request, time.Time) answer {
	return func(w http.ResponseWriter, r *http.Request, _ time.Time) answer {
		call := wallet.Call{Verb: verb, OrderID: r.PathValue("orderId"), TTL: s.ReserveTTL}
		var refusal answer
		if call.Actor, refusal = s.authenticate(r); call.Actor == "" {
			return refusal
		}
		switch {
		case !validOrderID(call.OrderID):
			return refuse(invalidOrderID)
		case r.URL.RawQuery != "":
			return refuse(invalidQuery)
		}
		began := s.Now()
		wish, problem := readWish(w, r, verb)
		waited := s.Now().Sub(began)
		if problem != "" {
			return answer{result: problem, waited: waited}
		}
		call.User, call.AmountWon = wish.user, wish.amountWon
		a := s.inFlight(r, func(ctx context.Context) answer { return s.redeem(ctx, r, wish.coupon, call) })
		a.waited = waited
		if verb != wallet.Read {
			s.log(r, call, wish.coupon, a)
		}
		return a
	}
}

// log writes the line of a call that may change something. A coupon that neither the call nor its order names is left
// out.
func (s *server) log(r *http.Request, call wallet.Call, named coupon.CouponID, a answer) {
	if body, ok := a.body.(orderBody); ok {
		named = body.CouponID
	}
	id := zap.Skip()
	if named != 0 {
		id = zap.Uint64("coupon_id", uint64(named))
	}
	s.access.Info("order", httpapi.LogRequest(r), zap.Stringer("call", call.Verb), zap.String("order_id", call.OrderID),
		id, zap.String("actor", call.Actor), zap.String("result", string(a.result)))
}

// authenticate returns the name of the service that makes the call: of its key, or else of its token.
func (s *server) authenticate(r *http.Request) (name string, refusal answer) {
	if s.Keys.empty() && !s.Identity.TakesTokens() {
		return "", refuse(noServiceKeys)
	}
	if given := r.Header.Values("Authorization"); len(given) == 1 {
		scheme, key, _ := strings.Cut(given[0], " ")
		name, known := s.Keys.nameOf(key)
		if known && strings.EqualFold(scheme, "Bearer") && key != "" {
			return name, answer{}
		}
	}
	if !s.Identity.TakesTokens() {
		return "", answer{result: wrongKey, challenge: "Bearer"}
	}
	name, refused := s.Identity.Service(r)
	switch {
	case refused == nil && !audit.NamesProgram(name):
		return name, answer{}
	case refused == nil:
		return "", answer{result: wrongKey, challenge: "Bearer"}
	case refused.Forbidden:
		return "", answer{result: noScope, challenge: refused.Challenge}
	default:
		return "", answer{result: wrongKey, challenge: refused.Challenge}
	}
}

func (s *server) redeem(ctx context.Context, r *http.Request, couponID coupon.CouponID, call wallet.Call) answer {
	zone, err := s.Zone(ctx)
	if err != nil {
		return s.unknown(r, err, unavailable, zap.String("order_id", call.OrderID))
	}
	d, err := s.Redeem(ctx, couponID, call)
	if err != nil {
		return s.unknown(r, err, unavailable, zap.String("order_id", call.OrderID))
	}
	a := answer{result: result(d.Code)} // codes and results have the same names
	switch d.Code {
	case wallet.Done:
		a.status = http.StatusOK
		if call.Verb == wallet.Reserve {
			a.status = http.StatusCreated
		}
	case wallet.Repeated:
		a.status = http.StatusOK
	case wallet.Nothing:
		a.status = http.StatusNoContent
		return a
	case wallet.ReservedElsewhere:
		a.extra.Until = format(d.ReservedUntil, zone)
		if d.ReservedByCaller {
			a.extra.OrderID = d.Coupon.OrderID
		}
		return a
	case wallet.BelowMinimum:
		a.extra.MinimumWon = d.MinimumWon
		return a
	default:
		return a
	}
	a.body = orderBodyOf(d, zone)
	return a
}

func orderBodyOf(d wallet.Decision, zone *time.Location) orderBody {
	o := d.Order
	body := orderBody{OrderID: o.ID, CouponID: d.Coupon.Coupon, UserID: o.User, UserCouponID: d.Coupon.ID,
		State:     o.State,
		AmountWon: o.AmountWon, DiscountWon: o.DiscountWon, FinalWon: o.AmountWon - o.DiscountWon,
		CouponState: d.State(), ValidUntil: format(d.Coupon.ExpiresAt, zone), Now: format(d.Now, zone)}
	if o.State == coupon.OrderReserved {
		body.ReservedUntil = format(o.ReservedUntil, zone)
	}
	return body
}

// unknown is the answer after an error of MySQL. Asking again mends neither a broken invariant nor a wrong setting.
func (s *server) unknown(r *http.Request, err error, otherwise result, field zap.Field) answer {
	if mysqltx.ClassOf(err) != coupon.Infrastructure {
		s.Logger.Error("request failed", httpapi.LogRequest(r), field, zap.Error(err))
		return refuse(internal)
	}
	s.Logger.Warn("request failed", httpapi.LogRequest(r), field, zap.Error(err))
	s.metrics.refuse("unanswered")
	return refuse(otherwise)
}
