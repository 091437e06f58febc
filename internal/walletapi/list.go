package walletapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/wallet"
)

const (
	defaultLimit = 20
	maxLimit     = 100
)

type listBody struct {
	Coupons []couponBody `json:"coupons"`
	Next    string       `json:"next,omitempty"` // value of before for the next page; empty: this page is the last
	Now     string       `json:"now"`
}

// couponBody is a coupon in a wallet. It has either DiscountWon, or DiscountPercent and DiscountMaxWon.
type couponBody struct {
	UserCouponID    coupon.UserCouponID     `json:"userCouponId"`
	CouponID        coupon.CouponID         `json:"couponId"`
	Name            string                  `json:"name"`
	State           coupon.UserCouponStatus `json:"state"`
	DiscountWon     *int64                  `json:"discountWon,omitempty"`
	DiscountPercent int64                   `json:"discountPercent,omitempty"`
	DiscountMaxWon  int64                   `json:"discountMaxWon,omitempty"`
	MinimumWon      int64                   `json:"minimumWon"`
	IssuedAt        string                  `json:"issuedAt"`
	ValidUntil      string                  `json:"validUntil"` // exclusive
	OrderID         string                  `json:"orderId,omitempty"`
	ReservedUntil   string                  `json:"reservedUntil,omitempty"`
}

func (s *server) list(w http.ResponseWriter, r *http.Request, at time.Time) (a answer) {
	began := s.Now()
	problem := refuseContent(w, r)
	waited := s.Now().Sub(began)
	if problem != "" {
		a = refuse(problem)
	} else {
		a = s.page(r, at)
	}
	a.waited = waited
	return a
}

func (s *server) page(r *http.Request, at time.Time) answer {
	user, refused := s.Identity.User(r)
	if refused != nil {
		return answer{result: refused.Code, challenge: refused.Challenge}
	}
	before, limit, problem := pageOf(r.URL.RawQuery)
	if problem != "" {
		return refuse(problem)
	}
	if wait := s.users.Wait(user, at); wait > 0 {
		s.metrics.refuse("user_rate")
		return answer{result: tooManyRequests, retryAfter: wait}
	}
	select {
	case s.readers <- struct{}{}:
		defer func() { <-s.readers }()
	default:
		s.metrics.refuse("lists")
		return refuse(overloaded)
	}
	return s.inFlight(r, func(ctx context.Context) answer {
		select {
		case s.lists <- struct{}{}:
			defer func() { <-s.lists }()
		case <-ctx.Done():
			s.metrics.refuse("lists")
			return refuse(overloaded)
		}
		zone, err := s.Zone(ctx)
		if err != nil {
			return s.unknown(r, err, walletUnknown, zap.Uint64("user_id", uint64(user)))
		}
		items, now, err := s.List(ctx, user, before, limit+1)
		if err != nil {
			return s.unknown(r, err, walletUnknown, zap.Uint64("user_id", uint64(user)))
		}
		return answer{result: listed, status: http.StatusOK, body: bodyOf(items, limit, now, zone)}
	})
}

func pageOf(raw string) (before coupon.UserCouponID, limit int, problem result) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return 0, 0, invalidPage
	}
	before, limit = wallet.MaxID, defaultLimit
	if text, given := query["before"]; given {
		id, right := httpapi.ParseID[coupon.UserCouponID](text[0])
		if !right || len(text) > 1 {
			return 0, 0, invalidPage
		}
		before = id
	}
	if text, given := query["limit"]; given {
		n, right := httpapi.ParseID[coupon.UserCouponID](text[0])
		if !right || len(text) > 1 || n > maxLimit {
			return 0, 0, invalidPage
		}
		limit = int(n)
	}
	return before, limit, ""
}

// listBodyOf makes a page of limit coupons. A further item shows that there is a next page.
func bodyOf(items []wallet.Item, limit int, now time.Time, zone *time.Location) listBody {
	body := listBody{Coupons: []couponBody{}, Now: format(now, zone)}
	if len(items) > limit {
		items = items[:limit]
		body.Next = strconv.FormatUint(uint64(items[limit-1].ID), 10)
	}
	for _, i := range items {
		one := couponBody{UserCouponID: i.ID, CouponID: i.Coupon, Name: i.Name, State: i.State,
			MinimumWon: i.Discount.MinimumWon,
			IssuedAt:   format(i.IssuedAt, zone), ValidUntil: format(i.ExpiresAt, zone), OrderID: i.OrderID,
			ReservedUntil: format(i.ReservedUntil, zone)}
		if i.Discount.DiscountPercent > 0 {
			one.DiscountPercent, one.DiscountMaxWon = i.Discount.DiscountPercent, i.Discount.DiscountMaxWon
		} else {
			one.DiscountWon = &i.Discount.DiscountWon
		}
		body.Coupons = append(body.Coupons, one)
	}
	return body
}
