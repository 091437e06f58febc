package text

// Messages about the coupon that one user has: settle coupon grant, revoke, reissue, unuse, extend-user.
var (
	RefusedNotHeld = Message{"%d번 고객에게는 %v번 쿠폰이 없습니다. 번호를 확인하고, 쿠폰을 주려면 grant를 사용하세요.",
		"user %d does not have coupon %v. Check both ids. To give the coupon to the user, use grant."}
	RefusedUsed = Message{"%d번 고객이 %v번 쿠폰을 주문 %s에 이미 사용했습니다. 쇼핑몰에서 이 주문을 환불하거나, 잘못 사용된 것이면 먼저 unuse로 사용을 취소하세요.",
		"user %d has used coupon %v for order %s. Ask the shop to refund that order, or undo a wrong use with unuse first."}
	RefusedReserved = Message{"%d번 고객의 %v번 쿠폰은 주문 %s의 결제에 예약되어 있습니다. 예약이 끝나는 %v 이후에 다시 실행하세요.",
		"the coupon of user %d (coupon %v) is reserved for order %s. Try again after the reservation ends at %v."}
	RefusedRevokedWithoutSeat = Message{"%d번 고객의 %v번 쿠폰은 수량을 되돌리지 않고 이미 회수되었으며, 이번에도 수량이 되돌아가지 않았습니다. 다음 사람에게 발급하려면 `settle coupon add-seats`로 수량을 늘리세요.",
		"user %d: coupon %v is already revoked, without a free seat, and no seat was freed now. To issue one to the next in line, use `settle coupon add-seats`."}
	RefusedNoSeatLeft = Message{"%d번 고객에게서 %v번 쿠폰을 회수할 때 되돌린 수량이 이미 발급되어 재발급할 수량이 없습니다. add-seats로 한 장을 늘린 뒤 다시 실행하세요.",
		"the seat that user %d gave up when coupon %v was revoked is taken, and no other is free. Add one with add-seats, then reissue again."}
	RefusedExtendPast = Message{"유효 기한(%v)이 이미 지났습니다. 현재 시각은 MySQL 시계로 %v입니다.",
		"the validity would end at %v, in the past: it is %v by the clock of MySQL."}
	RefusedExtendFar = Message{"유효 기한(%v)이 너무 늦습니다. %v까지만 지정할 수 있습니다.",
		"the validity would end at %v, too late: the latest possible time is %v."}
	RefusedExtendShorter = Message{"%d번 고객의 %v번 쿠폰은 %v까지 유효합니다. %v까지로 줄일 수 없습니다. extend-user로는 늘리기만 할 수 있습니다.",
		"user %d: coupon %v is valid until %v, later than %v. extend-user only makes it later."}
	RefusedExtendRevoked = Message{"%d번 고객의 %v번 쿠폰은 회수된 쿠폰입니다. 먼저 reissue로 재발급하세요.",
		"user %d: coupon %v is revoked. Give it back with reissue first."}
	RefusedGrantRevoked = Message{"%d번 고객의 %v번 쿠폰은 회수된 쿠폰입니다. 다시 주려면 reissue를 사용하세요.",
		"user %d: coupon %v is revoked. To give it back, use reissue."}
	RefusedGrantFrozen = Message{"%v번 쿠폰은 발급이 동결되어 있습니다. 먼저 unfreeze로 동결을 해제하세요.",
		"coupon %v is frozen, and is given to nobody. Unfreeze it first."}
	RefusedUnknownUser = Message{"%d번 고객이 없습니다. 고객번호를 확인하세요.",
		"there is no user %d. Check the id."}
	RefusedInactiveUser = Message{"%d번 고객은 쿠폰을 받을 수 없는 상태(%s)입니다.",
		"user %d is not active (status %s), and cannot get a coupon."}

	CouponIsGranted = Message{"쿠폰 %d %s: %d번 고객에게 지급했습니다. 이 한 장만큼 수량을 늘렸습니다.",
		"coupon %d %s is granted to user %d. It got one seat more for this."}
	CouponWasGranted = Message{"쿠폰 %d %s: %d번 고객이 이미 받은 쿠폰입니다. 변경된 내용이 없습니다.",
		"coupon %d %s: user %d already got it: nothing was changed."}
	GrantedApplication = Message{"이 고객의 신청이 대기 중이거나 검토 중이면 정산할 때 이미 발급됨(ALREADY_ISSUED)으로 처리됩니다.",
		"If an application of the user is waiting or under review, it is settled as ALREADY_ISSUED."}
	GrantNotMarked = Message{"Redis에 반영되었는지 확인하지 못했습니다: %v\n이 고객의 신청이 접수될 수 있지만, 정산할 때 이미 발급됨(ALREADY_ISSUED)으로 처리됩니다.",
		"Redis may not have the change: %v\nIt may still accept an application of the user, which is then settled as ALREADY_ISSUED."}
	UserOrFile  = Message{"고객 한 명 또는 명단 하나를 지정하세요.", "give one user or one list of users."}
	ListGranted = Message{"쿠폰 %d %s: 명단의 고객 %d명 가운데 %d명에게 지급했습니다. 지급한 만큼 수량을 늘렸습니다.",
		"coupon %d %s: of the %d user{|s} of the list, %d got it. It got a seat more for each."}
	ListPlanned = Message{"쿠폰 %d %s: 명단의 고객 %d명 가운데 %d명에게 지급하고 그만큼 수량을 늘립니다. 아직 변경된 내용은 없습니다.",
		"coupon %d %s: of the %d user{|s} of the list, %d would get it, and it would get a seat more for each. Nothing was changed."}
	ListNothing = Message{"쿠폰 %d %s: 명단의 고객 %d명 가운데 새로 지급할 고객이 없습니다. 변경된 내용이 없습니다.",
		"coupon %d %s: of the %d user{|s} of the list, nobody gets it. Nothing was changed."}
	ListProgress = Message{"%d명 / %d명", "%d of %d user{|s}"}
	ListStopped  = Message{"명단의 고객 %[2]d명 가운데 %[1]d명까지 처리하고 중단되었습니다. 같은 명단으로 다시 실행하면 나머지에게 지급합니다. 이미 받은 고객에게 두 번 지급되지 않습니다.",
		"It stopped after %d of the %d user{|s} of the list. Run it again with the same list: the others get the coupon, and nobody gets it twice."}
	ListNotMarked = Message{"Redis에 반영되었는지 확인하지 못했습니다: %v\n지급받은 고객의 신청이 접수될 수 있지만, 정산할 때 이미 발급됨(ALREADY_ISSUED)으로 처리됩니다.",
		"Redis may not have the change: %v\nIt may still accept applications of these users, which are then settled as ALREADY_ISSUED."}
	ListCost       = Message{"명단 전체의 최대 할인 총액: %s원", "The whole list makes discounts of up to %s won possible."}
	ListNotGiven   = Message{"지급받지 못하는 고객(%d명 가운데 %d명 표시):", "Who cannot get it (%[2]d of %[1]d):"}
	ColumnListed   = Message{"명단", "on the list"}
	ColumnNew      = Message{"지급", "get it"}
	ColumnUnknown  = Message{"없는 고객", "unknown"}
	ColumnInactive = Message{"비활성 고객", "inactive"}
	ColumnHeld     = Message{"이미 보유", "have it"}

	CouponIsRevoked = Message{"쿠폰 %d %s: %d번 고객에게서 회수했습니다.",
		"coupon %d %s is revoked from user %d."}
	CouponWasRevoked = Message{"쿠폰 %d %s: %d번 고객에게서 이미 회수되었습니다. 변경된 내용이 없습니다.",
		"coupon %d %s is already revoked from user %d: nothing was changed."}
	CouponIsReissued = Message{"쿠폰 %d %s: %d번 고객에게 재발급했습니다.",
		"coupon %d %s is given back to user %d."}
	CouponWasReissued = Message{"쿠폰 %d %s: %d번 고객에게서 회수된 쿠폰이 아닙니다. 변경된 내용이 없습니다.",
		"coupon %d %s is not revoked from user %d: nothing was changed."}
	CouponIsUnused = Message{"쿠폰 %d %s: %d번 고객의 사용을 취소했습니다.",
		"coupon %d %s: its use by user %d is undone."}
	CouponWasUnused = Message{"쿠폰 %d %s: %d번 고객이 사용하지 않은 상태입니다. 변경된 내용이 없습니다.",
		"coupon %d %s is not used by user %d: nothing was changed."}
	UnusedOrder = Message{"쇼핑몰 주문 %s: 쿠폰 할인 %d원을 환불로 기록했습니다. 쇼핑몰의 주문과 결제는 바뀌지 않으므로 쇼핑몰에서도 처리하세요.",
		"Order %s is recorded as refunded, with its discount of %d won. The shop's order and payment stay as they are: settle them in the shop."}
	RefusedUnuseReserved = Message{"%d번 고객의 %v번 쿠폰은 사용된 것이 아니라 주문 %s의 결제에 예약되어 있습니다. 예약이 끝나는 %v 이후에 다시 확인하세요.",
		"user %d: coupon %v is not used, but reserved for order %s. The payment decides, or the reservation ends at %v."}
	RefusedUnuseRevoked = Message{"%d번 고객의 %v번 쿠폰은 사용된 것이 아니라 회수되었습니다. 되돌려 주려면 reissue를 사용하세요.",
		"user %d: coupon %v is not used, but revoked. To give it back, use reissue."}
	CouponOfUserIsExtended = Message{"쿠폰 %d %s: %d번 고객의 유효 기한을 연장했습니다.",
		"coupon %d %s: the validity is extended for user %d."}
	CouponOfUserWasExtended = Message{"쿠폰 %d %s: %d번 고객의 유효 기한이 이미 같습니다. 변경된 내용이 없습니다.",
		"coupon %d %s: user %d already has this end of validity: nothing was changed."}
	ValidBefore = Message{"유효 기한: %s 전까지.",
		"It is valid until %s, exclusive."}
	ExpiredBefore = Message{"유효 기한이 %s에 지났습니다. 연장하려면 extend-user를 사용하세요.",
		"Its validity ended at %s. To move the end, use extend-user."}
	UsedFor = Message{"주문 %s에 사용되었습니다. 사용을 취소하려면 unuse를 사용하세요.",
		"It is used for order %s. To undo that, use unuse."}
	NoWinners = Message{"아직 발급된 쿠폰이 없습니다",
		"nobody has this coupon yet"}
	WinnersAsOf = Message{"상태는 MySQL 시계로 %s 기준입니다.",
		"The states are those of %s, by the clock of MySQL."}
	WinnersCut = Message{"처음 %d명만 표시했습니다. 전체 목록: --output csv",
		"Only the first %d are shown. For all: --output csv"}

	ColumnIssuedAt = Message{"발급 시각",
		"issued at"}
	CSVPosition = Message{"순번",
		"position"}
	CSVAppliedAt = Message{"신청 시각",
		"applied_at"}
	CSVIssuedAt = Message{"발급 시각",
		"issued_at"}
	CSVExpiresAt = Message{"유효 기한",
		"expires_at"}
	CSVState = Message{"상태",
		"state"}
	CSVGivenByHand = Message{"수동 지급",
		"given_by_hand"}
	CSVStatesAsOf = Message{"기준 시각",
		"as_of"}
)
