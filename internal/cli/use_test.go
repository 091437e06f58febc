package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/text"
	migrations "github.com/jajeong/jajeong/sql"
)

// settleBare runs the program without any server settings of its own.
func settleBare(t *testing.T, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestUsageErrors_AllTogether(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := settleBare(t, "run", "--mysql-dsn=nonsense", "--redis-addrs=localhost",
		"--redis-key-prefix={", "--date=2026-13-01")
	require.Equal(t, 2, code)
	require.Empty(t, stdout)
	for _, want := range []string{"MYSQL_DSN", "REDIS_ADDRS: address 1", "REDIS_KEY_PREFIX", "2026-13-01", "--operator",
		"--reason"} {
		require.Contains(t, stderr, want)
	}
	require.NotContains(t, stderr, "nonsense", "a DSN holds a password and is not repeated")
	require.Equal(t, 6, strings.Count(stderr, "\n"), "each has one line: %s", stderr)
}

// requireWrongUse requires a usage error with this text.
func requireWrongUse(t *testing.T, want string, code int, stdout, stderr string) {
	t.Helper()
	require.Equal(t, exitUse, code, stderr)
	require.Empty(t, stdout)
	require.Contains(t, stderr, want)
	for _, never := range []string{"safe to run again", "\x1b", "%!"} {
		require.NotContains(t, stderr, never)
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.AddQueue(5, 1, 2)
	person := []string{"--operator=kim", "--reason=test"}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no verb":            {nil, "migrate"},
		"coupon is no id":    {append([]string{"run", "--coupon=abc"}, person...), "coupon"},
		"no such coupon":     {append([]string{"run", "--coupon=999"}, person...), "coupon 999 does not exist"},
		"cutoff of year one": {append([]string{"run", "--cutoff=0001-01-01T00:00:00Z"}, person...), "before 1970"},
		"cutoff to come": {append([]string{"run", "--cutoff=2225-01-01T00:00:00+09:00"}, person...),
			"has not come"},
		"date to come":          {append([]string{"run", "--date=2225-01-01"}, person...), "has not come"},
		"date and cutoff":       {append([]string{"run", "--date=2026-11-20", "--cutoff=now"}, person...), "--date"},
		"manual, no operator":   {[]string{"run", "--cutoff=now", "--reason=test"}, "--operator"},
		"manual, no reason":     {[]string{"run", "--cutoff=now", "--operator=kim"}, "--reason"},
		"schedule is no cron":   {[]string{"serve", "--settle-schedule=midnight"}, "SETTLE_SCHEDULE"},
		"verify of no coupon":   {[]string{"verify", "--coupon=999"}, "coupon 999"},
		"verify of all and one": {[]string{"verify", "--all", "--coupon=1"}, "--all or --coupon"},

		"limit too high": {[]string{"runs", "--limit=501"}, "--before"},
		"unknown status": {[]string{"runs", "--status=DEAD"},
			"want one of RUNNING, SUCCEEDED, HELD, FAILED, ABANDONED"},
		"unknown cadence": {[]string{"coupon", "list", "--cadence=foo"}, "want one of nightly, immediate"},
		"no such run":     {[]string{"show", "999"}, "run 999"},
		"run is no id":    {[]string{"show", "abc"}, "whole number"},
		"show of nothing": {[]string{"show"}, "<run>"},
		"a misspelt verb": {[]string{"coupon", "puase", "1"},
			"unexpected argument puase, did you mean pause? See --help"},
		"a misspelt flag":  {[]string{"runs", "--limt=3"}, "unknown flag --limt, did you mean --limit? See --help"},
		"no period":        {[]string{"report"}, "--date=2026-11-20 or --month=2026-11"},
		"two periods":      {[]string{"report", "--date=2026-11-20", "--month=2026-11"}, "--month"},
		"no such month":    {[]string{"report", "--month=2026-13"}, "YYYY-MM"},
		"month is a date":  {[]string{"report", "--month=2026-11-20"}, "2026-11"},
		"before the epoch": {[]string{"report", "--month=1969-11"}, "1970"},
		"report as pdf":    {[]string{"report", "--month=2026-11", "--output=pdf"}, "html"},
		"report of none":   {[]string{"report", "--month=2026-11", "--coupon=999"}, "coupon 999"},
		"nowhere to write": {[]string{"report", "--month=2026-11", "--out=/nonexistent/report.csv"}, "--out"},

		"operator of a nightly run": {append([]string{"run"}, person...),
			"--operator and --reason belong to a manual run"},
		"preview of a nightly run": {append([]string{"run", "--dry-run"}, person...),
			"--operator and --reason belong to a manual run"},
		"retry of an unknown cause": {append([]string{"dlq", "retry", "--coupon=1", "--cause=NOSUCH"}, person...),
			`--cause is "NOSUCH": want one of UNKNOWN_USER, INACTIVE_USER`},
		"drop of an unknown cause": {append([]string{"dlq", "drop", "--coupon=1", "--cause=BAD_ROW,bad_row", "--yes"},
			person...), `--cause is "bad_row"`},
		"list of an unknown cause": {[]string{"dlq", "list", "--cause=NOSUCH"}, "DATABASE_AWAY, UNKNOWN"},
		"the program's name": {[]string{"coupon", "pause", "1", "--operator= Ｓettle", "--reason=test"},
			"the name of the program"},
		"the program's name, run": {[]string{"run", "--cutoff=now", "--operator=settle", "--reason=test"},
			"the name of the program"},
		"the name of a key": {[]string{"coupon", "pause", "1", "--operator= ＫEY:shop", "--reason=test"},
			"the name of a key of the management API"},
		"an invisible name": {[]string{"coupon", "pause", "1", "--operator=kim\u200b", "--reason=test"},
			"--operator has no letter, or a character that cannot be seen"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := w.settle(c.args...)
			requireWrongUse(t, c.want, code, stdout, stderr)
			require.Equal(t, []string{"1", "2"}, w.Waiting(couponID), "nothing was settled")
		})
	}
}

// nowhere is an address that refuses connections: no server is ever given the port 1, unlike one just closed.
const nowhere = "127.0.0.1:1"

func TestVerbs_UnreachableServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.AddQueue(5, 1)
	noRedis := []string{w.servers[0], "--redis-addrs=" + nowhere}
	noMySQL := append([]string{"--mysql-dsn=root@tcp(" + nowhere + ")/coupons"}, w.servers[1:]...)
	for name, c := range map[string]struct {
		verb    string
		servers []string
	}{
		"run without redis":     {"run", noRedis},
		"run without mysql":     {"run", noMySQL},
		"verify without redis":  {"verify", noRedis},
		"verify without mysql":  {"verify", noMySQL},
		"migrate without mysql": {"migrate", noMySQL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for lang, safe := range map[string]string{"ko": "다시 실행해도 안전합니다.", "en": "safe to run again"} {
				code, stdout, stderr := settleBare(t, append([]string{c.verb, "--lang=" + lang}, c.servers...)...)
				require.Equal(t, 1, code, stderr)
				require.Contains(t, stderr, "refused")
				require.Contains(t, stderr, safe)
				require.NotRegexp(t, "잃은 것은|[Nn]othing is lost", stdout+stderr)
			}
			require.Equal(t, []string{"1"}, w.Waiting(couponID))
		})
	}
}

func TestMigrate_RepeatedAndConcurrent(t *testing.T) {
	t.Parallel()
	m := testenv.MySQLFor(t)
	db := opened(t, m.DSN)
	refused := make(chan string)
	for range 3 {
		go func() {
			code, _, stderr := settleBare(t, "migrate", "--mysql-dsn="+m.DSN)
			refused <- strings.Repeat(stderr, min(code, 1))
		}()
	}
	for range 3 {
		require.Empty(t, <-refused)
	}
	migrate := func() (stdout string) {
		stdout = succeeds(t)(settleBare(t, "migrate", "--mysql-dsn="+m.DSN))
		return stdout
	}
	require.Contains(t, migrate(), "up to date")
	_, err := db.Exec("DROP TABLE settled")
	require.NoError(t, err)
	code, _, stderr := settleBare(t, "migrate", "--lang=en", "--mysql-dsn="+m.DSN)
	require.Equal(t, exitUse, code)
	require.Regexp(t, "settled.*restore the tables from a backup", stderr)

	// A migration may be killed at any step, and a user table may exist.
	for name, killed := range map[string][]string{
		"before its first step": {"DELETE FROM jajeong_db_version", "DROP TABLE IF EXISTS " + ourTables},
		"half way": {"DELETE FROM jajeong_db_version WHERE version_id > 0",
			"DROP TABLE approval, policy, settlement"},
		"before its end was recorded":  {"DELETE FROM jajeong_db_version WHERE version_id > 0"},
		"before anything was recorded": {"DELETE FROM jajeong_db_version"},
	} {
		for _, statement := range killed {
			_, err := db.Exec(statement)
			require.NoError(t, err)
		}
		require.Contains(t, migrate(), "applied 00001_initial.sql", name)
		require.Contains(t, migrate(), "up to date", name)
		require.ElementsMatch(t, append([]string{"user", migrations.VersionTable}, migrations.Tables...),
			allTables(t, db), name)
	}
}

// A migration that has waited in vain for another one may be run again.
func TestMigrate_BesideAnother(t *testing.T) {
	t.Parallel()
	require.Equal(t, exitInfrastructure, exitCode(migrationError(connect.ErrMigrationBusy)))
}

// ourTables are the tables of the migration but that of the users, those that refer to others first.
const ourTables = "user_coupon, coupon, coupon_order, coupon_log, application_outcome, settlement_run, " +
	"settlement, settled, run_coupon, " +
	"line_journal, journal, audit_event, audit_head, event_relay, policy, deployment, approval, job, " +
	"idempotency, seal, " +
	"user_application, verify_progress, purged_coupon"

// Whatever made the tables: if it was not this text of the migration, `settle migrate` says so and changes nothing.
func TestMigrate_RefusesAnotherSchema(t *testing.T) {
	t.Parallel()
	const versions = "CREATE TABLE jajeong_db_version (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, " +
		"version_id BIGINT NOT NULL, " +
		"is_applied BOOLEAN NOT NULL, tstamp DATETIME NULL DEFAULT CURRENT_TIMESTAMP)"
	for name, made := range map[string][]string{
		"another text": {versions + " COMMENT 'e3b0c442'",
			"INSERT INTO jajeong_db_version (version_id, is_applied) VALUES (0, TRUE), (1, TRUE)"},
		"another text, killed half way": {versions + " COMMENT 'e3b0c442'",
			"INSERT INTO jajeong_db_version (version_id, is_applied) VALUES (0, TRUE)"},
		"a build without fingerprint": {versions,
			"INSERT INTO jajeong_db_version (version_id, is_applied) VALUES (0, TRUE), (1, TRUE), (12, TRUE)"},
		"another program": {versions},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := testenv.MySQLFor(t)
			db := opened(t, m.DSN)
			for _, statement := range made {
				_, err := db.Exec(statement)
				require.NoError(t, err)
			}
			versions := func() []int64 {
				found, err := mysqltx.Column[int64](t.Context(), db,
					"SELECT version_id FROM jajeong_db_version ORDER BY id")
				require.NoError(t, err)
				return found
			}
			before := versions()
			code, stdout, stderr := settleBare(t, "migrate", "--lang=en", "--mysql-dsn="+m.DSN)
			require.Equal(t, exitUse, code, stderr)
			require.Empty(t, stdout)
			require.Contains(t, stderr, text.OtherSchema.In(text.English))
			require.Equal(t, before, versions())
			require.Equal(t, []string{"jajeong_db_version"}, allTables(t, db))
		})
	}
}

// A shop's tables stay as they are, whatever their names: only a database with tables of our names is refused.
func TestMigrate_LeavesTablesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	for _, made := range []string{
		"CREATE TABLE coupon (id BIGINT UNSIGNED PRIMARY KEY, code VARCHAR(20))",
		"CREATE TABLE journal (entry INT PRIMARY KEY)",
		"CREATE VIEW approval AS SELECT 1 AS id",
	} {
		m := testenv.MySQLFor(t)
		db := opened(t, m.DSN)
		_, err := db.Exec(made)
		require.NoError(t, err)
		taken := strings.Fields(made)[2]
		columns := func() []string {
			found, err := mysqltx.Column[string](t.Context(), db,
				"SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE()")
			require.NoError(t, err)
			return found
		}
		before := columns()
		code, stdout, stderr := settleBare(t, "migrate", "--lang=en", "--mysql-dsn="+m.DSN)
		require.Equal(t, exitUse, code, stderr)
		require.Empty(t, stdout)
		require.Contains(t, stderr, text.English.Sprintf(text.ForeignTables, taken))
		require.Equal(t, []string{taken}, allTables(t, db))
		require.Equal(t, before, columns())
	}

	m := testenv.MySQLFor(t)
	db := opened(t, m.DSN)
	for _, statement := range []string{
		"CREATE TABLE goose_db_version (id SERIAL, version_id BIGINT NOT NULL, is_applied BOOLEAN NOT NULL, tstamp " +
			"TIMESTAMP NULL)",
		"INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, TRUE), (1, TRUE)",
		"CREATE TABLE schema_migrations (version BIGINT PRIMARY KEY)",
	} {
		_, err := db.Exec(statement)
		require.NoError(t, err)
	}
	stdout := succeeds(t)(settleBare(t, "migrate", "--mysql-dsn="+m.DSN))
	require.Contains(t, stdout, "applied 00001_initial.sql")
	require.Subset(t, allTables(t, db), append([]string{"goose_db_version", "schema_migrations", "user"},
		migrations.Tables...))
	rows, err := mysqltx.Column[int](t.Context(), db, "SELECT version_id FROM goose_db_version ORDER BY id")
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, rows)
}

func TestExitCode_OfWorstFailure(t *testing.T) {
	t.Parallel()
	const infrastructure, setup, invariant = coupon.Infrastructure, coupon.Setup, coupon.Invariant
	require.NoError(t, worst())
	require.Equal(t, exitError(1), worst(infrastructure))
	require.Equal(t, exitError(3), worst(invariant))
	require.Equal(t, exitError(1), worst(invariant, infrastructure))
	require.Equal(t, exitError(2), worst(invariant, infrastructure, setup))
}
