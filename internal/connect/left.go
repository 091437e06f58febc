package connect

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/go-sql-driver/mysql"
)

const (
	notReady = 1047 // error number of a node of Galera that is not in its cluster
	lockWait = 1205 // error number of a read without a table, on such a node
)

// leaves notes an error that says that another server is the primary now. New connections lead there, and none of those
// that the pool has is used again.
//
// A node of Galera that has left its cluster refuses every statement and keeps its sessions. It refuses ROLLBACK, too:
// when it is back, the next BEGIN of the session would commit what the transaction did before. There, a wait for a lock
// is no sign for other connections.
func (c *strictConn) leaves(err error) error {
	refusal, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return err
	}
	switch refusal.Number {
	case 1290, 1792, 1836: // the server is read-only
		c.leavings.CompareAndSwap(c.opened, c.opened+1)
	case notReady:
		c.leavings.CompareAndSwap(c.opened, c.opened+1)
		c.left = true
	case lockWait:
		c.left = c.left || c.ofGalera
	}
	return err
}

// IsValid is asked by database/sql before it keeps a connection.
func (c *strictConn) IsValid() bool { return !c.left && c.mysqlConn.IsValid() }

// ResetSession is called by database/sql before it uses a connection again.
func (c *strictConn) ResetSession(ctx context.Context) error {
	if c.opened != c.leavings.Load() {
		return driver.ErrBadConn
	}
	return c.mysqlConn.ResetSession(ctx)
}

// Ping asks a node of Galera for a read: it answers a ping even if it has left.
func (c *strictConn) Ping(ctx context.Context) error {
	if !c.ofGalera {
		return c.mysqlConn.Ping(ctx)
	}
	_, err := c.ExecContext(ctx, "SELECT 1", nil)
	return err
}

func (c *strictConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.mysqlConn.ExecContext(ctx, query, args)
	return result, c.leaves(err)
}

func (c *strictConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.mysqlConn.QueryContext(ctx, query, args)
	return rows, c.leaves(err)
}

func (c *strictConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.mysqlConn.BeginTx(ctx, o)
	return strictTx{tx, c}, c.leaves(err)
}

// strictTx leaves the connection if the transaction may still be open.
type strictTx struct {
	driver.Tx
	on *strictConn
}

func (t strictTx) Commit() error { return t.on.leaves(t.Tx.Commit()) }

func (t strictTx) Rollback() error {
	err := t.Tx.Rollback()
	t.on.left = t.on.left || err != nil
	return err
}
