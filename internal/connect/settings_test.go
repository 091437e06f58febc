package connect_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/text"
)

// command is a program with every kind of setting and two verbs.
type command struct {
	MySQL      connect.MySQLSettings `embed:""`
	Redis      connect.RedisSettings `embed:""`
	Candidates candidates.Options    `embed:""`
	Log        connect.LogSettings   `embed:""`
	Issue      connect.IssueSettings `embed:""`

	Listen  string   `name:"apply-listen" env:"APPLY_LISTEN" default:":8080"`
	Pages   int      `name:"pages" env:"PAGES" default:"7"`
	Rate    float64  `name:"rate" env:"RATE" default:"0.5"`
	Coupons []uint64 `name:"coupons" env:"COUPONS"`
	Words   []string `name:"words" env:"WORDS" default:"a,b"`

	Run  verb `cmd:"" default:"withargs"`
	Show verb `cmd:""`
	Open struct {
		ID uint64 `arg:"" name:"id"`
	} `cmd:""`
	List struct {
		Paging
	} `cmd:""`
}

type verb struct {
	Reason string        `name:"reason"`
	Wait   time.Duration `name:"wait" default:"1s"`
}

// Paging is a group. Embedded without a name, its Validate is also the verb's.
type Paging struct {
	Page int `name:"page" default:"1"`
}

func (p *Paging) Validate() error {
	if p.Page < 1 {
		return problem("--page is below 1")
	}
	return nil
}

type problem string

func (p problem) Error() string { return string(p) }

func (v *verb) Validate() error {
	if v.Reason == "none" {
		return problem("--reason says nothing: name one")
	}
	return nil
}

// parse returns what was read, what was printed and the lines of the error.
func parse(t *testing.T, args ...string) (c command, printed string, problems []string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	_, err := connect.Parse(&c, connect.Program{Name: "program", Language: text.English}, args, &stdout, &stderr)
	require.Empty(t, stderr.String(), "Parse leaves printing problems to its caller")
	if err == connect.ErrHelp {
		return c, stdout.String(), nil
	}
	require.Empty(t, stdout.String())
	if err == nil {
		return c, "", nil
	}
	require.IsType(t, new(connect.SettingError), err)
	return c, "", strings.Split(err.Error(), "\n")
}

// problemsOf parses the settings of a program, and returns the lines of the error.
func problemsOf(settings any, args []string) (problems []string) {
	_, err := connect.Parse(settings, connect.Program{Name: "program", Language: text.English}, args, new(bytes.Buffer),
		new(bytes.Buffer))
	if err != nil {
		problems = strings.Split(err.Error(), "\n")
	}
	return problems
}

const dsn = "user:secret@tcp(127.0.0.1:3306)/coupons"

func TestParse_ReadsDefaultsEnvironmentAndFlags(t *testing.T) {
	t.Setenv("MYSQL_DSN", dsn)
	t.Setenv("REDIS_ADDRS", "a:1,b:2")
	t.Setenv("LOG_LEVEL", "warn")
	c, _, problems := parse(t, "--log-level=error", "show", "--wait", "3s")
	require.Empty(t, problems)
	require.Equal(t, dsn, c.MySQL.MySQLDSN)
	require.Equal(t, []string{"a:1", "b:2"}, c.Redis.RedisAddrs)
	require.Equal(t, "error", c.Log.LogLevel, "a flag goes before the environment")
	require.Equal(t, ":8080", c.Listen)
	require.Equal(t, 7, c.Pages)
	require.Equal(t, 100*time.Millisecond, c.Issue.IssueInterval)
	require.Equal(t, 3*time.Second, c.Show.Wait)
}

func TestParse_TrimsTheElementsOfLists(t *testing.T) {
	t.Setenv("MYSQL_DSN", dsn)
	t.Setenv("REDIS_ADDRS", " a:1, b:2 ")
	c, _, problems := parse(t, "--coupons", "7 , 31", `--words= x\, y ,z`)
	require.Empty(t, problems)
	require.Equal(t, []string{"a:1", "b:2"}, c.Redis.RedisAddrs)
	require.Equal(t, []uint64{7, 31}, c.Coupons)
	require.Equal(t, []string{"x, y", "z"}, c.Words)
}

func wrongAddress(setting string, number int) string {
	return fmt.Sprintf(
		"%s: address %d is not host:port: want one such as redis:6379, without a user name and a password", setting,
		number)
}

// A password in the wrong place is not repeated, in either language.
func TestParse_RepeatsNoPassword(t *testing.T) {
	const unknown, unexpected = "unknown flag %s: see --help",
		"unexpected argument, number %d of the command line: see --help"
	misspelt := "unknown flag --mysql-dns, did you mean --mysql-dsn? See --help"
	for name, test := range map[string]struct {
		environment map[string]string
		args        []string
		want        []string
	}{
		"a misspelt flag with =":        {args: []string{"--mysql-dns=hunter2"}, want: []string{misspelt}},
		"a misspelt flag and its value": {args: []string{"--mysql-dns", "hunter2"}, want: []string{misspelt}},
		"before a verb": {args: []string{"--mysql-dns", "hunter2", "show"},
			want: []string{misspelt}},
		"before an id": {args: []string{"open", "--mysql-dns", "hunter2", "7"},
			want: []string{misspelt}},
		"a verb is no value": {args: []string{"--bogus", "list", "--page=0"},
			want: []string{fmt.Sprintf(unknown, "--bogus"), "--page is below 1"}},
		"a short flag": {args: []string{"-phunter2"},
			want: []string{fmt.Sprintf(unknown, "-p")}},
		"a short flag and its value": {args: []string{"-p", "hunter2"},
			want: []string{fmt.Sprintf(unknown, "-p")}},
		"a misspelt flag and a value with dashes": {args: []string{"--mysql-dns", "--hunter2"},
			want: []string{misspelt}},
		"an unknown flag and one with dashes": {args: []string{"--bogus", "--hunter2", "show"},
			want: []string{fmt.Sprintf(unknown, "--bogus")}},
		"a value with dashes": {args: []string{"--mysql-dsn", "--hunter2"},
			want: []string{"--mysql-dsn: a value is missing: see --help"}},
		"a value joined to its flag": {args: []string{"--mysql-dsnhunter2"},
			want: []string{fmt.Sprintf(unexpected, 1)}},
		"a user and a password": {
			environment: map[string]string{"REDIS_MASTER_NAME": "u:hunter2@redis"},
			want:        []string{seemsToHavePassword("REDIS_MASTER_NAME (--redis-master-name)")}},
		"a flag with a blank": {args: []string{"--log-level=info", "show", "hunter2"},
			want: []string{fmt.Sprintf(unexpected, 3)}},
		"a flag without dashes": {args: []string{"show", "--bogus=1", "redis-password=hunter2"},
			want: []string{fmt.Sprintf(unknown, "--bogus"), fmt.Sprintf(unexpected, 3)}},
		"a password as address": {environment: map[string]string{"REDIS_ADDRS": "a:1,hunter2"},
			want: []string{wrongAddress("REDIS_ADDRS", 2)}},
		"a password before an address": {environment: map[string]string{"REDIS_ADDRS": "hunter2@a:1"},
			want: []string{wrongAddress("REDIS_ADDRS", 1)}},
		"an address with a query": {
			environment: map[string]string{"REDIS_ADDRS": "rediss://a:1/0?auth=hunter2"},
			want:        []string{wrongAddress("REDIS_ADDRS", 1)}},
		"an address with a password": {
			environment: map[string]string{"REDIS_ADDRS": "a:1,redis://:hunter2@b:2"},
			want:        []string{seemsToHavePassword("REDIS_ADDRS (--redis-addrs)")}},
		"a DSN as file": {
			environment: map[string]string{"REDIS_PASSWORD_FILE": "u:hunter2@tcp(a:1)/b"},
			want:        []string{seemsToHavePassword("REDIS_PASSWORD_FILE (--redis-password-file)")}},
		"a password as file": {environment: map[string]string{"REDIS_PASSWORD_FILE": "hunter2"},
			want: []string{"REDIS_PASSWORD_FILE cannot be read: no such file or directory"}},
		"a password where a choice belongs": {
			environment: map[string]string{"REDIS_TLS": "rediss://:hunter2@a:1"},
			want:        []string{seemsToHavePassword("REDIS_TLS (--redis-tls)")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("MYSQL_DSN", dsn)
			for name, value := range test.environment {
				t.Setenv(name, value)
			}
			_, _, problems := parse(t, test.args...)
			require.ElementsMatch(t, test.want, problems)
			_, err := connect.Parse(new(command), connect.Program{Name: "program", Language: text.Korean}, test.args,
				new(bytes.Buffer), new(bytes.Buffer))
			require.NotContains(t, text.In(text.Korean, err), "hunter2")
		})
	}
}

func seemsToHavePassword(setting string) string {
	return setting +
		" seems to have a password in it, and is not shown: give it without. Passwords have settings of their own"
}

// The error has each problem once, and no problem that follows from another.
func TestParse_ReportsEveryProblem(t *testing.T) {
	for name, test := range map[string]struct {
		environment map[string]string
		args        []string
		want        []string
	}{
		"nothing set": {
			want: []string{
				"MYSQL_DSN is missing: set --mysql-dsn or MYSQL_DSN, as user:password@tcp(host:3306)/database"},
		},
		"unknown flags and other problems": {
			environment: map[string]string{"MYSQL_DSN": dsn, "REDIS_TLS": "maybe"},
			args:        []string{"--bogus", "--redis-addrs=nowhere", "--nope=1", "-z"},
			want: []string{
				"unknown flag --bogus: see --help",
				"unknown flag --nope: see --help",
				"unknown flag -z: see --help",
				`REDIS_TLS (--redis-tls) is "maybe": want true or false`,
				wrongAddress("REDIS_ADDRS", 1),
			},
		},
		"unreadable values from everywhere": {
			environment: map[string]string{"MYSQL_DSN": dsn, "ISSUE_INTERVAL": "banana", "LOG_LEVEL": "loud",
				"REDIS_TLS": ""},
			args: []string{"--pages=many", "--wait", "5 minutes"},
			want: []string{
				`ISSUE_INTERVAL (--issue-interval) is "banana": want a duration such as 90s or 168h`,
				`LOG_LEVEL (--log-level) is "loud": want one of debug, info, warn, error`,
				`PAGES (--pages) is "many": want a whole number such as 7, without leading zeros`,
				`REDIS_TLS (--redis-tls) is "": want true or false`,
				`--wait is "5 minutes": want a duration such as 90s or 168h`,
			},
		},
		"numbers that are no canonical decimals": {
			environment: map[string]string{"MYSQL_DSN": dsn, "PAGES": "010", "COUPONS": "7,0x1F"},
			args:        []string{"--rate=0x1p-2", "open", "1_0"},
			want: []string{
				`PAGES (--pages) is "010": want a whole number such as 7, without leading zeros`,
				`COUPONS (--coupons) is "0x1F": want a whole number such as 7, without leading zeros`,
				`RATE (--rate) is "0x1p-2": want a number such as 5 or 0.5`,
				`<id> is "1_0": want a whole number such as 7, without leading zeros`,
			},
		},
		"missing value": {
			environment: map[string]string{"MYSQL_DSN": dsn},
			args:        []string{"--apply-listen", "--redis-username=secret", "--log-level"},
			want: []string{"--apply-listen: a value is missing: see --help",
				"--log-level: a value is missing: see --help"},
		},
		"mistyped environment": {
			environment: map[string]string{
				"MYSQL_DSN": dsn, "APPLY_LISTN": ":1", "SETTLE_SCHEDULE": "0 0 * * *",
				"APPLY_API_SERVICE_HOST": "10.0.0.1", "APPLY_API_PORT_8080_TCP": "tcp://10.0.0.1:8080",
			},
			want: []string{"APPLY_LISTN is not a setting: known settings are APPLY_LISTEN"},
		},
		"secrets wrong or unreadable": {
			environment: map[string]string{"MYSQL_DSN": "secret", "REDIS_PASSWORD_FILE": "/nowhere"},
			want: []string{
				"MYSQL_DSN is not a DSN: want user:password@tcp(host:3306)/database",
				"REDIS_PASSWORD_FILE cannot be read: no such file or directory",
			},
		},
		"interval above its bound": {
			environment: map[string]string{"MYSQL_DSN": dsn, "ISSUE_INTERVAL": "10s"},
			want:        []string{"ISSUE_INTERVAL is 10s: want 20ms to 5s, such as 100ms"},
		},
		"interval of zero": {
			environment: map[string]string{"MYSQL_DSN": dsn},
			args:        []string{"--issue-interval=0s"},
			want:        []string{"ISSUE_INTERVAL is 0s: want 20ms to 5s, such as 100ms"},
		},
		"check of a verb": {
			environment: map[string]string{"MYSQL_DSN": dsn},
			args:        []string{"show", "--reason=none", "--bogus"},
			want:        []string{"--reason says nothing: name one", "unknown flag --bogus: see --help"},
		},
		"check of a group of a verb": {
			environment: map[string]string{"MYSQL_DSN": dsn},
			args:        []string{"list", "--page=0"},
			want:        []string{"--page is below 1"},
		},
		"check of the default verb": {
			environment: map[string]string{"MYSQL_DSN": dsn},
			args:        []string{"--reason=none"},
			want:        []string{"--reason says nothing: name one"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range test.environment {
				t.Setenv(name, value)
			}
			_, _, problems := parse(t, test.args...)
			require.ElementsMatch(t, test.want, problems)
			require.NotContains(t, strings.Join(problems, "\n"), "secret")
		})
	}
}

// A misspelt setting is refused, and the right name told.
func TestParse_RefusesMisspeltSettings(t *testing.T) {
	t.Setenv("MYSQL_DSN", dsn)
	for misspelt, right := range map[string]string{
		"TRUSTED_PROXIS": "TRUSTED_PROXIES", "TRUSTED_PROIXES": "TRUSTED_PROXIES", "CORS_ORIGIN": "CORS_ORIGINS",
		"USER_RATES":  "USER_RATE",
		"USER_TABLES": "USER_TABLE", "RECEIPT_KEY_FILE": "RECEIPT_KEYS_FILE", "SERVICE_KEYS_FILES": "SERVICE_KEYS_FILE",
		"JWT_ISSUERS": "JWT_ISSUER", "REDIS_ADDR": "REDIS_ADDRS", "REDIS_PASSWORT_FILE": "REDIS_PASSWORD_FILE",
		"KAFKA_BROKER": "KAFKA_BROKERS",
		"EVENT_SINKS":  "EVENT_SINK", "REDIS_TSL": "REDIS_TLS", "KAFKA_TSL": "KAFKA_TLS", "MYSQL_DNS": "MYSQL_DSN",
		"LOG_LEVELS": "LOG_LEVEL", "LIVE_LISTN": "LIVE_LISTEN", "MYSQL_DSN_FILES": "MYSQL_DSN_FILE",
		"REDIS_PASSWORD": "REDIS_PASSWORD_FILE", "EVENT_REDIS_SENTINEL_PASSWORD": "EVENT_REDIS_SENTINEL_PASSWORD_FILE",
	} {
		t.Run(misspelt, func(t *testing.T) {
			t.Setenv(misspelt, "secret")
			_, _, problems := parse(t)
			require.Equal(t, []string{misspelt + " is not a setting, but " + right +
				" is: correct the name, or remove the variable from the environment of this program"}, problems)
		})
	}
}

// Numbers have one spelling in durations and ports, too.
func TestParse_RefusesOddDurations(t *testing.T) {
	t.Setenv("MYSQL_DSN", dsn)
	for _, odd := range []string{"010m", "+10m", ".5h", "1.h", "05s", "1h05m", "1 h"} {
		_, _, problems := parse(t, "--wait="+odd)
		require.Equal(t, []string{fmt.Sprintf("--wait is %q: want a duration such as 90s or 168h", odd)}, problems, odd)
	}
	for _, right := range []string{"90s", "1h30m", "0", "0.5s", "1h1h", "100µs"} {
		_, _, problems := parse(t, "--wait="+right)
		require.Empty(t, problems, right)
	}
	for _, odd := range []string{":08080", ":+80", "127.0.0.1:65536", ":http"} {
		require.Error(t, connect.CheckListen("LISTEN", odd), odd)
	}
	require.NoError(t, connect.CheckListen("LISTEN", "127.0.0.1:0"))
}

// othersNames are variables of other programs, of shells and of Kubernetes.
const othersNames = `
HOME HOSTNAME LANG LC_ALL PATH PWD TERM TZ USER USERNAME SHELL LOGNAME GOGC GOMEMLIMIT GOMAXPROCS SSL_CERT_DIR
KUBERNETES_PORT KUBERNETES_SERVICE_HOST KUBERNETES_SERVICE_PORT_HTTPS KUBERNETES_PORT_443_TCP_ADDR POD_NAME
POD_NAMESPACE POD_IP NODE_NAME MYSQL_DB MYSQL_DATABASE MYSQL_HOST MYSQL_PORT MYSQL_USER MYSQL_PASSWORD
MYSQL_PASSWORD_FILE MYSQL_PWD MYSQL_ROOT_PASSWORD MYSQL_ROOT_HOST MYSQL_TCP_PORT MYSQL_URL MYSQL_SSL MYSQL_DIR
MYSQL_VERSION MYSQL_PORT_3306_TCP MYSQL_PORT_3306_TCP_ADDR MYSQL_SERVICE_HOST MYSQL_SERVICE_PORT_MYSQL
MYSQL_ENV_GOSU_VERSION MYSQL_NAME MARIADB_DATABASE MARIADB_ROOT_PASSWORD REDIS_URL REDIS_HOST REDIS_PORT REDIS_DB
REDIS_USER REDIS_AUTH REDIS_PASS REDIS_SSL REDIS_TTL REDIS_NAME REDIS_MODE REDIS_VERSION REDIS_MASTER_HOST
REDIS_MASTER_PORT REDIS_SENTINELS REDIS_PORT_6379_TCP REDIS_PORT_6379_TCP_PROTO REDIS_SERVICE_HOST REDIS_SERVICE_PORT
REDIS_SERVICE_PORT_TCP_REDIS REDIS_MASTER_SERVICE_HOST REDIS_TLS_SERVICE_PORT REDIS_TLS_PORT EVENT_BUS EVENT_TYPE
EVENT_SIZE EVENT_NAME EVENT_STORE EVENT_PORT EVENT_REDIS_SERVICE_HOST KAFKA_URL KAFKA_HOST KAFKA_OPTS KAFKA_HEAP_OPTS
KAFKA_SSL KAFKA_PORT_9092_TCP KAFKA_BROKERS_SERVICE_HOST KAFKA_BROKERS_PORT KAFKA_CLIENT_ID KAFKA_BOOTSTRAP_SERVERS
USER_ID USER_UID USER_GID USER_DATA USER_NAME USER_HOME USER_ROLE USER_PORT USER_POOL_ID USER_SERVICE_HOST
USER_API_PORT_80_TCP JWT_SECRET JWT_KEY JWT_ALGORITHM JWT_PUBLIC_KEY JWT_EXPIRES_IN CORS_ALLOW_ORIGIN CORS_ENABLED
TRUSTED_HOSTS IDENTITY_FILE IDENTITY_SERVICE_PORT LOG_FILE LOG_DIR LOG_FORMAT LOGLEVEL MAX_WORKERS MAX_MEMORY
SERVICE_NAME SERVICE_VERSION SERVICE_ACCOUNT PUSH_URL ISSUE_KEY JOURNAL_STREAM SHUTDOWN_TIMEOUT APPLY_API_SERVICE_HOST
APPLY_API_PORT_8080_TCP WALLET_API_SERVICE_PORT SETTLE_SERVICE_HOST CONSOLE_PORT LIVE_SERVICE_HOST SERVE_HOST
RESERVE_DB OTEL_SERVICE_NAME AWS_REGION AWS_ROLE_ARN HTTP_PROXY HTTPS_PROXY NO_PROXY DATABASE_URL APP_ENV NODE_ENV
SPRING_PROFILES_ACTIVE JAVA_OPTS`

func TestParse_LeavesTheNamesOfOthersAlone(t *testing.T) {
	for _, name := range strings.Fields(othersNames) {
		if _, set := os.LookupEnv(name); !set {
			t.Setenv(name, "x")
		}
	}
	t.Setenv("MYSQL_DSN", dsn)
	_, _, problems := parse(t)
	require.Empty(t, problems)
}

func TestHelp_ListsEverySettingDespiteProblems(t *testing.T) {
	t.Setenv("ISSUE_INTERVAL", "banana")
	for _, args := range [][]string{{"--help"}, {"-h"}, {"--bogus", "--help"}, {"--help", "--pages=many"}} {
		_, printed, problems := parse(t, args...)
		require.Empty(t, problems)
		for _, name := range []string{"MYSQL_DSN", "MYSQL_DSN_FILE", "REDIS_ADDRS", "REDIS_MASTER_NAME",
			"REDIS_USERNAME",
			"REDIS_PASSWORD_FILE", "REDIS_TLS", "REDIS_KEY_PREFIX", "ISSUE_INTERVAL", "LOG_LEVEL", "APPLY_LISTEN"} {
			require.Contains(t, printed, "$"+name, "%v", args)
		}
	}
}

func TestParse_ReadsSecretsFromFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dsn")
	require.NoError(t, os.WriteFile(file, []byte(dsn+"\n"), 0o600))
	t.Setenv("MYSQL_DSN_FILE", file)
	_, _, problems := parse(t)
	require.Empty(t, problems)

	t.Setenv("MYSQL_DSN_FILE", file+".gone")
	_, _, problems = parse(t)
	require.Equal(t, []string{"MYSQL_DSN_FILE cannot be read: no such file or directory"}, problems)
}

// No argument crashes Parse, and without an error there is a command and settings.
func FuzzParse(f *testing.F) {
	f.Add("--issue-interval=60ms", "info")
	f.Add("--", "")
	f.Add("-", "--help")
	f.Add("show", "-hz")
	f.Fuzz(func(t *testing.T, first, second string) {
		var c command
		kctx, err := connect.Parse(&c, connect.Program{Name: "program"}, []string{"--mysql-dsn=" + dsn, first, second},
			new(bytes.Buffer), new(bytes.Buffer))
		if err == nil && (kctx == nil || len(c.Redis.RedisAddrs) == 0) {
			t.Errorf("%q %q: no error and no settings", first, second)
		}
	})
}
