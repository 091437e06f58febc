package text

// Messages of settle dlq.
var (
	CanariesFailed = Message{"먼저 시도한 %d건 중 %d건이 정산되지 않아 나머지 %d건은 시도하지 않았습니다.",
		"Of %d application{|s} tried first, %d {was|were} not settled, so the other %d {was|were} not tried."}
	CanariesSettled = Message{"먼저 시도한 %d건이 정산되어, 이어서 나머지 %d건을 시도합니다.",
		"The %d application{|s} tried first {was|were} settled; the other %d {is|are} tried now."}
	FailedAgain = Message{"%d건이 다시 실패하여 검토 중 상태로 남습니다. 사유 확인: settle dlq list --coupon %d --list",
		"%d failed again and {stays|stay} under review. To see why: settle dlq list --coupon %d --list"}
	StayWithoutSeat = Message{"남은 수량이 없어 %d건은 검토 중 상태로 남습니다. 다음 야간 실행이나 수동 실행까지 수량이 생기지 않으면, 그중 마지막으로 발급된 신청보다 늦은 건은 미선정(NOT_SELECTED)으로 기록됩니다.",
		"No seat is left: %d {stays|stay} under review. If no seat is free by the next nightly or manual run, it records NOT_SELECTED for those that arrived after the last issued one."}
	StayBehindEarlier = Message{"남은 수량은 더 먼저 접수된 신청의 몫이므로 %d건은 시도하지 않았으며 검토 중 상태로 남습니다.",
		"The remaining seats belong to earlier applications: %d {was|were} not tried and {stays|stay} under review."}
	ArrivedAfterCutoff = Message{"%d건은 정산 기준 시각 이후에 접수되어 시도하지 않았습니다. 검토 중 상태로 남아 다음 야간 실행에서 정산 대상이 됩니다. 지금 시도하려면 --cutoff now를 지정하세요 (마지막 신청 시각 %s).",
		"%d arrived after the cutoff and {was|were} not tried: {it stays|they stay} under review until the next nightly run; --cutoff now tries {it|them} now (last arrival %s)."}
	RecordedNotSelected = Message{"남은 수량이 없어, 마지막으로 발급된 신청보다 늦은 %d건을 미선정(NOT_SELECTED)으로 기록했습니다. 수량을 늘리면 이 신청들도 신청한 순서대로 다시 정산합니다.",
		"No seat is left: %d that arrived after the last issued one {is|are} recorded NOT_SELECTED. Added seats are offered to {it|them} by arrival."}
	NoSuchCause = Message{"해당 사유로 검토 중인 신청이 없습니다.", "No application is under review for this cause."}
	Dropped     = Message{"%[2]d번 쿠폰의 신청 %[1]d건을 거절(REJECTED)로 기록했습니다",
		"%[1]d application{|s} of coupon %[2]d recorded REJECTED"}
	DropNeedsYes = Message{"신청 %d건을 거절로 종료하려면 --yes를 지정하세요. 변경된 내용이 없습니다.",
		"this would drop %d application{|s}: confirm with --yes. Nothing was changed."}
	AskDrop = Message{"%[2]d번 쿠폰의 신청 %[1]d건을 거절(REJECTED)로 종료할까요?",
		"End %[1]d application{|s} of coupon %[2]d as REJECTED?"}
	ListIsCut = Message{"전체 %d건 중 처음 %d건만 표시합니다. --coupon, --cause, --user로 범위를 좁히세요.",
		"Only the first %[2]d of %[1]d are shown: narrow the list with --coupon, --cause or --user."}
	NothingUnderReview = Message{"검토 중인 신청이 없습니다", "no application is under review"}
	NextOperator       = Message{"담당자 결정", "an operator"}
	NextNight          = Message{"다음 야간 실행", "the next nightly run"}
	NextRun            = Message{"다음 야간 실행 또는 수동 실행", "the next nightly or manual run"}
	UnderAMinute       = Message{"1분 미만", "under a minute"}
	Minutes            = Message{"%d분", "%d min"}
	Hours              = Message{"%d시간", "%d h"}
	RetriedAndIssued   = Message{"검토 중이던 신청 %d건에 %d번 쿠폰을 발급했습니다.",
		"%d application{|s} that {was|were} under review got coupon %d."}
)
