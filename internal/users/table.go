package users

import (
	"strconv"
	"strings"
)

// Table is the SQL that reads the users.
type Table struct{ from, id, last, active, status string }

// SQL inserts the table into a constant query:
//
//	{users}   the table, as u, looked up by the key of its ids
//	{id}      the id of a user in it
//	{last}    the maximum of the id column: no user has a higher id, and none may be looked up
//	{active}  whether the user exists and is active
//	{status}  the status of the user as text: 'NULL' for NULL, empty without a user or a column
func (t *Table) SQL(query string) string {
	return strings.NewReplacer("{users}", t.from, "{id}", t.id, "{last}", t.last, "{active}", t.active, "{status}", t.status).Replace(query)
}

// Shown is a status for a sentence. Values that are not plain words are in quotes, so that trailing spaces show.
func Shown(status string) string {
	for _, letter := range status {
		if letter != '_' && letter != '-' && (letter < '0' || letter > '9') && (letter < 'A' || letter > 'Z') && (letter < 'a' || letter > 'z') {
			return strconv.Quote(status)
		}
	}
	if status == "" {
		return `""`
	}
	return status
}
