package testenv

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// askWithin is for the connection to a server and two answers.
const askWithin = 30 * time.Second

var errNoServerNamed = errors.New("no server is named. Set TEST_MYSQL_DSN='user:password@tcp(host:port)/' for a server that runs, " +
	"or TESTENV_MYSQLD=/path/to/mysqld for a program that the tests start")

// FindMySQL says which database servers TEST_MYSQL_DSN and TESTENV_MYSQLD name, each with its version, a line each.
// It asks them: the second is started and stopped. The error has the remedy.
func FindMySQL(ctx context.Context) (string, error) {
	dsn, path := os.Getenv("TEST_MYSQL_DSN"), os.Getenv("TESTENV_MYSQLD")
	if dsn == "" && path == "" {
		return "", errNoServerNamed
	}
	var found strings.Builder
	if dsn != "" {
		version, err := versionAt(ctx, dsn)
		if err != nil {
			return "", fmt.Errorf("TEST_MYSQL_DSN: %w. Start this server, or correct its address and account", err)
		}
		fmt.Fprintf(&found, "Tests share the server of TEST_MYSQL_DSN: %s\n", version)
	}
	daemon, err := findDaemon(ctx)
	if err != nil {
		return "", fmt.Errorf("TESTENV_MYSQLD: %w. Name a mariadbd or mysqld that exists", err)
	}
	server, err := StartMySQL(ctx, MySQLOptions{})
	if err != nil {
		return "", fmt.Errorf("a server of the tests' own: %w", err)
	}
	version, err := versionAt(ctx, server.DSN(""))
	if err = errors.Join(err, server.Stop()); err != nil {
		return "", fmt.Errorf("a server of the tests' own: %w", err)
	}
	fmt.Fprintf(&found, "Tests start servers of their own with %s: %s\n", daemon.path, version)
	return found.String(), nil
}

// versionAt returns the family and the version of a server. The error has no password.
func versionAt(ctx context.Context, dsn string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", errors.New("it is no DSN") // the cause could quote the password
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return "", errors.New("it is no usable DSN")
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	var version, comment string
	if err := db.QueryRowContext(ctx, "SELECT VERSION(), @@version_comment").Scan(&version, &comment); err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", cfg.Addr, err)
	}
	family := "MySQL"
	if strings.Contains(version, "MariaDB") {
		family = "MariaDB"
	}
	return fmt.Sprintf("%s %s (%s) at %s", family, version, strings.Trim(comment, "()"), cfg.Addr), nil
}
