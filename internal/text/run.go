package text

// Messages of settle migrate, run, runs and show.
var (
	MigrationApplied = Message{"%s 적용, %s", "applied %s in %s"}
	SchemaUpToDate   = Message{"스키마가 최신입니다", "the schema is up to date"}
	AskSettle        = Message{"이대로 정산할까요?", "Settle this?"}
	AskBackfill      = Message{"위는 마지막 밤까지 모두 정산했을 때의 결과입니다. %d일을 하루씩 차례로 정산할까요?",
		"This is the result of all nights. Settle %d night{|s}, one after the other?"}
	CouponTitle   = Message{"쿠폰 %d %s", "coupon %d %s"}
	WouldBeIssued = Message{"  발급 예정: %d명, 첫 번째 사용자 %d (%s), 마지막 사용자 %d (%s)",
		"  would be issued: %d, the first user %d (%s), the last user %d (%s)"}
	NoneWouldBeIssued = Message{"  발급 예정: 없음", "  would be issued: none"}
	WouldBeRejected   = Message{"  검토로 옮길 신청: %d건, %s (%s)", "  would be moved to review: %d, %s (%s)"}
	Settling          = Message{"정산 중", "settling"}
	Preview           = Message{"미리 보기: 아무것도 바꾸지 않았습니다", "preview: nothing was changed"}
	RunNotRecorded    = Message{"기록되지 않은 실행", "run not recorded"}
	RunNumber         = Message{"실행 %d", "run %d"}
	RunTitle          = Message{"%s, %s, 정산 기준 시각 %s", "%s (%s), cutoff %s"}
	NoCouponDue       = Message{"정산할 쿠폰이 없습니다", "no coupon is due"}
	SettledEarlier    = Message{"쿠폰 %d: 바뀐 것이 없습니다. 실행 %d에서 %s에 이미 정산했습니다",
		"coupon %d: nothing has changed; run %d settled it at %s"}
	WrittenOff = Message{"쿠폰 %d: 찾을 수 없는 신청 %d건의 유실을 인정했습니다",
		"coupon %d: %d accepted application{|s} written off as lost"}
	WouldBeWrittenOff = Message{"쿠폰 %d: 찾을 수 없는 신청 %d건의 유실을 인정하게 됩니다",
		"coupon %d: %d accepted application{|s} would be written off as lost"}
	EndedAsRejected = Message{"쿠폰 %d: 거절로 종료된 신청 %d건", "coupon %d: %d application{|s} ended as rejected"}
	OlderRuns       = Message{"더 오래된 실행: %s", "older runs: %s"}
	NoSuchRuns      = Message{"해당하는 실행이 없습니다", "no runs match"}
	RunSummary      = Message{"실행 %d, %s, %s, 정산 기준 시각 %s", "run %d (%s) %s, cutoff %s"}
	RunOperator     = Message{"  담당자 %s, 사유: %s", "  by %s: %s"}
	RunTook         = Message{"  시작 %s, 끝 %s (%s)", "  from %s to %s (%s)"}
	RunDied         = Message{"  시작 %s, 마지막 신호 %s: 종료를 기록하지 못하고 중단되었습니다. 다음 실행이 바로잡습니다",
		"  from %s, last heartbeat %s: it died before it recorded its end; the next run corrects that"}
	RunBeats          = Message{"  시작 %s, 마지막 신호 %s", "  from %s, last heartbeat %s"}
	RunChangedNothing = Message{"바꾼 쿠폰이 없습니다", "it changed no coupon"}
	IssuedArrivals    = Message{"쿠폰 %d: 발급받은 사람의 신청 시각 %s ~ %s", "coupon %d: issued to arrivals from %s to %s"}
	CleanUpPending    = Message{"쿠폰 %d: Redis 정리가 남아 있습니다. 다음 실행이 정리합니다",
		"coupon %d: the clean-up of Redis is pending; the next run does it"}
	CouponDetail     = Message{"쿠폰 %d: %s", "coupon %d: %s"}
	OutputNotWritten = Message{"settle: 출력을 다 쓰지 못했습니다: %v. 이미 반영된 변경은 그대로입니다. 같은 변경을 다시 하기 전에 확인하세요",
		"settle: the output could not be written: %v. Changes that were made are kept: check before you repeat one"}
	LeftOut = Message{"settle: 미리 볼 수 없었던 쿠폰은 이번 정산에서 제외합니다: %v",
		"settle: the run leaves out the coupons that the preview could not show: %v"}
)
