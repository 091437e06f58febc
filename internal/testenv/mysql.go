package testenv

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/jajeong/jajeong/internal/testenv/process"
)

const mysqlHint = "To install what is missing: make setup. " +
	"MySQLFor also takes an existing server: TEST_MYSQL_DSN='user:password@tcp(host:port)/'."

// MySQLOptions are the settings of a private database server.
type MySQLOptions struct {
	// Args are further arguments to mariadbd or mysqld; the last value of a setting wins.
	Args []string
	// ArgsAt, if set, returns more of them for a server with this port.
	ArgsAt func(port int) []string
	// Data is a data folder to begin with a copy of; empty: a new one.
	Data string
	// Programs is a folder before those of PATH, with programs that the server starts.
	Programs string
	// MariaDB asks for this server, whatever TESTENV_MYSQLD says.
	MariaDB bool
	// Init are statements that the server executes at every start, such as SET GLOBAL.
	Init []string
}

// MySQL is a private mariadbd or mysqld. Its methods may be called in parallel.
type MySQL struct {
	*process.Server
	user string
}

// StartMySQL installs and starts a database server and waits until it answers. After a failure nothing is left behind,
// and the error ends with the server's own log.
func StartMySQL(ctx context.Context, opts MySQLOptions) (*MySQL, error) {
	daemon, err := findDaemon(ctx, opts.MariaDB)
	if err != nil {
		return nil, fmt.Errorf("start mysql: %w\n%s", err, mysqlHint)
	}
	// Only this server knows the account: another server that took the port refuses it.
	user := "testenv_" + randomName()
	s, err := process.Start(ctx, process.Program{
		Name:  "mysql",
		Path:  "/usr/bin/env",
		Hint:  mysqlHint,
		Files: map[string][]byte{initFile: initScript(user, opts.Init)},
		Prepare: func(ctx context.Context, s *process.Server) error {
			if opts.Data != "" {
				return os.CopyFS(dataDir(s.Dir()), os.DirFS(opts.Data))
			}
			return installMySQL(ctx, s, daemon)
		},
		Args: func(dir string, port int) []string {
			args := []string{"PATH=" + strings.TrimPrefix(opts.Programs+":", ":") + os.Getenv("PATH"), daemon.path}
			args = append(append(append(args, firstArgs()...), serveArgs(dir, port)...), opts.Args...)
			if opts.ArgsAt != nil {
				args = append(args, opts.ArgsAt(port)...)
			}
			return args
		},
		Ready: func(ctx context.Context, s process.Instance) error {
			return mysqlReady(ctx, mysqlConfig(s.Addr, user))
		},
	})
	if err != nil {
		return nil, err
	}
	return &MySQL{Server: s, user: user}, nil
}

// DSN returns a go-sql-driver DSN for a database of the server; an empty name selects no database. The account has all
// privileges.
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

// inUTC sets the time zone of Go values and of the session to UTC.
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
	version string
	install []string // the command that fills a data folder, without the folder
}

// kind names what a data folder depends on.
func (d daemon) kind() string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{d.path, d.version},
		append(d.install, storageArgs("")...)...), "\n")))
	return hex.EncodeToString(sum[:8])
}

// findDaemon prefers MariaDB. It asks for the version, because MariaDB may also be named mysqld.
func findDaemon(ctx context.Context, onlyMariaDB bool) (daemon, error) {
	path := os.Getenv("TESTENV_MYSQLD")
	if path == "" || onlyMariaDB {
		var err error
		if path, err = process.Find("mariadbd", "mysqld"); err != nil {
			return daemon{}, err
		}
	}
	version, err := exec.CommandContext(ctx, path, "--no-defaults", "--version").Output()
	if err != nil {
		return daemon{}, fmt.Errorf("ask %s for its version: %w", path, err)
	}
	d := daemon{path: path, version: string(version)}
	if !bytes.Contains(version, []byte("MariaDB")) {
		d.install = append(append([]string{path}, firstArgs()...), "--initialize-insecure")
		return d, nil
	}
	// An archive has the installer in scripts, or in bin beside sbin.
	beside := filepath.Dir(path)
	installer, err := process.FindIn(
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

// firstArgs are the arguments that must come before all others.
func firstArgs() []string {
	args := []string{"--no-defaults"}
	if os.Getuid() == 0 {
		args = append(args, "--user=root") // refused to root otherwise
	}
	return args
}

// initFile is the script in the server's folder that runs at every start.
const initFile = "init.sql"

func initScript(user string, further []string) []byte {
	script :=
		fmt.Appendf(nil,
			"SET sql_log_bin = 0;\nCREATE USER IF NOT EXISTS '%[1]s'@'%%';\n"+ // each server has its own
				"GRANT ALL ON *.* TO '%[1]s'@'%%' WITH GRANT OPTION;\n", user)
	for _, statement := range further {
		script = append(script, statement+";\n"...)
	}
	return script
}

// Data is the data folder of the server.
func (m *MySQL) Data() string { return dataDir(m.Dir()) }

func dataDir(dir string) string { return filepath.Join(dir, "data") }

// installMySQL fills a data folder with a copy of one that is kept in bin/testenv.
func installMySQL(ctx context.Context, s *process.Server, d daemon) error {
	kept, err := keptPath("mysql-" + d.kind())
	if err != nil {
		return err
	}
	err = locked(kept, func() error {
		if _, err := os.Stat(kept); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := install(ctx, s, d); err != nil {
			return err
		}
		unfinished := kept + ".new"
		if err := errors.Join(os.RemoveAll(unfinished), os.CopyFS(unfinished, os.DirFS(dataDir(s.Dir())))); err != nil {
			return err
		}
		return errors.Join(os.Rename(unfinished, kept), os.RemoveAll(dataDir(s.Dir())))
	})
	if err != nil {
		return err
	}
	return os.CopyFS(dataDir(s.Dir()), os.DirFS(kept))
}

func install(ctx context.Context, s *process.Server, d daemon) error {
	// An installer that had to create its folder could do so after the clean-up.
	if err := os.Mkdir(dataDir(s.Dir()), 0o700); err != nil {
		return err
	}
	if err := s.RunToEnd(ctx, append(slices.Clone(d.install), storageArgs(s.Dir())...)); err != nil {
		return err
	}
	// Oracle's server writes its UUID there. Each copy makes one of its own.
	return os.RemoveAll(filepath.Join(dataDir(s.Dir()), "auto.cnf"))
}

// storageArgs lose nothing when the process is killed, and never wait for the disk. The prefix loose- marks settings
// that MySQL, MariaDB or a future version may not know.
func storageArgs(dir string) []string {
	return []string{
		"--datadir=" + dataDir(dir),
		"--tmpdir=" + dir,                    // a starting server removes files in it that look like its own
		"--innodb-flush-log-at-trx-commit=2", // handed to the operating system at each commit
		"--loose-innodb-flush-method=nosync",
		"--loose-debug-no-sync", // the same for table definitions; a server that is killed keeps what it has written
		"--loose-innodb-log-file-size=64M",
		"--loose-innodb-redo-log-capacity=128M",
		"--innodb-buffer-pool-size=256M", // holds the pages of a transaction of a million rows
	}
}

func serveArgs(dir string, port int) []string {
	return append([]string{
		"--init-file=" + filepath.Join(dir, initFile),
		"--pid-file=" + filepath.Join(dir, "pid"),
		"--socket=sock", // relative to the data folder; a full path may exceed the 104 bytes of a socket's name
		"--bind-address=127.0.0.1",
		"--port=" + strconv.Itoa(port),
		"--skip-name-resolve",
		"--skip-log-bin",
		"--secure-file-priv=", // a distribution's MySQL may name a folder that another of its packages makes
		"--local-infile=1",
		"--max-connections=400", // tests in parallel, each with pools of its own
		"--character-set-server=utf8mb4",
		"--loose-performance-schema=OFF",
		"--loose-mysqlx=OFF", // would listen on a port of its own
		"--loose-skip-ssl",   // saves making a certificate at the start
	}, storageArgs(dir)...)
}

func mysqlReady(ctx context.Context, cfg *mysql.Config) error {
	cfg.Logger = &mysql.NopLogger{} // refused connections are expected during the start
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	return db.PingContext(ctx)
}

// randomName is valid in names of keys, accounts and databases.
func randomName() string { return strings.ToLower(rand.Text()[:12]) }
