// Package database provides a MySQL or MariaDB server for benchmarks, and new databases with the tables of the product.
package database

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/testenv"
)

// serverArgs are typical of production: durable commits, a buffer pool for all tables, and a redo log that does not stall.
// MariaDB and MySQL name the size of the redo log differently.
var serverArgs = []string{"--innodb-buffer-pool-size=2G", "--loose-innodb-log-file-size=1G", "--loose-innodb-redo-log-capacity=1G",
	"--innodb-flush-log-at-trx-commit=1", "--max-allowed-packet=64M"}

// Server is a started server, or that of TEST_MYSQL_DSN.
type Server struct {
	Version string
	Family  string // mysql or mariadb

	own    *testenv.MySQL // nil with TEST_MYSQL_DSN
	config *mysql.Config
	made   int
}

// Start starts the server. Close stops it.
func Start(ctx context.Context) (s *Server, err error) {
	s = new(Server)
	dsn := os.Getenv("TEST_MYSQL_DSN")
	if dsn == "" {
		if s.own, err = testenv.StartMySQL(ctx, testenv.MySQLOptions{Args: serverArgs}); err != nil {
			return nil, err
		}
		dsn = s.own.DSN("")
	}
	if s.config, err = mysql.ParseDSN(dsn); err != nil {
		s.Close()
		return nil, fmt.Errorf("TEST_MYSQL_DSN: %w", err)
	}
	if err := s.ask(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) ask(ctx context.Context) error {
	db, err := s.Open("")
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&s.Version); err != nil {
		return fmt.Errorf("read the version of MySQL: %w", err)
	}
	s.Family = "mysql"
	if strings.Contains(s.Version, "MariaDB") {
		s.Family = "mariadb"
	} else {
		s.Version = "MySQL " + s.Version
	}
	return nil
}

// Close stops the server if Start has started it.
func (s *Server) Close() {
	if s.own != nil {
		_ = s.own.Stop()
	}
}

// Own reports whether Start has started the server. Only then Kill and Restart are possible.
func (s *Server) Own() bool { return s.own != nil }

// Kill ends the server like a crash. What it has committed stays.
func (s *Server) Kill() error { return s.own.Kill() }

// Restart starts a killed server on the same port, and returns when it answers.
func (s *Server) Restart(ctx context.Context) error { return s.own.Restart(ctx) }

// Pid is 0 with TEST_MYSQL_DSN.
func (s *Server) Pid() int {
	if s.own == nil {
		return 0
	}
	return s.own.Pid()
}

// DSN returns the DSN of a database.
func (s *Server) DSN(name string) string {
	config := s.config.Clone()
	config.DBName = name
	config.AllowNativePasswords = true
	return config.FormatDSN()
}

// Open returns a connection pool of a database.
func (s *Server) Open(name string) (*sql.DB, error) { return sql.Open("mysql", s.DSN(name)) }

// Fresh creates a database with the tables of the product and open coupons, numbered from 1. The caller drops it.
func (s *Server) Fresh(ctx context.Context, coupons, seats int) (db *sql.DB, name string, drop func(), err error) {
	s.made++
	name = fmt.Sprintf("jajeong_bench_%d_%d", os.Getpid(), s.made)
	admin, err := s.Open("")
	if err != nil {
		return nil, "", nil, err
	}
	var own *sql.DB
	remove := func() {
		if own != nil {
			_ = own.Close()
		}
		_, _ = admin.Exec("DROP DATABASE IF EXISTS " + name)
		_ = admin.Close()
	}
	defer func() {
		if err != nil {
			remove()
		}
	}()
	if _, err := admin.ExecContext(ctx, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4"); err != nil {
		return nil, "", nil, fmt.Errorf("create database: %w", err)
	}
	product, err := (&connect.MySQLSettings{MySQLDSN: s.DSN(name)}).Open(connect.Patient, zap.NewNop())
	if err != nil {
		return nil, "", nil, err
	}
	defer product.Close()
	if _, err := connect.Migrate(ctx, product, "Asia/Seoul", nil); err != nil {
		return nil, "", nil, err
	}
	if own, err = s.Open(name); err != nil {
		return nil, "", nil, err
	}
	for id := 1; id <= coupons && err == nil; id++ {
		_, err = own.ExecContext(ctx, `INSERT INTO coupon (id, name, total_quantity, apply_opens_at, apply_closes_at)
			VALUES (?, 'bench', ?, UTC_TIMESTAMP(6) - INTERVAL 2 DAY, UTC_TIMESTAMP(6) + INTERVAL 1 DAY)`, id, seats)
	}
	return own, name, remove, err
}
