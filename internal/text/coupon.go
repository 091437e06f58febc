package text

// The verbs of settle coupon.
var (
	// The refusals take ids, numbers and instants; a new coupon has no id.
	RefusedFinalised = Message{"쿠폰 %v은(는) %v에 종결되었습니다. 모든 신청의 결과가 정해졌고 Redis에서 지워졌습니다. NOT_SELECTED인 사람에게 더 발급하려면 add-seats, 새로 신청을 받으려면 create를 쓰세요.",
		"coupon %v was finalised at %v: every application has an outcome, and Redis keeps none of them. To issue coupons to NOT_SELECTED users, use add-seats. To take new applications, use create."}
	RefusedSwept = Message{"쿠폰 %v은(는) 이미 종결되어 Redis에서 지워졌고, 늘린 수량의 정산만 남아 있습니다. 열면 거절된 사람이 다시 신청할 수 있으므로 열 수 없습니다. 새로 신청을 받으려면 create를 쓰세요.",
		"coupon %v was finalised and cleared from Redis, and only its added seats are still to be issued. Opened again, it would accept rejected users. To take new applications, use create."}
	RefusedForgotten = Message{"쿠폰 %v을(를) 받았거나 거절된 사람의 기록이 Redis에 없습니다. 다시 열면 그 사람들의 신청을 받게 되므로 열 수 없습니다. settle run으로 정산을 끝내고, 새로 신청을 받으려면 create를 쓰세요.",
		"Redis has lost the record of who holds coupon %v or was rejected. Opened again, it would accept their applications. Finish the coupon with settle run. To take new applications, use create."}
	RefusedUnfinished = Message{"쿠폰 %v의 정산 결과가 Redis에 아직 다 반영되지 않았습니다. settle run으로 정산을 끝낸 뒤에 extend를 다시 하세요.",
		"a settlement of coupon %v is not finished: Redis does not have all of its results. Finish it with settle run, then extend."}
	RefusedNotOpen = Message{"쿠폰 %v의 신청은 %v에 시작됩니다. 지금 마감하면 시작하기 전에 끝납니다. 시작되지 않게 하려면 pause를 쓰세요.",
		"coupon %v opens at %v: closed now, it would end before it opens. To keep it from taking applications, use pause."}
	RefusedEndsBeforeItOpens = Message{"쿠폰 %v의 신청이 시작하기 전에 끝납니다: 마감 시각 %v, 시작 시각 %v.",
		"coupon %v would end before it opens: it would close at %v and opens at %v."}
	RefusedPast = Message{"쿠폰 %v의 마감 시각 %v은(는) 이미 지났습니다. Redis 시계로 지금은 %v입니다.",
		"coupon %v would close at %v, which is past: it is %v by the Redis clock."}
	RefusedFar = Message{"마감 시각 %v은(는) 너무 멉니다. %v까지 가능합니다.",
		"closing at %v is too far off: the latest possible time is %v."}
	RefusedShorter = Message{"쿠폰 %v의 마감 시각 %v은(는) 지금의 마감 시각 %v보다 이릅니다. extend는 늦추기만 합니다. 지금 마감하려면 close를 쓰세요.",
		"coupon %v would close at %v, earlier than the present %v: extend only makes it later. To end it now, use close."}
	RefusedFewerThanIssued = Message{"쿠폰 %v은(는) 이미 %v장 발급되었습니다. 수량 %v은(는) 그보다 적습니다.",
		"coupon %v has %v issued already: %v seats would be fewer."}
	RefusedMoreThanSeats = Message{"쿠폰 %v은(는) 쿠폰이 %v장인데 수량은 %v입니다. 먼저 add-seats로 수량을 늘리거나, 잘못 넣은 행을 지우세요.",
		"coupon %v has %v coupons for %v seats. Add seats with add-seats first, or delete the rows that do not belong there."}
	RefusedSeats       = Message{"수량 %v은(는) 안 됩니다. 1부터 %v까지 가능합니다.", "it cannot have %v seats: want 1 to %v."}
	NewCoupon          = Message{"(새 쿠폰)", "(the new one)"}
	NothingChanged     = Message{"아무것도 바꾸지 않았습니다.", "Nothing was changed."}
	ChangeRecorded     = Message{"쿠폰 %d %s: 변경을 기록했습니다.", "coupon %d %s: the change is recorded."}
	ChangeNotPublished = Message{"변경이 Redis에 반영되었는지 확인하지 못했습니다: %v\napply-api가 MySQL과 Redis에 연결되면 5초 안에 반영합니다. 그때까지 Redis는 이전 기준으로 신청을 받을 수 있습니다.",
		"The change may not have reached Redis: %v\napply-api publishes it within 5 s, once it reaches MySQL and Redis. Until then Redis may take applications by the previous state."}
	NewcomersPaused = Message{"일시 중지되어 있어 새 신청에는 PAUSED로 응답합니다.", "It is paused: new applications are answered PAUSED."}
	NewcomersClosed = Message{"신청이 %s에 마감되어 새 신청에는 CLOSED로 응답합니다.",
		"It closed at %s: new applications are answered CLOSED."}
	OpensAt          = Message{"신청은 %s에 시작됩니다.", "It opens at %s."}
	NewcomersSoldOut = Message{"남은 수량이 없어 새 신청에는 SOLD_OUT으로 응답합니다.",
		"Every seat is taken: new applications are answered SOLD_OUT."}
	NewcomersSoldOutUntilRun = Message{"정산 실행이 끝날 때까지 새 신청에는 SOLD_OUT으로 응답합니다.\n지금 받으려면: settle run --coupon %d --cutoff now --operator … --reason …",
		"It was sold out: new applications are answered SOLD_OUT until a run has ended.\nTo accept them now: settle run --coupon %d --cutoff now --operator … --reason …"}
	CouponIsClosed = Message{"쿠폰 %d %s: 마감했습니다. 지금부터 새 신청에는 CLOSED로 응답합니다.",
		"coupon %d %s is closed: from now on new applications are answered CLOSED."}
	CouponWasClosed = Message{"쿠폰 %d %s: 이미 마감되어 있습니다. 아무것도 바꾸지 않았습니다.",
		"coupon %d %s is closed already: nothing was changed."}
	ClosedNow = Message{"마감 시각은 %s(이전: %s). 전에 접수된 신청의 정산에는 영향이 없습니다.",
		"It closes at %s (before: %s). The settlement of earlier applications does not change."}
	CouponIsExtended  = Message{"쿠폰 %d %s: 신청 기간을 늘렸습니다.", "coupon %d %s is extended."}
	CouponWasExtended = Message{"쿠폰 %d %s: 마감 시각이 이미 같습니다. 아무것도 바꾸지 않았습니다.",
		"coupon %d %s closes then already: nothing was changed."}
	ClosesAt  = Message{"마감 시각은 %s(이전: %s).", "It closes at %s (before: %s)."}
	OpenAgain = Message{"마감되어 있던 쿠폰이 다시 열렸습니다. 새 신청의 순서는 지금까지의 모든 신청보다 뒤입니다.",
		"It was closed and is open again; new applications come after all earlier ones."}
	CouponIsPaused = Message{"쿠폰 %d %s: 일시 중지했습니다. 지금부터 새 신청에는 PAUSED로 응답합니다. 전에 접수된 신청의 정산에는 영향이 없습니다.",
		"coupon %d %s is paused: from now on new applications are answered PAUSED. The settlement of earlier applications does not change."}
	CouponWasPaused = Message{"쿠폰 %d %s: 이미 일시 중지되어 있습니다. 아무것도 바꾸지 않았습니다.",
		"coupon %d %s is paused already: nothing was changed."}
	CouponIsResumed    = Message{"쿠폰 %d %s: 일시 중지를 풀었습니다.", "coupon %d %s is not paused any more."}
	CouponWasNotPaused = Message{"쿠폰 %d %s: 일시 중지되어 있지 않습니다. 아무것도 바꾸지 않았습니다.",
		"coupon %d %s is not paused: nothing was changed."}
	TakesApplications = Message{"다시 신청을 받습니다.", "It takes applications again."}
	CouponIsRecounted = Message{"쿠폰 %d %s: 발급 수를 다시 셌습니다.", "coupon %d %s: issued_count is corrected."}
	CouponWasRight    = Message{"쿠폰 %d %s: 발급 수가 맞습니다. 아무것도 바꾸지 않았습니다.",
		"coupon %d %s: issued_count is right, nothing was changed."}
	Recounted = Message{"발급 %d(이전: %d), 수량 %d, 남은 수량 %d. 다음 실행부터 이 쿠폰을 다시 정산합니다.",
		"%d issued (before: %d), %d seats, %d left. Runs settle this coupon again."}
	CouponHasNewSeats   = Message{"쿠폰 %d %s: 수량을 바꿨습니다.", "coupon %d %s: the number of seats is changed."}
	CouponHadTheseSeats = Message{"쿠폰 %d %s: 이미 그 수량입니다. 아무것도 바꾸지 않았습니다.",
		"coupon %d %s has this number of seats already: nothing was changed."}
	SeatsNow            = Message{"수량 %d(이전: %d), 발급 %d, 남은 수량 %d.", "%d seats (before: %d), %d issued, %d left."}
	SeatsForNotSelected = Message{"NOT_SELECTED인 %d명과 다시 시도할 검토 중인 신청이 신청한 순서대로 다음 야간 실행(%s)의 대상이 됩니다. 다시 신청할 필요가 없습니다.\n지금 정산하려면: settle run --coupon %d --cutoff now --operator … --reason …",
		"The %d NOT_SELECTED users are considered in the next nightly run (%s), by arrival, together with the applications under review that are retried. They need not apply again.\nTo settle now: settle run --coupon %d --cutoff now --operator … --reason …"}
	SeatsForNobody = Message{"종결된 쿠폰이고 NOT_SELECTED인 사람이 없어, 추가한 수량을 받을 사람이 없습니다.",
		"The coupon is finalised and no user is NOT_SELECTED: no user is waiting for these seats."}
	SeatsAfterClosing = Message{"마감된 쿠폰이고 NOT_SELECTED인 사람이 없습니다. 대기 중이거나 검토 중인 신청이 있으면 다음 야간 실행(%s)의 대상이 됩니다.",
		"The coupon is closed and no user is NOT_SELECTED. The next nightly run (%s) considers the applications that wait or are under review."}
	SeatsAfterSoldOut = Message{"대기 중이거나 검토 중인 신청이 있으면 다음 야간 실행(%s)의 대상이 됩니다. 정산 실행이 끝날 때까지 새 신청에는 SOLD_OUT으로 응답합니다.\n지금 받으려면: settle run --coupon %d --cutoff now --operator … --reason …",
		"The next nightly run (%s) considers the applications that wait or are under review; new applications are answered SOLD_OUT until a run has ended.\nTo accept them now: settle run --coupon %d --cutoff now --operator … --reason …"}
	SeatsForQueue = Message{"대기 중인 신청과 그때까지 접수될 신청이 신청한 순서대로 다음 야간 실행(%s)의 대상이 됩니다.",
		"The next nightly run (%s) considers the waiting applications, and those that arrive before then, by arrival."}
	CouponIsCreated = Message{"쿠폰 %d %s: 수량 %d, 신청 %s부터 %s까지. 신청 API에는 늦어도 5초 안에 적용됩니다.",
		"coupon %d %s: %d seats, applications from %s to %s; the API applies it within 5 s."}
	QueuesUnknown = Message{"settle: Redis에 연결할 수 없어 대기와 검토 중인 신청 수를 알 수 없습니다: %v",
		"settle: Redis cannot be reached, so the waiting applications and those under review are unknown: %v"}
	NoCoupons       = Message{"쿠폰이 없습니다", "there is no coupon"}
	MoreCoupons     = Message{"더 있을 수 있습니다: --after %d", "there may be more: --after %d"}
	AnsweredSoldOut = Message{", 새 신청에 SOLD_OUT으로 응답", ", new applications are answered SOLD_OUT"}
	SeatsIssuedLeft = Message{"%d, 발급 %d, 남음 %d", "%d, issued %d, left %d"}
	FromTo          = Message{"%s부터 %s까지", "%s to %s"}
	Days            = Message{"%d일", "%d days"}
	Won             = Message{"%d원", "%d won"}
	OtherQueues     = Message{"다른 쿠폰에도 대기 중인 신청이 있습니다: settle coupon list",
		"More coupons have waiting applications: settle coupon list"}
	QueueOf = Message{"쿠폰 %d %s: 대기 중인 신청 %d건, 가장 먼저 온 신청은 %s의 정산 대상입니다. 지금 정산하려면: settle run --coupon %[1]d --cutoff now --operator … --reason …",
		"coupon %d %s: %d waiting, the first of them for the settlement of %s. To settle now: settle run --coupon %[1]d --cutoff now --operator … --reason …"}
)
