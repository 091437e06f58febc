package connect

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/jajeong/jajeong/internal/text"
)

// Names are the settings of all three programs. They often share a ConfigMap, so each program knows those of the
// others.
var Names = []string{
	"ACCEPT_AFTER", "ADMIN_API_LISTEN", "ADMIN_KEYS_FILE", "ADMIN_LISTEN", "APPLY_LISTEN", "CONSOLE_DEV_USER",
	"CONSOLE_LISTEN", "CONSOLE_OIDC_CLIENT_ID",
	"CONSOLE_OIDC_CLIENT_SECRET_FILE", "CONSOLE_OIDC_GROUPS_CLAIM", "CONSOLE_OIDC_ISSUER", "CONSOLE_OIDC_SCOPES",
	"CONSOLE_ROLES", "CONSOLE_TRUSTED_PROXIES", "CONSOLE_URL", "CORS_ORIGINS", "EVENT_REDIS_ADDRS",
	"EVENT_REDIS_MASTER_NAME", "EVENT_REDIS_PASSWORD_FILE", "EVENT_REDIS_SENTINEL_PASSWORD_FILE",
	"EVENT_REDIS_SENTINEL_USERNAME", "EVENT_REDIS_TLS", "EVENT_REDIS_TLS_DIR", "EVENT_REDIS_USERNAME",
	"EVENT_RETENTION", "EVENT_SINK", "GALERA_SINGLE_WRITER", "IDENTITY", "ISSUE_INTERVAL",
	"JOURNAL_ROWS_PER_SECOND", "JWT_AUDIENCE",
	"JWT_ISSUER", "JWT_JWKS_FILE", "JWT_JWKS_URL", "JWT_SECRET_FILE", "JWT_USER_CLAIM", "KAFKA_BROKERS",
	"KAFKA_SASL_MECHANISM", "KAFKA_SASL_PASSWORD_FILE", "KAFKA_SASL_USERNAME", "KAFKA_TLS", "KAFKA_TLS_CA_FILE",
	"KAFKA_TOPIC", "LIVE_LISTEN", "LOG_LEVEL", "MAX_CONNECTIONS", "MAX_STREAMS", "MYSQL_DSN", "MYSQL_DSN_FILE",
	"MYSQL_TLS_DIR",
	"PURGE_AFTER_DAYS", "PUSH_GATEWAY", "PUSH_NAMESPACE", "RECEIPT_KEYS_FILE", "REDIS_ADDRS", "REDIS_KEY_PREFIX",
	"REDIS_MASTER_NAME", "REDIS_PASSWORD_FILE", "REDIS_SENTINEL_PASSWORD_FILE", "REDIS_SENTINEL_USERNAME",
	"REDIS_TLS", "REDIS_TLS_DIR", "REDIS_USERNAME", "RESERVE_TTL", "SERVE_TASKS", "SERVICE_KEYS_FILE",
	"SETTLE_PARALLEL", "SETTLE_REQUIRE_DURABLE", "SETTLE_SCHEDULE", "SETTLE_TIME_ZONE",
	"SHUTDOWN_DELAY", "TRUSTED_PROXIES",
	"USER_ACTIVE_VALUES", "USER_ID_COLUMN", "USER_RATE", "USER_STATUS_COLUMN", "USER_TABLE", "WALLET_LISTEN",
}

// ownPrefixes begin the names of settings of ours alone.
var ownPrefixes = []string{"APPLY_", "CONSOLE_", "SETTLE_", "WALLET_"}

// serviceLink matches variables that Kubernetes sets for each service, such as APPLY_API_PORT_8080_TCP.
var serviceLink = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_.*)?)$`)

// unknownEnvironment reports variables that are no setting: those with a prefix of ours, and those that are misspelt.
func unknownEnvironment(model *kong.Application) (problems []error) {
	known := knownNames(model)
	for _, pair := range os.Environ() {
		env, _, _ := strings.Cut(pair, "=")
		if known[env] || serviceLink.MatchString(env) {
			continue
		}
		ours := func(prefix string) bool { return strings.HasPrefix(env, prefix) }
		if at := slices.IndexFunc(ownPrefixes, ours); at >= 0 {
			problems = append(problems, text.UsageErrorf(text.UnknownSetting, env,
				strings.Join(withPrefix(known, ownPrefixes[at]), ", ")))
		} else if strings.HasSuffix(env, "PASSWORD") && known[env+"_FILE"] {
			problems = append(problems, text.UsageErrorf(text.MisspeltSetting, env, env+"_FILE"))
		} else if meant := meantBy(env, known); meant != "" {
			problems = append(problems, text.UsageErrorf(text.MisspeltSetting, env, meant))
		}
	}
	return problems
}

func knownNames(model *kong.Application) map[string]bool {
	known := map[string]bool{}
	for _, env := range Names {
		known[env] = true
	}
	_ = kong.Visit(model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			for _, env := range flag.Envs {
				known[env] = true
			}
		}
		return next(nil)
	})
	return known
}

func withPrefix(known map[string]bool, prefix string) []string {
	without := func(name string) bool { return !strings.HasPrefix(name, prefix) }
	return slices.DeleteFunc(slices.Sorted(maps.Keys(known)), without)
}

// meantBy returns the setting that env misspells after its first word; empty if there is none.
func meantBy(env string, known map[string]bool) string {
	first, rest, _ := strings.Cut(env, "_")
	var rests []string
	for name := range known {
		if right, ok := strings.CutPrefix(name, first+"_"); ok {
			rests = append(rests, right)
		}
	}
	if right := nearest(rest, rests); right != "" {
		return first + "_" + right
	}
	return ""
}

// maxMisspelt is how many letters a misspelt name has wrong. Half of its letters may not be wrong: the USER_DATA of
// other programs is no misspelt USER_RATE.
const maxMisspelt = 2

// nearest returns the name that given misspells; empty if there is none.
func nearest(given string, names []string) (right string) {
	least := maxMisspelt + 1
	for _, name := range slices.Sorted(slices.Values(names)) {
		if wrong := distance(given, name); wrong < least && 2*wrong < min(len(given), len(name)) {
			right, least = name, wrong
		}
	}
	return right
}

// distance returns how many letters must be added, removed or replaced, or two neighbours swapped, to make b from a.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1) // rows[i][j] is the distance from the first i letters of a to the first j of b
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j-1], rows[i-1][j], rows[i][j-1])
				if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
					rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
				}
			}
		}
	}
	return rows[len(a)][len(b)]
}
