// Package users reads the table of the shop's users, which belongs to another team. Its name and columns are settings.
// One comparison in SQL decides which users are active:
//
//   - A status is compared byte by byte, whatever the collation of its column: 'active' and 'ACTIVE ' are not ACTIVE.
//   - A user whose status is not one of the active values is inactive. A user with the status NULL is inactive, too.
//   - If the table has no status column, every user in the table is active.
package users

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/jajeong/jajeong/internal/text"
)

// Directory is safe for concurrent use. A nil *Directory uses the default settings and remembers nothing.
type Directory struct {
	settings Settings
	table    atomic.Pointer[Table] // nil: not inspected yet
}

type Querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (d *Directory) Table(ctx context.Context, q Querier) (*Table, error) {
	if d != nil {
		if t := d.table.Load(); t != nil {
			return t, nil
		}
	}
	return d.Look(ctx, q)
}

// Look inspects the table. The error is a *text.UsageError if users cannot be read from the table.
func (d *Directory) Look(ctx context.Context, q Querier) (*Table, error) {
	if d == nil {
		d = Default().Directory()
	}
	d.table.Store(nil)
	s, err := d.read(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("inspect the table of users: %w", err)
	}
	t, err := d.settings.judge(s)
	if err != nil {
		return nil, err
	}
	d.table.Store(t)
	return t, nil
}

// LookBefore is Look, but returns no error if the table is missing and `settle migrate` will create it.
func (d *Directory) LookBefore(ctx context.Context, q Querier) error {
	_, err := d.Look(ctx, q)
	if text.Is(err, text.UserTableNotMigrated) {
		return nil
	}
	return err
}

const (
	databaseSQL = "SELECT COALESCE(DATABASE(), '')"
	tableSQL    = "SELECT table_type FROM information_schema.tables WHERE table_schema = ? AND table_name = ?"
	columnSQL   = "SELECT LOWER(data_type), column_type FROM information_schema.columns WHERE table_schema = ? AND " +
		"table_name = ? AND column_name = ?"
	// keySQL finds a unique key that is not hidden and consists of the whole id column, preferring the primary key.
	keySQL = `
SELECT index_name FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? AND non_unique = 0
	/*!80000 AND is_visible = 'YES' */ /*M!100600 AND ignored = 'NO' */
GROUP BY index_name HAVING COUNT(*) = 1 AND MAX(column_name = ?) = 1 AND MAX(sub_part) IS NULL
ORDER BY index_name = 'PRIMARY' DESC, index_name LIMIT 1`
)

// shape is the definition of the table. A part that the table does not have is empty.
type shape struct {
	schema, table string
	kind          string // BASE TABLE, VIEW, …
	id, status    column
	key           string
}

type column struct{ data, full string } // such as int, and int(10) unsigned

func (d *Directory) read(ctx context.Context, q Querier) (s shape, err error) {
	schema, table, elsewhere := strings.Cut(d.settings.UserTable, ".")
	if !elsewhere {
		table = schema
		if err := q.QueryRowContext(ctx, databaseSQL).Scan(&schema); err != nil {
			return s, err
		}
	}
	s.schema, s.table = schema, table
	err = unlessMissing(q.QueryRowContext(ctx, tableSQL, schema, table).Scan(&s.kind))
	if err != nil || s.kind == "" {
		return s, err
	}
	for _, c := range []struct {
		name string
		into *column
	}{{d.settings.UserIDColumn, &s.id}, {d.settings.UserStatusColumn, &s.status}} {
		if err := unlessMissing(q.QueryRowContext(ctx, columnSQL, schema, table, c.name).Scan(&c.into.data,
			&c.into.full)); err != nil {
			return s, err
		}
	}
	return s, unlessMissing(q.QueryRowContext(ctx, keySQL, schema, table, d.settings.UserIDColumn).Scan(&s.key))
}

func unlessMissing(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// lastIDs has the highest signed and unsigned id of each column type. A server might clamp a higher id to the highest.
var lastIDs = map[string][2]string{
	"tinyint":   {"127", "255"},
	"smallint":  {"32767", "65535"},
	"mediumint": {"8388607", "16777215"},
	"int":       {"2147483647", "4294967295"},
	"bigint":    {"9223372036854775807", "18446744073709551615"},
}

var (
	textTypes   = []string{"char", "varchar", "enum", "tinytext", "text", "mediumtext", "longtext"}
	numberTypes = []string{"tinyint", "smallint", "mediumint", "int", "bigint", "bit"}
	number      = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,17})$`)
)

func (s Settings) judge(is shape) (*Table, error) {
	last, isNumber := lastIDs[is.id.data]
	switch {
	case is.kind == "" && s.UserTable == ownTable:
		return nil, text.UsageErrorf(text.UserTableNotMigrated, s.UserTable)
	case is.kind == "":
		return nil, text.UsageErrorf(text.NoUserTable, s.UserTable)
	case is.id.data == "":
		return nil, text.UsageErrorf(text.NoIDColumn, s.UserTable, s.UserIDColumn)
	case !isNumber:
		return nil, text.UsageErrorf(text.IDNotANumber, s.UserTable, s.UserIDColumn, is.id.full)
	case is.key == "" && is.kind != "VIEW":
		return nil, text.UsageErrorf(text.IDWithoutKey, s.UserTable, s.UserIDColumn)
	}
	t := &Table{from: quoted(is.schema) + "." + quoted(is.table) + " u", id: "u." + quoted(s.UserIDColumn),
		last: last[0]}
	if is.kind != "VIEW" { // a view has no keys of its own
		t.from += " FORCE INDEX (" + quoted(is.key) + ")"
	}
	if strings.Contains(is.id.full, "unsigned") {
		t.last = last[1]
	}
	return t, s.judgeStatus(is, t)
}

func (s Settings) judgeStatus(is shape, t *Table) error {
	if s.UserStatusColumn == NoStatus {
		t.active, t.status = t.id+" IS NOT NULL", "''"
		return nil
	}
	status := "u." + quoted(s.UserStatusColumn)
	shown := fmt.Sprintf("CONVERT(%s USING utf8mb4)", status)
	var compared string
	var values []string
	switch {
	case is.status.data == "":
		return text.UsageErrorf(text.NoStatusColumn, s.UserTable, s.UserStatusColumn)
	case slices.Contains(numberTypes, is.status.data):
		compared = status + " + 0" // + 0 turns a BIT, which is bytes, into a number
		shown = fmt.Sprintf("CONVERT(%s USING utf8mb4)", compared)
		for _, value := range s.UserActiveValues {
			if !number.MatchString(value) {
				return text.UsageErrorf(text.ValueNotANumber, s.UserTable, s.UserStatusColumn, is.status.full, value)
			}
			values = append(values, value)
		}
	case slices.Contains(textTypes, is.status.data):
		compared = fmt.Sprintf("CAST(%s AS BINARY)", shown) // bytes have no collation and no padding
		for _, value := range s.UserActiveValues {
			if is.status.data == "enum" && !hasMember(is.status.full, value) {
				return text.UsageErrorf(text.ValueNotInEnum, s.UserTable, s.UserStatusColumn, is.status.full, value)
			}
			values = append(values, fmt.Sprintf("X'%X'", value))
		}
	default:
		return text.UsageErrorf(text.StatusUnreadable, s.UserTable, s.UserStatusColumn, is.status.full)
	}
	t.active = fmt.Sprintf("(%s IS NOT NULL AND COALESCE(%s IN (%s), FALSE))", t.id, compared,
		strings.Join(values, ", "))
	t.status = fmt.Sprintf("IF(%s IS NULL, '', COALESCE(LEFT(%s, %d), 'NULL'))", t.id, shown, maxLetters)
	return nil
}

// hasMember reports whether an ENUM type, such as enum('A','B'), has a value.
func hasMember(enum, value string) bool {
	return slices.Contains(member.FindAllString(enum, -1), "'"+strings.ReplaceAll(value, "'", "''")+"'")
}

var member = regexp.MustCompile(`'(?:[^']|'')*'`)

func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

type Table struct{ from, id, last, active, status string }

// SQL replaces these placeholders in a query:
//
//	{users}   the table with the alias u, and the index to use
//	{id}      the id column
//	{last}    the highest id that the column can hold; a higher id must not be looked up
//	{active}  whether the user exists and is active
//	{status}  the status as text: 'NULL' for NULL; empty if there is no such user or no status column
func (t *Table) SQL(query string) string {
	return strings.NewReplacer("{users}", t.from, "{id}", t.id, "{last}", t.last, "{active}", t.active,
		"{status}", t.status).Replace(query)
}

var word = regexp.MustCompile(`^[0-9A-Za-z_-]+$`)

// Shown returns a status for messages. A status that is not one plain word is quoted.
func Shown(status string) string {
	if !word.MatchString(status) {
		return strconv.Quote(status)
	}
	return status
}

// NoStatus is the value of USER_STATUS_COLUMN for a table without a status column. No column can have this name.
const NoStatus = "-"

type Settings struct {
	UserTable        string   `name:"user-table" env:"USER_TABLE" default:"user" placeholder:"TABLE"`
	UserIDColumn     string   `name:"user-id-column" env:"USER_ID_COLUMN" default:"id" placeholder:"COLUMN"`
	UserStatusColumn string   `name:"user-status-column" env:"USER_STATUS_COLUMN" default:"status" placeholder:"COLUMN"`
	UserActiveValues []string `name:"user-active-values" env:"USER_ACTIVE_VALUES" default:"ACTIVE" placeholder:"VALUE,…"`
}

const (
	maxValues    = 32
	maxLetters   = 64       // characters of a name, as in MySQL, and of a status value
	defaultValue = "ACTIVE" // default of USER_ACTIVE_VALUES
	ownTable     = "user"   // `settle migrate` creates this table if it is missing
)

// name matches names of letters of any script, as they are common. Each is quoted in SQL.
var name = regexp.MustCompile(`^[\p{L}\p{N}_$-]{1,64}$`)

func (s *Settings) Validate() error {
	var problems []error
	for _, part := range strings.SplitN(s.UserTable, ".", 2) {
		if !name.MatchString(part) {
			problems = append(problems, text.UsageErrorf(text.WrongTable, s.UserTable))
			break
		}
	}
	if !name.MatchString(s.UserIDColumn) {
		problems = append(problems, text.UsageErrorf(text.WrongIDColumn, s.UserIDColumn))
	}
	if s.UserStatusColumn == NoStatus {
		if len(s.UserActiveValues) != 1 || s.UserActiveValues[0] != defaultValue {
			problems = append(problems, text.UsageErrorf(text.ValuesWithoutColumn,
				strings.Join(s.UserActiveValues, ",")))
		}
		return errors.Join(problems...)
	}
	if !name.MatchString(s.UserStatusColumn) {
		problems = append(problems, text.UsageErrorf(text.WrongStatusColumn, s.UserStatusColumn))
	}
	if n := len(s.UserActiveValues); n == 0 || n > maxValues {
		problems = append(problems, text.UsageErrorf(text.WrongNumberOfValues, n, maxValues))
	}
	for _, value := range s.UserActiveValues {
		letters := utf8.RuneCountInString(value)
		if letters == 0 || letters > maxLetters || !utf8.ValidString(value) || strings.TrimSpace(value) != value {
			problems = append(problems, text.UsageErrorf(text.WrongActiveValue, value, maxLetters))
		}
	}
	return errors.Join(problems...)
}

func (s Settings) Directory() *Directory { return &Directory{settings: s} }

// Default returns the settings for the table that `settle migrate` creates.
func Default() Settings {
	return Settings{UserTable: ownTable, UserIDColumn: "id", UserStatusColumn: "status",
		UserActiveValues: []string{defaultValue}}
}
