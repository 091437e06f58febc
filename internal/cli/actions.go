package cli

import "github.com/jajeong/jajeong/internal/audit"

// actions are what is kept in audit_event, in words.
var actions = map[audit.Action]words{
	"GAP_HELD":             {"접수 기록이 유실되어 정산을 보류", "held, since accepted applications are missing"},
	"GAP_ACCEPTED":         {"유실 인정, 보류를 해제", "released, the missing applications written off"},
	"DLQ_RETRIED":          {"검토 중인 신청을 다시 시도", "let what is under review be tried again"},
	"DLQ_DROPPED":          {"검토 중인 신청을 거절로 종료", "ended an application under review as rejected"},
	"SETTLED_BY_HAND":      {"수동 정산", "settled by hand"},
	"COUPON_CREATED":       {"쿠폰 생성", "created the coupon"},
	"COUPON_CLOSED":        {"신청 마감", "closed the window"},
	"COUPON_EXTENDED":      {"신청 기간 연장", "extended the window"},
	"COUPON_PAUSED":        {"신청 일시 중지", "paused applications"},
	"COUPON_RESUMED":       {"신청 재개", "resumed applications"},
	"COUPON_SEATS_CHANGED": {"수량 변경", "changed the number of seats"},
	"COUNT_HELD":           {"발급 수와 쿠폰 수가 달라 정산을 보류", "held, since the count of what was issued is wrong"},
	"COUPON_RECOUNTED":     {"발급 수를 쿠폰 수에 맞춤", "issued coupons counted again"},
	"COUPON_UNFINALISED":   {"쿠폰 종결을 취소", "no longer finalised"},
}

// action is an action in words, or as it is kept where another version of the program wrote it.
func (p *program) action(action audit.Action) string {
	if w, ok := actions[action]; ok {
		return w.in(p.language)
	}
	return printable(string(action))
}
