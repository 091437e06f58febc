package text

// Messages for the stored details of audit events.
var (
	DetailAllUnderReview = Message{"검토 중인 신청 전체",
		"all applications under review"}
	DetailForNewSeats = Message{"새로 늘어난 수량을 발급하기 위해",
		"so that a run issues the new seats"}
	DetailWrittenOff = Message{"유실된 신청 %s건 인정: %s; %s",
		"%s application{|s} written off: %s; %s"}
	DetailGapHeld = Message{"접수된 신청 %[2]s건 중 %[1]s건을 찾을 수 없음: %[3]s",
		"%[1]s of %[2]s accepted application{|s} cannot be found: %[3]s"}
	DetailCountHeld = Message{"기록된 발급 수는 %s장이지만 실제 발급된 쿠폰은 %s장, 수량은 %s장",
		"the recorded count is %s, but %s coupon{|s} {is|are} issued, of %s seat{|s}"}
	DetailTwice         = Message{"중복 집계", "counted twice"}
	DetailAskedAgain    = Message{"장애 조치 후 재접수", "accepted again after a failover"}
	DetailNothingIssued = Message{"발급 없음", "nothing issued"}
	DetailFreeSeat      = Message{"수량을 다음 순번에 넘김", "its seat becomes free"}
	DetailMember        = Message{"대기열 항목 %s", "queue entry %s"}
	DetailShutAt        = Message{"신청을 막은 시각", "applications stopped at"}
	DetailPercent       = Message{"할인율", "discount rate"}
	DetailMaxDiscount   = Message{"최대 할인", "at most"}
	DetailMinimum       = Message{"최소 주문 금액", "minimum order"}
	DetailWon           = Message{"%s원", "%s won"}
	DetailNone          = Message{"없음", "none"}
	DetailOn            = Message{"설정", "on"}
	DetailOff           = Message{"해제", "off"}
)
