package text

// Messages for the payloads of audit events.
var (
	DetailAllUnderReview = Message{"검토 중인 신청 전체",
		"all applications under review"}
	DetailForNewSeats = Message{"새로 늘어난 수량을 발급하기 위해",
		"so that a run issues the new seats"}
	DetailLostEnd = Message{"Redis나 MySQL에서 종결이 유실되어 다시 정산하기 위해",
		"because redis or mysql had lost its end: a run settles it again"}
	DetailWrittenOff = Message{"유실된 신청 %d건 인정: %s; %s",
		"%d application{|s} written off: %s; %s"}
	DetailGapHeld = Message{"접수된 신청 %[2]d건 중 %[1]d건을 찾을 수 없음: %[3]s",
		"%[1]d of %[2]d accepted application{|s} cannot be found: %[3]s"}
	DetailCountHeld = Message{"기록된 발급 수는 %d장이지만 실제 발급된 쿠폰은 %d장, 수량은 %d장",
		"the recorded count is %d, but %d coupon{|s} {is|are} issued, of %d seat{|s}"}
	DetailForgotten = Message{"삭제한 신청 결과 %d건, 고객번호를 지운 감사 기록 %d건",
		"%d outcome{|s} deleted, %d audit event{|s} without the user"}
	DetailList      = Message{"%s명의 명단 가운데 일부(%s)", "a part of the list of %s user{|s} (%s)"}
	DetailPutBack   = Message{"저널에서 되돌린 신청 %d건", "%d put back from the journal"}
	DetailMoved     = Message{"처음 신청한 자리로 옮긴 신청 %d건", "%d moved to their first arrival"}
	DetailFromMarks = Message{"발급받았다는 표시에 따라 다시 넣은 고객 %d명", "%d winner{|s} entered again from their marks"}
	DetailUnknown   = Message{"접수된 신청 %[2]d건 중 %[3]d건만 확인, 신청자를 알 수 없는 유실 %[1]d건",
		"%[1]d unknown: of %[2]d accepted, %[3]d {was|were} found"}
	DetailStillMissing = Message{"아직 찾지 못한 신청 %d건", "%d still missing"}
	DetailApproval     = Message{"승인 요청 %d번(%s): %s 요청, %s 승인, %s", "approval %d (%s), asked by %s, approved by %s, %s"}

	// DetailFigures are the figures that a gap is counted from.
	DetailFigures = Message{"접수 %d, 대기 %d, 검토 중 %d, 발급 %d, 발급 외 결과 %d, 중복 집계 %d, 유실 인정 %d",
		"accepted %d, waiting %d, under review %d, issued %d, other outcomes %d, counted twice %d, written off %d"}

	DetailNothingIssued = Message{"발급 없음", "nothing issued"}
	DetailMember        = Message{"대기열 항목 %s", "queue entry %s"}
	DetailShutAt        = Message{"신청을 막은 시각", "applications stopped at"}
	DetailNone          = Message{"없음", "none"}
	DetailOn            = Message{"설정", "on"}
	DetailOff           = Message{"해제", "off"}
)
