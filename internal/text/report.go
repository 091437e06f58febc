package text

// Messages of settle report.
var (
	WrittenTo     = Message{"%s에 저장했습니다", "written to %s"}
	CouponNotRead = Message{"쿠폰 %d %s: 다른 작업이 잠그고 있어 읽지 못했습니다. 표와 합계에서 제외되었으니 보고서를 다시 만드세요.",
		"coupon %d %s could not be read, because another session has locked it. The table and totals do not include it: make the report again."}
	ReportMeaning = Message{"%s부터 %s 전까지 접수된 신청을 현재 결과별로 집계합니다. 신청 = 발급 + 미선정 + 거절 + 이미 보유 + 검토 중 + 대기.",
		"Applications that arrived from %s and before %s, by their outcome so far: applications = issued + not selected + rejected + already held + under review + waiting."}
	ReportValue = Message{"금액 = 한 장의 할인액 × 발급 수. 정률 쿠폰은 최대 할인액으로 계산하여 ≤로 표시합니다. 수동으로 발급한 쿠폰은 신청이 없으므로 포함되지 않습니다. 월 합계는 일별 합계를 모두 더한 값과 같습니다.",
		"Value = discount of one coupon × issued. A percentage counts with its limit, and is shown with ≤. Coupons issued by hand have no application and are not included. A month is the sum of its days."}
	ReportWholeCoupon = Message{"수량, 남은 수량, 유실은 신청 시각과 관계없이 쿠폰 전체의 현재 값입니다.",
		"Seats, seats left and gap are those of the whole coupon now, regardless of when applications arrived."}
	ReportActions    = Message{"감사 기록", "Operators' actions"}
	ApplicationCount = Message{"신청 %s건", "%s application{|s}"}
	ActionsLeftOut   = Message{"쿠폰 %d: 감사 기록 %d건을 생략했습니다", "coupon %d: %d more action{|s} left out"}
	ReportTitle      = Message{"정산 보고서 %s", "Settlement report %s"}
	GeneratedAt      = Message{"작성 시각 %s", "generated at %s"}
	ReportEmpty      = Message{"이 기간에는 열린 쿠폰도, 접수된 신청도 없습니다",
		"no coupon was open in this period, and there were no applications"}
	NoApplications   = Message{"신청이 없습니다", "there were no applications"}
	ReportOutcomes   = Message{"결과별 비율", "Outcomes"}
	ByMinute         = Message{"분당 신청 수", "Applications by minute"}
	ByHour           = Message{"시간당 신청 수", "Applications by hour"}
	ByDay            = Message{"일별 신청 수", "Applications by day"}
	ReportOfCampaign = Message{"캠페인 %d 정산 보고서 %s", "Settlement report of campaign %d, %s"}
	ReportFrozen     = Message{"쿠폰 %d: 발급이 동결되어 있습니다. 동결 시각 %s, 처리자 %s, 사유: %s",
		"coupon %d is frozen since %s, by %s: %s"}
	ReportFrozenUnknown = Message{"쿠폰 %d: 발급이 동결되어 있지만, 누가 동결했는지 감사 기록에 없습니다",
		"coupon %d is frozen, but the audit log does not say by whom"}
	CampaignTooLarge = Message{"%d번 캠페인의 쿠폰이 %d개를 넘습니다. --coupon으로 나누어 집계하세요",
		"campaign %d has more than %d coupons: report some of them with --coupon"}
	CampaignTooLong = Message{"%d번 캠페인의 기간이 %s부터 %s까지로 %d일을 넘습니다. --date 또는 --month를 지정하세요",
		"campaign %d lasts from %s to %s, more than %d days: give --date or --month"}

	ReportUserCoupons = Message{"발급된 쿠폰의 현황 (MySQL 시각 %s 기준)",
		"Issued coupons as of %s, by the clock of MySQL"}
	ReportCampaigns    = Message{"캠페인별 합계", "Sums of campaigns"}
	UserCouponsMeaning = Message{"발급된 쿠폰의 현황은 신청 시각과 관계없이 쿠폰 전체의 값이며 수동 지급도 포함합니다. 발급 = 사용 가능 + 예약 + 사용 + 기한 만료 + 회수. 사용 할인액은 실제로 할인된 금액이고, 다른 금액은 그 장수로 할인될 수 있는 최대 금액입니다.",
		"Issued coupons are those of the whole coupon, regardless of when applications arrived, and include those issued by hand: issued = usable + reserved + used + expired + revoked. Used won is what was taken off; the other amounts are the most that so many coupons can take off."}
	ColumnUsable     = Message{"사용 가능", "usable"}
	ColumnReserved   = Message{"예약", "reserved"}
	ColumnUsed       = Message{"사용", "used"}
	ColumnExpired    = Message{"기한 만료", "expired"}
	ColumnRevoked    = Message{"회수", "revoked"}
	ColumnUsedWon    = Message{"사용 할인액(원)", "used (won)"}
	ColumnOpenWon    = Message{"미사용 잔액(원, 최대)", "open (won, at most)"}
	ColumnExpiredWon = Message{"만료 금액(원, 최대)", "expired (won, at most)"}
	ColumnRevokedWon = Message{"회수 금액(원, 최대)", "revoked (won, at most)"}

	CSVPercent     = Message{"할인율", "discount_percent"}
	CSVMaxWon      = Message{"최대 할인액(원)", "discount_max_won"}
	CSVAsOf        = Message{"현황 기준 시각", "as_of"}
	CSVUserCoupons = Message{"발급된 쿠폰", "user_coupons"}
	CSVByHand      = Message{"수동 지급", "by_hand"}
	CSVUsable      = Message{"사용 가능", "usable_count"}
	CSVReserved    = Message{"예약", "reserved_count"}
	CSVUsed        = Message{"사용", "used_count"}
	CSVExpired     = Message{"기한 만료", "expired_count"}
	CSVRevoked     = Message{"회수", "revoked_count"}
	CSVUsedWon     = Message{"사용 할인액(원)", "used_won"}
	CSVOpenWon     = Message{"미사용 잔액(원, 최대)", "open_won"}
	CSVExpiredWon  = Message{"만료 금액(원, 최대)", "expired_won"}
	CSVRevokedWon  = Message{"회수 금액(원, 최대)", "revoked_won"}

	// ReportErased is about the whole coupon: the arrivals of forgotten applications are not stored.
	ReportErased = Message{"쿠폰 %d: 개인정보 삭제 요청(settle user forget)으로 지운 신청이 %d건 있습니다. 쿠폰 전체의 값이며, 이 보고서의 어느 수치에도 포함되지 않습니다.",
		"coupon %d: %d application{|s} of the whole coupon were forgotten (settle user forget); no figure of this report counts them."}
	CSVErased = Message{"개인정보 삭제",
		"erased"}
	CampaignIsPurged = Message{"%d번 캠페인의 쿠폰(%d개)은 모두 영구 삭제되었거나 삭제하는 중입니다. 쿠폰별 요약은 `settle coupon show`로 확인하세요",
		"every coupon of campaign %d was purged, or its purge has begun (%d in all); `settle coupon show` has the summary of each"}
)
