package api

import (
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
)

// maxIDs is the maximum of coupons in one request.
const maxIDs = 50

// Values of couponDocument.Status.
const (
	statusUpcoming = "UPCOMING"
	statusOpen     = "OPEN"
	statusPaused   = "PAUSED"
	statusSoldOut  = "SOLD_OUT"
	statusClosed   = "CLOSED"
)

// couponDocument is a coupon for people who have not applied yet. It has either DiscountWon, or DiscountPercent and
// DiscountMaxWon.
type couponDocument struct {
	CouponID        coupon.CouponID `json:"couponId"`
	Name            string          `json:"name"`
	Status          string          `json:"status"`
	OpensAt         string          `json:"opensAt"`
	ClosesAt        string          `json:"closesAt"` // exclusive
	Seats           int             `json:"seats"`    // free seats
	Waiting         *int64          `json:"waiting,omitempty"`
	Cadence         coupon.Cadence  `json:"cadence"`
	DiscountWon     *int64          `json:"discountWon,omitempty"`
	DiscountPercent int64           `json:"discountPercent,omitempty"`
	DiscountMaxWon  int64           `json:"discountMaxWon,omitempty"`
	MinimumWon      int64           `json:"minimumWon"`
	AsOf            string          `json:"asOf"` // when Seats, Waiting and the mark of SOLD_OUT were read
}

type couponsDocument struct {
	Coupons []couponDocument `json:"coupons"`
}

func (s *server) coupon(_ http.ResponseWriter, r *http.Request, at time.Time) answer {
	id, refusal := s.asked(r, &s.metrics.coupons)
	if refusal != nil {
		return *refusal
	}
	one, reading, ok := s.Coupons.Read(id)
	if !ok {
		return refuse(couponNotFound)
	}
	return cached(r, s.describe(one, reading, at))
}

func (s *server) coupons(_ http.ResponseWriter, r *http.Request, at time.Time) answer {
	if httpapi.IsSurplus(r) {
		return s.metrics.coupons.turnAway(overloaded, "connections")
	}
	ids, ok := idsOf(r.URL.RawQuery)
	switch {
	case !ok:
		return refuse(invalidIDs)
	case !s.Coupons.Loaded():
		return refuse(catalogNotLoaded)
	}
	document := couponsDocument{Coupons: []couponDocument{}}
	for _, id := range ids {
		if one, reading, ok := s.Coupons.Read(id); ok {
			document.Coupons = append(document.Coupons, s.describe(one, reading, at))
		}
	}
	return cached(r, document)
}

func (s *server) time(_ http.ResponseWriter, r *http.Request, _ time.Time) answer {
	id, refusal := s.asked(r, &s.metrics.time)
	if refusal != nil {
		return *refusal
	}
	now, err := s.clocks.now(r.Context(), id)
	if err != nil {
		s.Logger.Warn("time unknown", httpapi.LogRequest(r), zap.Uint64("coupon_id", uint64(id)), zap.Error(err))
		return s.metrics.time.turnAway(timeUnknown, "unanswered")
	}
	return answer{result: answered, status: http.StatusOK, json: httpapi.Marshal(timeDocument{id, s.Terms.Format(now)})}
}

type timeDocument struct {
	CouponID   coupon.CouponID `json:"couponId"`
	ServerTime string          `json:"serverTime"` // time on the clock of the coupon's Redis shard
}

// asked returns the coupon that a public question is about.
func (s *server) asked(r *http.Request, m *endpointMetrics) (id coupon.CouponID, refusal *answer) {
	var a answer
	if httpapi.IsSurplus(r) {
		a = m.turnAway(overloaded, "connections")
	} else if id, ok := httpapi.ParseID[coupon.CouponID](r.PathValue("id")); !ok {
		a = refuse(invalidCouponID)
	} else if _, problem := s.lookup(id); problem != "" {
		a = refuse(problem)
	} else {
		return id, nil
	}
	return 0, &a
}

// idsOf reads the parameter ids: 1 to maxIDs coupon ids, each once. A repeated id counts where it comes first.
func idsOf(query string) (ids []coupon.CouponID, ok bool) {
	parameters, _ := url.ParseQuery(query) // unreadable parameters are ignored, as unknown ones are
	lists := parameters["ids"]
	if len(lists) != 1 {
		return nil, false
	}
	texts := strings.SplitN(lists[0], ",", maxIDs+1)
	if len(texts) > maxIDs {
		return nil, false
	}
	for _, text := range texts {
		id, ok := httpapi.ParseID[coupon.CouponID](text)
		if !ok {
			return nil, false
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, true
}

// describe returns the document of a coupon at an instant on the clock of this process.
func (s *server) describe(one coupon.Coupon, reading coupon.Reading, at time.Time) couponDocument {
	d := couponDocument{
		CouponID: one.ID, Name: one.Name, Status: statusOf(one, reading, at),
		OpensAt: s.Terms.Format(one.OpensAt), ClosesAt: s.Terms.Format(one.ClosesAt), Seats: one.Free(),
		Cadence:         one.Cadence,
		DiscountPercent: one.DiscountPercent, DiscountMaxWon: one.DiscountMaxWon, MinimumWon: one.MinimumWon,
		AsOf: s.Terms.Format(reading.Now),
	}
	if one.DiscountPercent == 0 {
		d.DiscountWon = &one.DiscountWon
	}
	if reading.Read() {
		d.Waiting = &reading.Waiting
	}
	return d
}

// statusOf judges the window by the clock of Redis, as far as this process knows it. Only the answer to applying
// decides.
func statusOf(one coupon.Coupon, reading coupon.Reading, at time.Time) string {
	now := reading.At(at)
	switch {
	case one.Finalised() || !now.Before(one.ClosesAt):
		return statusClosed
	case now.Before(one.OpensAt):
		return statusUpcoming
	case one.Paused():
		return statusPaused
	case reading.Sold:
		return statusSoldOut
	default:
		return statusOpen
	}
}

// cached returns a document that caches may keep for a second, or 304 if the client has it already.
func cached(r *http.Request, document any) answer {
	a := answer{result: answered, status: http.StatusOK, json: httpapi.Marshal(document)}
	a.etag = etagOf(a.json)
	if matches(r.Header.Values("If-None-Match"), a.etag) {
		a.result, a.status, a.json = notModified, http.StatusNotModified, []byte{}
	}
	return a
}

// etagOf returns the strong entity tag of a content.
func etagOf(content []byte) string {
	hash := fnv.New64a()
	_, _ = hash.Write(content)
	return `"` + strconv.FormatUint(hash.Sum64(), 16) + `"`
}

// matches compares as RFC 9110 wants it for If-None-Match: weak tags count. A tag of this server has no comma.
func matches(lists []string, etag string) bool {
	for _, list := range lists {
		for tag := range strings.SplitSeq(list, ",") {
			if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
				return true
			}
		}
	}
	return false
}
