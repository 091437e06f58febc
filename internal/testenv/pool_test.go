package testenv

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// shopSchema has a table that is empty and one with a row.
func shopSchema(name string) Schema {
	return Schema{
		Name: name,
		Make: func(ctx context.Context, dsn string) error {
			at, err := mysql.ParseDSN(dsn)
			if err != nil {
				return err
			}
			return execScript(ctx, at, `CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, n INT);
CREATE TABLE items (order_id INT, FOREIGN KEY (order_id) REFERENCES orders (id));
CREATE TABLE settings (name VARCHAR(20) PRIMARY KEY, value INT); INSERT INTO settings VALUES ('limit', 5)`)
		},
		Grants: "GRANT SELECT ON orders TO reader;\nGRANT SELECT, INSERT ON orders TO writer;",
	}
}

// poolCase is what a test does with its database, and whether another test may have it then.
type poolCase struct {
	does []string
	kept bool
}

var poolCases = map[string]poolCase{
	"nothing": {nil, true},
	"rows": {[]string{"INSERT INTO orders (n) VALUES (1), (2)", "INSERT INTO items VALUES (2)"},
		true},
	"a table":  {[]string{"CREATE TABLE more (id INT)"}, false},
	"a column": {[]string{"ALTER TABLE orders ADD COLUMN more INT"}, false},
	"a trigger": {[]string{
		"CREATE TRIGGER minds BEFORE INSERT ON orders FOR EACH ROW SET NEW.n = 7"}, false},
	"another character set": {[]string{"ALTER DATABASE CHARACTER SET latin1"}, false},
	"another setting":       {[]string{"UPDATE settings SET value = 6"}, false},
	"a right":               {[]string{"GRANT DELETE ON orders TO {reader}"}, false},
	"a right on a column":   {[]string{"GRANT UPDATE (n) ON orders TO {reader}"}, false},
	"no account":            {[]string{"DROP USER {reader}"}, false},
	"an account of others": {[]string{"CREATE USER {other} IDENTIFIED BY 'Other-1234'",
		"GRANT SELECT ON orders TO {other}"}, false},
	"an account that was replaced": {[]string{"DROP USER {reader}", "CREATE USER {reader} IDENTIFIED BY 'Other-1234'",
		"GRANT SELECT ON orders TO {reader}"}, false},
}

func TestSchemaFor_KeepsWhatIsAsItWasMade(t *testing.T) {
	t.Parallel()
	for name, c := range poolCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schema := shopSchema(name)
			var first string
			other := "jajeong_other_" + randomName()
			t.Cleanup(func() { _ = execAlone(context.Background(), mysqlServer(t), "DROP USER IF EXISTS "+other) })
			t.Run("first", func(t *testing.T) {
				h := SchemaFor(t, schema)
				first = databaseName(t, h)
				for _, statement := range c.does {
					_, err := h.DB.ExecContext(t.Context(), withAccounts(t, statement, h, other))
					require.NoError(t, err, statement)
				}
			})
			t.Run("second", func(t *testing.T) {
				h := SchemaFor(t, schema)
				require.Equal(t, c.kept, databaseName(t, h) == first)
				checkAsMade(t, h)
			})
		})
	}
}

func databaseName(t *testing.T, h SchemaHandle) string { return configOf(t, h.DSN).DBName }

func configOf(t *testing.T, dsn string) *mysql.Config {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	return cfg
}

func withAccounts(t *testing.T, statement string, h SchemaHandle, other string) string {
	t.Helper()
	return strings.NewReplacer("{reader}", configOf(t, h.Accounts["reader"]).User, "{writer}",
		configOf(t, h.Accounts["writer"]).User, "{other}", other).Replace(statement)
}

// checkAsMade checks that a database is as shopSchema makes it, for its accounts too.
func checkAsMade(t *testing.T, h SchemaHandle) {
	t.Helper()
	db := openDB(t, h.DSN+"&sql_big_selects=1")
	for query, want := range map[string]int{"SELECT COUNT(*) FROM orders": 0, "SELECT COUNT(*) FROM items": 0,
		"SELECT SUM(value) FROM settings": 5} {
		var found int
		require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&found))
		require.Equal(t, want, found, query)
	}
	reader, writer := openDB(t, h.Accounts["reader"]+"&sql_big_selects=1"), openDB(t, h.Accounts["writer"])
	added, err := writer.ExecContext(t.Context(), "INSERT INTO orders (n) VALUES (3)")
	require.NoError(t, err)
	id, err := added.LastInsertId()
	require.NoError(t, err)
	require.EqualValues(t, 1, id)
	var n int
	require.NoError(t, reader.QueryRowContext(t.Context(), "SELECT n FROM orders").Scan(&n))
	require.Equal(t, 3, n)
	_, err = reader.ExecContext(t.Context(), "DELETE FROM orders")
	require.Error(t, err)
}

// A process that was killed may leave a statement, which would write into the next test's database.
func TestSchemaFor_EndsSessions(t *testing.T) {
	t.Parallel()
	schema := shopSchema("left behind")
	ended := make(chan error, 1)
	t.Run("first", func(t *testing.T) {
		h := SchemaFor(t, schema)
		left, err := sql.Open("mysql", h.DSN)
		require.NoError(t, err)
		conn, err := left.Conn(context.Background())
		require.NoError(t, err)
		_, err = conn.ExecContext(t.Context(), "SET autocommit = 0")
		require.NoError(t, err)
		_, err = conn.ExecContext(t.Context(), "INSERT INTO orders (n) VALUES (1)")
		require.NoError(t, err)
		go func() {
			defer left.Close()
			defer conn.Close()
			_, err := conn.ExecContext(context.Background(), "DO SLEEP(3600) /* 자정 \U0001F319 */")
			ended <- err
		}()
	})
	require.Error(t, <-ended)
	t.Run("second", func(t *testing.T) { checkAsMade(t, SchemaFor(t, schema)) })
}

func openDB(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}
