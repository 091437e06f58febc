package connect

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/jajeong/jajeong/internal/durability"
	"github.com/jajeong/jajeong/internal/text"
)

const (
	// serverSQL shows what a server may not have. To read one that it does not have would be an error.
	serverSQL = "SHOW SESSION VARIABLES WHERE Variable_name IN ('log_bin', 'binlog_format', 'wsrep_on', " +
		"'wsrep_max_ws_rows', 'wsrep_max_ws_size')"
	// causalSQL lets a node that has taken over apply all that the one before has committed, before it is read.
	causalSQL = "SET SESSION wsrep_sync_wait = 1"

	noLimit = "0"
	// minWriteSet, in bytes, has room for the largest settlement. It is the default of Galera and its most.
	minWriteSet = 1<<31 - 1
)

// suit refuses a server on which the program would fail later.
func (s session) suit(ctx context.Context, conn driver.Conn, server map[string]string) error {
	if durability.IsOn(server["wsrep_on"]) {
		if err := s.suitGalera(ctx, conn, server); err != nil {
			return err
		}
	}
	if !s.requireDurable {
		return nil
	}
	found, err := durability.Look(ctx, func(ctx context.Context, query string) (map[string]string, error) {
		return shown(ctx, conn, query)
	})
	switch {
	case err != nil || len(found) == 0:
		return err
	case !slices.ContainsFunc(found, func(f durability.Finding) bool { return !f.Passes() }):
		return text.RetryableErrorf(text.NotDurable, durability.Strings(found))
	default:
		return text.UsageErrorf(text.NotDurable, durability.Strings(found))
	}
}

// suitGalera refuses several writers, whose settlements would fail at COMMIT. A session for settlements needs room for
// a large transaction.
func (s session) suitGalera(ctx context.Context, conn driver.Conn, found map[string]string) error {
	size, err := strconv.ParseInt(found["wsrep_max_ws_size"], 10, 64)
	switch rows := found["wsrep_max_ws_rows"]; {
	case !s.singleWriter:
		return text.UsageErrorf(text.GaleraWriters)
	case s.settles && rows != noLimit:
		return text.UsageErrorf(text.GaleraLimit, "wsrep_max_ws_rows", rows, noLimit)
	case s.settles && (err != nil || size < minWriteSet):
		return text.UsageErrorf(text.GaleraLimit, "wsrep_max_ws_size", found["wsrep_max_ws_size"], minWriteSet)
	}
	_, err = conn.(driver.ExecerContext).ExecContext(ctx, causalSQL, nil)
	return err
}

// shown returns the rows of a SHOW statement by their first column.
func shown(ctx context.Context, conn driver.Conn, query string) (map[string]string, error) {
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, query, nil)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found, row := map[string]string{}, make([]driver.Value, len(rows.Columns()))
	for {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return nil, err
		}
		found[fmt.Sprintf("%s", row[0])] = fmt.Sprintf("%s", row[1])
	}
}
