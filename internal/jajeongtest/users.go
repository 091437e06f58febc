package jajeongtest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/jajeong/jajeong/internal/users"
)

// UserTable is one way in which a shop may keep its users. Names and words are as in SQL.
type UserTable struct {
	Name              string            // of the case
	DDL               string            // executed before the migration; empty: the migration makes the table
	Table, ID, Status string            // Status is empty if the table has no status
	Words             map[string]string // for Active, Blocked and Withdrawn
	Configured        users.Settings    // the zero Settings are the default
}

// Statuses of users, whatever the words of the table are.
const (
	Active    = "ACTIVE"
	Blocked   = "BLOCKED"
	Withdrawn = "WITHDRAWN"
)

// MigratedUsers is the table that the migration makes.
var MigratedUsers = UserTable{Name: "as migrated", Table: "`user`", ID: "id", Status: "status",
	Words: map[string]string{Active: "'ACTIVE'", Blocked: "'BLOCKED'", Withdrawn: "'WITHDRAWN'"}}

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
	return []string{"--user-table=" + s.UserTable, "--user-id-column=" + s.UserIDColumn, "--user-status-column=" + s.UserStatusColumn,
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
func (d *Deployment) AddUsers(ids ...uint64) {
	d.T.Helper()
	u := d.userTable
	for chunk := range slices.Chunk(ids, 1000) {
		rows := make([]string, len(chunk))
		for i, id := range chunk {
			rows[i] = fmt.Sprint("(", id, ", ", u.Words[Active], ")")
		}
		d.Exec("INSERT INTO " + u.Table + " (" + u.ID + ", " + u.Status + ") VALUES " + strings.Join(rows, ", "))
	}
}

// SetStatus sets the status of these users, or of all users.
func (d *Deployment) SetStatus(status string, ids ...uint64) {
	d.T.Helper()
	statement := "UPDATE " + d.userTable.Table + " SET " + d.userTable.Status + " = " + d.userTable.Words[status]
	if len(ids) > 0 {
		statement += " WHERE " + d.userTable.ID + " IN (" + list(ids) + ")"
	}
	d.Exec(statement)
}

// RemoveUser removes a user.
func (d *Deployment) RemoveUser(id uint64) {
	d.T.Helper()
	d.Exec("DELETE FROM "+d.userTable.Table+" WHERE "+d.userTable.ID+" = ?", id)
}
