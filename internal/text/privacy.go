package text

// Sentences of settle user.
var (
	UserStillWaits = Message{"이 고객의 신청 결과가 아직 확정되지 않았습니다(쿠폰 %s). 쿠폰이 종결된 뒤 다시 실행하세요. 검토 중인 신청은 `settle dlq drop`으로 종료할 수 있습니다",
		"the user still has applications that are not decided for good (coupons %s); run again once these coupons are finalised. `settle dlq drop` ends an application under review"}
	UserForgottenIn = Message{"신청 결과 %d건을 삭제하고 감사 기록 %d건에서 고객번호를 지웠습니다.",
		"Deleted %d outcome{|s} of applications, and took the user out of %d audit event{|s}."}
	NothingForgotten = Message{"이 고객에 대해 저장된 것이 없습니다. MySQL이나 Redis가 방금 교체되었다면 복구되는 신청이 있을 수 있으니 1분 뒤에 다시 실행하세요.",
		"Nothing was stored of this user. If MySQL or Redis has just failed over, applications may be about to come back: run this again in a minute."}
	RemainCoupons = Message{"남은 기록: 발급된 쿠폰 %d장과 그 쿠폰의 주문 기록. 발급 사실의 증빙이므로 보관합니다.",
		"Remains: %d issued coupon{|s} with their orders, as evidence."}
	RemainAlreadyIssued = Message{"남은 기록: 이미 발급된 쿠폰에 다시 신청한 기록 %d건. 발급된 쿠폰과 함께 보관합니다.",
		"Remains: %d application{|s} for a coupon that the user already had. They stay with the issued coupon."}
	RemainNotFinalised = Message{"남은 기록: 아직 종결되지 않은 쿠폰의 기록 %d건. 종결된 뒤 다시 실행하세요.",
		"Remains: %d record{|s} of coupons that are not finalised. Run again once they are."}
	RemainAuditEvents = Message{"남은 기록: 종결되지 않은 쿠폰의 감사 기록 %d건. 종결된 뒤 다시 실행하세요.",
		"Remains: %d audit event{|s} of coupons that are not finalised. Run again once they are."}
	NothingOfUser        = Message{"고객 %d의 기록이 없습니다.", "Nothing is stored of user %d."}
	NothingOfUserInMySQL = Message{"MySQL에는 고객 %d의 기록이 없습니다.", "MySQL stores nothing of user %d."}
	RedisOfUserUnknown   = Message{"Redis를 읽을 수 없어, 대기 중이거나 검토 중인 신청이 있는지 알 수 없습니다: %s",
		"Redis cannot be read, so it is unknown whether applications wait or are under review: %s"}
	CouponsOfUser = Message{"고객 %d에게 발급된 쿠폰은 %d장이며, 그중 지금 사용할 수 있는 쿠폰은 %d장입니다.",
		"User %d was given %d coupon{|s}; usable now: %d."}
	StillWaits       = Message{"대기 중", "waiting"}
	LostByRedis      = Message{"Redis에서 유실됨, 저널에서 되돌릴 예정", "lost by Redis; the journal puts it back"}
	ColumnValidUntil = Message{"유효 기한", "valid until"}
	ColumnOrder      = Message{"주문", "order"}
)

// Sentences of settle purge.
var (
	PurgeTooYoung = Message{"--before: %s 이후의 쿠폰은 아직 영구 삭제할 수 없습니다. %d일 이상 지난 날짜를 지정하세요",
		"--before: %s is too late: give a date at least %d days ago"}
	PurgeNeedsAge = Message{"무엇을 삭제할지 --before DATE로 지정하거나, 정기 작업이라면 PURGE_AFTER_DAYS를 설정하세요",
		"say what is to go: --before DATE, or PURGE_AFTER_DAYS for a scheduled job"}
	WrongPurgeDays = Message{"--after-days(PURGE_AFTER_DAYS)는 %d 이상 %d 이하여야 합니다",
		"--after-days (PURGE_AFTER_DAYS): must be between %d and %d"}
	PurgeTakes = Message{"영구 삭제할 쿠폰: %d개. 모든 기록이 지워지고, 쿠폰마다 요약 한 줄만 남습니다.",
		"To be purged: %d coupon{|s}. All their rows are deleted; one summary row each remains."}
	PurgeContinues = Message{"중단된 영구 삭제를 이어서 진행할 쿠폰: %d개(%s).",
		"An earlier purge was stopped; it goes on with %d coupon{|s} (%s)."}
	PurgeLeaves = Message{"삭제하지 않는 쿠폰: %d개.", "Left: %d coupon{|s}."}
	PurgeNone   = Message{"영구 삭제할 쿠폰이 없습니다.", "There is no coupon to purge."}
	AskPurge    = Message{"쿠폰 %d개의 모든 기록을 영구 삭제할까요? 되돌릴 수 없습니다.",
		"Delete all rows of %d coupon{|s}? This cannot be undone."}
	PurgeNeedsYes = Message{"쿠폰 %d개를 영구 삭제하려면 --yes를 지정하세요. 변경된 내용이 없습니다.",
		"this would purge %d coupon{|s}: confirm with --yes. Nothing was changed."}
	PurgeDone    = Message{"쿠폰 %d개를 영구 삭제했습니다.", "Purged %d coupon{|s}."}
	PurgeStopped = Message{"영구 삭제가 중단되었습니다(완료된 쿠폰 %d개). 다시 실행하면 남은 작업을 이어서 진행합니다: %s",
		"the purge was stopped after %d coupon{|s}. The next run goes on: %s"}
	CouponWasPurged = Message{"%d번 쿠폰(%q)은 영구 삭제되었습니다. 삭제 시각 %s, 담당자 %s, 사유 %q. 신청 %d건, 발급 %d장, 사용 %d장(할인 %d원), 회수 %d장, 미선정 %d건, 거절 %d건",
		"coupon %d (%q) was purged at %s by %s, reason %q: %d applications, %d issued, %d used (%d won), %d revoked, %d not selected, %d rejected"}
	CouponInPurge = Message{"%d번 쿠폰(%q)은 영구 삭제하는 중이며, 다음 `settle purge`가 이어서 진행합니다. 시작 시각 %s, 담당자 %s, 사유 %q. 신청 %d건, 발급 %d장, 사용 %d장(할인 %d원), 회수 %d장, 미선정 %d건, 거절 %d건",
		"the purge of coupon %d (%q) began at %s by %s, reason %q, and has not ended: run settle purge again. %d applications, %d issued, %d used (%d won), %d revoked, %d not selected, %d rejected"}
	CouponIsPurged = Message{"%d번 쿠폰은 영구 삭제되었거나 삭제하는 중이므로 변경할 수 없습니다. `settle coupon show`로 요약을 확인하세요",
		"coupon %d was purged, or its purge has begun: it cannot be changed. `settle coupon show` has its summary"}
	ReportWithoutPurged = Message{"이 보고서에는 영구 삭제된 쿠폰 %d개의 신청이 포함되어 있지 않습니다. 쿠폰별 요약은 `settle coupon show`로 확인하세요.",
		"This report does not count the applications of %d purged coupon{|s}; `settle coupon show` has the summary of each."}
	ColumnClosesAt  = Message{"마감", "closed"}
	ColumnWhyLeft   = Message{"삭제하지 않는 이유", "why it stays"}
	WhyNotFinalised = Message{"해당 날짜 전에 종결되지 않음", "not finalised before the date"}
	WhyCleanUp      = Message{"정리가 끝나지 않은 정산이 있음", "the clean-up of a settlement is pending"}
	WhyStillValid   = Message{"해당 날짜 이후까지 유효한 발급 쿠폰이 있음", "an issued coupon is valid on the date or later"}
	WhyFoundWrong   = Message{"마지막 확인에서 문제가 있었거나 확인하지 못함", "the last check found something, or could not check it"}
	WhyInRedis      = Message{"Redis에 신청이 남아 있음", "Redis still has applications"}
)
