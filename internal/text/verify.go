package text

// The verb verify.
var (
	NeverMoreThanSeats = Message{"N장을 넘지 않는다", "never more than N"}
	CouponsForSeats    = Message{"쿠폰 %d장, 수량 %d", "%d coupons for %d seats"}
	NeverTwice         = Message{"두 번 주지 않는다", "never twice"}
	CouponsAndOutcomes = Message{"쿠폰 %d장, 다른 결과 %d건", "%d coupons, %d other outcomes"}
	FirstCome          = Message{"신청한 순서대로 발급한다", "first come"}
	IssuedInOrder      = Message{"신청한 순서대로 발급 %d건, 대기 %d건", "%d issued in order of arrival, %d waiting"}
	NoBrokenPromise    = Message{"약속을 깨지 않는다", "no broken promise"}
	AcceptedAgain      = Message{", 페일오버 뒤 다시 접수 %d", ", accepted again after a failover %d"}
	AccountFigures     = Message{"접수 %d, 대기 %d, 검토 중 %d, 발급 %d, 다른 결과 %d, 중복 집계 %d, 유실 인정 %d%s: 유실 %d",
		"accepted %d, waiting %d, under review %d, issued %d, other outcomes %d, counted twice %d, written off %d%s: gap %d"}
	OneClock             = Message{"시계는 하나다", "one clock"}
	QueuesChecked        = Message{"대기열 %d개", "%d queues"}
	SourceOfTruth        = Message{"원본 데이터는 MySQL이다", "MySQL is the source of truth"}
	SettlementsRecounted = Message{"쿠폰 %d개의 정산을 다시 셈, 감사 기록 %d건",
		"every settlement of %d coupons counted again, %d audit events"}
	Checking        = Message{"확인 중", "checking"}
	AuditChainEnds  = Message{"쿠폰 %d: 감사 체인은 %d번 기록에서 끝납니다, %s", "coupon %d: the audit chain ends with event %d, %s"}
	VerdictOK       = Message{"정상", "ok"}
	Warning         = Message{"경고", "warning"}
	VerdictViolated = Message{"위반", "VIOLATED"}
	Yes             = Message{"예", "yes"}
	No              = Message{"아니요", "NO"}
	StrayFinding    = Message{"쿠폰이 없는 기록: %s", "no coupon: %s"}
	Violated        = Message{"위반", "violated"}
	Finding         = Message{"%s %s (불변식 %d): %s", "%s %s (invariant %d): %s"}
)
