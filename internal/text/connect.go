package text

// Problems with the command line and with the settings of the servers.
var (
	// The third argument of WrongValueOf is one of the messages Want….
	WrongValueOf    = Message{"%s: %q 값은 사용할 수 없습니다. %s", "%s is %q: want %s"}
	WantOneOf       = Message{"다음 중 하나를 지정하세요: %s", "one of %s"}
	WantDuration    = Message{"90s, 168h와 같은 형식으로 시간을 지정하세요", "a duration such as 90s or 168h"}
	WantBool        = Message{"true 또는 false를 지정하세요", "true or false"}
	WantWholeNumber = Message{"7과 같은 10진 정수를 지정하세요. 앞에 0을 붙이지 마세요", "a whole number such as 7, without leading zeros"}
	WantNumber      = Message{"5, 0.5와 같은 10진수를 지정하세요", "a number such as 5 or 0.5"}
	WantDigest      = Message{"--dry-run에 표시된 다이제스트를 sha256: 뒤의 64자리(0-9a-f)까지 그대로 입력하세요", "sha256: and 64 digits of 0-9a-f, as --dry-run shows it"}
	WantAnother     = Message{"다른 값을 지정하세요 (%v)", "another value (%v)"}
	GivenEmpty      = Message{"%s: 값이 비어 있습니다", "%s is empty: want a value"}
	GivenZero       = Message{"%s: 0은 사용할 수 없습니다. 1 이상을 지정하세요", "%s is 0: want 1 or more"}
	GivenTwice      = Message{"%s: 한 번만 지정할 수 있습니다", "%s is given more than once: give it once"}
	GivenNotPlain   = Message{"%s: 줄바꿈 등의 제어 문자가 포함되어 있거나 UTF-8이 아닙니다. 한 줄짜리 일반 텍스트를 입력하세요",
		"%s has line breaks or other control characters, or is not UTF-8: give one line of plain text"}
	ValueMissing    = Message{"값이 없습니다", "a value is missing"}
	MisspeltSetting = Message{"%s: 존재하지 않는 설정입니다. %s의 오타라면 이름을 고치고, 다른 프로그램의 변수라면 이 프로그램의 환경에서 빼세요",
		"%s is not a setting, but %s is: correct the name, or remove the variable from the environment of this program"}
	UnknownSetting = Message{"%s: 존재하지 않는 설정입니다. 사용할 수 있는 설정: %s", "%s is not a setting: known settings are %s"}
	WrongListen    = Message{"%s: %q 주소는 사용할 수 없습니다. host:port 또는 :port 형식으로 지정하세요. 포트는 65535까지 가능합니다",
		"%s is %q: want host:port or :port, with a port up to 65535"}
	SecretEmpty = Message{"%s: %s 파일이 비어 있습니다", "%s: %s is empty"}
	DSNTwice    = Message{"MYSQL_DSN, MYSQL_DSN_FILE: 둘 중 하나만 지정하세요", "MYSQL_DSN and MYSQL_DSN_FILE are both set: give one"}
	DSNMissing  = Message{"MYSQL_DSN이 없습니다. --mysql-dsn 또는 MYSQL_DSN을 user:password@tcp(host:3306)/database 형식으로 지정하세요",
		"MYSQL_DSN is missing: set --mysql-dsn or MYSQL_DSN, as user:password@tcp(host:3306)/database"}
	DSNMalformed = Message{"MYSQL_DSN이 올바른 DSN이 아닙니다. user:password@tcp(host:3306)/database 형식으로 지정하세요",
		"MYSQL_DSN is not a DSN: want user:password@tcp(host:3306)/database"}
	DSNWithoutDatabase = Message{"MYSQL_DSN에 데이터베이스 이름이 없습니다. user:password@tcp(host:3306)/database 형식으로 지정하세요",
		"MYSQL_DSN names no database: want user:password@tcp(host:3306)/database"}
	DSNAgainstTLSDir = Message{"MYSQL_TLS_DIR을 지정하면 MYSQL_DSN은 tcp(host:3306)이어야 하며 tls는 생략하거나 true로 지정합니다",
		"MYSQL_TLS_DIR needs a MYSQL_DSN with tcp(host:3306), and without another tls than true"}
	TLSDirEmpty = Message{"%s: 폴더에 ca.crt도, tls.crt와 tls.key도 없습니다",
		"%s: the folder has neither ca.crt, nor tls.crt and tls.key"}
	TLSPairWrong = Message{"%s: tls.crt와 tls.key를 사용할 수 없습니다. 둘 다 PEM 형식이어야 하고 서로 짝이 맞아야 합니다: %v",
		"%s: tls.crt and tls.key cannot be used: want a certificate and its private key, both PEM: %v"}
	NoCertificates = Message{"%s: 파일에 PEM 형식의 인증서가 없습니다", "%s: the file has no certificate in PEM format"}
	NotDurable     = Message{"SETTLE_REQUIRE_DURABLE=true인데 MySQL이 커밋한 데이터를 잃을 수 있거나 확인할 수 없습니다: %s",
		"SETTLE_REQUIRE_DURABLE=true, but MySQL may lose what it commits, or it is not known: %s"}
	GaleraWriters = Message{"이 서버는 Galera 노드입니다. 여러 노드에 쓰면 커밋이 실패하므로 모든 프로그램이 한 노드만 쓰게 한 뒤 GALERA_SINGLE_WRITER=true를 지정하세요",
		"the server is a node of Galera. Writes to several nodes fail at COMMIT: let all programs use one node, and set GALERA_SINGLE_WRITER=true"}
	GaleraLimit = Message{"Galera 노드의 %s 값이 %v입니다. 큰 정산이 커밋되지 않습니다. 필요한 값은 %v입니다",
		"%s of the Galera node is %v, so that a large settlement fails at COMMIT: set it to %v"}
	MySQLTLSFails = Message{"MySQL과 TLS 연결을 맺을 수 없습니다. MYSQL_TLS_DIR과, MYSQL_DSN의 tls와 호스트 이름을 확인하세요: %v",
		"TLS with MySQL fails: check MYSQL_TLS_DIR, and tls and the host name in MYSQL_DSN: %v"}
	RedisTLSFails = Message{"Redis와 TLS 연결을 맺을 수 없습니다. %s과 주소의 호스트 이름을 확인하세요: %v",
		"TLS with Redis fails: check %s, and the host names of the addresses: %v"}
	MasterNameMissing = Message{"%s에는 %s도 필요합니다. 마스터 이름이 없으면 Sentinel을 사용하지 않습니다",
		"%s needs %s, too: without it, there are no Sentinels to log in to"}
	DSNUnusable  = Message{"MYSQL_DSN을 사용할 수 없습니다. 매개변수를 확인하세요", "MYSQL_DSN cannot be used: check its parameters"}
	AddrsMissing = Message{"REDIS_ADDRS가 비어 있습니다. host:port 형식으로 지정하세요. 여러 개는 쉼표로 구분합니다",
		"REDIS_ADDRS is empty: want host:port, several separated by commas"}
	WrongAddress = Message{"%s의 %d번째 주소가 host:port 형식이 아닙니다. 사용자 이름과 비밀번호 없이 redis:6379와 같이 지정하세요",
		"%s: address %d is not host:port: want one such as redis:6379, without a user name and a password"}
	GivenPassword = Message{"%s: 비밀번호가 들어 있는 것 같아 값을 표시하지 않습니다. 비밀번호를 빼고 지정하세요. 비밀번호를 지정하는 설정은 따로 있습니다",
		"%s seems to have a password in it, and is not shown: give it without. Passwords have settings of their own"}
	PrefixWithBraces = Message{"REDIS_KEY_PREFIX=%q: 중괄호는 사용할 수 없습니다. Cluster의 슬롯이 중괄호에 따라 정해지기 때문입니다",
		"REDIS_KEY_PREFIX=%q must not contain braces: they decide the Cluster slot"}

	WrongSession = Message{"세션 변수 %s의 값은 %q인데, 필요한 값은 %q입니다. MYSQL_DSN, init_connect, 중간 프록시 가운데 어느 것이 이 값을 바꾸는지 확인하세요",
		"session variable %s is %q and must be %q: check MYSQL_DSN, init_connect and any proxy in between"}

	// Problems that kong finds. They repeat no value, which may be a password.
	UnknownFlag        = Message{"%s: 알 수 없는 옵션입니다. --help를 참고하세요", "unknown flag %s: see --help"}
	MisspeltFlag       = Message{"%s: 알 수 없는 옵션입니다. %s의 오타로 보입니다. --help를 참고하세요", "unknown flag %s, did you mean %s? See --help"}
	UnexpectedArgument = Message{"%d번째 인자는 여기에 사용할 수 없습니다. --help를 참고하세요", "unexpected argument, number %d of the command line: see --help"}
	MisspeltCommand    = Message{"%s: 알 수 없는 명령입니다. %s의 오타로 보입니다. --help를 참고하세요", "unexpected argument %s, did you mean %s? See --help"}
	NoValueFor         = Message{"%s: 값이 없습니다. --help를 참고하세요", "%s: a value is missing: see --help"}
	FlagsMissing       = Message{"필수 옵션이 빠졌습니다: %s. --help를 참고하세요", "missing flags: %s: see --help"}
	ValueNeeded        = Message{"%s: 값을 입력하세요", "%s: enter a value"}
	FlagsExclusive     = Message{"--%s, --%s: 함께 사용할 수 없습니다. --help를 참고하세요",
		"--%s and --%s can't be used together: see --help"}
	ArgumentMissing   = Message{"필수 인자가 빠졌습니다: %s. --help를 참고하세요", "expected %s: see --help"}
	CommandMissing    = Message{"다음 중 하나를 지정하세요: %s. --help를 참고하세요", "expected one of %s: see --help"}
	UnreadableCommand = Message{"명령을 해석할 수 없습니다: %v. --help를 참고하세요", "%v: see --help"}

	PacketTooSmall = Message{
		"%s 값이 %q입니다. 한 SQL 문으로 많은 행을 삽입하므로 %q 이상이어야 합니다. MySQL 서버에서 값을 늘리세요",
		"%s is %q and must be %q or more, since one statement inserts many rows: raise it on the MySQL server",
	}
)
