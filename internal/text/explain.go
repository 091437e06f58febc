package text

// Messages of the timeline that settle explain prints for operators.
var (
	CouponNumber    = Message{"쿠폰 %d", "coupon %d"}
	SeatsTaken      = Message{"수량 %d장 중 %d장 발급", "%[2]d of %[1]d seat{|s} taken"}
	UserNumber      = Message{"; 고객 %d", "; user %d"}
	AcceptedMissing = Message{"접수된 신청 %[2]d건 중 %[1]d건을 찾을 수 없습니다", "missing: %d of %d accepted application{|s}"}
	UnfoundCount    = Message{"복구하지 못한 신청: %d건", "%d accepted application{|s} that no restore has found"}
	WrittenOffCount = Message{"유실 인정: %d건", "%d application{|s} written off as lost"}
	EventsLeftOut   = Message{"오래된 내역을 %d건 이상 생략했습니다", "%d or more of the oldest events are left out"}
	RedisNotRead    = Message{"Redis를 읽지 못해 대기 중이거나 검토 중인 신청을 확인할 수 없습니다",
		"Redis could not be read: applications waiting or under review are unknown"}
	MySQLNotRead = Message{"MySQL을 읽지 못해 정산 결과와 감사 기록을 확인할 수 없습니다",
		"MySQL could not be read: outcomes, runs and operators' actions are unknown"}
	LossNotCounted    = Message{"유실된 신청이 있는지 확인하지 못했습니다", "it could not be checked whether applications were lost"}
	UnknownUserMark   = Message{" (존재하지 않는 고객)", " (unknown)"}
	EventOpens        = Message{"신청 시작", "applications open"}
	EventCloses       = Message{"신청 마감", "applications close"}
	EventLastIssued   = Message{"마지막으로 발급된 신청", "the last application that got a seat"}
	EventFinalised    = Message{"쿠폰 종결: 이후 야간 실행 대상에서 제외", "coupon finalised: nightly runs skip it"}
	EventSettles      = Message{"정산", "settlement"}
	EventExpires      = Message{"쿠폰 유효 기한 만료", "the coupon expires"}
	EventApplied      = Message{"신청", "applied"}
	ArrivalNumber     = Message{" (신청 시각 %dµs)", " (arrival %d)"}
	EventAttempt      = Message{"처리 실패: %s", "attempt failed: %s"}
	EventAudit        = Message{"감사 기록, %s: %s", "%s: %s"}
	EventIssued       = Message{"발급: %d번째 쿠폰", "issued: seat %d"}
	StatusNow         = Message{"; 현재 상태 %s", "; now %s"}
	EventAlreadyHeld  = Message{"이미 보유", "held the coupon already"}
	Planned           = Message{" (예정)", " (planned)"}
	ByRun             = Message{", 실행 #%d", ", by run %d"}
	OrderOfAll        = Message{", 전체 신청 중 %s", ", number %s of all"}
	NotCleanedUp      = Message{"; Redis 정리 대기", "; still in Redis, to be cleaned up"}
	PlaceInQueue      = Message{"; 대기 %[2]d건 중 %[1]s", "; number %s of %d waiting"}
	IsUnderReview     = Message{"; 검토 중", "; under review"}
	EventRun          = Message{"실행 #%d, %s, 정산 기준 시각 %s, %s", "run %d (%s), cutoff %s, %s"}
	RunDidNothing     = Message{": 이 쿠폰은 변경 없음", ": did not change this coupon"}
	RunCounts         = Message{": 처리 %d건, 발급 %d건, 미선정 %d건", ": decided %d, issued %d, not selected %d"}
	UntilDecided      = Message{"담당자 결정 대기", "waiting for an operator's decision"}
	RetriedNightly    = Message{"야간 실행마다 재시도", "retried by every nightly run"}
	RetriedByEveryRun = Message{"실행마다 재시도", "retried by every run"}
	EventReview       = Message{"검토 중: %s, %d회 시도, %s", "under review: %s, %d attempt{|s}, %s"}
	ImmediateCoupon   = Message{"즉시 발급 쿠폰: 신청하는 대로 settle serve가 정산합니다", "immediate coupon: settle serve settles applications at once"}
	LineLimitOf       = Message{"대기열 한도: %d건", "line limit: %d"}
	FrozenByWhom      = Message{"발급이 동결되어 있습니다. 동결 시각 %s, 처리자 %s, 사유: %s", "frozen since %s, by %s: %s"}
	FrozenNobodyKnows = Message{"발급이 동결되어 있지만, 누가 동결했는지 감사 기록에 없습니다", "frozen, but the audit log does not say by whom"}

	EventImmediateRun = Message{"즉시 실행 #%d (settle serve)", "immediate run %d (settle serve)"}
	ByImmediateRun    = Message{", 즉시 실행 #%d (settle serve)", ", by immediate run %d (settle serve)"}

	CouponStateAsOf = Message{"발급된 쿠폰의 상태는 MySQL 시각 %s 기준입니다", "state of the issued coupon as of %s, by the clock of MySQL"}
	EventSeatFreed  = Message{"다른 고객의 쿠폰이 회수되어 수량 1장이 생김", "another user's coupon was revoked, and its seat became free"}
	ByActor         = Message{", 처리자 %s", ", by %s"}
	EventReserved   = Message{"주문 %s에 예약 (주문 금액 %s원, 할인 %s원)", "reserved for order %s (amount %s won, discount %s won)"}
	EventRanOut     = Message{"주문 %s의 예약 시간 만료", "the reservation for order %s runs out"}
	EventReleased   = Message{"주문 %s의 예약 취소", "released by order %s"}
	EventTakenOver  = Message{"예약 시간이 지난 주문 %s의 예약 해제", "released from order %s, whose reservation had run out"}
	EventUsed       = Message{"주문 %s에 사용 확정 (할인 %s원)", "used for order %s (discount %s won)"}
	EventRefunded   = Message{"주문 %s의 사용 취소(환불)", "given back: order %s was refunded"}
	EventUnused     = Message{"주문 %s의 사용을 담당자가 취소", "given back: the use for order %s was undone"}
	EventGranted    = Message{"수동 지급", "given by hand"}
	EventRevoked    = Message{"쿠폰 회수", "revoked"}
	EventReissued   = Message{"쿠폰 회수 취소(재발급)", "reissued"}
	EventExtended   = Message{"유효 기한 연장", "extended"}
	ValidUntil      = Message{", %s까지 사용 가능", ", valid until %s"}
	SeatForNext     = Message{", 수량 1장이 다음 순번에게 넘어감", ", its seat becomes free for the next in line"}
	SeatTakenBack   = Message{", 회수할 때 생긴 수량 1장을 다시 차감", ", and takes back the seat that became free"}
)
