package text

// Sentences of settle user.
var (
	UserStillWaits = Message{"사용자 %d의 신청이 아직 확정되지 않았습니다(쿠폰 %s). 쿠폰이 종료 처리된 뒤 다시 실행하세요. 검토 중인 신청은 `settle dlq drop`으로 종료할 수 있습니다",
		"user %d still has applications that are not decided for good (coupons %s); run again once these coupons are finalised. `settle dlq drop` ends an application under review"}
	UserForgottenIn = Message{"사용자 %d: 신청 결과 %d건을 삭제하고 운영 기록 %d건에서 사용자 번호를 지웠습니다.",
		"User %d: deleted %d outcome{|s} of applications, and took the user out of %d audit event{|s}."}
	RemainCoupons = Message{"남은 기록: 발급된 쿠폰 %d장과 그 쿠폰의 주문 기록. 발급 사실의 증빙이므로 보관합니다.",
		"Remains: %d issued coupon{|s} with their orders, as evidence."}
	RemainAlreadyIssued = Message{"남은 기록: 이미 발급된 쿠폰에 다시 신청한 기록 %d건. 발급된 쿠폰과 함께 보관합니다.",
		"Remains: %d application{|s} for a coupon that the user already had. They stay with the issued coupon."}
	RemainNotFinalised = Message{"남은 기록: 아직 종료 처리되지 않은 쿠폰의 기록 %d건. 종료 처리된 뒤 다시 실행하세요.",
		"Remains: %d record{|s} of coupons that are not finalised. Run again once they are."}
	RemainAuditEvents = Message{"남은 기록: 운영 기록 %d건. 종료 처리되지 않은 쿠폰의 기록은 나중에 다시 실행하면 지워지고, 이전 버전이 남긴 기록은 남습니다.",
		"Remains: %d audit event{|s}. Those of coupons that are not finalised go when you run again later; those of earlier versions stay."}
	NothingOfUser      = Message{"사용자 %d의 기록이 없습니다.", "Nothing is stored of user %d."}
	RedisOfUserUnknown = Message{"Redis를 읽을 수 없어, 대기 중이거나 검토 중인 신청이 있는지 알 수 없습니다: %s",
		"Redis cannot be read, so that it is unknown whether applications wait or are under review: %s"}
	CouponsOfUser = Message{"사용자 %d에게 발급된 쿠폰은 %d장이며, 그중 지금 사용할 수 있는 쿠폰은 %d장입니다.",
		"User %d was given %d coupon{|s}; usable now: %d."}
	StillWaits       = Message{"대기 중", "waiting"}
	ColumnValidUntil = Message{"유효 기한", "valid until"}
	ColumnOrder      = Message{"주문", "order"}
)
