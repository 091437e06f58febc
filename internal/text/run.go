package text

// Messages of settle migrate, run, runs and show.
var (
	MigrationBegun   = Message{"%s 적용 중 …", "applying %s …"}
	Migrating        = Message{"%s 적용 중(초):", "applying %s, seconds:"}
	MigrationApplied = Message{"%s 적용 완료 (소요 시간 %s)", "applied %s in %s"}
	OtherSchema      = Message{"이 데이터베이스의 테이블은 다른 스키마입니다. 첫 릴리스 이전의 다른 빌드나 다른 프로그램이 만든 것이어서 마이그레이션할 수 없습니다. 변경한 내용은 없습니다. 비어 있는 새 데이터베이스를 사용하거나, 저장된 내용이 필요 없으면 이 데이터베이스를 삭제하고 다시 만드세요",
		"the tables of this database are of another schema: another build before the first release made them, or another program. They cannot be migrated. Nothing was changed. Use a new, empty database, or drop this one and create it again if nobody needs its content"}
	ForeignTables = Message{"이 데이터베이스에는 `settle migrate`가 만들지 않은 같은 이름의 테이블이 있습니다: %s. 변경한 내용은 없습니다. 전용 데이터베이스를 만들어 MYSQL_DSN에 지정하세요",
		"this database has tables of our names that `settle migrate` has not made: %s. Nothing was changed. Create a database for Jajeong alone and name it in MYSQL_DSN"}
	TablesMissing  = Message{"스키마는 최신이지만 읽을 수 없는 테이블이 있습니다(%v). 백업에서 복원하거나 이 계정에 권한을 주세요", "the schema is up to date, but not every table can be read (%v): restore the tables from a backup, or grant this account the rights"}
	SchemaUpToDate = Message{"스키마가 최신 상태입니다", "the schema is up to date"}
	AskSettle      = Message{"이대로 정산할까요?", "Settle this?"}
	CouponTitle    = Message{"쿠폰 %d %s", "coupon %d %s"}
	WouldBeIssued  = Message{"  발급 예정: %d명, 첫 번째 고객 %d (%s), 마지막 고객 %d (%s)",
		"  would be issued: %d, the first user %d (%s), the last user %d (%s)"}
	NoneWouldBeIssued = Message{"  발급 예정: 없음", "  would be issued: none"}
	WouldBeReviewed   = Message{"  검토로 전환될 신청: %d건, %s (%s)", "  would be moved to review: %d, %s (%s)"}
	Settling          = Message{"정산 중", "settling"}
	Preview           = Message{"미리 보기: 실제로 변경된 내용은 없습니다", "preview: nothing was changed"}
	RunNotRecorded    = Message{"기록되지 않은 실행", "run not recorded"}
	RunNumber         = Message{"실행 #%d", "run %d"}
	RunTitle          = Message{"%s, %s, 정산 기준 시각 %s", "%s (%s), cutoff %s"}
	NoCouponDue       = Message{"정산할 쿠폰이 없습니다", "no coupon is due"}
	SettledEarlier    = Message{"쿠폰 %d: 변경 사항이 없습니다. 실행 #%d에서 이미 정산했습니다 (%s)",
		"coupon %d: nothing has changed; run %d settled it at %s"}
	WrittenOff = Message{"쿠폰 %d: 찾을 수 없는 신청 %d건을 유실로 인정했습니다",
		"coupon %d: %d accepted application{|s} written off as lost"}
	WouldBeWrittenOff = Message{"쿠폰 %d: 찾을 수 없는 신청 %d건이 유실로 인정될 예정입니다",
		"coupon %d: %d accepted application{|s} would be written off as lost"}
	EndedAsRejected = Message{"쿠폰 %d: 거절로 종료된 신청 %d건", "coupon %d: %d application{|s} ended as rejected"}
	OlderRuns       = Message{"이전 실행: %s", "older runs: %s"}
	NoSuchRuns      = Message{"조건에 맞는 실행이 없습니다", "no runs match"}
	RunSummary      = Message{"실행 #%d, %s, %s, 정산 기준 시각 %s", "run %d (%s) %s, cutoff %s"}
	RunOperator     = Message{"  담당자 %s, 사유: %s", "  by %s: %s"}
	RunTook         = Message{"  시작 %s, 종료 %s (%s)", "  from %s to %s (%s)"}
	RunDied         = Message{"  시작 %s, 마지막 하트비트 %s: 종료를 기록하지 못하고 중단되었습니다. 남은 일은 그 뒤의 실행이 합니다",
		"  from %s, last heartbeat %s: it died before it recorded its end; later runs do what it left"}
	RunBeats          = Message{"  시작 %s, 마지막 하트비트 %s", "  from %s, last heartbeat %s"}
	RunChangedNothing = Message{"쿠폰 %d개 중 변경된 쿠폰이 없습니다", "%d coupon{|s}, of which it changed none"}
	RunListsSome      = Message{"쿠폰 %d개 중 기록이 있는 쿠폰은 %d개입니다", "%d coupon{|s}; those with a record are listed: %d"}
	IssuedArrivals    = Message{"쿠폰 %d: 발급받은 고객의 신청 시각 %s ~ %s", "coupon %d: issued to arrivals from %s to %s"}
	CleanUpPending    = Message{"쿠폰 %d: Redis 정리 대기 중입니다. 다음 실행에서 정리합니다",
		"coupon %d: the clean-up of Redis is pending; the next run does it"}
	CouponDetail     = Message{"쿠폰 %d: %s", "coupon %d: %s"}
	OutputNotWritten = Message{"settle: 결과를 끝까지 출력하지 못했습니다: %v. 이미 반영된 변경은 유지됩니다. 같은 변경을 다시 실행하기 전에 먼저 확인하세요",
		"settle: the output could not be written: %v. Changes that were made are kept: check before you repeat one"}
	LeftOut = Message{"settle: 미리 보기에서 확인하지 못한 쿠폰은 이번 실행에서 제외합니다: %v",
		"settle: the run leaves out the coupons that the preview could not show: %v"}
	RunFoundFrozen = Message{"쿠폰 %d: 발급이 동결되어 정산하지 않았습니다. 대기 중인 신청은 그대로입니다. 해제: settle coupon unfreeze %[1]d --operator … --reason …",
		"coupon %d: frozen, nothing was settled; the applications keep their places. To let it go on: settle coupon unfreeze %[1]d --operator … --reason …"}
)
