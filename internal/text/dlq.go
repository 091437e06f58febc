package text

// The verbs of settle dlq.
var (
	CanariesFailed = Message{"먼저 시도한 %d건 가운데 %d건이 정산되지 않아 나머지 %d건은 시도하지 않았습니다.",
		"Of the first %d applications %d were not settled: the other %d were not tried."}
	CanariesSettled = Message{"먼저 시도한 %d건이 정산되어 나머지 %d건을 시도합니다.",
		"The first %d applications were settled; the other %d are tried now."}
	FailedAgain = Message{"%d건은 다시 실패하여 검토 중으로 남습니다. settle dlq list --coupon %d --list로 사유를 보세요.",
		"%d failed again and stay under review: settle dlq list --coupon %d --list shows why."}
	StayWithoutSeat = Message{"남은 수량이 없습니다. %d건은 검토 중으로 남습니다. 그때까지 수량이 생기지 않으면, 그 가운데 마지막 발급자보다 늦게 신청한 건은 다음 정산이 NOT_SELECTED로 기록합니다.",
		"No seat is left: %d stay under review. If no seat is free by then, the next run records NOT_SELECTED for those that arrived after the last issued one."}
	StayBehindEarlier = Message{"남은 수량은 먼저 신청한 건의 몫입니다. %d건은 차례가 오지 않아 시도하지 않았고 검토 중으로 남습니다.",
		"The remaining seats belong to earlier applications: %d were not tried, since it was not their turn, and stay under review."}
	ArrivedAfterCutoff = Message{"%d건은 정산 기준 시각보다 늦게 신청하여 시도하지 않았고, 검토 중으로 남아 다음 야간 실행의 대상이 됩니다. 지금 시도하려면 --cutoff now (마지막 신청 %s).",
		"%d arrived after the cutoff and were not tried: they stay under review until the next nightly run; --cutoff now tries them now (the last arrived at %s)."}
	RecordedNotSelected = Message{"남은 수량이 없어 마지막 발급자보다 늦게 신청한 %d건은 NOT_SELECTED로 기록되었습니다. 수량이 늘면 신청한 순서대로 다시 정산 대상이 됩니다.",
		"No seat is left: %d that arrived after the last issued one are recorded NOT_SELECTED. Added seats are offered to them by arrival."}
	NoSuchCause = Message{"그런 사유로 검토 중인 신청이 없습니다.", "No application is under review for this cause."}
	Dropped     = Message{"쿠폰 %[2]d의 신청 %[1]d건을 REJECTED로 기록했습니다",
		"%[1]d applications of coupon %[2]d recorded REJECTED"}
	DropNeedsYes = Message{"신청 %d건이 거절로 종료됩니다. 확인했으면 --yes를 주세요. 아무것도 바꾸지 않았습니다.",
		"this would drop %d applications: confirm with --yes. Nothing was changed."}
	AskDrop   = Message{"쿠폰 %[2]d의 신청 %[1]d건을 REJECTED로 종료할까요?", "End %[1]d applications of coupon %[2]d as REJECTED?"}
	ListIsCut = Message{"%d건 중 앞의 %d건만 보여 줍니다. --coupon, --cause, --user로 좁히세요.",
		"Of %d only the first %d are shown: narrow the list with --coupon, --cause or --user."}
	NothingUnderReview = Message{"검토 중인 신청이 없습니다", "no application is under review"}
	NextOperator       = Message{"담당자 결정", "an operator"}
	NextNight          = Message{"다음 야간 실행", "the next nightly run"}
	NextRun            = Message{"다음 실행", "the next run"}
	UnderAMinute       = Message{"1분 미만", "under a minute"}
	Minutes            = Message{"%d분", "%d min"}
	Hours              = Message{"%d시간", "%d h"}
)
