package text

// Problems with the command line and with the settings of the servers.
var (
	// The third argument of WrongValueOf is one of the messages Want….
	WrongValueOf    = Message{"%s: %q 값은 쓸 수 없습니다. %s", "%s is %q: want %s"}
	WantOneOf       = Message{"다음 중 하나를 주세요: %s", "one of %s"}
	WantDuration    = Message{"90s나 168h 같은 시간을 주세요", "a duration such as 90s or 168h"}
	WantBool        = Message{"true나 false를 주세요", "true or false"}
	WantWholeNumber = Message{"정수를 주세요", "a whole number"}
	WantAnother     = Message{"다른 값을 주세요 (%v)", "another value (%v)"}
	GivenEmpty      = Message{"%s: 값이 비어 있습니다", "%s is empty: want a value"}
	GivenZero       = Message{"%s: 0은 쓸 수 없습니다. 1 이상을 주세요", "%s is 0: want 1 or more"}
	GivenTwice      = Message{"%s: 한 번만 줄 수 있습니다", "%s is given more than once: give it once"}
	GivenNotPlain   = Message{"%s: 줄바꿈 등 제어 문자가 있거나 UTF-8이 아닙니다. 한 줄짜리 텍스트를 주세요",
		"%s has line breaks or other control characters, or is not UTF-8: give one line of plain text"}
	ValueMissing   = Message{"값이 없습니다", "a value is missing"}
	UnknownSetting = Message{"%s: 없는 설정입니다. 있는 설정: %s", "%s is not a setting: known settings are %s"}
	WrongListen    = Message{"%s: %q 주소는 쓸 수 없습니다. host:port나 :port를 주세요. 포트는 65535까지입니다",
		"%s is %q: want host:port or :port, with a port up to 65535"}
	SecretTwice      = Message{"%[1]s, %[1]s_FILE: 둘 중 하나만 주세요", "%[1]s and %[1]s_FILE are both set: give one"}
	SecretUnreadable = Message{"%s_FILE: 파일을 읽을 수 없습니다: %v", "%s_FILE: %v"}
	SecretEmpty      = Message{"%s_FILE: %s 파일이 비어 있습니다", "%s_FILE: %s is empty"}
	DSNMissing       = Message{"MYSQL_DSN이 없습니다. --mysql-dsn이나 MYSQL_DSN을 user:password@tcp(host:3306)/database처럼 주세요",
		"MYSQL_DSN is missing: set --mysql-dsn or MYSQL_DSN, as user:password@tcp(host:3306)/database"}
	DSNMalformed = Message{"MYSQL_DSN이 올바른 DSN이 아닙니다. user:password@tcp(host:3306)/database처럼 주세요",
		"MYSQL_DSN is not a DSN: want user:password@tcp(host:3306)/database"}
	DSNWithoutDatabase = Message{"MYSQL_DSN에 데이터베이스 이름이 없습니다. user:password@tcp(host:3306)/database처럼 주세요",
		"MYSQL_DSN names no database: want user:password@tcp(host:3306)/database"}
	DSNUnusable  = Message{"MYSQL_DSN을 쓸 수 없습니다. 매개변수를 확인하세요", "MYSQL_DSN cannot be used: check its parameters"}
	AddrsMissing = Message{"REDIS_ADDRS가 비어 있습니다. host:port를 주세요. 여러 개면 쉼표로 나눕니다",
		"REDIS_ADDRS is empty: want host:port, several separated by commas"}
	WrongAddr        = Message{"REDIS_ADDRS: %q 값은 host:port가 아닙니다", "REDIS_ADDRS: %q is not host:port"}
	PrefixWithBraces = Message{"REDIS_KEY_PREFIX=%q에는 중괄호를 쓸 수 없습니다. 중괄호가 Cluster의 슬롯을 정합니다",
		"REDIS_KEY_PREFIX=%q must not contain braces: they decide the Cluster slot"}
	TTLTooShort = Message{"CANDIDATE_TTL이 %s입니다. 대기열이 정산될 때까지 남도록 %s 이상을 주세요",
		"CANDIDATE_TTL is %s: want at least %s, so that a queue outlives its settlement"}

	WrongSession = Message{"세션 변수 %s의 값은 %q인데, 필요한 값은 %q입니다. MYSQL_DSN, init_connect, 중간 프록시 중 무엇이 바꾸는지 확인하세요",
		"session variable %s is %q and must be %q: check MYSQL_DSN, init_connect and any proxy in between"}

	// Problems that kong finds. The English texts are those of kong.
	UnknownFlag        = Message{"%s: 없는 플래그입니다. --help를 보세요", "unknown flag %s: see --help"}
	UnexpectedArgument = Message{"%s: 여기에 쓸 수 없는 인자입니다. --help를 보세요", "unexpected argument %s: see --help"}
	NoValueFor         = Message{"%s: 값이 없습니다. --help를 보세요", "%s: a value is missing: see --help"}
	FlagsMissing       = Message{"필수 플래그가 없습니다: %s. --help를 보세요", "missing flags: %s: see --help"}
	FlagsExclusive     = Message{"--%s, --%s: 함께 줄 수 없습니다. --help를 보세요",
		"--%s and --%s can't be used together: see --help"}
	ArgumentMissing   = Message{"필요한 인자가 없습니다: %s. --help를 보세요", "expected %s: see --help"}
	CommandMissing    = Message{"다음 중 하나가 필요합니다: %s. --help를 보세요", "expected one of %s: see --help"}
	UnreadableCommand = Message{"명령을 읽을 수 없습니다. --help를 보세요: %v", "%v: see --help"}

	PacketTooSmall = Message{
		"%s이(가) %q인데 %q 이상이어야 합니다. 한 문장으로 많은 행을 넣기 때문입니다. MySQL 서버에서 값을 늘리세요",
		"%s is %q and must be %q or more, since one statement inserts many rows: raise it on the MySQL server",
	}
)
