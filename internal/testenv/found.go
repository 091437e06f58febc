package testenv

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/jajeong/jajeong/internal/testenv/process"
)

// askWithin is for the connection to a server and two answers.
const askWithin = 30 * time.Second

var errNoServerNamed = errors.New("no server is named. Set TEST_MYSQL_DSN='user:password@tcp(host:port)/' for a " +
	"server that runs, " +
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
	daemon, err := findDaemon(ctx, false)
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
	if err := findClients(ctx, strings.HasPrefix(version, mariaDB)); err != nil {
		return "", fmt.Errorf("tests of backups: %w", err)
	}
	return found.String(), nil
}

// findClients requires the programs with which tests back up and restore a server of this family.
func findClients(ctx context.Context, ofMariaDB bool) error {
	names := []string{"mysql", "mysqlbinlog", "mysqldump"}
	if ofMariaDB {
		names = []string{"mariadb", "mariadb-binlog", "mariadb-dump"}
	}
	path := ""
	for _, name := range names {
		var err error
		if path, err = process.FindIn(clientFolders(), name); err != nil {
			return fmt.Errorf("%w. Install it, or put it beside TESTENV_MYSQLD", err)
		}
	}
	// MariaDB also installs a mysqldump.
	version, err := exec.CommandContext(ctx, path, "--no-defaults", "--version").Output()
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w", path, err)
	}
	if strings.Contains(string(version), mariaDB) != ofMariaDB {
		return fmt.Errorf(
			"%s does not belong to the server: %s. Put the server's own client programs beside TESTENV_MYSQLD",
			path, bytes.TrimSpace(version))
	}
	return nil
}

// clientFolders are beside the server of TESTENV_MYSQLD.
func clientFolders() []string {
	server := os.Getenv("TESTENV_MYSQLD")
	if server == "" {
		return nil
	}
	return []string{filepath.Dir(server), filepath.Join(filepath.Dir(server), "../bin")}
}

// ClientPath is a PATH whose first database client programs are those of the server that tests start.
func ClientPath(path string) string {
	return strings.Join(append(clientFolders(), path), string(filepath.ListSeparator))
}

const mariaDB = "MariaDB"

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
	if strings.Contains(version, mariaDB) {
		family = mariaDB
	}
	return fmt.Sprintf("%s %s (%s) at %s", family, version, strings.Trim(comment, "()"), cfg.Addr), nil
}
