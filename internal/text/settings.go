package text

// Problems with settings and flags.
var (
	WrongTimeZone = Message{"%s=%q: 올바른 시간대가 아닙니다. Asia/Seoul과 같은 형식으로 지정하세요", "%s=%q is not a time zone such as Asia/Seoul"}
	NoTimeZone    = Message{"데이터베이스에 야간 정산의 시간대가 없습니다. settle migrate를 실행하세요", "the database has no time zone of the nights: run settle migrate"}
	OtherTimeZone = Message{"SETTLE_TIME_ZONE=%s이지만 야간 정산의 시간대는 %s입니다. 시간대는 settle policy set --zone으로 바꿉니다. 바꾸지 않으려면 설정을 %[2]s(으)로 고치세요",
		"SETTLE_TIME_ZONE is %s, and the nights are of %s: settle policy set --zone changes their zone. To leave it, set SETTLE_TIME_ZONE=%[2]s"}
	WrongSchedule = Message{"SETTLE_SCHEDULE이 올바른 cron 식(예: 0 0 * * *)이 아닙니다: %v", "SETTLE_SCHEDULE: %v"}
	WrongParallel = Message{"SETTLE_PARALLEL이 %d입니다. 1부터 %d까지 가능합니다", "SETTLE_PARALLEL is %d: want 1 to %d"}
	WrongGateway  = Message{"PUSH_GATEWAY가 올바른 게이트웨이 URL이 아닙니다. http://pushgateway:9091처럼 비밀번호 없이 지정하세요",
		"PUSH_GATEWAY is not the URL of a gateway: want one such as http://pushgateway:9091, without a password"}
	WrongTime = Message{"%s=%q: 올바른 시각이 아닙니다. \"2026-11-20 14:00\" 또는 2026-11-20T14:00:00+09:00 형식으로 지정하세요",
		"%s=%q is not a time such as \"2026-11-20 14:00\" or 2026-11-20T14:00:00+09:00"}
	TimeSkipped = Message{"%s=%q: %s 시간대에는 없는 시각입니다. 시계를 앞당길 때 건너뛰는 시각이므로 다른 시각을 지정하세요",
		"%s=%q does not exist in %s: the clocks are put forward over it. Give another time"}
	WrongDate = Message{"%s: %q 값은 올바른 날짜가 아닙니다. 2026-11-20 형식으로 지정하세요",
		"%s: %q is not a date: want YYYY-MM-DD, such as 2026-11-20"}
	WrongMonth = Message{"--month: %q 값은 올바른 연월이 아닙니다. 2026-11 형식으로 지정하세요",
		"--month: %q is not a month: want YYYY-MM, such as 2026-11"}
	WrongCutoff = Message{"--cutoff=%q: 올바른 시각이 아닙니다. now 또는 2026-11-21T00:00:00+09:00 형식으로 지정하세요",
		"--cutoff=%q is neither now nor an instant such as 2026-11-21T00:00:00+09:00"}
	Before1970 = Message{"%s=%s: 1970년 이전의 값은 지정할 수 없습니다",
		"%s=%s is before 1970"}
	WrongLimit = Message{"--limit이 %d입니다. 1부터 %d까지 가능하며, 다음 페이지는 %s 옵션으로 조회합니다",
		"--limit is %d: want 1 to %d, and %s for the next page"}
	OperatorIsProgram = Message{"--operator에 %q은(는) 쓸 수 없습니다. 프로그램이 스스로 한 일을 가리키는 이름입니다. 담당자의 이름을 지정하세요",
		"--operator is %q, the name of the program for what it does itself: give the name of a person"}
	OperatorIsKey = Message{"--operator에 %q은(는) 쓸 수 없습니다. key:로 시작하는 이름은 관리 API의 키를 가리킵니다. 담당자의 이름을 지정하세요",
		"--operator is %q, the name of a key of the management API: give the name of a person"}
	OperatorMissing   = Message{"--operator가 없습니다. %s", "--operator is missing: %s"}
	OperatorInvisible = Message{"--operator에 보이지 않는 문자가 있거나 글자가 없습니다. 눈에 보이는 이름을 입력하세요", "--operator has no letter, or a character that cannot be seen: give a name that can be read"}
	ReasonMissing     = Message{"--reason이 없습니다. 티켓 번호 등의 사유를 입력하세요. 기록에 남습니다",
		"--reason is missing: give a reason, such as a ticket; it is recorded"}
	OperatorOrReasonTooLong = Message{"--operator는 %d자, --reason은 %d자까지 입력할 수 있습니다",
		"--operator takes up to %d characters and --reason up to %d"}
	OperatorIsRecorded  = Message{"담당자 이름을 입력하세요. 기록에 남습니다", "the operator is recorded"}
	ManualRunIsRecorded = Message{"--date, --cutoff, --coupon, --accept-gap 중 하나라도 지정하면 수동 실행이므로 담당자 이름을 기록에 남겨야 합니다",
		"a run with --date, --cutoff, --coupon or --accept-gap is a manual one, and its operator is recorded"}
	NightlyRunHasNoOperator = Message{"--operator와 --reason은 수동 실행에만 사용합니다. 야간 실행이라면 두 옵션을 빼고, 수동 실행이라면 --date, --cutoff, --coupon, --accept-gap 중 하나를 함께 지정하세요",
		"--operator and --reason belong to a manual run: give --date, --cutoff, --coupon or --accept-gap, too; or leave them out for the nightly run"}
	ListNeedsDryRun = Message{"--list는 미리 보기에서만 사용할 수 있습니다. --dry-run과 함께 지정하세요",
		"--list lists the users of a preview: give --dry-run, too"}
	DigestNeedsOneCoupon = Message{"--expect-digest를 사용하려면 --coupon 하나와 함께 --date 또는 --cutoff를 지정해야 합니다",
		"--expect-digest needs one --coupon and an explicit --date or --cutoff"}
	SeatsOrTotalMissing = Message{"--seats(추가할 수량) 또는 --total(전체 수량)을 1부터 %d까지의 값으로 지정하세요",
		"want --seats, the number to add, or --total, the number in all: 1 to %d"}
	UserOrCause        = Message{"--user, --cause, --file 중 하나만 지정하세요", "give one of --user, --cause and --file"}
	AllOrCoupon        = Message{"--all과 --coupon 중 하나만 지정하세요", "give --all or --coupon, not both"}
	UserOrCauseMissing = Message{"--user, --cause, --file 중 하나가 필요합니다. 거절로 종료할 신청을 지정하세요",
		"--user, --cause or --file is missing: name the applications to drop"}
	WrongCanary = Message{"--canary가 %d입니다. 먼저 시도할 건수를 1 이상으로 지정하세요",
		"--canary is %d: want the number of applications to try first, 1 or more"}
	PeriodMissing = Message{"--date, --month, --campaign이 모두 없습니다. --date=2026-11-20 또는 --month=2026-11처럼 기간을 지정하거나, --campaign으로 캠페인을 지정하세요",
		"--date, --month and --campaign are missing: give the period, such as --date=2026-11-20 or --month=2026-11, or a campaign"}
	OutNotWritten       = Message{"--out: %v", "--out: %v"}
	StatementsAreLogged = Message{"MySQL이 변경 내용을 SQL 문 단위로 기록하도록 설정되어 있어(binlog_format=STATEMENT) 모든 쓰기를 거부합니다. 서버의 binlog_format을 ROW 또는 MIXED로 설정하거나, 이 계정에 BINLOG ADMIN(MariaDB) 또는 SESSION_VARIABLES_ADMIN(MySQL) 권한을 부여하세요. 변경된 내용이 없습니다",
		"MySQL logs changes as statements (binlog_format=STATEMENT) and so refuses every write: set binlog_format=ROW or MIXED on the server, or grant this account BINLOG ADMIN (MariaDB) or SESSION_VARIABLES_ADMIN (MySQL). Nothing was changed"}

	// Settings of apply-api.
	WrongDelay = Message{"SHUTDOWN_DELAY가 %s입니다. 0s부터 %s까지 가능합니다. 예: 5s",
		"SHUTDOWN_DELAY is %s: want 0s to %s, such as 5s"}
	WrongUserRate = Message{"USER_RATE가 %v입니다. 초당 %v부터 %d까지 가능하며, 제한하지 않으려면 0을 지정하세요",
		"USER_RATE is %v: want %v to %d requests a second, or 0 for any number"}
	WrongNumber      = Message{"%s가 %d입니다. 1부터 %d까지 가능합니다", "%s is %d: want 1 to %d"}
	OpenFilesUnknown = Message{"열 수 있는 파일 수를 확인할 수 없습니다: %v", "read the limit of open files: %v"}
	TooFewOpenFiles  = Message{"이 프로세스는 파일을 %d개까지 열 수 있는데, 그중 %d개는 데이터베이스 연결과 다른 포트에 필요합니다. 제한(ulimit -n, LimitNOFILE)을 %d 이상으로 늘리세요",
		"this process may open %d files, and %d of them are kept for connections to databases and for other ports: raise the limit (ulimit -n, LimitNOFILE) to %d or more"}
	TooManyConnections = Message{"MAX_CONNECTIONS가 %d입니다. 이 프로세스는 파일을 %d개까지 열 수 있는데, 그중 %d개는 데이터베이스 연결과 다른 포트에 필요합니다. %d 이하로 지정하거나 제한(ulimit -n, LimitNOFILE)을 늘리세요",
		"MAX_CONNECTIONS is %d, but this process may open %d files, and %d of them are kept for connections to databases and for other ports: want at most %d, or raise the limit (ulimit -n, LimitNOFILE)"}
	WrongOrigin = Message{"CORS_ORIGINS에 %q이(가) 있습니다. 브라우저가 보내는 그대로 scheme://host[:port]를 소문자로 지정하세요. 경로, *, 기본 포트는 쓸 수 없습니다. 예: https://shop.example.com",
		"CORS_ORIGINS has %q: want origins as browsers send them, scheme://host[:port] in lower case, without path, * or the usual port, such as https://shop.example.com"}
	TooManyStreams = Message{"MAX_STREAMS가 %d입니다. 이 프로세스는 파일을 %d개까지 열 수 있는데, 그중 %d개는 데이터베이스 연결과 관리 포트에 필요하고 남는 수의 절반까지, MAX_CONNECTIONS를 정했다면 그 나머지까지 스트림에 쓸 수 있습니다. %d 이하로 지정하거나 제한(ulimit -n, LimitNOFILE)을 늘리세요",
		"MAX_STREAMS is %d, but this process may open %d files, %d of them are kept for connections to databases and for the admin port, and streams get at most half of the others, or what a given MAX_CONNECTIONS leaves: want at most %d, or raise the limit (ulimit -n, LimitNOFILE)"}
	FileNotWritten = Message{"--out: 파일을 끝까지 저장하지 못했습니다: %v. 기존 파일이 있었다면 그대로 유지됩니다.",
		"--out: the file could not be written: %v. A file that was there before is unchanged."}

	UnknownTask = Message{"SERVE_TASKS: %q 작업은 없습니다. 다음 중에서 지정하세요: %s",
		"SERVE_TASKS: %q is not a task: want some of %s"}
	TaskTwice          = Message{"SERVE_TASKS: %s 작업을 두 번 지정했습니다", "SERVE_TASKS names %s twice: name it once"}
	WrongIssueInterval = Message{"ISSUE_INTERVAL이 %s입니다. %s부터 %s까지 가능합니다. 예: 100ms",
		"ISSUE_INTERVAL is %s: want %s to %s, such as 100ms"}
	WrongJournalRows = Message{"JOURNAL_ROWS_PER_SECOND가 %d입니다. %d부터 %d까지 가능합니다. 예: 50000",
		"JOURNAL_ROWS_PER_SECOND is %d: want %d to %d, such as 50000"}

	// Settings of wallet-api.
	FileUnreadable = Message{"%s을 읽을 수 없습니다: %v",
		"%s cannot be read: %v"}
	KeysFileEmpty = Message{"%[1]s에 키가 없습니다. 모든 키를 없애려면 이 프로그램을 %[1]s 없이 다시 시작하세요",
		"%[1]s has no key. To remove every key, restart this program without %[1]s"}
	FileTooLong = Message{"%s이 너무 큽니다. %d바이트까지 가능합니다",
		"%s is too long: want at most %d bytes"}
	WrongKeyLine = Message{"SERVICE_KEYS_FILE의 %d번째 줄이 올바르지 않습니다. 서비스 이름과 키의 SHA-256 값(64자리 16진수)을 공백으로 구분해 적으세요. 이름에는 영문자, 숫자, '.', '_', '-'만 64자까지 사용할 수 있습니다",
		"SERVICE_KEYS_FILE: line %d is wrong: want the name of a service (up to 64 of A-Z a-z 0-9 . _ -), a space, and the SHA-256 of its key in 64 hexadecimal digits"}
	KeyTwice = Message{"SERVICE_KEYS_FILE의 %d번째 줄과 %d번째 줄에 같은 키가 있습니다. 한 줄을 지우세요",
		"SERVICE_KEYS_FILE: lines %d and %d have the same key: delete one of them"}
	TooManyKeys = Message{"%s에 키가 %d개 있습니다. %d개까지 가능합니다",
		"%s has %d keys: want at most %d"}
	WrongReserveTTL = Message{"RESERVE_TTL이 %s입니다. %s부터 %s까지 가능합니다. 예: 15m",
		"RESERVE_TTL is %s: want %s to %s, such as 15m"}
)
