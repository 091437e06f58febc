package users

import (
	"strconv"
	"strings"
)

// Table is how the users are read, in SQL.
type Table struct{ from, id, last, active, status string }

// SQL puts the table into a query, a constant that stands beside its scan:
//
//	{users}   the table, as u, looked up by the key of its ids
//	{id}      the id of a user in it
//	{last}    the highest id that it can hold: nobody has one beyond, and none may be looked up
//	{active}  whether the user exists and is active
//	{status}  the user's status as a text to show: NULL is 'NULL', and it is empty without a user or a column
func (t *Table) SQL(query string) string {
	return strings.NewReplacer("{users}", t.from, "{id}", t.id, "{last}", t.last, "{active}", t.active, "{status}", t.status).Replace(query)
}

// Shown is a status in a sentence: plain words as they are, anything else in quotes, so that a space behind it shows.
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
