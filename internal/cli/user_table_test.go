package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/hostile"
	shop "github.com/jajeong/jajeong/internal/users"
)

// Without a status column every existing user is active. The table is in another database.
func TestUsers_WithoutStatusColumn(t *testing.T) {
	t.Parallel()
	m := testenv.MySQLFor(t)
	var database string
	require.NoError(t, m.DB.QueryRow("SELECT CONCAT(DATABASE(), '-shop')").Scan(&database))
	t.Cleanup(func() {
		_, err := m.DB.Exec("DROP DATABASE `" + database + "`")
		require.NoError(t, err)
	})
	table := "`" + database + "`.member"
	w := newWorldWith(t, jajeongtest.Options{MySQL: &m, Users: &jajeongtest.UserTable{
		DDL: "CREATE DATABASE `" + database + "`; CREATE TABLE " + table + " (id BIGINT PRIMARY KEY)", Table: table,
		ID: "id",
		Configured: shop.Settings{UserTable: database + ".member", UserIDColumn: "id", UserStatusColumn: "-",
			UserActiveValues: shop.Default().UserActiveValues},
	}})
	w.Exec("INSERT INTO " + table + " VALUES (1), (2), (4)")
	couponID := w.AddCoupon(5)
	w.Apply(couponID, 1, 2, 3, 4)
	w.SettleNow()
	require.Equal(t, []coupon.UserID{1, 2, 4}, w.Issued(couponID))
	require.Equal(t, "UNKNOWN_USER", w.Reason(couponID, "3").Cause)
	w.verify()
	for user, want := range map[int]string{1: "user 1\n", 3: "user 3 (unknown)\n"} {
		stdout := succeeds(t)(
			w.settle("explain", fmt.Sprintf("--coupon=%d", couponID), fmt.Sprintf("--user=%d", user), "--lang=en"))
		require.Contains(t, stdout, want)
	}
}

// Every verb that reads users refuses an unreadable table before it classifies a user. `settle migrate` then creates
// nothing. The verbs read a table by the same code, and two shapes are shown to all of them.
func TestUsers_RefuseUnreadableTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.AddQueue(1, 1, 2)
	w.Exec("DROP TABLE `user`")
	account := w.as("jajeong_settle")
	for name, test := range map[string]struct {
		ddl   string
		flags []string
		says  string
	}{
		"a view of texts": {
			"CREATE TABLE u (id VARCHAR(20) PRIMARY KEY, status VARCHAR(9)); CREATE VIEW `user` AS SELECT * FROM u",
			nil, "user.id is varchar(20)"},
		"ids that are texts": {"CREATE TABLE `user` (id VARCHAR(20) PRIMARY KEY, status VARCHAR(9))", nil,
			"user.id is varchar(20), and user ids are whole numbers"},
		"ids with a fraction": {"CREATE TABLE `user` (id DECIMAL(20,2) PRIMARY KEY, status VARCHAR(9))", nil,
			"user.id is decimal(20,2)"},
		"no key": {"CREATE TABLE `user` (id BIGINT NOT NULL, status VARCHAR(9))", nil,
			"user.id has no primary or unique key of its own"},
		"a key that is not unique": {"CREATE TABLE `user` (id BIGINT NOT NULL, status VARCHAR(9), KEY (id))", nil,
			"user.id has no primary or unique key of its own"},
		"a key that is hidden": {
			"CREATE TABLE `user` (n INT PRIMARY KEY, id BIGINT NOT NULL, status VARCHAR(9), UNIQUE KEY (id) /*!80000 " +
				"INVISIBLE */ /*M!100600 IGNORED */)", nil, "user.id has no primary or unique key of its own"},
		"a key with another column": {
			"CREATE TABLE `user` (shop INT, id BIGINT, status VARCHAR(9), PRIMARY KEY (id, shop))", nil,
			"user.id has no primary or unique key of its own"},
		"no status": {"CREATE TABLE `user` (id BIGINT PRIMARY KEY, state VARCHAR(9))", nil,
			"user has no column status"},
		"no id": {"CREATE TABLE `user` (no BIGINT PRIMARY KEY, status VARCHAR(9))", nil,
			"user has no column id"},
		"a status that is a number": {"CREATE TABLE `user` (id BIGINT PRIMARY KEY, status TINYINT)", nil,
			`USER_ACTIVE_VALUES has "ACTIVE". Set it to the numbers`},
		"a status that is a bit": {"CREATE TABLE `user` (id BIGINT PRIMARY KEY, status BIT(1))", nil,
			`USER_ACTIVE_VALUES has "ACTIVE". Set it to the numbers`},
		"a status that is a date": {"CREATE TABLE `user` (id BIGINT PRIMARY KEY, status DATETIME)", nil,
			"user.status is datetime"},
		"a status that is bytes": {"CREATE TABLE `user` (id BIGINT PRIMARY KEY, status BINARY(9))", nil,
			"user.status is binary(9)"},
		"a status of other values": {"CREATE TABLE `user` (id BIGINT PRIMARY KEY, status ENUM('active','gone'))", nil,
			`user.status is enum('active','gone'), which cannot be "ACTIVE"`},
		"another table": {"CREATE TABLE `user` (id BIGINT PRIMARY KEY, status VARCHAR(9))",
			[]string{"--user-table=member"}, "there is no table member"},
	} {
		t.Run(name, func(t *testing.T) { // one after another: each has the table of the world
			for statement := range strings.SplitSeq(test.ddl, "; ") {
				w.Exec(statement)
			}
			w.Exec("GRANT SELECT ON `user` TO " + w.ownName()) // operators keep their two columns
			defer w.Exec("DROP VIEW IF EXISTS `user`")
			defer w.Exec("DROP TABLE IF EXISTS `user`, u")
			if name != "a view of texts" && name != "another table" {
				_, err := w.Users.Look(t.Context(), account)
				require.ErrorContains(t, err, "the users cannot be read: ")
				require.ErrorContains(t, err, test.says)
				return
			}
			through := *w
			through.servers = slices.Concat(w.servers, test.flags)
			for _, verb := range [][]string{
				{"run"}, {"run", "--cutoff=now", "--operator=kim", "--reason=test"},
				{"run", "--dry-run", "--cutoff=now"}, {"serve"}, {"verify"},
				{"explain", fmt.Sprintf("--coupon=%d", couponID), "--user=1"},
			} {
				code, stdout, stderr := through.settle(append(verb, "--lang=en")...)
				require.Equal(t, exitUse, code, "%v: %s%s", verb, stdout, stderr)
				require.Contains(t, stderr, "the users cannot be read: ", verb)
				require.Contains(t, stderr, test.says, verb)
			}
			require.Equal(t, []string{"1", "2"}, w.Waiting(couponID))
			require.Empty(t, w.UnderReview(couponID))
			fresh := testenv.MySQLFor(t)
			for statement := range strings.SplitSeq(test.ddl, "; ") {
				_, err := fresh.DB.Exec(statement)
				require.NoError(t, err)
			}
			through.servers[0] = "--mysql-dsn=" + fresh.DSN
			code, stdout, stderr := through.settle("migrate", "--lang=en")
			require.Equal(t, exitUse, code, stdout+stderr)
			require.Contains(t, stderr, test.says)
			require.Empty(t, stdout, "nothing was created")
		})
	}
}

// ownName is the account of the job.
func (w *world) ownName() string { return w.nameOf("jajeong_settle") }

// nameOf is an account of the grants as this test's server knows it.
func (w *world) nameOf(account string) (name string) {
	w.T.Helper()
	require.NoError(w.T, w.as(account).QueryRowContext(w.T.Context(),
		"SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1)").Scan(&name))
	return name
}

func TestUsers_RefuseWrongSettings(t *testing.T) {
	t.Parallel()
	for flag, says := range map[string]string{
		"--user-table=":                                          "USER_TABLE (--user-table) is empty",
		"--user-table=a`b":                                       "USER_TABLE is \"a`b\"",
		"--user-table=a.b.c":                                     `USER_TABLE is "a.b.c"`,
		"--user-table=.user":                                     `USER_TABLE is ".user"`,
		"--user-id-column=":                                      "USER_ID_COLUMN (--user-id-column) is empty",
		"--user-id-column=u.id":                                  `USER_ID_COLUMN is "u.id"`,
		"--user-status-column=":                                  "USER_STATUS_COLUMN (--user-status-column) is empty",
		"--user-status-column=status ":                           `USER_STATUS_COLUMN is "status "`,
		"--user-active-values=":                                  "USER_ACTIVE_VALUES (--user-active-values) is empty",
		"--user-active-values=A,,B":                              "USER_ACTIVE_VALUES (--user-active-values) is empty",
		"--user-active-values=" + strings.Repeat("x", 65):        "USER_ACTIVE_VALUES has ",
		"--user-active-values=" + strings.Repeat("x,", 32) + "x": "USER_ACTIVE_VALUES has 33 values",
	} {
		var errs strings.Builder
		code := run(t.Context(), []string{"run", "--mysql-dsn=u:p@tcp(127.0.0.1:1)/x", "--lang=en", flag}, &errs, &errs)
		require.Equal(t, exitUse, code, flag)
		require.Contains(t, errs.String(), says, flag)
	}
	var errs strings.Builder
	require.Equal(t, exitUse, run(t.Context(),
		[]string{"run", "--mysql-dsn=u:p@tcp(127.0.0.1:1)/x", "--lang=en", "--user-status-column", "-",
			"--user-active-values=Y"}, &errs, &errs))
	require.Contains(t, errs.String(), "USER_STATUS_COLUMN is - and USER_ACTIVE_VALUES is")
}

func TestVerbs_RefuseOtherSessionVariables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.servers[0] = "--mysql-dsn=" + hostile.DSN(t, w.Accounts["jajeong_settle"], map[string]string{"insert_id": "7"})
	couponID := w.AddQueue(1, 1)
	for lang, says := range map[string]string{"en": `session variable insert_id is "7"`,
		"ko": `세션 변수 insert_id의 값은 "7"`} {
		for _, verb := range []string{"run", "verify"} {
			refused(t, says)(w.settle(verb, "--lang="+lang))
		}
	}
	require.Equal(t, []string{"1"}, w.Waiting(couponID))
	require.Empty(t, w.UnderReview(couponID))
}
