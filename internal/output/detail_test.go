package output_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

var seoul = time.FixedZone("KST", 9*60*60)

func shown(t require.TestingT, l text.Language, action audit.Action, payload audit.Payload) string {
	var stored bytes.Buffer
	e := json.NewEncoder(&stored)
	e.SetEscapeHTML(false)
	require.NoError(t, e.Encode(payload))
	return output.Locale{Language: l, Zone: seoul}.Detail(action, audit.Detail(bytes.TrimSpace(stored.Bytes())))
}

func TestDetail(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC)
	figures := audit.Figures{Accepted: 5, UnderReview: 1, Issued: 2, Outcomes: 1}
	for _, c := range []struct {
		action  audit.Action
		payload audit.Payload
		ko, en  string
	}{
		{audit.CouponSeats, audit.CouponChange{Seats: audit.Changed(100, 1200),
			Closes:    audit.ChangedTime(at, at.AddDate(0, 0, 1).Add(time.Second/2)),
			Finalised: audit.ChangedTime(at.AddDate(0, 0, 2), time.Time{})},
			"수량 100 → 1,200, 신청 마감 2026-11-21 00:00:00 KST → 2026-11-22 00:00:00.5 KST, 종결 시각 2026-11-23 00:00:00 " +
				"KST → 없음",
			"seats 100 → 1,200, closes 2026-11-21 00:00:00 KST → 2026-11-22 00:00:00.5 KST, finalised at 2026-11-23 " +
				"00:00:00 KST → none"},
		{audit.CouponPaused, audit.CouponChange{Status: audit.Changed(coupon.Open, coupon.Paused), StoppedAt: &at},
			"상태 신청 중 → 일시 중지, 신청을 막은 시각 2026-11-21 00:00:00 KST",
			"status open → paused, applications stopped at 2026-11-21 00:00:00 KST"},
		{audit.CouponCadence, audit.CouponChange{Cadence: audit.Changed(coupon.Nightly, coupon.Immediate)},
			"발급 방식 야간 발급 → 즉시 발급", "cadence nightly → immediate"},
		{audit.CouponFrozen, audit.CouponChange{Frozen: audit.Changed(false, true)}, "발급 동결 해제 → 설정",
			"frozen off → on"},
		{audit.CouponCreated, audit.NewCoupon{Name: `a, "b" 심야`, Seats: 2, Opens: at, Closes: at.Add(time.Hour),
			ValidityDays: 30,
			Discount:     coupon.Discount{DiscountPercent: 10, DiscountMaxWon: 3000, MinimumWon: 10000},
			Cadence:      coupon.Nightly},
			`이름 a, "b" 심야, 수량 2, 신청 시작 2026-11-21 00:00:00 KST, 신청 마감 2026-11-21 01:00:00 KST, 캠페인 없음, 유효 기간 30일, ` +
				`할인 10%, 최대 3000원, 10000원 이상 주문, 발급 방식 야간 발급, 대기열 한도 없음`,
			`name a, "b" 심야, seats 2, opens 2026-11-21 00:00:00 KST, closes 2026-11-21 01:00:00 KST, campaign none, ` +
				`validity 30 days, discount 10 %, at most 3000 won, for orders of 10000 won or more, ` +
				`cadence nightly, line limit none`},
		{audit.ManualSettle, audit.Settled{Cutoff: at, Issued: 3, Digest: "sha256:12"},
			"정산 기준 시각 2026-11-21 00:00:00 KST, 발급 3, sha256:12", "cutoff 2026-11-21 00:00:00 KST, issued 3, sha256:12"},
		{audit.ManualSettle, audit.Settled{Cutoff: at, Digest: "sha256:e3"},
			"정산 기준 시각 2026-11-21 00:00:00 KST, 발급 없음", "cutoff 2026-11-21 00:00:00 KST, nothing issued"},
		{audit.DLQDropped, audit.Application{Member: "07\x1b[31m", Arrival: 1763650800000001},
			"대기열 항목 07�[31m, 신청 시각 2025-11-21 00:00:00.000001 KST",
			"queue entry 07�[31m, arrival 2025-11-21 00:00:00.000001 KST"},
		{audit.DLQRetried, audit.Retried{Application: audit.Application{Arrival: 1763650800000001}},
			"신청 시각 2025-11-21 00:00:00.000001 KST", "arrival 2025-11-21 00:00:00.000001 KST"},
		{audit.DLQRetried, audit.Retried{All: true}, "검토 중인 신청 전체", "all applications under review"},
		{audit.CouponUnfinalised, audit.Unfinalised{}, "새로 늘어난 수량을 발급하기 위해", "so that a run issues the new seats"},
		{audit.CouponUnfinalised, audit.Unfinalised{LostEnd: true}, "Redis나 MySQL에서 종결이 유실되어 다시 정산하기 위해",
			"because redis or mysql had lost its end: a run settles it again"},
		{audit.GapAccepted, audit.WrittenOff{MissingPromises: audit.MissingPromises{Missing: 1, Account: figures},
			Digest: "sha256:9"},
			"유실된 신청 1건 인정: 접수 5, 대기 0, 검토 중 1, 발급 2, 발급 외 결과 1, 중복 집계 0, 유실 인정 0; sha256:9",
			"1 application written off: accepted 5, waiting 0, under review 1, issued 2, other outcomes 1, counted " +
				"twice 0, written off 0; sha256:9"},
		{audit.GapHeld, audit.MissingPromises{Missing: 1,
			Account: audit.Figures{Accepted: 5, Erased: 3}},
			"접수된 신청 5건 중 1건을 찾을 수 없음: 접수 5, 대기 0, 검토 중 0, 발급 0, 발급 외 결과 0, 중복 집계 0, 유실 인정 0, 개인정보 삭제 3",
			"1 of 5 accepted applications cannot be found: accepted 5, waiting 0, under review 0, issued 0, other " +
				"outcomes 0, counted twice 0, written off 0, erased 3"},
		{audit.CountHeld, audit.WrongCount{Recorded: 2, Coupons: 1, Seats: 1},
			"기록된 발급 수는 2장이지만 실제 발급된 쿠폰은 1장, 수량은 1장", "the recorded count is 2, but 1 coupon is issued, of 1 seat"},
		{audit.CouponUserExtended, audit.HolderChange{Expires: audit.ChangedTime(at, at.AddDate(0, 0, 30))},
			"유효 기한 2026-11-21 00:00:00 KST → 2026-12-21 00:00:00 KST",
			"valid until 2026-11-21 00:00:00 KST → 2026-12-21 00:00:00 KST"},
		{audit.ApplicationsRestored, audit.Restored{Back: 2, Missing: 1}, "저널에서 되돌린 신청 2건, 아직 찾지 못한 신청 1건",
			"2 put back from the journal, 1 still missing"},
	} {
		require.Equal(t, c.ko, shown(t, text.Korean, c.action, c.payload))
		require.Equal(t, c.en, shown(t, text.English, c.action, c.payload))
	}
}

// fill gives every field of a payload a value that is no word of either language.
func fill(field reflect.Value) {
	switch is := field.Addr().Interface().(type) {
	case *time.Time:
		*is = time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC)
	case *coupon.Status:
		*is = coupon.Paused
	case *coupon.Cadence:
		*is = coupon.Immediate
	case *bool: // false: Retried is about one application
	default:
		switch field.Kind() {
		case reflect.Struct:
			for i := range field.NumField() {
				fill(field.Field(i))
			}
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
			fill(field.Elem())
		case reflect.String:
			field.SetString("+7+")
		case reflect.Uint64:
			field.SetUint(7)
		default:
			field.SetInt(7)
		}
	}
}

// Every payload has words in both languages, without a word of the other one, and no action shows what is stored.
func TestEveryPayloadIsInBothLanguages(t *testing.T) {
	t.Parallel()
	hangul, latin, zone := regexp.MustCompile(`\p{Hangul}`), regexp.MustCompile(`[A-Za-z]{2}`),
		regexp.MustCompile(`\d KST`)
	for _, action := range slices.Sorted(maps.Keys(audit.Payloads)) {
		full := reflect.New(reflect.TypeOf(audit.Payloads[action])).Elem()
		fill(full)
		all := []audit.Payload{full.Interface().(audit.Payload), audit.Payloads[action]}
		if action == audit.CouponCreated {
			all = all[:1] // no coupon is without a cadence
		}
		for _, payload := range all {
			ko, en := shown(t, text.Korean, action, payload), shown(t, text.English, action, payload)
			require.NotRegexp(t, latin, zone.ReplaceAllString(ko, ""), action)
			require.NotRegexp(t, hangul, en, action)
			require.NotContains(t, ko+en, "%!", action)
			require.NotContains(t, ko+en, "{", action)
		}
		require.Regexp(t, hangul, shown(t, text.Korean, action, full.Interface().(audit.Payload)), action)
	}
}

// Whatever is stored can be shown: nothing fails, and no control character is printed.
func TestDetailOfAnything(t *testing.T) {
	t.Parallel()
	actions := rapid.SampledFrom(append(slices.Sorted(maps.Keys(audit.Payloads)), "OTHER"))
	parts := rapid.SampledFrom([]string{`{"seats":`, `{"from":1,"to":2}`, "}", `{"arrival":9`, `,"member":"`, "\x1b",
		"%d", `"`, "null", `{"cutoff":"x"}`})
	rapid.Check(t, func(t *rapid.T) {
		stored := ""
		for _, part := range rapid.SliceOfN(parts, 0, 6).Draw(t, "parts") {
			stored += part
		}
		stored += rapid.String().Draw(t, "rest")
		words := output.Locale{Language: text.English, Zone: time.UTC}.Detail(actions.Draw(t, "action"),
			audit.Detail(stored))
		require.Equal(t, output.Printable(words), words)
	})
	require.Equal(t, "a�[31m", output.Locale{Language: text.English, Zone: time.UTC}.Detail(audit.GapHeld, "a\x1b[31m"))
}
