package text

// Statuses, triggers, causes and actions. Codes are stable, so Korean tables show them beside the word.
var (
	ResultSettled        = Message{"정산됨 (SETTLED)", "SETTLED"}
	ResultUnchanged      = Message{"변경 없음 (UNCHANGED)", "UNCHANGED"}
	ResultNotDue         = Message{"대상 아님 (NOT_DUE)", "NOT_DUE"}
	ResultHeld           = Message{"보류 (HELD)", "HELD"}
	ResultBusy           = Message{"사용 중 (BUSY)", "BUSY"}
	ResultFailed         = Message{"실패 (FAILED)", "FAILED"}
	RunRunning           = Message{"실행 중 (RUNNING)", "RUNNING"}
	RunSucceeded         = Message{"성공 (SUCCEEDED)", "SUCCEEDED"}
	RunAbandoned         = Message{"중단됨 (ABANDONED)", "ABANDONED"}
	TriggerCron          = Message{"야간 (CRON)", "CRON"}
	TriggerManual        = Message{"수동 (MANUAL)", "MANUAL"}
	TriggerRetry         = Message{"재시도 (DLQ_RETRY)", "DLQ_RETRY"}
	CouponScheduled      = Message{"시작 전", "scheduled"}
	CouponOpen           = Message{"신청 중", "open"}
	CouponPaused         = Message{"일시 중지", "paused"}
	CouponClosed         = Message{"마감", "closed"}
	CouponFinalised      = Message{"종결", "finalised"}
	CauseUnknownUser     = Message{"없는 사용자", "unknown user"}
	CauseInactiveUser    = Message{"이용할 수 없는 사용자", "inactive user"}
	CauseMalformed       = Message{"사용자 번호가 아닌 항목", "not a user id"}
	CausePassedOver      = Message{"차례가 지나간 신청", "passed over"}
	CauseBadRow          = Message{"데이터베이스가 거부한 행", "row refused by the database"}
	CauseDatabaseAway    = Message{"데이터베이스 연결 실패", "database not reachable"}
	ActionGapHeld        = Message{"접수 기록이 유실되어 정산을 보류", "held: accepted applications are missing"}
	ActionGapAccepted    = Message{"유실 인정, 보류를 해제", "released: the missing applications are written off"}
	ActionRetried        = Message{"검토 중인 신청을 다시 시도", "retried applications under review"}
	ActionDropped        = Message{"검토 중인 신청을 거절로 종료", "dropped an application under review"}
	ActionSettledByHand  = Message{"수동 정산", "settled by hand"}
	ActionCouponCreated  = Message{"쿠폰 생성", "created the coupon"}
	ActionCouponClosed   = Message{"신청 마감", "closed applications"}
	ActionCouponExtended = Message{"신청 기간 연장", "extended applications"}
	ActionCouponPaused   = Message{"신청 일시 중지", "paused applications"}
	ActionCouponResumed  = Message{"신청 재개", "resumed applications"}
	ActionSeatsChanged   = Message{"수량 변경", "changed the number of seats"}
	ActionCountHeld      = Message{"발급 수와 쿠폰 수가 달라 정산을 보류", "held: the issued count differs from the coupons"}
	ActionRecounted      = Message{"발급 수를 쿠폰 수에 맞춤", "corrected the issued count"}
	ActionUnfinalised    = Message{"쿠폰 종결을 취소", "undid the finalisation"}
)
