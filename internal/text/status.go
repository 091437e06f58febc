package text

// words has the words for statuses, triggers, causes and actions, by code. Some Korean words show the code, too.
var words = map[string]Message{
	// Results of a coupon in a run, statuses of runs, and triggers of runs.
	"SETTLED":   {"정산됨 (SETTLED)", "SETTLED"},
	"UNCHANGED": {"변경 없음 (UNCHANGED)", "UNCHANGED"},
	"NOT_DUE":   {"대상 아님 (NOT_DUE)", "NOT_DUE"},
	"HELD":      {"보류 (HELD)", "HELD"},
	"BUSY":      {"사용 중 (BUSY)", "BUSY"},
	"FAILED":    {"실패 (FAILED)", "FAILED"},
	"RUNNING":   {"실행 중 (RUNNING)", "RUNNING"},
	"SUCCEEDED": {"성공 (SUCCEEDED)", "SUCCEEDED"},
	"ABANDONED": {"중단됨 (ABANDONED)", "ABANDONED"},
	"CRON":      {"야간 (CRON)", "CRON"},
	"MANUAL":    {"수동 (MANUAL)", "MANUAL"},
	"DLQ_RETRY": {"재시도 (DLQ_RETRY)", "DLQ_RETRY"},
	"IMMEDIATE": {"즉시 (IMMEDIATE)", "IMMEDIATE"},

	// Statuses of coupons.
	"SCHEDULED": {"시작 전", "scheduled"},
	"OPEN":      {"신청 중", "open"},
	"PAUSED":    {"일시 중지", "paused"},
	"CLOSED":    {"마감", "closed"},
	"FINALISED": {"종결", "finalised"},

	// Causes of DLQ entries.
	"UNKNOWN_USER":      {"존재하지 않는 고객", "unknown user"},
	"INACTIVE_USER":     {"비활성 고객", "inactive user"},
	"MALFORMED_USER_ID": {"잘못된 고객번호", "not a user id"},
	"PASSED_OVER":       {"차례에 발급받지 못한 신청", "passed over"},
	"BAD_ROW":           {"데이터베이스가 거부한 행", "row refused by the database"},
	"DATABASE_AWAY":     {"데이터베이스 연결 실패", "database not reachable"},
	"UNKNOWN":           {"알 수 없는 원인", "unknown cause"},

	// Actions of audit_event.
	"GAP_HELD":             {"접수 기록 유실로 정산 보류", "held: accepted applications are missing"},
	"GAP_ACCEPTED":         {"유실 인정 및 보류 해제", "released: the missing applications are written off"},
	"DLQ_RETRIED":          {"검토 중인 신청 재시도", "retried applications under review"},
	"DLQ_DROPPED":          {"검토 중인 신청을 거절로 종료", "dropped an application under review"},
	"SETTLED_BY_HAND":      {"수동 정산", "settled by hand"},
	"COUPON_CREATED":       {"쿠폰 생성", "created the coupon"},
	"COUPON_CHANGED":       {"쿠폰 내용 변경", "changed the coupon"},
	"COUPON_CLOSED":        {"신청 마감", "closed applications"},
	"COUPON_EXTENDED":      {"신청 기간 연장", "extended applications"},
	"COUPON_PAUSED":        {"신청 일시 중지", "paused applications"},
	"COUPON_RESUMED":       {"신청 재개", "resumed applications"},
	"COUPON_SEATS_CHANGED": {"수량 변경", "changed the number of seats"},
	"COUNT_HELD":           {"발급 수 불일치로 정산 보류", "held: the issued count differs from the coupons"},
	"COUPON_RECOUNTED":     {"발급 수 정정", "corrected the issued count"},
	"COUPON_UNFINALISED":   {"쿠폰 종결 취소", "undid the finalisation"},

	"FROZEN":                 {"동결 (FROZEN)", "FROZEN"},
	"COUPON_FROZEN":          {"발급 동결", "froze the issuing"},
	"COUPON_UNFROZEN":        {"발급 동결 해제", "unfroze the issuing"},
	"COUPON_CADENCE_CHANGED": {"발급 방식 변경", "changed the cadence"},

	"ISSUED":   {"사용 가능", "usable"},
	"RESERVED": {"예약됨", "reserved"},
	"USED":     {"사용함", "used"},
	"REVOKED":  {"회수됨", "revoked"},
	"EXPIRED":  {"만료됨", "expired"},

	"COUPON_GRANTED":       {"쿠폰 수동 지급", "gave a coupon by hand"},
	"COUPON_LIST_GRANTED":  {"명단으로 쿠폰 지급", "gave coupons to a list"},
	"COUPON_REVOKED":       {"발급된 쿠폰 회수", "revoked an issued coupon"},
	"COUPON_REISSUED":      {"쿠폰 회수 취소", "gave a revoked coupon back"},
	"COUPON_USER_EXTENDED": {"발급된 쿠폰의 유효 기한 연장", "extended an issued coupon"},
	"COUPON_UNUSED":        {"쿠폰 사용 취소", "undid the use of a coupon"},
	"USER_FORGOTTEN":       {"고객 정보 삭제", "forgot a user"},

	"APPLICATIONS_RESTORED": {"유실된 신청 복구", "put lost applications back"}, "PROMISE_UNKNOWN": {"신청자를 알 수 없는 유실 확인", "found that promises of unknown users are lost"},
	"REQUESTED": {"승인 대기 (REQUESTED)", "REQUESTED"},
	"APPROVED":  {"승인됨 (APPROVED)", "APPROVED"},
	"REFUSED":   {"반려됨 (REFUSED)", "REFUSED"},
	"VOID":      {"무효 (VOID)", "VOID"},

	"run": {"수동 실행", "run by hand"}, "accept-gap": {"유실 인정", "accept a gap"}, "add-seats": {"수량 추가", "add seats"}, "drop": {"검토 중인 신청 종료", "drop"},
	"restore": {"신청 복구", "restore"}, "grant": {"쿠폰 지급", "grant"}, "revoke": {"쿠폰 회수", "revoke"}, "policy": {"승인 정책", "policy"},
	"create": {"쿠폰 생성", "create"}, "change": {"쿠폰 내용 변경", "change"}, "close": {"신청 마감", "close"}, "extend": {"신청 기간 연장", "extend"}, "pause": {"신청 일시 중지", "pause"}, "resume": {"신청 재개", "resume"},
	"freeze": {"발급 동결", "freeze"}, "unfreeze": {"발급 동결 해제", "unfreeze"}, "cadence": {"발급 방식", "cadence"}, "recount": {"발급 수 정정", "recount"},
	"reissue": {"회수 취소", "reissue"}, "extend-user": {"고객의 유효 기한 연장", "extend-user"}, "unuse": {"사용 취소", "unuse"}, "honour": {"접수증으로 복구", "honour"},

	"issued_count": {"발급 수", "issued"}, "apply_opens_at": {"시작 시각", "opens"}, "apply_closes_at": {"마감 시각", "closes"}, "status": {"상태", "status"}, "frozen": {"발급 동결", "frozen"}, "finalised_at": {"종결 시각", "finalised"},
	"arrival": {"신청 시각", "arrival"}, "now": {"지금", "now"}, "midnight": {"지난 자정", "last midnight"}, "NIGHTLY": {"야간 (NIGHTLY)", "NIGHTLY"}, "none": {"없음", "none"},
	"name": {"쿠폰명", "name"}, "opens": {"시작 시각", "opens"}, "closes": {"마감 시각", "closes"}, "until": {"유효 기한", "valid until"}, "receipt": {"접수증", "receipt"}, "validity-days": {"유효 일수", "days of validity"},
	"discount-won": {"할인액(원)", "discount in won"}, "discount-percent": {"할인율(%)", "discount in percent"}, "discount-max-won": {"최대 할인액(원)", "highest discount in won"},
	"minimum-won": {"최소 주문 금액(원)", "smallest order in won"}, "line-limit": {"대기열 한도", "line limit"}, "campaign": {"캠페인", "campaign"},
	"total_quantity": {"수량", "seats"}, "user_coupon.status": {"고객의 쿠폰", "coupon of the user"}, "expires_at": {"유효 기한", "valid until"},
	"winners": {"발급 대상", "winners"}, "written off": {"유실로 인정할 신청", "written off"}, "digest": {"해시", "digest"}, "entries": {"신청 수", "entries"}, "list": {"목록의 해시", "digest of the list"},
	"file": {"명단", "list"}, "users": {"명단의 고객 수", "users of the list"},
	"order": {"주문", "order"}, "REFUNDED": {"환불됨", "refunded"},
	"put back": {"되돌릴 신청", "put back"},
	"cutoff":   {"정산 기준 시각", "cutoff"}, "cause": {"원인", "cause"}, "user": {"DLQ 항목", "DLQ entry"}, "free-seat": {"수량 돌려놓기", "free the seat"},
	"seats": {"수량", "seats"}, "more seats": {"추가 수량", "more seats"}, "total": {"전체 수량", "seats in all"}, "true": {"예", "yes"}, "false": {"아니요", "no"},
	"version": {"판", "version"}, "persons": {"콘솔 담당자와 계정", "persons and accounts"}, "zone": {"야간 정산의 시간대", "time zone of the nights"}, "actions": {"승인이 필요한 작업", "actions"}, "shared accounts": {"공용 계정", "shared accounts"},

	"APPROVAL_USED":    {"승인받은 작업 실행", "make an approved change"},
	"RECEIPT_HONOURED": {"접수증으로 신청 복구", "put an application back by its receipt"},
}

// Word returns the word for a code; empty for a code that this version does not know.
func Word[C ~string](l Language, code C) string { return words[string(code)].In(l) }
