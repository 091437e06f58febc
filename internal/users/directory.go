package users

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/jajeong/jajeong/internal/text"
)

// Directory inspects the table of users and remembers how to read it. It is safe for concurrent use. A nil Directory has the
// default settings and remembers nothing.
type Directory struct {
	settings Settings
	table    atomic.Pointer[Table] // nil: not inspected yet
}

// Querier is a connection, in a transaction or not.
type Querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Table is the table of users as it was last inspected.
func (d *Directory) Table(ctx context.Context, q Querier) (*Table, error) {
	if d == nil {
		return Default().Directory().Look(ctx, q)
	}
	if t := d.table.Load(); t != nil {
		return t, nil
	}
	return d.Look(ctx, q)
}

// Look inspects the table. The error is a *text.UsageError if the table is unusable.
func (d *Directory) Look(ctx context.Context, q Querier) (*Table, error) {
	if d == nil {
		d = Default().Directory()
	}
	d.table.Store(nil)
	t, err := d.look(ctx, q)
	if err != nil {
		if errors.As(err, new(*text.UsageError)) {
			return nil, err
		}
		return nil, fmt.Errorf("inspect the table of users: %w", err)
	}
	d.table.Store(t)
	return t, nil
}

// LookBefore is Look before a migration: the table may be missing if `settle migrate` creates it.
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
	columnSQL   = "SELECT LOWER(data_type), column_type FROM information_schema.columns WHERE table_schema = ? AND table_name = ? AND column_name = ?"
	// keySQL finds a unique key of exactly this column, without a prefix length; the primary key first. Invisible (MySQL) or
	// ignored (MariaDB) keys are left out.
	keySQL = `
SELECT index_name FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? AND non_unique = 0
	/*!80000 AND is_visible = 'YES' */ /*M!100600 AND ignored = 'NO' */
GROUP BY index_name HAVING COUNT(*) = 1 AND MAX(column_name = ?) = 1 AND MAX(sub_part) IS NULL
ORDER BY index_name = 'PRIMARY' DESC, index_name LIMIT 1`
)

// shape is the definition of the table.
type shape struct {
	schema, table     string
	kind              string // BASE TABLE, VIEW, …
	id, status        column
	hasID, hasStatus  bool
	key               string
	hasKey, hasATable bool
}

// column is the type of a column: data is the name of the type, full has length, sign and values too.
type column struct{ data, full string }

func (d *Directory) look(ctx context.Context, q Querier) (*Table, error) {
	s, err := d.read(ctx, q)
	if err != nil {
		return nil, err
	}
	return d.settings.judge(s)
}

func (d *Directory) read(ctx context.Context, q Querier) (s shape, err error) {
	schema, table, elsewhere := strings.Cut(d.settings.UserTable, ".")
	if !elsewhere {
		table = schema
		if err := q.QueryRowContext(ctx, databaseSQL).Scan(&schema); err != nil {
			return s, err
		}
	}
	s.schema, s.table = schema, table
	if s.hasATable, err = found(q.QueryRowContext(ctx, tableSQL, schema, table).Scan(&s.kind)); err != nil || !s.hasATable {
		return s, err
	}
	readColumn := func(name string, c *column) (bool, error) {
		return found(q.QueryRowContext(ctx, columnSQL, schema, table, name).Scan(&c.data, &c.full))
	}
	if s.hasID, err = readColumn(d.settings.UserIDColumn, &s.id); err != nil {
		return s, err
	}
	if s.hasStatus, err = readColumn(d.settings.UserStatusColumn, &s.status); err != nil {
		return s, err
	}
	s.hasKey, err = found(q.QueryRowContext(ctx, keySQL, schema, table, d.settings.UserIDColumn).Scan(&s.key))
	return s, err
}

func found(err error) (bool, error) {
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// lastIDs are the maxima of integer columns, signed and unsigned. A higher id is never looked up, because a server might clamp
// it to the maximum.
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

// judge refuses an unusable table, and decides how to read a usable one.
func (s Settings) judge(is shape) (*Table, error) {
	last, isNumber := lastIDs[is.id.data]
	switch {
	case !is.hasATable && s.UserTable == ownTable:
		return nil, text.UsageErrorf(text.UserTableNotMigrated, s.UserTable)
	case !is.hasATable:
		return nil, text.UsageErrorf(text.NoUserTable, s.UserTable)
	case is.kind != "BASE TABLE":
		return nil, text.UsageErrorf(text.NotATable, s.UserTable, strings.ToLower(is.kind))
	case !is.hasID:
		return nil, text.UsageErrorf(text.NoIDColumn, s.UserTable, s.UserIDColumn)
	case !isNumber:
		return nil, text.UsageErrorf(text.IDNotANumber, s.UserTable, s.UserIDColumn, is.id.full)
	case !is.hasKey:
		return nil, text.UsageErrorf(text.IDWithoutKey, s.UserTable, s.UserIDColumn)
	}
	t := &Table{from: quoted(is.schema) + "." + quoted(is.table) + " u FORCE INDEX (" + quoted(is.key) + ")", id: "u." + quoted(s.UserIDColumn), last: last[0]}
	if strings.Contains(is.id.full, "unsigned") {
		t.last = last[1]
	}
	return t, s.judgeStatus(is, t)
}

// judgeStatus decides how to compare the status.
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
	case !is.hasStatus:
		return text.UsageErrorf(text.NoStatusColumn, s.UserTable, s.UserStatusColumn)
	case slices.Contains(numberTypes, is.status.data):
		compared = status + " + 0" // without + 0, a BIT is bytes
		shown = fmt.Sprintf("CONVERT(%s USING utf8mb4)", compared)
		for _, value := range s.UserActiveValues {
			if !number.MatchString(value) {
				return text.UsageErrorf(text.ValueNotANumber, s.UserTable, s.UserStatusColumn, is.status.full, value)
			}
			values = append(values, value)
		}
	case slices.Contains(textTypes, is.status.data):
		compared = fmt.Sprintf("CAST(%s AS BINARY)", shown) // no collation, no padding
		for _, value := range s.UserActiveValues {
			if is.status.data == "enum" && !slices.Contains(members(is.status.full), value) {
				return text.UsageErrorf(text.ValueNotInEnum, s.UserTable, s.UserStatusColumn, is.status.full, value)
			}
			values = append(values, fmt.Sprintf("X'%X'", value))
		}
	default:
		return text.UsageErrorf(text.StatusUnreadable, s.UserTable, s.UserStatusColumn, is.status.full)
	}
	t.active = fmt.Sprintf("(%s IS NOT NULL AND COALESCE(%s IN (%s), FALSE))", t.id, compared, strings.Join(values, ", "))
	t.status = fmt.Sprintf("IF(%s IS NULL, '', COALESCE(LEFT(%s, %d), 'NULL'))", t.id, shown, maxLetters)
	return nil
}

// members are the members of an ENUM with the type enum('A','it”s').
func members(full string) (all []string) {
	for _, m := range member.FindAllStringSubmatch(full, -1) {
		all = append(all, strings.ReplaceAll(m[1], "''", "'"))
	}
	return all
}

var member = regexp.MustCompile(`'((?:[^']|'')*)'`)

// quoted quotes a name in SQL. Names of keys may have backticks.
func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
