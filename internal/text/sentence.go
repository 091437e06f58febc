package text

// Support staff read these sentences out to customers, so they contain no codes, and no claims that may prove false.
var (
	StateAppliedUnseen = Message{"신청이 접수된 것은 확인되지만 결과는 지금 조회할 수 없습니다. 잠시 후 다시 문의해 주시기 바랍니다.",
		"the application was received, but its result cannot be looked up at the moment. Please ask again a little later."}
	StateHolderNoMore = Message{"당시 이미 이 쿠폰을 보유하고 계셔서 추가로 발급되지는 않았습니다. 다만 현재는 쿠폰을 보유하신 기록이 없어 담당자의 확인이 필요합니다.",
		"no second coupon was issued, since the customer held this coupon then. There is no record that they hold it now, so our staff have to look into it."}
	StateWaitingSettling = Message{"지금 정산이 진행 중이어서 아직 결과가 나오지 않았습니다. 잠시 후 다시 문의해 주시기 바랍니다.",
		"a settlement is under way and there is no result yet. Please ask again a little later."}
	StateWaitingRunFailed = Message{"예정되었던 정산이 정상적으로 끝나지 않아 아직 결과가 나오지 않았습니다. 신청은 접수된 순서 그대로 대기 중이며, 다음 정산 대상에 포함됩니다.",
		"the settlement that was due did not finish, so there is no result yet. The application keeps its place, and the next settlement will consider it."}
	StateWaitingHeld = Message{"이 쿠폰의 접수 기록에 확인이 필요한 부분이 있어 정산이 보류된 상태입니다. 신청은 접수된 순서 그대로 대기 중이며, 확인이 끝나야 정산할 수 있습니다.",
		"the settlement of this coupon is on hold, since some of its records have to be checked first. The application keeps its place and can be settled only after that."}
	StateWaitingOver = Message{"신청은 대기 중이지만 이 쿠폰의 정기 정산은 이미 끝났습니다. 담당자가 정산을 다시 진행해야 결과가 나옵니다.",
		"the application is waiting, but the regular settlements of this coupon are over. Our staff have to settle it once more before there is a result."}
	StateReviewUnknownUser = Message{"고객 정보를 찾을 수 없어 쿠폰이 발급되지 않았으며, 현재 검토 중입니다.",
		"no coupon could be issued, since no such customer was found."}
	StateReviewInactiveUser = Message{"정산 당시 계정을 이용할 수 없는 상태여서 쿠폰이 발급되지 않았으며, 현재 검토 중입니다.",
		"no coupon could be issued, since the account could not be used at the time."}
	StateReviewPassedOver = Message{"순서가 되었을 때 쿠폰을 발급해 드리지 못해 현재 검토 중입니다. 발급할 수량이 생기면 더 늦게 신청하신 분들보다 순서가 앞섭니다.",
		"no coupon could be issued when its turn came, and it is under review. When a coupon becomes free, it comes before everybody who applied later."}
	StateReviewBadRow = Message{"시스템 오류로 쿠폰 정보를 저장하지 못해 현재 검토 중입니다.",
		"a fault in our system kept the coupon from being stored, and the application is under review."}
	StateReviewDatabaseAway = Message{"정산 당시 시스템 장애로 신청을 처리하지 못해 현재 검토 중입니다.",
		"our system was not available at the settlement, and the application is under review."}
	StateReviewOther = Message{"신청이 정상적으로 처리되지 않아 현재 검토 중입니다.",
		"it could not be settled in the usual way, and is under review."}
	StateUnknown = Message{"지금은 고객번호 %d번 고객님의 신청 내역을 확인할 수 없습니다. 잠시 후 다시 문의해 주시기 바랍니다.",
		"It cannot be looked up at the moment whether customer %d has applied. Please ask again a little later."}
	StateIssuedUnseen = Message{"고객번호 %d번 고객님은 이 쿠폰을 발급받으신 것으로 확인됩니다. 자세한 내용은 지금 조회할 수 없으니 잠시 후 다시 문의해 주시기 바랍니다.",
		"Customer %d has been issued this coupon. The details cannot be looked up at the moment; please ask again a little later."}
	StateRejectedUnseen = Message{"고객번호 %d번 고객님의 신청이 발급 대상에서 제외된 기록이 있습니다. 현재 상태는 지금 조회할 수 없으니 잠시 후 다시 문의해 주시기 바랍니다.",
		"There is a record that an application of customer %d was declined. Its present state cannot be looked up at the moment; please ask again a little later."}
	StateNeverPaused = Message{"고객번호 %d번 고객님이 이 쿠폰을 신청하신 기록이 없습니다. 지금은 신청 접수가 일시 중단되어 있습니다.",
		"There is no record that customer %d applied for this coupon. Applications are paused at the moment."}
	StateNeverSoldOut = Message{"고객번호 %d번 고객님이 이 쿠폰을 신청하신 기록이 없습니다. 준비된 수량이 모두 소진되어 지금은 새 신청을 받지 않고 있습니다.",
		"There is no record that customer %d applied for this coupon. All coupons are taken, and no new applications are accepted at the moment."}
	StateNeverAdded = Message{"고객번호 %d번 고객님이 이 쿠폰을 신청하신 기록이 없습니다. 수량이 남아 있지만 다음 정산이 끝날 때까지는 새 신청을 받지 않습니다.",
		"There is no record that customer %d applied for this coupon. Coupons are left, but no new applications are accepted until the next settlement is done."}
	StateNoSuchUser = Message{"고객번호 %d번에 해당하는 고객 정보를 찾을 수 없으며, 이 번호로 쿠폰을 신청하신 기록도 없습니다.",
		"There is no customer %d, and no record of an application under that number."}
	StateNotSure = Message{"고객번호 %d번 고객님이 이 쿠폰을 신청하신 기록은 찾을 수 없습니다. 다만 유실된 신청 기록이 있는지 확인할 수 없어, 신청하신 적이 없다고 단정할 수는 없습니다.",
		"No record was found that customer %d applied for this coupon. But applications may have been lost, so it is not certain that there was none."}
	StateContradiction = Message{"고객번호 %d번 고객님의 쿠폰 관련 기록이 서로 일치하지 않아 담당자의 확인이 필요합니다.",
		"The records about customer %d and this coupon contradict each other; our staff have to look into it."}
	NoteUsed       = Message{"이미 사용하신 쿠폰입니다.", "The coupon has been used."}
	NoteRevoked    = Message{"이 쿠폰은 발급 후 회수되었습니다.", "The coupon was withdrawn afterwards."}
	NoteTriedAgain = Message{"다음 정산 대상에 포함되며, 신청하신 순서대로 처리됩니다.",
		"The next settlement will consider it, in the order of application."}
	NotePersonDecides = Message{"처리 방법은 담당자가 결정해야 합니다.", "Our staff have to decide on it."}
	NoteCouponHeld    = Message{"다만 이 쿠폰의 접수 기록에 확인이 필요한 부분이 있어 정산이 보류된 상태입니다.",
		"But the settlement of this coupon is on hold, since some of its records have to be checked first."}
	NoteCouponOver = Message{"이 쿠폰의 정기 정산은 이미 끝났으므로, 담당자가 정산을 다시 진행해야 결과가 나옵니다.",
		"The regular settlements of this coupon are over, so our staff have to settle it once more before there is a result."}
	NoteNoSeatLeft      = Message{"지금은 남은 수량이 없습니다.", "No coupons are left at present."}
	NoteAccountInactive = Message{"현재 계정을 이용할 수 없는 상태이며, 이 상태에서는 쿠폰이 발급되지 않습니다.",
		"The account cannot be used at present, and in this state it gets no coupon."}
	NoteAccountUnknown = Message{"현재 이 고객번호에 해당하는 고객 정보를 찾을 수 없으며, 이 상태에서는 쿠폰이 발급되지 않습니다.",
		"There is no customer with this number at present, so no coupon can be issued."}
	NoteAccountActive   = Message{"현재 계정은 정상 상태입니다.", "The account is in order now."}
	NoteAlsoUnderReview = Message{"이와 별도로 검토 중인 신청이 한 건 더 있습니다.", "Another application of theirs is also under review."}
	NoteAlsoStanding    = Message{"아직 처리되지 않은 고객님의 다른 신청이 있지만, 이 쿠폰은 한 분께 한 장만 발급되므로 추가로 발급되지는 않습니다.",
		"Another application of theirs is still open; it brings no second coupon, since there is one for each customer."}
	NoteAppliedAgain = Message{"이 쿠폰은 한 분께 한 장만 발급되므로, 고객님의 다른 신청으로는 추가 발급되지 않았습니다.",
		"Another application of theirs brought no second coupon, since there is one for each customer."}
	NoteEarlierNotSelected = Message{"고객님의 다른 신청은 선정되지 않았습니다.", "Another application of theirs was not selected."}
	NoteEarlierRejected    = Message{"고객님의 다른 신청은 발급 대상에서 제외되었습니다.", "Another application of theirs was declined."}
	NoteLaterUnknown       = Message{"그 이후에 다시 신청하셨는지는 지금 확인할 수 없습니다.",
		"It cannot be looked up at the moment whether they have applied again since."}
	NoteShownOld = Message{"다음 정산이 끝날 때까지 앱에는 이전 상태로 표시될 수 있습니다.",
		"The app may show the former state until the next settlement is done."}
	TriedSoOften = Message{"지금까지 처리를 %d번 시도했습니다.", "It has been tried %d time{|s} so far."}
	UsableUntil  = Message{"%s까지 사용하실 수 있습니다.", "It can be used until %s."}
	ExpiredAt    = Message{"쿠폰의 유효 기한이 %s에 만료되었습니다.", "The coupon expired at %s."}
	StateWaiting = Message{"정상적으로 접수되어 대기 중인 신청 %[2]d건 가운데 %[1]s입니다. 현재 남은 수량은 %[3]d장입니다. 정산은 %[4]s에 예정되어 있으며, 신청하신 순서대로 처리됩니다.",
		"the application was received, and is number %[1]s of %[2]d that {is|are} waiting. Coupons left at present: %[3]d. The settlement is planned for %[4]s and goes in the order of application."}
	StateWaitingOverdue = Message{"%s에 예정되었던 정산의 결과가 아직 나오지 않았습니다. 신청은 접수된 순서 그대로 대기 중입니다.",
		"the settlement was planned for %s, and there is no result yet. The application is waiting in its place."}
	AsNumber        = Message{"%s로 ", " as number %s"}
	SentenceApplied = Message{"고객번호 %d번 고객님은 %s에 %s신청하셨고, ", "Customer %d applied at %s%s; "}
	NeverApplied    = Message{"고객번호 %d번 고객님이 이 쿠폰을 신청하신 기록이 없습니다. ",
		"There is no record that customer %d applied for this coupon. "}
	MaybeLost = Message{"다만 접수된 신청 가운데 %d건의 기록이 유실되어, 신청하신 적이 없다고 단정할 수는 없습니다.",
		"But records of %d application{|s} were lost, so it is not certain that there was none."}
	StateLost = Message{"신청이 접수되었으나 서버 장애로 대기열에서 사라져 복구하는 중입니다. 복구되면 처음 신청하신 순서대로 처리됩니다.",
		"the application was received, but a failure of the servers removed it from the queue. It is being put back, and keeps its place."}
	ApplicationsOpenAt   = Message{"신청은 %s에 시작됩니다.", "Applications open at %s."}
	ApplicationsClosedAt = Message{"신청 기간은 %s에 끝났습니다.", "Applications closed at %s."}
	ApplicationsCloseAt  = Message{"신청 기간은 %s까지입니다.", "Applications close at %s."}
	IssuedByStaff        = Message{"고객번호 %d번 고객님께는 %s에 담당자가 쿠폰을 직접 발급해 드렸습니다.",
		"Customer %d was given the coupon by a member of our staff at %s."}
	WasIssued  = Message{"고객번호 %d번 고객님께는 %s에 쿠폰이 발급되었습니다.", "Customer %d was given the coupon at %s."}
	IssuedSeat = Message{"%[1]s에 쿠폰이 발급되었습니다. 전체 %[3]d장 가운데 %[2]s로 발급된 쿠폰입니다.",
		"the coupon was issued at %[1]s. It is coupon %[2]s of %[3]d."}
	NoneWasLeft      = Message{"당시 남은 수량이 없어 선정되지 않으셨습니다.", "no coupon was left, so the application was not selected."}
	AllWentToEarlier = Message{"쿠폰 %d장이 모두 먼저 신청하신 분들께 발급되어 선정되지 않으셨습니다.",
		"all coupons (%d) went to those who applied earlier, so the application was not selected."}
	AllAreTaken = Message{"쿠폰 %d장이 모두 발급되어 선정되지 않으셨습니다.",
		"all coupons (%d) are taken, so the application was not selected."}
	LastAppliedEarlier = Message{" 마지막으로 쿠폰을 받으신 분은 고객님보다 먼저 신청하셨습니다.",
		" The last customer who got a coupon had applied earlier."}
	NumberOfNotSelected = Message{" 선정되지 않으신 분들 가운데 %s이며, ", " It is number %s of those not selected; "}
	IfCouponsAreAdded   = Message{"수량이 추가되면 다시 정산할 때 신청하신 순서대로 처리됩니다.",
		"if coupons are added and settled, it goes in the order of application."}
	LeftForNextSettlement = Message{"현재 남은 수량이 %d장 있어 다음 정산에서 신청하신 순서대로 처리될 예정입니다.",
		"the next settlement will issue the coupons that are left now (%d), in the order of application."}
	LeftForManualSettlement = Message{"현재 남은 수량이 %d장 있어 담당자가 정산을 다시 진행하면 신청하신 순서대로 처리됩니다.",
		"the coupons that are left now (%d) will be issued in the order of application when our staff settle the coupon again."}
	DeclinedByStaff  = Message{"담당자 검토를 거쳐 %s에 발급 대상에서 제외되었습니다.", "after a review by our staff it was declined at %s."}
	DeclinedInactive = Message{"수량이 추가되면서 고객님의 차례가 되었으나, 계정을 이용할 수 없는 상태여서 %s에 발급 대상에서 제외되었습니다.",
		"when coupons were added and its turn came, the account could not be used, so it was declined at %s."}
	DeclinedUnknown = Message{"수량이 추가되면서 고객님의 차례가 되었으나, 고객 정보를 찾을 수 없어 %s에 발급 대상에서 제외되었습니다.",
		"when coupons were added and its turn came, no such customer was found, so it was declined at %s."}
	DeclinedBadRow = Message{"수량이 추가되면서 고객님의 차례가 되었으나, 시스템 오류로 쿠폰 정보를 저장하지 못해 %s에 발급 대상에서 제외되었습니다.",
		"when coupons were added and its turn came, a fault in our system kept the coupon from being stored, so it was declined at %s."}
	DeclinedOther         = Message{"%s에 발급 대상에서 제외되었습니다.", "it was declined at %s."}
	StateWaitingImmediate = Message{"정상적으로 접수되어 대기 중인 신청 %[2]d건 가운데 %[1]s입니다. 현재 남은 수량은 %[3]d장입니다. 이 쿠폰은 신청하신 순서대로 바로 처리되니 잠시 후 결과를 확인해 주시기 바랍니다.",
		"the application was received, and is number %[1]s of %[2]d that {is|are} waiting. Coupons left at present: %[3]d. Applications for this coupon are settled at once, in the order of application: please look again in a moment."}
	StateWaitingDelayed = Message{"보통은 신청하시면 바로 처리되지만 지금은 처리가 늦어지고 있습니다. 신청은 접수된 순서 그대로 대기 중이며, 그 전에 처리되지 않으면 %s에 예정된 정산 대상에 포함됩니다.",
		"it is usually settled at once, but this is delayed at the moment. The application keeps its place; if it is not settled before, the settlement planned for %s will consider it."}
	StateWaitingFrozen = Message{"지금은 이 쿠폰의 발급이 동결되어 있습니다. 신청은 접수된 순서 그대로 대기 중이며, 동결이 해제되어야 처리됩니다.",
		"the issuing of this coupon is stopped at present. The application keeps its place and can be settled only after the issuing goes on."}
	NoteCouponFrozen = Message{"다만 지금은 이 쿠폰의 발급이 동결되어 있어, 동결이 해제되어야 처리할 수 있습니다.",
		"But the issuing of this coupon is stopped at present, so nothing can be settled before it goes on."}
	NoteTriedAtNight = Message{"다음 야간 정산 대상에 포함되며, 신청하신 순서대로 처리됩니다.",
		"The next settlement at midnight will consider it, in the order of application."}
	ReviewPassedOverAtOnce = Message{"순서가 되었을 때 쿠폰을 발급해 드리지 못해 현재 검토 중입니다.",
		"no coupon could be issued when its turn came, and it is under review."}
	StateNeverLineFull = Message{"고객번호 %d번 고객님이 이 쿠폰을 신청하신 기록이 없습니다. 지금은 대기 중인 신청이 한도에 이르러 새 신청을 받지 않고 있으며, 대기가 줄어들면 다시 받습니다.",
		"There is no record that customer %d applied for this coupon. As many as possible are waiting, and new applications are accepted again when fewer wait."}
	NoteSeatLater = Message{"처음 정산할 때는 남은 수량이 없었고, 나중에 수량이 생겨 신청하신 순서대로 발급되었습니다.",
		"No coupon was left at first; when one became available later, it went to the next in the order of application."}
	ReservedUntil = Message{"주문번호 %s에 예약되어 있으며, 예약은 %s까지 유지됩니다.",
		"It is reserved for order %s until %s."}
	UsedForOrder = Message{"주문번호 %s에 사용되어 %s원이 할인되었습니다.",
		"It was used for order %s, with a discount of %s won."}
	UsedOnce = Message{"주문번호 %[1]s에 한 번 사용되었습니다. 사용 시각은 %[2]s, 할인액은 %[3]s원입니다.",
		"It was used once, for order %[1]s at %[2]s, with a discount of %[3]s won."}
	UsedOnceSince = Message{"그 뒤 주문번호 %[1]s에 한 번 사용되었습니다. 사용 시각은 %[2]s, 할인액은 %[3]s원입니다.",
		"Since then it was used once, for order %[1]s at %[2]s, with a discount of %[3]s won."}
	UsedAndRefunded = Message{"주문번호 %s에 사용되었다가, 그 주문이 환불되면서 %s에 사용이 취소되었습니다.",
		"It was used for order %s, and given back at %s because that order was refunded."}
	UsedAndUndone = Message{"주문번호 %s에 사용되었다가, 고객센터에서 %s에 사용을 취소했습니다.",
		"It was used for order %s, and given back at %s by customer service."}
	ExpiredUnused = Message{"사용되지 않은 채 %s에 쿠폰의 유효 기한이 만료되었습니다.",
		"It was not used, and expired at %s."}
	RevokedBy = Message{"담당자 %s님이 %s에 쿠폰을 회수했습니다.",
		"A member of our staff (%s) revoked it at %s."}
	RevokedBecause = Message{"담당자 %s님이 %s에 쿠폰을 회수했습니다. 사유: %s.",
		"A member of our staff (%s) revoked it at %s because of: %s."}

	First = Message{"첫 번째", "1"}
	Nth   = Message{"%d번째", "%d"}
)
