package text

// Messages of settle verify.
var (
	NeverMoreThanSeats = Message{"수량 초과 발급 없음", "never more than N"}
	CouponsForSeats    = Message{"발급된 쿠폰 %d장, 수량 %d장", "%d coupon{|s} for %d seat{|s}"}
	NeverTwice         = Message{"중복 발급 없음", "never twice"}
	CouponsAndOutcomes = Message{"발급된 쿠폰 %d장, 발급 외 결과 %d건", "%d coupon{|s}, %d other outcome{|s}"}
	FirstCome          = Message{"신청한 순서대로 발급", "first come"}
	IssuedInOrder      = Message{"신청한 순서대로 발급 %d건, 대기 %d건", "%d issued in order of arrival, %d waiting"}
	NoBrokenPromise    = Message{"접수된 신청의 유실 없음", "no broken promise"}
	AccountFigures     = Message{"접수 %d, 대기 %d, 검토 중 %d, 발급 %d, 발급 외 결과 %d, 중복 집계 %d, 유실 인정 %d%s: 유실 %d",
		"accepted %d, waiting %d, under review %d, issued %d, other outcomes %d, counted twice %d, written off %d%s: gap %d"}
	OneClock             = Message{"기준 시계는 하나", "one clock"}
	QueuesChecked        = Message{"대기열 %d개 확인", "%d queue{|s}"}
	SourceOfTruth        = Message{"원본 데이터는 MySQL", "MySQL is the source of truth"}
	SettlementsRecounted = Message{"쿠폰 %d개의 정산 재계산, 감사 기록 %d건 확인",
		"settlements of %d coupon{|s} recounted, %d audit event{|s}"}

	UsedAtMostOnce      = Message{"쿠폰 한 장은 한 번만 사용", "used at most once"}
	CouponsUsed         = Message{"사용된 쿠폰 %d장", "%d coupon{|s} used"}
	OneOrderOneCoupon   = Message{"주문과 쿠폰의 일치", "one order, one coupon"}
	OrdersCompared      = Message{"주문 %d건 대조", "%d order{|s} compared"}
	StateFollowsFromLog = Message{"쿠폰 상태는 이력과 일치", "state follows from the log"}
	LogRowsReplayed     = Message{"이력 %d건 재생", "%d row{|s} of the log replayed"}
	TwoPersons          = Message{"두 사람이 확인", "two persons"}
	ApprovalsCompared   = Message{"승인 %d건 대조", "%d approval{|s} compared"}
	// OutcomesErased follows AccountFigures.
	OutcomesErased = Message{", 개인정보 삭제 %d", ", erased %d"}
	SealedLeft     = Message{"쿠폰 %d개는 이번에 확인하지 않았습니다. 봉인한 쿠폰은 확인 90번 안에 한 번씩 차례가 옵니다. 모두 확인하려면 --all을 지정하세요",
		"%d coupon{|s} not checked this time: a sealed coupon has its turn within 90 checks; --all checks every coupon"}
	UsesReplayed = Message{"봉인 뒤의 사용 내역 %d건을 이력과 대조했습니다",
		"replayed %d change{|s} of issued coupons since their coupons were sealed"}
	NotSealed = Message{"확인 결과를 기록하지 못했습니다. 이 계정에는 기록할 권한이 없습니다. 다음 야간 확인은 이 결과를 모릅니다",
		"the result was not noted: this account may not write it, and the next nightly check does not know of it"}
	NotSealedHere = Message{"확인 결과를 기록하지 못했습니다. 이 서버는 쓸 수 없습니다. 다음 야간 확인은 이 결과를 모릅니다",
		"the result was not noted: this server takes no writes, and the next nightly check does not know of it"}
	Checking       = Message{"확인 중", "checking"}
	Counting       = Message{"집계 중", "counting"}
	AuditChainEnds = Message{"쿠폰 %d: 감사 체인의 마지막 기록은 %d번입니다 (%s)", "coupon %d: the audit chain ends with event %d, %s"}
	VerdictOK      = Message{"정상", "ok"}
	Warning        = Message{"경고", "warning"}
	Yes            = Message{"예", "yes"}
	No             = Message{"아니요", "NO"}
	StrayFinding   = Message{"쿠폰에 속하지 않는 기록: %s", "no coupon: %s"}
	DurabilityWeak = Message{"경고 %s: MySQL이 커밋한 데이터를 잃을 수 있습니다. %s의 현재 값은 %s, 필요한 값은 %s입니다",
		"warning %s: MySQL may lose what it commits: %s is %s, should be %s"}
	DurabilityUnknown = Message{"경고 %s: MySQL이 커밋한 데이터를 지키는지 확인할 수 없습니다. %s 값을 읽을 수 없습니다(필요한 값: %s)",
		"warning %s: not known whether MySQL keeps what it commits: it does not show %s, which should be %s"}
	Violated = Message{"위반", "VIOLATED"}
	// Finding ends with FindingUsers, or with nothing.
	Finding      = Message{"%s %s (불변식 %d): %s%s", "%s %s (invariant %d): %s%s"}
	FindingUsers = Message{", 고객: %s", "; users: %s"}
)
