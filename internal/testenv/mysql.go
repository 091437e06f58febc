package testenv

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Installation and start take about a second; the rest is for a machine that runs many tests at once.
const (
	mysqlInstallWithin = 90 * time.Second
	mysqlWithin        = 60 * time.Second
)

const mysqlHint = "To install what is missing: make setup. " +
	"MySQLFor also takes an existing server: TEST_MYSQL_DSN='user:password@tcp(host:port)/'."

// MySQLOptions are the settings of a private database server.
type MySQLOptions struct {
	// Args are further arguments to mariadbd or mysqld; of two values of a setting, theirs counts.
	Args []string
	// Init are statements that the server carries out by itself at every start, such as SET GLOBAL.
	Init []string
}

// MySQL is a private mariadbd or mysqld. Its methods may be called in parallel.
type MySQL struct {
	*server
	user string
}

// StartMySQL installs and starts a database server and waits until it answers. On failure nothing
// is left behind, and the error ends with the server's own words.
func StartMySQL(ctx context.Context, opts MySQLOptions) (*MySQL, error) {
	daemon, err := findDaemon(ctx)
	if err != nil {
		return nil, fmt.Errorf("start mysql: %w\n%s", err, mysqlHint)
	}
	// An account that only this server knows: another server that took the port refuses it.
	user := "testenv_" + randomName()
	s, err := launch(ctx, program{
		name:   "mysql",
		hint:   mysqlHint,
		within: mysqlWithin,
		prepare: func(ctx context.Context, s *server) error {
			return installMySQL(ctx, s, daemon, user, opts.Init)
		},
		command: func(s *server) []string {
			return append(append(daemon.start(), serveArgs(s)...), opts.Args...)
		},
		ready: func(ctx context.Context, s *server, _ int) error {
			return mysqlReady(ctx, mysqlConfig(s.Addr(), user))
		},
	})
	if err != nil {
		return nil, err
	}
	return &MySQL{server: s, user: user}, nil
}

// DSN returns a go-sql-driver DSN for a database of the server, or for none when it is empty. The
// account may do everything.
func (m *MySQL) DSN(database string) string {
	cfg := mysqlConfig(m.Addr(), m.user)
	cfg.DBName = database
	return cfg.FormatDSN()
}

func mysqlConfig(addr, user string) *mysql.Config {
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User = "tcp", addr, user
	inUTC(cfg)
	return cfg
}

// inUTC makes a time the same one in Go and in the session.
func inUTC(cfg *mysql.Config) {
	cfg.ParseTime = true
	cfg.Loc = time.UTC
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params["time_zone"] = "'+00:00'"
}

// daemon is a database server program.
type daemon struct {
	path    string
	install []string // the command that fills a data folder, without the folder
}

// findDaemon prefers MariaDB. By name alone it cannot be told: MariaDB also comes as mysqld.
func findDaemon(ctx context.Context) (daemon, error) {
	path := os.Getenv("TESTENV_MYSQLD")
	if path == "" {
		var err error
		if path, err = findProgram("mariadbd", "mysqld"); err != nil {
			return daemon{}, err
		}
	}
	version, err := exec.CommandContext(ctx, path, "--no-defaults", "--version").Output()
	if err != nil {
		return daemon{}, fmt.Errorf("ask %s for its version: %w", path, err)
	}
	d := daemon{path: path}
	if !bytes.Contains(version, []byte("MariaDB")) {
		d.install = append(d.start(), "--initialize-insecure")
		return d, nil
	}
	// An archive keeps it in scripts, or in bin beside sbin.
	beside := filepath.Dir(path)
	installer, err := findProgramIn(
		[]string{beside, filepath.Join(beside, "../bin"), filepath.Join(beside, "../scripts")},
		"mariadb-install-db", "mysql_install_db")
	if err != nil {
		return daemon{}, err
	}
	d.install = []string{installer, "--no-defaults",
		"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-log-bin"}
	if os.Getuid() == 0 {
		d.install = append(d.install, "--user=root")
	}
	return d, nil
}

// start returns the command with the arguments that must come first.
func (d daemon) start() []string {
	command := []string{d.path, "--no-defaults"}
	if os.Getuid() == 0 {
		command = append(command, "--user=root") // refused to root otherwise
	}
	return command
}

func dataDir(s *server) string  { return filepath.Join(s.dir, "data") }
func initFile(s *server) string { return filepath.Join(s.dir, "init.sql") }

func installMySQL(ctx context.Context, s *server, d daemon, user string, further []string) error {
	ctx, cancel := context.WithTimeout(ctx, mysqlInstallWithin)
	defer cancel()
	// Runs at every start.
	account := fmt.Sprintf("CREATE USER IF NOT EXISTS '%[1]s'@'%%';\nGRANT ALL ON *.* TO '%[1]s'@'%%' WITH GRANT OPTION;\n", user)
	for _, statement := range further {
		account += statement + ";\n"
	}
	if err := os.WriteFile(initFile(s), []byte(account), 0o600); err != nil {
		return err
	}
	// An installer that has to create its folder could do so after the clean-up.
	if err := os.Mkdir(dataDir(s), 0o700); err != nil {
		return err
	}
	return s.runToEnd(ctx, append(append([]string{}, d.install...), storageArgs(s)...))
}

// storageArgs lose nothing when the process is killed, and wait for no disk. A prefixed loose-
// stands before settings that one of the two families, or a future version, does not know.
func storageArgs(s *server) []string {
	return []string{
		"--datadir=" + dataDir(s),
		"--tmpdir=" + s.dir,                  // a starting server removes what it takes for its own leftovers
		"--innodb-flush-log-at-trx-commit=2", // handed to the operating system at each commit
		"--loose-innodb-flush-method=nosync",
		"--loose-innodb-log-file-size=64M",
		"--loose-innodb-redo-log-capacity=128M",
		"--innodb-buffer-pool-size=256M", // holds the pages of a transaction of a million rows
	}
}

func serveArgs(s *server) []string {
	return append([]string{
		"--init-file=" + initFile(s),
		"--pid-file=" + filepath.Join(s.dir, "pid"),
		"--socket=sock", // in the data folder; whole, the path may exceed the 104 bytes of a socket's name
		"--bind-address=127.0.0.1",
		"--port=" + strconv.Itoa(s.port),
		"--skip-name-resolve",
		"--skip-log-bin",
		"--local-infile=1",
		"--max-connections=400", // tests in parallel, each with pools of its own
		"--character-set-server=utf8mb4",
		"--loose-performance-schema=OFF",
		"--loose-mysqlx=OFF", // would listen on a port of its own
		"--loose-skip-ssl",   // saves making a certificate at the start
	}, storageArgs(s)...)
}

func mysqlReady(ctx context.Context, cfg *mysql.Config) error {
	cfg.Logger = &mysql.NopLogger{} // a server that is not up yet is no news
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	return db.PingContext(ctx)
}

// randomName fits into names of keys, accounts and databases.
func randomName() string {
	var b [6]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
