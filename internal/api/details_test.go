package api_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/coupon"
)

// The text differs by language, code, cadence and place; it never says that a coupon is certain.
func TestReceipts_SayWhatFollows(t *testing.T) {
	t.Parallel()
	details := map[string]bool{}
	for code, lead := range map[candidates.Code]map[string]string{
		candidates.Accepted:  {"ko": "신청이 접수되었습니다.", "en": "Your application has been received."},
		candidates.Duplicate: {"ko": "처음 신청하신 순서가 적용됩니다.", "en": "counts from when you first applied."},
	} {
		s := newSite(t, applier(func(_ context.Context, _ coupon.CouponID, user coupon.UserID) (candidates.Receipt,
			error) {
			return candidates.Receipt{Code: code, Arrival: coupon.ArrivalAt(opens), Position: int64(user), Now: opens},
				nil
		}), shelf{1: nightly, 2: immediate})
		for id, when := range map[string]map[string]string{
			"1": {"ko": "자정이 지나면", "en": "after midnight"},
			"2": {"ko": "자정을 기다리지 않고", "en": "without waiting for midnight"},
		} {
			for user, place := range map[string]map[string]string{
				"7": {"ko": "발급이 확정된 것은 아닙니다", "en": "does not promise you one"},
				"8": {"ko": "남은 수량보다 뒤에 있어", "en": "behind those left"},
			} {
				for _, language := range []string{"ko", "en"} {
					got := s.apply(id, user, "Accept-Language", language)
					require.Equal(t, user == "7", got.body["withinSeats"])
					detail := got.body["detail"].(string)
					for _, piece := range []string{lead[language], when[language], place[language]} {
						require.Contains(t, detail, piece)
					}
					require.Equal(t, language, got.header.Get("Content-Language"))
					require.Equal(t, "Accept-Language", got.header.Get("Vary"))
					details[detail] = true
				}
			}
		}
	}
	require.Len(t, details, 16)
}

// A question gets no text that tells the user to apply, whatever refuses it.
func TestQuestions_AreRefusedWithTextsAboutAsking(t *testing.T) {
	t.Parallel()
	asking := func(s *site, path, user string) func(more ...string) reply {
		return func(more ...string) reply {
			r := s.do(http.MethodGet, path, nil, http.Header{"X-User-Id": {user}, more[0]: {more[1]}})
			require.NotRegexp(t, `신청해|접수|apply|[Aa]pplications|received`, fmt.Sprint(r.body["title"], r.body["detail"]))
			return r
		}
	}
	with := func(r refusal, detail string) refusal { r.detail = detail; return r }
	const me = "/v1/coupons/1/applications/me"
	fine := newSite(t, unreachable(t), coupons{})
	refuses(t, with(noUser, "sign in and ask"), asking(fine, me, ""))
	starting := newSite(t, unreachable(t), catalog.New(catalog.Options{}))
	broken := newSite(t, unreachable(t), panicking{})
	for _, path := range []string{me, "/v1/coupons/1", "/v1/coupons?ids=1", "/v1/coupons/1/time"} {
		refuses(t, with(catalogMissing, "ask again"), asking(starting, path, "7"))
		refuses(t, with(internalError, "ask again"), asking(broken, path, "7"))
	}
	away := newSiteOf(t, api.Options{Clock: clock(clockAway)})
	refuses(t, timeUnknown, asking(away, "/v1/coupons/1/time", "7"))
}
