package cli

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/jajeongtest"
	shop "github.com/jajeong/jajeong/internal/users"
)

// userShape is how a shop may keep its users.
type userShape struct {
	name                  string
	ddl                   string            // what makes the table, before `settle migrate`; empty: that of the migration
	tableName, id, status string            // as in SQL
	words                 map[string]string // what stands for ACTIVE, BLOCKED and WITHDRAWN, as in SQL
	flags                 []string
}

func standings(active, blocked, withdrawn string) map[string]string {
	return map[string]string{"ACTIVE": active, "BLOCKED": blocked, "WITHDRAWN": withdrawn}
}

var migratedUsers = userShape{name: "as migrated", tableName: "`user`", id: "id", status: "status", words: standings("'ACTIVE'", "'BLOCKED'", "'WITHDRAWN'")}

// readableShapes can all be read right.
var readableShapes = []userShape{
	migratedUsers,
	{
		name: "careless collation", tableName: "`user`", id: "id", status: "status", words: standings("'ACTIVE'", "'active'", "'ACTIVE '"),
		ddl: "CREATE TABLE `user` (id BIGINT UNSIGNED PRIMARY KEY, status VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci)",
	},
	{
		name: "careful collation", tableName: "`user`", id: "id", status: "status", words: standings("'ACTIVE'", "'Active'", "' ACTIVE'"),
		ddl: "CREATE TABLE `user` (id BIGINT UNSIGNED PRIMARY KEY, status VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)",
	},
	{
		name: "NULL and nothing", tableName: "`user`", id: "id", status: "status", words: standings("'ACTIVE'", "NULL", "''"),
		ddl: "CREATE TABLE `user` (id INT PRIMARY KEY, status VARCHAR(20) CHARACTER SET latin1)",
	},
	{
		name: "TINYINT", tableName: "member", id: "no", status: "use_yn", words: standings("1", "0", "NULL"),
		ddl:   "CREATE TABLE member (no BIGINT PRIMARY KEY, use_yn TINYINT(1))",
		flags: []string{"--user-table=member", "--user-id-column=no", "--user-status-column=use_yn", "--user-active-values=1"},
	},
	{
		name: "BIT", tableName: "Members", id: "id", status: "active", words: standings("b'1'", "b'0'", "NULL"),
		ddl:   "CREATE TABLE Members (id INT UNSIGNED PRIMARY KEY, active BIT(1))",
		flags: []string{"--user-table=Members", "--user-status-column=active", "--user-active-values=1"},
	},
	{
		name: "ENUM in other letters", tableName: "`order`", id: "`key`", status: "`group`", words: standings("'정상'", "'it''s, gone'", "NULL"),
		ddl:   "CREATE TABLE `order` (`key` MEDIUMINT UNSIGNED PRIMARY KEY, `group` ENUM('it''s, gone','정상','VIP') CHARACTER SET utf16)",
		flags: []string{"--user-table=order", "--user-id-column=key", "--user-status-column=group", "--user-active-values=VIP,정상"},
	},
	{
		name: "a key beside the primary one", tableName: "member", id: "member_no", status: "grade", words: standings("'VIP'", "'VIPS'", "'vip'"),
		ddl: `CREATE TABLE member (seq BIGINT AUTO_INCREMENT PRIMARY KEY, shop_no INT NOT NULL DEFAULT 1, member_no MEDIUMINT UNSIGNED NOT NULL, grade TEXT,
			KEY (member_no, shop_no), UNIQUE KEY asleep (member_no) /*!80000 INVISIBLE */ /*M!100600 IGNORED */, UNIQUE KEY ` + "`bynumber`" + ` (member_no))`,
		flags: []string{"--user-table=member", "--user-id-column=member_no", "--user-status-column=grade", "--user-active-values=NORMAL,VIP"},
	},
}

// someShape is another one in each test that is to hold whatever the shape.
func someShape(t *testing.T) userShape {
	t.Helper()
	shape := readableShapes[rand.N(len(readableShapes))]
	t.Logf("users: %s", shape.name)
	return shape
}

// table is the shape for the deployment. The program itself reads the flags.
func (s userShape) table(t *testing.T) *jajeongtest.UserTable {
	t.Helper()
	var settings shop.Settings
	parser, err := kong.New(&settings)
	require.NoError(t, err)
	_, err = parser.Parse(s.flags)
	require.NoError(t, err)
	require.Empty(t, settings.Validate())
	return &jajeongtest.UserTable{Name: s.name, DDL: s.ddl, Table: s.tableName, ID: s.id, Status: s.status, Words: s.words, Configured: settings}
}

// sets is a statement that gives these users a standing, or all.
func (s userShape) sets(standing string, ids ...uint64) string {
	statement := "UPDATE " + s.tableName + " SET " + s.status + " = " + s.words[standing]
	if len(ids) > 0 {
		statement += " WHERE " + s.id + " IN (" + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ids)), ","), "[]") + ")"
	}
	return statement
}
