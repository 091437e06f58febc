package jajeongtest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/users"
)

// UserTable is a possible table of users of a shop. Names and values are in SQL.
type UserTable struct {
	Name string // of the case
	// Statements before the migration, separated by semicolons; empty: the migration makes the table.
	DDL               string
	Table, ID, Status string            // Status is empty if the table has no status
	Words             map[string]string // for Active, Blocked and Withdrawn
	Configured        users.Settings    // the zero Settings are the default
}

// Statuses of users, independent of the values in a table.
const (
	Active    = "ACTIVE"
	Blocked   = "BLOCKED"
	Withdrawn = "WITHDRAWN"
)

// MigratedUsers is the table that the migration makes.
var MigratedUsers = UserTable{Name: "as migrated", Table: "`user`", ID: "id", Status: "status",
	Words: words("'ACTIVE'", "'BLOCKED'", "'WITHDRAWN'")}

// ReadableUserTables are tables that the programs can read.
var ReadableUserTables = []UserTable{
	MigratedUsers,
	{
		Name: "collation that ignores case", Table: "`user`", ID: "id", Status: "status",
		Words: words("'ACTIVE'", "'active'", "'ACTIVE '"),
		DDL: "CREATE TABLE `user` (id BIGINT UNSIGNED PRIMARY KEY, status VARCHAR(20) CHARACTER SET utf8mb4 " +
			"COLLATE utf8mb4_general_ci)",
	},
	{
		Name: "binary collation", Table: "`user`", ID: "id", Status: "status",
		Words: words("'ACTIVE'", "'Active'", "' ACTIVE'"),
		DDL: "CREATE TABLE `user` (id BIGINT UNSIGNED PRIMARY KEY, status VARCHAR(20) CHARACTER SET utf8mb4 " +
			"COLLATE utf8mb4_bin)",
	},
	{
		Name: "NULL and empty", Table: "`user`", ID: "id", Status: "status", Words: words("'ACTIVE'", "NULL", "''"),
		DDL: "CREATE TABLE `user` (id INT PRIMARY KEY, status VARCHAR(20) CHARACTER SET latin1)",
	},
	{
		Name: "TINYINT", Table: "member", ID: "no", Status: "use_yn", Words: words("1", "0", "NULL"),
		DDL:        "CREATE TABLE member (no BIGINT PRIMARY KEY, use_yn TINYINT(1))",
		Configured: settings("member", "no", "use_yn", "1"),
	},
	{
		Name: "BIT", Table: "Members", ID: "id", Status: "active", Words: words("b'1'", "b'0'", "NULL"),
		DDL:        "CREATE TABLE Members (id INT UNSIGNED PRIMARY KEY, active BIT(1))",
		Configured: settings("Members", "id", "active", "1"),
	},
	{
		Name: "ENUM in another character set", Table: "`order`", ID: "`key`", Status: "`group`",
		Words: words("'정상'", "'it''s, gone'", "NULL"),
		DDL: "CREATE TABLE `order` (`key` MEDIUMINT UNSIGNED PRIMARY KEY, `group` ENUM('it''s, " +
			"gone','정상','VIP') CHARACTER SET utf16)",
		Configured: settings("order", "key", "group", "VIP", "정상"),
	},
	{
		Name: "unique key that is not the primary key", Table: "member", ID: "member_no", Status: "grade",
		Words: words("'VIP'", "'VIPS'", "'vip'"),
		DDL: `CREATE TABLE member (seq BIGINT AUTO_INCREMENT PRIMARY KEY, shop_no INT NOT NULL DEFAULT 1,
		member_no MEDIUMINT UNSIGNED NOT NULL, grade TEXT,
			KEY (member_no, shop_no), UNIQUE KEY asleep (member_no) /*!80000 INVISIBLE */
			/*M!100600 IGNORED */, UNIQUE KEY ` + "`bynumber`" + ` (member_no))`,
		Configured: settings("member", "member_no", "grade", "NORMAL", "VIP"),
	},
	{
		Name: "view", Table: "`member-list`", ID: "id", Status: "`상태`", Words: words("'정상'", "'정지'", "NULL"),
		DDL: `CREATE TABLE member (seq BIGINT AUTO_INCREMENT PRIMARY KEY, member_no BIGINT UNSIGNED NOT NULL UNIQUE,
		state VARCHAR(9) CHARACTER SET utf8mb4);
			CREATE VIEW ` + "`member-list` AS SELECT member_no AS id, state AS `상태`" + ` FROM member`,
		Configured: settings("member-list", "id", "상태", "정상"),
	},
}

func words(active, blocked, withdrawn string) map[string]string {
	return map[string]string{Active: active, Blocked: blocked, Withdrawn: withdrawn}
}

func settings(table, id, status string, active ...string) users.Settings {
	return users.Settings{UserTable: table, UserIDColumn: id, UserStatusColumn: status, UserActiveValues: active}
}

// SomeUserTable is another readable table in each process, for tests that must pass with all. It is the same in all
// tests of a process, so that they can share their databases.
func SomeUserTable(t testing.TB) *UserTable {
	t.Helper()
	some.once.Do(func() {
		some.seed = testenv.Seed(t)
		some.table = ReadableUserTables[rand.New(rand.NewPCG(some.seed, 0)).IntN(len(ReadableUserTables))]
	})
	t.Logf("table of users: %s, with JAJEONG_SEED=%d", some.table.Name, some.seed)
	return &some.table
}

var some struct {
	once  sync.Once
	seed  uint64
	table UserTable
}

// Settings are the settings of the programs for this table.
func (u UserTable) Settings() users.Settings {
	if u.Configured.UserTable == "" {
		return users.Default()
	}
	return u.Configured
}

// Flags are the flags of the programs for this table.
func (u UserTable) Flags() []string {
	s := u.Settings()
	if reflect.DeepEqual(s, users.Default()) {
		return nil
	}
	return []string{"--user-table=" + s.UserTable, "--user-id-column=" + s.UserIDColumn, "--user-status-column=" +
		s.UserStatusColumn,
		"--user-active-values=" + strings.Join(s.UserActiveValues, ",")}
}

// grants are the grants of the script for this table.
func (u UserTable) grants(script string) string {
	columns := fmt.Sprintf("(%s, %s) ON %s", u.ID, u.Status, u.Table)
	if u.Status == "" {
		columns = fmt.Sprintf("(%s) ON %s", u.ID, u.Table)
	}
	return strings.ReplaceAll(script, "(id, status) ON `user`", columns)
}

// AddUsers adds active users.
func (d *Deployment) AddUsers(ids ...coupon.UserID) {
	d.T.Helper()
	u := d.UserTable
	for chunk := range slices.Chunk(ids, 1000) {
		rows := make([]string, len(chunk))
		for i, id := range chunk {
			rows[i] = fmt.Sprint("(", id, ", ", u.Words[Active], ")")
		}
		d.Exec("INSERT INTO " + u.Table + " (" + u.ID + ", " + u.Status + ") VALUES " + strings.Join(rows, ", "))
	}
}

// Update is the statement that sets the status of these users, or of all users.
func (u UserTable) Update(status string, ids ...coupon.UserID) string {
	statement := "UPDATE " + u.Table + " SET " + u.Status + " = " + u.Words[status]
	if len(ids) > 0 {
		statement += " WHERE " + u.ID + " IN (" + list(ids) + ")"
	}
	return statement
}

// SetStatus sets the status of these users, or of all users.
func (d *Deployment) SetStatus(status string, ids ...coupon.UserID) {
	d.T.Helper()
	d.Exec(d.UserTable.Update(status, ids...))
}

// RemoveUser removes a user.
func (d *Deployment) RemoveUser(id coupon.UserID) {
	d.T.Helper()
	d.Exec("DELETE FROM "+d.UserTable.Table+" WHERE "+d.UserTable.ID+" = ?", id)
}
