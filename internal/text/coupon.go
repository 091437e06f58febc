package text

// Messages of settle coupon.
var (
	// Refusals name the coupon by its id, or by the message NewCoupon if it has no id yet.
	RefusedFinalised = Message{"%v번 쿠폰은 %v에 종결되었습니다. 모든 신청의 결과가 확정되었고 Redis에는 신청이 남아 있지 않습니다. 미선정(NOT_SELECTED) 고객에게 추가로 발급하려면 add-seats를, 새 신청을 받으려면 create를 사용하세요.",
		"coupon %v was finalised at %v: every application has an outcome, and Redis keeps none of them. To issue coupons to NOT_SELECTED users, use add-seats. To take new applications, use create."}
	RefusedSwept = Message{"%v번 쿠폰은 이미 종결되어 Redis에서 삭제되었고, 추가된 수량의 정산만 남아 있습니다. 다시 열면 거절된 고객의 신청까지 받게 되므로 다시 열 수 없습니다. 새 신청을 받으려면 create를 사용하세요.",
		"coupon %v was finalised and cleared from Redis; only its added seats are still to be issued. If it opened again, rejected users could apply again. To take new applications, use create."}
	RefusedForgotten = Message{"%v번 쿠폰의 발급 기록과 거절 기록이 Redis에 없습니다. 다시 열면 이미 발급받았거나 거절된 고객의 신청까지 받게 되므로 다시 열 수 없습니다. settle run으로 정산을 마치세요. 새 신청을 받으려면 create를 사용하세요.",
		"Redis has lost the record of who holds coupon %v or was rejected. If it opened again, they could apply again. Finish the coupon with settle run. To take new applications, use create."}
	RefusedUnfinished = Message{"%v번 쿠폰의 정산 결과가 아직 Redis에 모두 반영되지 않았습니다. settle run으로 정산을 마친 뒤 extend를 다시 실행하세요.",
		"a settlement of coupon %v is not finished: Redis lacks some of its results. Finish it with settle run, then extend again."}
	RefusedNotOpen = Message{"%v번 쿠폰의 신청은 %v에 시작됩니다. 지금 마감하면 신청이 시작되기도 전에 끝납니다. 신청을 받지 않으려면 pause를 사용하세요.",
		"coupon %v opens at %v: closed now, it would end before it opens. To keep it from taking applications, use pause."}
	RefusedEndsBeforeItOpens = Message{"쿠폰 %v: 마감 시각(%v)은 시작 시각(%v)보다 늦어야 합니다.",
		"coupon %v would end before it opens: it would close at %v and opens at %v."}
	RefusedPast = Message{"쿠폰 %v: 마감 시각(%v)이 이미 지났습니다. 현재 시각은 Redis 시계로 %v입니다.",
		"coupon %v would close at %v, in the past: it is %v by the Redis clock."}
	RefusedFar = Message{"마감 시각(%v)이 너무 늦습니다. %v까지만 지정할 수 있습니다.",
		"closing at %v is too late: the latest possible time is %v."}
	RefusedShorter = Message{"%v번 쿠폰의 새 마감 시각(%v)이 현재 마감 시각(%v)보다 이릅니다. extend로는 마감을 늦추기만 할 수 있습니다. 지금 마감하려면 close를 사용하세요.",
		"coupon %v would close at %v, earlier than the present %v: extend only makes it later. To end it now, use close."}
	RefusedFewerThanIssued = Message{"%v번 쿠폰은 이미 %v장이 발급되어 전체 수량을 %v장으로 지정할 수 없습니다.",
		"coupon %v has %v issued already: %v seat{|s} would be too few."}
	RefusedMoreThanSeats = Message{"%v번 쿠폰은 이미 %v장이 발급되어 수량(%v장)을 넘었습니다. 먼저 add-seats로 수량을 늘리거나, 잘못 추가된 행을 삭제하세요.",
		"coupon %v has %v coupon{|s} for %v seat{|s}. Add seats with add-seats first, or delete the rows that do not belong there."}
	NewCoupon          = Message{"(신규)", "(new)"}
	NothingChanged     = Message{"변경된 내용이 없습니다.", "Nothing was changed."}
	ChangeRecorded     = Message{"쿠폰 %d %s: 변경을 기록했습니다.", "coupon %d %s: the change is recorded."}
	ChangeNotPublished = Message{"변경 내용이 Redis에 반영되었는지 확인하지 못했습니다: %v\napply-api가 5초마다 다시 반영합니다. Redis가 받을 때까지는 변경 전 설정에 따라 신청이 접수될 수 있습니다.",
		"The change may not have reached Redis: %v\napply-api publishes it again every 5 s. Until Redis takes it, applications may be taken under the previous settings."}
	NewerWindow = Message{"쿠폰 %d: Redis에 MySQL에는 없는 더 나중의 변경이 있습니다. MySQL이 그 변경을 잃었다면, 그 변경이 있었던 때부터 3분 뒤에 MySQL의 설정이 적용됩니다",
		"Redis has a later change of coupon %d than MySQL. If MySQL has lost it, what MySQL says counts from three minutes after that change"}
	NewcomersPaused = Message{"일시 중지 상태이므로 새 신청에는 PAUSED로 응답합니다.", "It is paused: new applications are answered PAUSED."}
	NewcomersClosed = Message{"%s에 신청이 마감되어 새 신청에는 CLOSED로 응답합니다.",
		"It closed at %s: new applications are answered CLOSED."}
	NewcomersSoldOut = Message{"남은 수량이 없어 새 신청에는 SOLD_OUT으로 응답합니다.",
		"Every seat is taken: new applications are answered SOLD_OUT."}
	SettleNow = Message{"지금 정산하려면 다음을 실행하세요: settle run --coupon %d --cutoff now --operator … --reason …",
		"To settle now: settle run --coupon %d --cutoff now --operator … --reason …"}
	NewcomersSoldOutUntilRun = Message{"다음 정산이 끝날 때까지 새 신청에는 SOLD_OUT으로 응답합니다.",
		"It was sold out: new applications are answered SOLD_OUT until a run has ended."}
	CouponIsClosed = Message{"쿠폰 %d %s: 신청을 마감했습니다. 이제부터 새 신청에는 CLOSED로 응답합니다.",
		"coupon %d %s is closed: from now on new applications are answered CLOSED."}
	CouponWasClosed = Message{"쿠폰 %d %s: 이미 마감된 쿠폰입니다. 변경된 내용이 없습니다.",
		"coupon %d %s is already closed: nothing was changed."}
	ClosedNow = Message{"마감 시각: %s (이전: %s). 이미 접수된 신청은 예정대로 정산됩니다.",
		"It closes at %s (before: %s). Earlier applications are settled as before."}
	RefusedEditOpen = Message{"%v번 쿠폰의 신청은 %v에 시작되었거나 곧 시작됩니다. 내용은 시작 5분 전까지만 변경할 수 있습니다. 마감을 늦추려면 extend를, 수량을 늘리려면 add-seats를, 신청을 멈추려면 pause를 사용하세요.",
		"coupon %v opens, or has opened, at %v: it can be changed until five minutes before. To move its end, use extend; to add seats, add-seats; to stop applications, pause."}
	RefusedOpensSoon = Message{"%v번 쿠폰의 시작 시각을 %v로 바꿀 수 없습니다. 지금부터 5분 이후의 시각을 지정하세요.",
		"coupon %v cannot open at %v: want an opening more than five minutes from now."}
	RefusedEditHeld = Message{"%v번 쿠폰은 이미 고객 %d명에게 지급되어 할인과 유효 일수를 변경할 수 없습니다.",
		"coupon %v was given to %d user{|s} already, so its discount and its validity stay as they are."}
	CouponIsEdited    = Message{"쿠폰 %d %s: 내용을 변경했습니다.", "coupon %d %s is changed."}
	CouponWasEdited   = Message{"쿠폰 %d %s: 이미 이 내용입니다. 변경된 내용이 없습니다.", "coupon %d %s is as given already: nothing was changed."}
	CouponIsExtended  = Message{"쿠폰 %d %s: 신청 기간을 연장했습니다.", "coupon %d %s is extended."}
	CouponWasExtended = Message{"쿠폰 %d %s: 이미 같은 마감 시각으로 설정되어 있습니다. 변경된 내용이 없습니다.",
		"coupon %d %s already closes at that time: nothing was changed."}
	ClosesAt  = Message{"마감 시각: %s (이전: %s).", "It closes at %s (before: %s)."}
	OpenAgain = Message{"마감되었던 쿠폰이 다시 열렸습니다. 새 신청은 모두 기존 신청보다 뒤 순서가 됩니다.",
		"It was closed and is open again; new applications come after all earlier ones."}
	CouponIsPaused = Message{"쿠폰 %d %s: 신청을 일시 중지했습니다. 이제부터 새 신청에는 PAUSED로 응답합니다. 이미 접수된 신청은 예정대로 정산됩니다.",
		"coupon %d %s is paused: from now on new applications are answered PAUSED. Earlier applications are settled as before."}
	CouponWasPaused = Message{"쿠폰 %d %s: 이미 일시 중지된 쿠폰입니다. 변경된 내용이 없습니다.",
		"coupon %d %s is already paused: nothing was changed."}
	CouponIsResumed    = Message{"쿠폰 %d %s: 일시 중지를 해제했습니다.", "coupon %d %s is resumed."}
	CouponWasNotPaused = Message{"쿠폰 %d %s: 일시 중지된 쿠폰이 아닙니다. 변경된 내용이 없습니다.",
		"coupon %d %s is not paused: nothing was changed."}
	TakesApplications = Message{"다시 신청을 받습니다.", "It takes applications again."}
	CouponIsRecounted = Message{"쿠폰 %d %s: 발급 수를 바로잡았습니다.", "coupon %d %s: issued_count is corrected."}
	CouponWasRight    = Message{"쿠폰 %d %s: 발급 수가 정확합니다. 변경된 내용이 없습니다.",
		"coupon %d %s: issued_count is correct, nothing was changed."}
	Recounted = Message{"발급 %d장(이전: %d장), 수량 %d장, 남은 수량 %d장. 다음 실행부터 이 쿠폰을 다시 정산합니다.",
		"%d issued (before: %d), %d seat{|s}, %d left. Runs settle this coupon again."}
	CouponHasNewSeats   = Message{"쿠폰 %d %s: 수량을 변경했습니다.", "coupon %d %s: the number of seats is changed."}
	CouponHadTheseSeats = Message{"쿠폰 %d %s: 이미 같은 수량입니다. 변경된 내용이 없습니다.",
		"coupon %d %s already has this number of seats: nothing was changed."}
	SeatsNow            = Message{"수량 %d장(이전: %d장), 발급 %d장, 남은 수량 %d장.", "%d seat{|s} (before: %d), %d issued, %d left."}
	SeatsForNotSelected = Message{"다음 야간 실행(%[2]s)의 정산 대상은 미선정(NOT_SELECTED) 고객 %[1]d명의 신청과, 검토 중인 신청 가운데 재시도할 수 있는 건입니다. 신청한 순서대로 정산하므로 다시 신청할 필요는 없습니다.",
		"The next nightly run (%[2]s) considers %[1]d NOT_SELECTED user{|s} and the retryable applications under review, by arrival. They need not apply again."}
	SeatsForNobody = Message{"종결된 쿠폰이며 미선정(NOT_SELECTED) 고객도 없어, 추가한 수량을 발급받을 사람이 없습니다.",
		"The coupon is finalised and no user is NOT_SELECTED, so no user is waiting for these seats."}
	SeatsAfterClosing = Message{"마감된 쿠폰이며 미선정(NOT_SELECTED) 고객은 없습니다. 대기 중이거나 검토 중인 신청이 있으면 다음 야간 실행(%s)에서 정산합니다.",
		"The coupon is closed and no user is NOT_SELECTED. The next nightly run (%s) considers any applications that are waiting or under review."}
	SeatsAfterSoldOut = Message{"대기 중이거나 검토 중인 신청이 있으면 다음 야간 실행(%s)에서 정산합니다. 다음 정산이 끝날 때까지 새 신청에는 SOLD_OUT으로 응답합니다.",
		"The next nightly run (%s) considers any applications that are waiting or under review; new applications are answered SOLD_OUT until a run has ended."}
	SeatsForQueue = Message{"다음 야간 실행(%s) 전까지 접수된 신청을 신청한 순서대로 정산합니다. 지금 대기 중인 신청도 포함됩니다.",
		"The next nightly run (%s) considers, by arrival, the applications waiting now and those that arrive before it."}
	CreationPlanned = Message{"%[2]s부터 %[3]s까지 선착순 %[1]s명에게 쿠폰 '%[6]s'을(를) %[5]s 발급합니다(할인: %[4]s). 아직 만들지 않았습니다.",
		"The first %[1]s to apply, from %[2]s until %[3]s, would get the coupon %[6]s (discount: %[4]s), issued %[5]s. Nothing was created."}
	IssuedAtMidnight = Message{"자정에", "at midnight"}
	IssuedAtOnce     = Message{"즉시", "at once"}
	IDsSkipped       = Message{"쿠폰 번호 %d개를 건너뛰었습니다. Redis에는 있지만 MySQL에서는 유실된 쿠폰의 번호입니다. `settle verify`로 확인하세요.",
		"%d id{|s} {was|were} skipped: Redis knows coupons of these ids, which MySQL has lost. See `settle verify`."}
	CouponWasCreated = Message{"쿠폰 %d %s: 이 키로 이미 만든 쿠폰입니다. 새로 만들지 않았습니다.", "coupon %d %s was already created with this key. Nothing was changed."}
	CouponIsCreated  = Message{"쿠폰 %d %s: 수량 %d장, 신청 기간 %s부터 %s까지.", "coupon %d %s: %d seat{|s}, applications from %s to %s."}
	ShownSoon        = Message{"신청 API에 5초 안에 나타납니다.", "The API shows it within 5 s."}
	ShownLater       = Message{"신청 API에는 시작 30일 전인 %s에 나타납니다. 그때까지는 없는 쿠폰(404)으로 답합니다.", "The API shows it from %s, 30 days before it opens; until then it answers 404."}
	QueuesUnknown    = Message{"settle: Redis에 연결할 수 없어 대기 중인 신청과 검토 중인 신청의 수를 확인할 수 없습니다: %v",
		"settle: Redis cannot be reached, so the numbers waiting and under review are unknown: %v"}
	NoCoupons       = Message{"쿠폰이 없습니다", "there are no coupons"}
	MoreCoupons     = Message{"쿠폰이 더 있을 수 있습니다. 다음 페이지: --after %d", "there may be more: --after %d"}
	AnsweredSoldOut = Message{", 새 신청에 SOLD_OUT으로 응답", ", new applications are answered SOLD_OUT"}
	MaybeSoldOut    = Message{", SOLD_OUT 응답 여부: ?", ", answered SOLD_OUT or not: ?"}
	SeatsIssuedLeft = Message{"%d장, 발급 %d장, 남은 수량 %d장", "%d, issued %d, left %d"}
	FromTo          = Message{"%s부터 %s까지", "%s to %s"}
	Days            = Message{"%d일", "%d day{|s}"}
	Won             = Message{"%d원", "%d won"}
	OtherQueues     = Message{"대기 중인 신청이 있는 쿠폰이 더 있습니다. 확인: settle coupon list",
		"More coupons have waiting applications: settle coupon list"}
	QueueOf = Message{"쿠폰 %d %s: 대기 중인 신청 %d건, 첫 신청의 정산 예정 시각 %s. 지금 정산하려면 다음을 실행하세요: settle run --coupon %[1]d --cutoff now --operator … --reason …",
		"coupon %d %s: %d waiting, the first due for settlement at %s. To settle now: settle run --coupon %[1]d --cutoff now --operator … --reason …"}

	RefusedCadenceOpen = Message{"%v번 쿠폰은 %v까지 신청을 받고 있습니다. 지금 발급 방식을 바꾸면 신청자가 안내받은 발급 시점이 달라집니다. 먼저 pause로 신청을 일시 중지하세요.",
		"coupon %v takes applications until %v: changed now, applicants would have been told another time. Pause it first."}
	RefusedCadenceWaiting = Message{"%v번 쿠폰에 대기 중인 신청이 %v건, 검토 중인 신청이 %v건 있습니다. 이 신청자들은 현재 발급 방식으로 안내받았습니다. 먼저 settle run으로 정산하고 settle dlq로 처리하세요.",
		"coupon %v has %v waiting and %v under review, who were told the time of the present cadence. Settle them with settle run and settle dlq first."}
	WrongLineLimit = Message{"대기열 한도를 %d건으로 지정할 수 없습니다. 1건부터 %d건까지 가능합니다", "a line limit of %d: want 1 to %d"}
	CouponIsFrozen = Message{"쿠폰 %d %s: 발급을 동결했습니다. 신청은 계속 접수하지만 동결을 해제할 때까지 아무에게도 발급하지 않습니다.",
		"coupon %d %s is frozen: applications are still accepted, and no run issues anything until it is unfrozen."}
	CouponWasFrozen = Message{"쿠폰 %d %s: 이미 발급이 동결된 쿠폰입니다. 변경된 내용이 없습니다.",
		"coupon %d %s is already frozen: nothing was changed."}
	CouponIsUnfrozen  = Message{"쿠폰 %d %s: 발급 동결을 해제했습니다.", "coupon %d %s is unfrozen."}
	CouponWasUnfrozen = Message{"쿠폰 %d %s: 발급이 동결된 쿠폰이 아닙니다. 변경된 내용이 없습니다.",
		"coupon %d %s is not frozen: nothing was changed."}
	CouponHasCadence = Message{"쿠폰 %d %s: 발급 방식을 변경했습니다. 신청 API에는 5초 안에 적용됩니다.",
		"coupon %d %s: the cadence is changed; the API applies it within 5 s."}
	CouponHadThisCadence = Message{"쿠폰 %d %s: 이미 같은 발급 방식입니다. 변경된 내용이 없습니다.",
		"coupon %d %s already has this cadence: nothing was changed."}
	CadenceNow     = Message{"발급 방식: %s (이전: %s).", "Cadence: %s (before: %s)."}
	SettledAtNight = Message{"접수되는 신청은 다음 야간 실행(%s)부터 신청한 순서대로 정산합니다.",
		"Applications are settled by the nightly runs, by arrival; the next one is at %s."}
	SettledAtOnce = Message{"접수되는 신청은 settle serve가 신청한 순서대로 바로 정산합니다. settle serve가 실행 중이어야 합니다.",
		"settle serve settles applications at once, by arrival; it has to be running."}
	SeatsForImmediate = Message{"대기 중인 신청은 settle serve가 신청한 순서대로 바로 정산하고, 검토 중인 신청은 다음 야간 실행(%s)에서 정산합니다.",
		"settle serve settles the waiting applications at once, by arrival; the next nightly run (%s) considers those under review."}
	FrozenUntilUnfreeze = Message{"발급이 동결된 쿠폰입니다. 동결을 해제할 때까지 아무에게도 발급하지 않습니다: settle coupon unfreeze %d --operator … --reason …",
		"The coupon is frozen: no run issues anything until it is unfrozen with settle coupon unfreeze %d --operator … --reason …"}
	LineLimitBelowSeats = Message{"주의: 대기열 한도(%d건)가 수량(%d장)보다 적습니다. 한 번에 대기할 수 있는 신청이 수량보다 적어, 정산 사이에 수량이 남을 수 있습니다.",
		"Warning: the line limit (%d) is below the number of seats (%d): fewer can wait at a time than coupons can be issued, and seats may stay free."}
	CadenceNightly   = Message{"야간 발급", "nightly"}
	CadenceImmediate = Message{"즉시 발급", "immediate"}
	FrozenMark       = Message{", 발급 동결", ", frozen"}
	WaitingOfLimit   = Message{"%s (한도 %d)", "%s (limit %d)"}
	FrozenBy         = Message{"%s부터, 처리자 %s, 사유: %s", "since %s, by %s: %s"}
	FrozenUnknown    = Message{"동결됨 (감사 기록 없음)", "frozen (the audit log has no record of it)"}
	NoSuchCampaign   = Message{"%d번 캠페인에 속한 쿠폰이 없습니다. 캠페인 번호는 settle coupon show에서 확인할 수 있습니다",
		"no coupon belongs to campaign %d; settle coupon show names the campaign of a coupon"}
	ImmediateQueueOf = Message{"쿠폰 %d %s: 대기 중인 신청 %d건. 즉시 발급 쿠폰이므로 settle serve가 정산합니다. 지금 정산하려면 다음을 실행하세요: settle run --coupon %[1]d --cutoff now --operator … --reason …",
		"coupon %d %s: %d waiting. It is an immediate coupon, which settle serve settles. To settle now: settle run --coupon %[1]d --cutoff now --operator … --reason …"}
	FrozenQueueOf = Message{"쿠폰 %d %s: 대기 중인 신청 %d건. 발급이 동결되어 있어 동결을 해제할 때까지 정산하지 않습니다.",
		"coupon %d %s: %d waiting. It is frozen, and no run settles it until it is unfrozen."}

	RefusedCadenceSoon = Message{"%v번 쿠폰은 %v부터 신청을 받습니다. 신청 API는 바뀐 발급 방식을 몇 초 뒤에야 알게 되므로, 신청자가 이전 방식으로 안내받을 수 있습니다. 먼저 pause로 신청을 일시 중지하고, 변경하고 10초 뒤에 resume을 실행하세요.",
		"coupon %v opens at %v, and pods read coupons every 5 s: applicants could be told the time of the old cadence. Pause it first, and resume it ten seconds after the change."}
	WaitToResume = Message{"resume은 10초 뒤에 실행하세요. 그전에는 신청 API가 이전 발급 방식으로 안내할 수 있습니다.",
		"Wait ten seconds before you resume it: pods read coupons every 5 s, and tell applicants the time of the cadence that they have read."}
	SeatsForNotSelectedAtOnce = Message{"settle serve가 약 5초 안에 미선정(NOT_SELECTED) 고객 %[1]d명의 신청을 신청한 순서대로 정산합니다. settle serve가 실행 중이어야 합니다. 다시 신청할 필요는 없습니다. 검토 중인 신청은 다음 야간 실행(%[2]s)에서 정산합니다.",
		"settle serve considers %[1]d NOT_SELECTED user{|s} within about 5 s, by arrival; it has to be running. They need not apply again. The next nightly run (%[2]s) considers the applications under review."}
	SeatsAfterSoldOutAtOnce = Message{"settle serve가 약 5초 안에 이 쿠폰을 정산합니다. settle serve가 실행 중이어야 합니다. 그때까지 새 신청에는 SOLD_OUT으로 응답합니다. 검토 중인 신청은 다음 야간 실행(%s)에서 정산합니다.",
		"settle serve settles the coupon within about 5 s; it has to be running. Until then, new applications are answered SOLD_OUT. The next nightly run (%s) considers the applications under review."}
	SettledWithinSeconds = Message{"settle serve가 약 5초 안에 이 쿠폰을 정산합니다. settle serve가 실행 중이어야 합니다.",
		"settle serve settles the coupon within about 5 s; it has to be running."}

	PurgingMark = Message{", 영구 삭제 중",
		", being purged"}
)
