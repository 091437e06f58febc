package connect

import (
	"database/sql"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/text"
)

const (
	// mysqlConnectTimeout bounds dialing, handshake, and the check of the session variables, all together.
	mysqlConnectTimeout = 10 * time.Second
	// maxConnections leaves connections for reading, heartbeats and records beside the transactions. Two tasks of
	// `settle serve` have at most twelve transactions each. Every transaction also reads pages on another connection.
	// Nine connections of the brief sessions may watch locked rows.
	maxConnections = 32
)

type MySQLSettings struct {
	MySQLDSN     string `name:"mysql-dsn" env:"MYSQL_DSN" bytes:"" placeholder:"DSN"`
	MySQLDSNFile string `name:"mysql-dsn-file" env:"MYSQL_DSN_FILE" type:"path" placeholder:"FILE"`
	MySQLTLSDir  string `name:"mysql-tls-dir" env:"MYSQL_TLS_DIR" type:"path" placeholder:"DIR"`

	GaleraSingleWriter bool `name:"galera-single-writer" env:"GALERA_SINGLE_WRITER"`

	// RequireDurable refuses servers that may lose what they commit, or do not show it.
	RequireDurable bool `kong:"-"`
}

func (*MySQLSettings) Connections() int { return maxConnections }

func (s *MySQLSettings) Validate() error {
	_, err := s.config()
	return err
}

func (s *MySQLSettings) config() (*mysql.Config, error) {
	dsn, err := secret("MYSQL_DSN_FILE", s.MySQLDSNFile)
	switch {
	case err != nil:
		return nil, err
	case dsn != "" && s.MySQLDSN != "":
		return nil, text.UsageErrorf(text.DSNTwice)
	case dsn == "" && s.MySQLDSN == "":
		return nil, text.UsageErrorf(text.DSNMissing)
	}
	dsn += s.MySQLDSN // one of both
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, text.UsageErrorf(text.DSNMalformed) // the cause would quote the password
	}
	if config.DBName == "" {
		return nil, text.UsageErrorf(text.DSNWithoutDatabase)
	}
	certificates, err := tlsOf("MYSQL_TLS_DIR", s.MySQLTLSDir)
	switch {
	case err != nil:
		return nil, err
	case certificates == nil:
		return config, nil
	case config.Net != "tcp" || config.TLSConfig != "" && config.TLSConfig != "true":
		return nil, text.UsageErrorf(text.DSNAgainstTLSDir)
	}
	config.TLS, config.TLSConfig = certificates, ""
	return config, nil
}

// Open returns a pool. Whatever the DSN says, its sessions have sessionVariables and those of patience. It does not
// connect.
func (s *MySQLSettings) Open(patience Patience, logger *zap.Logger) (*sql.DB, error) {
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	config.ParseTime = true
	config.Loc = time.UTC
	config.ClientFoundRows = true
	config.InterpolateParams = true
	config.MaxAllowedPacket = 0 // the driver asks the server
	config.MultiStatements = false
	config.AllowAllFiles = false
	config.ColumnsWithAlias = false
	config.RejectReadOnly = false // a read-only server is recognised by its error number, not as a lost connection
	config.Timeout = mysqlConnectTimeout
	config.ReadTimeout = patience.Answer
	config.WriteTimeout = answer
	config.Logger, err = zap.NewStdLogAt(logger.Named("mysql"), zap.WarnLevel)
	if err != nil {
		return nil, err
	}
	if err := config.Apply(mysql.Charset("utf8mb4", ""), mysql.TimeTruncate(0),
		mysql.BeforeConnect(noteAsked)); err != nil {
		return nil, fmt.Errorf("set options: %w", err)
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, text.UsageErrorf(text.DSNUnusable)
	}
	db := sql.OpenDB(session{connector, patience.variables(), patience == Settling, s.GaleraSingleWriter,
		s.RequireDurable, new(atomic.Int64)})
	db.SetMaxOpenConns(maxConnections)
	db.SetMaxIdleConns(maxConnections)
	db.SetConnMaxIdleTime(patience.Silent / 2)
	db.SetConnMaxLifetime(time.Minute) // new connections follow the address, also if they only read
	return db, nil
}
