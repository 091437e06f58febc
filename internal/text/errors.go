package text

// Errors of a settlement and of changes of a coupon, and the advice that follows them.
var (
	// Arguments: the coupon; the user as given and the coupon; the member and the cause; the member; how many.
	NoSuchCoupon   = Message{"쿠폰 %d은(는) 없습니다", "coupon %d does not exist"}
	NoCoupon       = Message{"그런 쿠폰이 없습니다", "coupon does not exist"}
	NoRun          = Message{"그런 실행이 없습니다. settle runs로 찾으세요", "there is no such run; settle runs lists them"}
	NotUnderReview = Message{"사용자 %q은(는) 쿠폰 %d에서 검토 중이 아닙니다", "user %q is not under review for coupon %d"}
	NotDropped     = Message{"%q은(는) 기록할 수 없어 검토 중으로 남습니다: %v", "%q cannot be recorded, and stays under review: %v"}
	SameArrival    = Message{"%q은(는) 검토 중으로 남습니다. 종료한 다른 항목과 신청 시각이 똑같은데, 그런 신청은 있을 수 없습니다. Redis에서 직접 지우세요",
		"%q stays under review: a dropped entry has the same arrival, which no two applications can have; remove it from Redis by hand"}
	MoreStay   = Message{"그 밖에 %d건이 검토 중으로 남습니다", "%d more stay under review"}
	CouponBusy = Message{"다른 정산이나 세션이 이 쿠폰의 행이나 테이블을 잡고 있습니다. 더 바꾼 것은 없으니 다시 실행하세요",
		"busy: another settlement or session holds this coupon's row or its tables; nothing more was changed, run again"}
	TakenOver = Message{"대기열을 읽는 동안 Redis 서버가 거듭 교체되었습니다",
		"the Redis server was replaced repeatedly while the queue was read"}

	// Arguments: the coupon, the error.
	DoorNotShut = Message{"쿠폰 %d의 신청을 마감하라고 Redis에 전하지 못했습니다. 쿠폰은 그대로이고, 길면 3분 동안 신청이 거절될 수 있습니다. 다시 실행하세요 (%v)",
		"Redis could not be asked to stop accepting applications for coupon %d, which is unchanged; applications may be refused for up to three minutes. Run it again (%v)"}

	// Arguments: how many, their digest, the approved digest.
	OtherWinners = Message{"발급될 사람이 %d명, 다이제스트 %s이어서 승인한 %s과(와) 다릅니다. 아무것도 발급하지 않았습니다. 미리 보기를 다시 보고 누가 달라졌는지 확인하세요",
		"the winners would be %d users with the digest %s, not the approved %s; nothing was issued. Look at the preview again and find out who changed"}

	// Arguments: the cause; coupons that were processed, of how many; the error.
	Stopped      = Message{"중지 신호를 받았습니다: %v", "stopped by a signal: %v"}
	StoppedAfter = Message{"중지 신호를 받았습니다: %[1]v. 쿠폰 %[3]d개 중 %[2]d개를 처리했습니다",
		"stopped by a signal: %[1]v; %[2]d of %[3]d coupons were processed"}
	StoppedInHand = Message{"중지 신호를 받아 진행 중이던 트랜잭션을 되돌렸습니다: %v (%v)",
		"stopped by a signal, the open transaction is rolled back: %v (%v)"}
	StoppedUnknown = Message{"중지 신호를 받았습니다: %v. 커밋되었는지는 다음 실행이 확인합니다 (%v)",
		"stopped by a signal: %v; the next run finds out whether it was committed (%v)"}
	WrongName = Message{"이름 %q은(는) 안 됩니다. 줄바꿈 없이 1자부터 %d자까지 가능합니다",
		"the name %q is not possible: want 1 to %d letters, without line breaks"}
	WrongSeats    = Message{"수량 %d은(는) 안 됩니다. 1부터 %d까지 가능합니다", "%d seats: want 1 to %d"}
	WrongDays     = Message{"유효 기간 %d일은 안 됩니다. 1일부터 %d일까지 가능합니다", "valid for %d days: want 1 to %d"}
	WrongDiscount = Message{"할인 %d원은 안 됩니다. 0원부터 %d원까지 가능합니다", "a discount of %d won: want 0 to %d"}

	// Arguments: the missing, the accepted applications, the account.
	GapHeld = Message{"보류: 접수된 신청 %[2]d건 중 %[1]d건을 찾을 수 없습니다 (%[3]s). 아무것도 발급하지 않았습니다. Redis가 무엇을 잃었는지 확인한 뒤 --accept-gap --operator --reason으로 유실을 인정하면 풀립니다",
		"held: %[1]d of %[2]d accepted applications cannot be found (%[3]s); nothing was issued. Find out what Redis lost, then release the coupon with --accept-gap --operator and --reason"}

	// Arguments: the coupon, issued_count, rows of user_coupon, seats.
	CountHeld = Message{"보류: 쿠폰 %[1]d의 issued_count는 %[2]d인데 쿠폰은 %[3]d장, 수량은 %[4]d입니다. 아무것도 발급하지 않았습니다. 누가 테이블을 고쳤는지 확인한 뒤 `settle coupon recount %[1]d --operator … --reason …`으로 발급 수를 맞추면 풀립니다",
		"held: issued_count of coupon %[1]d is %[2]d, but there are %[3]d coupons, for %[4]d seats; nothing was issued. Find out who wrote to the tables, then correct the count with `settle coupon recount %[1]d --operator … --reason …`"}
	CreationUnknown = Message{"쿠폰이 만들어졌는지 확인할 수 없습니다. 다시 만들기 전에 `settle coupon list`를 보세요 (%v)",
		"whether the coupon was created is unknown: look at `settle coupon list` before you create it again (%v)"}
	ChangeUnknown = Message{"쿠폰 %[1]d이(가) 바뀌었는지 확인할 수 없습니다. 다시 하기 전에 `settle coupon show %[1]d`을(를) 보세요 (%[2]v)",
		"whether coupon %[1]d was changed is unknown: look at `settle coupon show %[1]d` before you repeat it (%[2]v)"}
	CommitUnknown = Message{"COMMIT의 응답을 받지 못했고, 커밋되었는지 확인할 수 없었습니다. 다음 실행이 확인합니다: %v",
		"the reply to COMMIT was lost, and whether it was committed is unknown; the next run finds out: %v"}
	AdviseRunAgain = Message{"다시 실행해도 안전합니다.", "It is safe to run again."}
	AdviseMigrate  = Message{"데이터베이스에 테이블이나 열이 없습니다. `settle migrate`를 실행하세요.",
		"The database lacks a table or column: run `settle migrate`."}
	AdviseGrants = Message{"MySQL이 이 사용자나 데이터베이스를 거부합니다. MYSQL_DSN과 권한을 확인하세요.",
		"MySQL refuses this user or database: check MYSQL_DSN and the grants."}
	AdviseRedis = Message{"Redis가 이 사용자나 명령을 거부합니다. REDIS_USERNAME, REDIS_PASSWORD, docs/redis-users.acl의 권한과 이 키를 쓰는 다른 프로그램을 확인하세요.",
		"Redis refuses this user or command: check REDIS_USERNAME, REDIS_PASSWORD, the rights in docs/redis-users.acl and what else uses these keys."}
)
