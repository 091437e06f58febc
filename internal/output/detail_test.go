package output_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

func TestDetail(t *testing.T) {
	t.Parallel()
	seoul := time.FixedZone("KST", 9*60*60)
	for _, c := range []struct{ stored, ko, en string }{
		{"", "", ""},
		{"total_quantity 100 → 1200, apply_closes_at 2026-11-20T15:00:00Z → 2026-11-21T15:00:00.5Z, finalised_at 2026-11-22T15:00:00Z → none",
			"수량 100 → 1,200, 신청 마감 2026-11-21 00:00:00 KST → 2026-11-22 00:00:00.5 KST, 종결 시각 2026-11-23 00:00:00 KST → 없음",
			"seats 100 → 1,200, closes 2026-11-21 00:00:00 KST → 2026-11-22 00:00:00.5 KST, finalised at 2026-11-23 00:00:00 KST → none"},
		{"status OPEN → PAUSED, door_shut_at 2026-11-20T15:00:00Z", "상태 신청 중 → 일시 중지, 신청을 막은 시각 2026-11-21 00:00:00 KST",
			"status open → paused, applications stopped at 2026-11-21 00:00:00 KST"},
		{"cadence NIGHTLY → IMMEDIATE", "발급 방식 야간 발급 → 즉시 발급", "cadence nightly → immediate"},
		{"frozen false → true", "발급 동결 해제 → 설정", "frozen off → on"},
		{`name "a, \"b\" 심야, 쿠폰", total_quantity 2, apply_opens_at 2026-11-20T15:00:00Z, apply_closes_at 2026-11-20T16:00:00Z, campaign_id 0, validity_days 30, ` +
			`discount_won 5000, discount_percent 10, discount_max_won 3000, minimum_won 10000, cadence NIGHTLY, line_limit 0`,
			`이름 a, "b" 심야, 쿠폰, 수량 2, 신청 시작 2026-11-21 00:00:00 KST, 신청 마감 2026-11-21 01:00:00 KST, 캠페인 없음, 유효 기간 30일, ` +
				`할인 5,000원, 할인율 10 %, 최대 할인 3,000원, 최소 주문 금액 10,000원, 발급 방식 야간 발급, 대기열 한도 없음`,
			`name a, "b" 심야, 쿠폰, seats 2, opens 2026-11-21 00:00:00 KST, closes 2026-11-21 01:00:00 KST, campaign none, validity 30 days, ` +
				`discount 5,000 won, discount rate 10 %, at most 3,000 won, minimum order 10,000 won, cadence nightly, line limit none`},
		{"cutoff 2026-11-20T15:00:00Z, issued 3, sha256:12", "정산 기준 시각 2026-11-21 00:00:00 KST, 발급 3, sha256:12", "cutoff 2026-11-21 00:00:00 KST, issued 3, sha256:12"},
		{"cutoff 2026-11-20T15:00:00Z, nothing issued", "정산 기준 시각 2026-11-21 00:00:00 KST, 발급 없음", "cutoff 2026-11-21 00:00:00 KST, nothing issued"},
		{`"7", arrival 1763650800000001`, "대기열 항목 7, 신청 시각 2025-11-21 00:00:00.000001 KST", "queue entry 7, arrival 2025-11-21 00:00:00.000001 KST"},
		{"arrival 1763650800000001", "신청 시각 2025-11-21 00:00:00.000001 KST", "arrival 2025-11-21 00:00:00.000001 KST"},
		{"all that are under review", "검토 중인 신청 전체", "all applications under review"},
		{"so that a run issues the new seats", "새로 늘어난 수량을 발급하기 위해", "so that a run issues the new seats"},
		{"1 applications written off: accepted 5, waiting 0, under review 1, issued 2, other outcomes 1, counted twice 0, written off 0; sha256:9",
			"유실된 신청 1건 인정: 접수 5, 대기 0, 검토 중 1, 발급 2, 발급 외 결과 1, 중복 집계 0, 유실 인정 0; sha256:9",
			"1 application written off: accepted 5, waiting 0, under review 1, issued 2, other outcomes 1, counted twice 0, written off 0; sha256:9"},
		{"held: 1 of 2 accepted applications cannot be found (accepted 2, issued 1); nothing was issued. Find out what Redis lost",
			"접수된 신청 2건 중 1건을 찾을 수 없음: 접수 2, 발급 1", "1 of 2 accepted applications cannot be found: accepted 2, issued 1"},
		{"held: issued_count of coupon 4 is 2, but user_coupon has 1 row for 1 seat; nothing was issued. Find out",
			"기록된 발급 수는 2장이지만 실제 발급된 쿠폰은 1장, 수량은 1장", "the recorded count is 2, but 1 coupon is issued, of 1 seat"},
		{"expires_at 2026-11-20T15:00:00Z → 2026-12-20T15:00:00Z", "유효 기한 2026-11-21 00:00:00 KST → 2026-12-21 00:00:00 KST",
			"valid until 2026-11-21 00:00:00 KST → 2026-12-21 00:00:00 KST"},
		// Details that this version does not know.
		{"total_quantity 100 → many", "total_quantity 100 → many", "total_quantity 100 → many"},
		{"colour red, total_quantity 1 → 2", "colour red, total_quantity 1 → 2", "colour red, total_quantity 1 → 2"},
		{`name "a, total_quantity 1`, `name "a, total_quantity 1`, `name "a, total_quantity 1`},
		{"a\x1b[31m", "a�[31m", "a�[31m"},
	} {
		require.Equal(t, c.ko, output.Locale{Language: text.Korean, Zone: seoul}.Detail(c.stored))
		require.Equal(t, c.en, output.Locale{Language: text.English, Zone: seoul}.Detail(c.stored))
	}
}

// Whatever is stored can be shown: nothing fails, and no control character is printed.
func TestDetailOfAnything(t *testing.T) {
	t.Parallel()
	parts := rapid.SampledFrom([]string{"total_quantity 1 → 2", "cutoff ", "arrival 9", `"7"`, `name "`, " → ", ", ", "issued", "sha256:1", "\x1b", "%d", "status X"})
	rapid.Check(t, func(t *rapid.T) {
		stored := ""
		for _, part := range rapid.SliceOfN(parts, 0, 6).Draw(t, "parts") {
			stored += part + rapid.SampledFrom([]string{"", ", ", " "}).Draw(t, "between")
		}
		shown := output.Locale{Language: text.English, Zone: time.UTC}.Detail(stored + rapid.String().Draw(t, "rest"))
		require.Equal(t, output.Printable(shown), shown)
	})
}
