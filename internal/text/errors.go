package text

// Errors of a settlement and of changes of a coupon, and the advice that follows them.
var (
	NoSuchCoupon   = Message{"%d번 쿠폰은 존재하지 않습니다", "coupon %d does not exist"}
	NoRun          = Message{"실행 #%d: 기록이 없습니다. settle runs로 실행 번호를 확인하세요", "there is no run %d; settle runs lists them"}
	NotUnderReview = Message{"고객 %q: %d번 쿠폰에 검토 중인 신청이 없습니다", "user %q is not under review for coupon %d"}
	NotDropped     = Message{"%q 항목은 기록할 수 없어 검토 중 상태로 남습니다: %v", "%q cannot be recorded and stays under review: %v"}
	SameArrival    = Message{"%q 항목은 검토 중 상태로 남습니다. 종료한 다른 항목과 신청 시각이 같습니다. 정상적인 신청이라면 신청 시각이 같을 수 없으니 Redis에서 직접 삭제하세요",
		"%q stays under review: it has the same arrival as a dropped entry, which no two applications can have; remove it from Redis by hand"}
	MoreStay   = Message{"그 밖에 %d건이 검토 중 상태로 남습니다", "%d more {stays|stay} under review"}
	CouponBusy = Message{"다른 정산 또는 세션이 이 쿠폰의 행이나 테이블을 잠그고 있습니다. 추가로 변경된 것은 없으니 다시 실행하세요",
		"busy: another settlement or session holds this coupon's row or its tables; nothing more was changed, run again"}
	ServerReplaced = Message{"작업하는 동안 Redis가 교체되었거나 재시작되었거나 비워졌습니다. 유실된 신청을 찾으려면 Redis가 10초 넘게 그대로 있어야 합니다. Redis가 안정된 뒤 다시 실행하세요. 다시 실행해도 유실되는 신청은 없습니다",
		"Redis was replaced, restarted or emptied meanwhile, and looking for what it has lost takes more than ten quiet seconds; run again when Redis is stable: nothing is lost by that"}
	RunLost = Message{"MySQL에 이 실행이 없습니다. 시작 기록을 받지 못한 서버가 프라이머리가 되었거나 MySQL이 이전 상태로 되돌아갔습니다. 이 서버에는 아무것도 발급하지 않았으니 다시 실행하세요",
		"MySQL does not have this run: a server has taken over that had not received its beginning, or MySQL was put back; nothing was issued there, run again"}
	RestoredLate = Message{"좌석을 배정한 뒤에 복구가 필요해져 복구했고, 아직 정산되지 않은 신청이 있습니다. 다시 실행하면 이 신청도 정산하고 쿠폰을 종결합니다",
		"a restore was due after the seats had been given, and has left applications to settle: run again, which settles them and finalises the coupon"}
	RestoreDue = Message{"복구가 필요합니다. Redis가 이 쿠폰을 새로 맡았거나 신청을 잃었을 수 있습니다. 아무것도 발급하지 않았으니 다시 실행하세요",
		"a restore is due: Redis is new to the coupon, or may have lost applications; nothing was issued, run again"}

	DoorNotShut = Message{"%d번 쿠폰의 신청 접수를 멈추도록 Redis에 요청하지 못했습니다. 쿠폰은 변경되지 않았지만 최대 3분 동안 신청이 접수되지 않을 수 있습니다. 다시 실행하세요 (%v)",
		"Redis could not be asked to stop accepting applications for coupon %d, which is unchanged; applications may be refused for up to three minutes. Run it again (%v)"}

	OtherWinners = Message{"발급 대상은 %d명이고 다이제스트는 %s입니다. 승인된 다이제스트(%s)와 달라 아무것도 발급하지 않았습니다. 미리 보기를 다시 실행하여 달라진 점을 확인하세요",
		"the winners would be %d user{|s} with the digest %s, not the approved %s; nothing was issued. Run the preview again and find out what changed"}

	// In the Stopped messages, the first argument is the signal, and one in parentheses is the error.
	Stopped      = Message{"중지 신호를 받았습니다: %v", "stopped by a signal: %v"}
	StoppedAfter = Message{"중지 신호를 받았습니다: %[1]v. 쿠폰 %[3]d개 중 %[2]d개를 처리했습니다",
		"stopped by a signal: %[1]v, after %[2]d of %[3]d coupon{|s}"}
	StoppedInHand = Message{"중지 신호를 받았습니다: %v. 진행 중이던 트랜잭션을 롤백했습니다 (%v)",
		"stopped by a signal: %v; the open transaction was rolled back (%v)"}
	StoppedUnknown = Message{"중지 신호를 받았습니다: %v. 커밋 여부는 다음 실행에서 확인합니다 (%v)",
		"stopped by a signal: %v; the next run finds out whether it was committed (%v)"}
	WrongName = Message{"이름 %q: 사용할 수 없습니다. 줄바꿈 없이 1자부터 %d자까지 가능합니다",
		"the name %q is not allowed: want 1 to %d characters without line breaks"}
	WrongKey = Message{"키 %q: 사용할 수 없습니다. 빈칸 없이 영문자, 숫자, 기호로 64자까지 가능합니다",
		"the key %q is not allowed: want 1 to 64 ASCII letters, digits and signs without spaces"}
	KeyReused = Message{"키 %v(으)로 이미 쿠폰 %d을(를) 다른 내용으로 만들었습니다. 같은 쿠폰이면 처음과 같은 내용으로, 새 쿠폰이면 다른 키로 실행하세요.",
		"the key %v is that of coupon %d, which was created otherwise: give the same values as then, or another key for a new coupon."}
	CouponIDsKnown = Message{"다음 쿠폰 번호 %d개가 모두 Redis에 있어 만들지 않았습니다. MySQL에서 유실된 쿠폰의 번호입니다. 관리자 계정으로 `ALTER TABLE coupon AUTO_INCREMENT = …`을 실행해 번호를 그 뒤로 옮긴 다음 다시 실행하세요.",
		"Redis knows coupons of the next %d ids of MySQL, which has lost them; nothing was created. Set the counter behind them as an administrator, with `ALTER TABLE coupon AUTO_INCREMENT = …`, and run this again."}
	SeatsWait = Message{"쿠폰 %[1]d: MySQL에서 유실된 당첨자를 복구하는 중이므로 지금은 수량을 줄일 수 없습니다. 1분쯤 뒤에 다시 실행하세요. settle serve를 쓰지 않으면 먼저 `settle restore --coupon %[1]d`를 실행하세요.",
		"coupon %[1]d: MySQL has lost winners, who are about to come back, so no seats are taken away before. Run this again in a minute; without settle serve, run `settle restore --coupon %[1]d` first."}
	RefusedFewerSeats = Message{"쿠폰 %[1]d: 마지막 정산 뒤에 신청이 복구되었습니다. 이미 당첨된 고객이 다시 대기 중일 수 있어 수량을 줄이지 않습니다. 먼저 `settle run --coupon %[1]d`로 정산하세요",
		"coupon %[1]d: applications were put back since it was last settled, and may be those of users who had won already, so no seats are taken away: settle it first with `settle run --coupon %[1]d`"}
	GrantWaits = Message{"쿠폰 %[1]d: MySQL에서 유실된 당첨자를 복구하는 중이므로 지금은 수동 지급할 수 없습니다. 1분쯤 뒤에 다시 실행하세요. settle serve를 쓰지 않으면 먼저 `settle restore --coupon %[1]d`를 실행하세요.",
		"coupon %[1]d: MySQL has lost winners, who are about to come back, so nothing is given by hand before. Run this again in a minute; without settle serve, run `settle restore --coupon %[1]d` first."}
	WrongSeats    = Message{"수량을 %d장으로 지정할 수 없습니다. 1장부터 %d장까지 가능합니다", "%d seat{|s}: want 1 to %d"}
	WrongDays     = Message{"유효 기간을 %d일로 지정할 수 없습니다. 1일부터 %d일까지 가능합니다", "valid for %d day{|s}: want 1 to %d"}
	WrongDiscount = Message{"할인액을 %d원으로 지정할 수 없습니다. 0원부터 %d원까지 가능합니다", "a discount of %d won: want 0 to %d"}

	// Arguments: number of missing applications, number of accepted ones, how the counts were made up.
	GapHeld = Message{"보류: 접수된 신청 %[2]d건 중 %[1]d건을 찾을 수 없습니다 (%[3]s). 아무것도 발급하지 않았습니다. Redis나 MySQL에서 무엇이 유실되었는지 확인한 뒤 --accept-gap, --operator, --reason을 지정하여 유실을 인정하면 보류가 해제됩니다",
		"held: %[1]d of %[2]d accepted application{|s} cannot be found (%[3]s); nothing was issued. Find out what Redis or MySQL lost, then release the coupon with --accept-gap --operator and --reason"}

	CountHeld = Message{"보류: %[1]d번 쿠폰의 issued_count는 %[2]d이지만 실제로 발급된 쿠폰은 %[3]d장, 수량은 %[4]d장입니다. 아무것도 발급하지 않았습니다. 누가 테이블을 수정했는지 확인한 뒤 `settle coupon recount %[1]d --operator … --reason …` 명령으로 발급 수를 맞추면 보류가 해제됩니다",
		"held: issued_count of coupon %[1]d is %[2]d, but user_coupon has %[3]d row{|s} for %[4]d seat{|s}; nothing was issued. Find out who wrote to the tables, then correct the count with `settle coupon recount %[1]d --operator … --reason …`"}
	CreationUnknown = Message{"쿠폰이 생성되었는지 확인할 수 없습니다. --key를 지정했으면 같은 명령을 다시 실행하고, 아니면 먼저 `settle coupon list` 명령으로 확인하세요 (%v)",
		"it is unknown whether the coupon was created: with --key, run the same command again; without it, look at `settle coupon list` first (%v)"}
	ChangeUnknown = Message{"%[1]d번 쿠폰이 변경되었는지 확인할 수 없습니다. 다시 실행하기 전에 `settle coupon show %[1]d` 명령으로 확인하세요 (%[2]v)",
		"it is unknown whether coupon %[1]d was changed: look at `settle coupon show %[1]d` before you repeat the change (%[2]v)"}
	CommitUnknown = Message{"COMMIT의 응답을 받지 못해 커밋 여부를 알 수 없습니다. 다시 시도하면 확인됩니다: %v",
		"the reply to COMMIT was lost, and whether it was committed is unknown until it is tried again: %v"}
	NothingMoved = Message{"%v. 아무것도 옮기지 않았습니다", "%v; nothing was moved"}
	CutoffAhead  = Message{"정산 기준 시각 %s이 되지 않았습니다. Redis 시계로 지금은 %s입니다", "the cutoff %s has not come: it is %s by the Redis clock"}
	CutoffTooFar = Message{"Redis 시계로 정산 기준 시각 %s까지 %s 남았습니다", "the cutoff %s is %s in the future by the Redis clock"}
	Panicked     = Message{"프로그램 오류: panic: %v. 로그와 함께 알려 주세요", "a bug: panic: %v; please report it with the log"}
	SeatsGone    = Message{"%d번 쿠폰에 남은 수량이 %d장보다 적습니다. 아무것도 발급하지 않았습니다. `settle verify`를 실행하세요",
		"coupon %d has no %d seats left to count: nothing was issued; run `settle verify`"}
	MySQLRefuses   = Message{"MySQL에 연결할 수 없거나 MySQL이 쓰기를 거부합니다", "mysql is away or takes no writes"}
	TooManyRefused = Message{"저장할 수 없는 행이 %d개를 넘었습니다(마지막은 고객 %d). 아무것도 저장하지 않았습니다. 행이 아닌 다른 곳에 원인이 있습니다: %v",
		"more than %d rows cannot be stored, the last one of user %d; none of them was, and the fault must lie elsewhere: %v"}
	AdviseRunAgain = Message{"다시 실행해도 안전합니다.", "It is safe to run again."}
	AdviseMigrate  = Message{"데이터베이스에 필요한 테이블이나 열이 없습니다. `settle migrate`를 실행하세요.",
		"The database lacks a table or column: run `settle migrate`."}
	AdviseGrants = Message{"MySQL이 이 계정 또는 데이터베이스에 대한 접근을 거부했습니다. MYSQL_DSN과 권한을 확인하세요.",
		"MySQL refuses this user or database: check MYSQL_DSN and the grants."}
	AdviseRedis = Message{"Redis가 이 사용자 또는 명령을 거부했습니다. REDIS_USERNAME, REDIS_PASSWORD_FILE, docs/redis-users.acl의 권한을 확인하고, 같은 키를 사용하는 다른 프로그램이 있는지 확인하세요.",
		"Redis refuses this user or command: check REDIS_USERNAME, REDIS_PASSWORD_FILE, the rights in docs/redis-users.acl, and other programs that use these keys."}
	AdviseConnection = Message{"연결 설정이 MySQL 서버와 맞지 않습니다. tls 등 MYSQL_DSN의 매개변수와 서버 인증서를 확인하세요.",
		"The connection settings do not fit the MySQL server: check the parameters of MYSQL_DSN, such as tls, and the server's certificate."}
)
