package jajeongtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Tables are all rows of MySQL at one instant, as a replica has them that lacks what was committed later.
type Tables []table

type table struct {
	name    string
	columns []string
	rows    [][]any
}

const columnsSQL = `
SELECT t.table_name, c.column_name
FROM information_schema.tables t JOIN information_schema.columns c
    ON c.table_schema = t.table_schema AND c.table_name = t.table_name
WHERE t.table_schema = DATABASE() AND t.table_type = 'BASE TABLE' AND COALESCE(c.generation_expression, '') = ''
ORDER BY t.table_name, c.ordinal_position`

// CopyTables copies all tables at one instant. It waits for no transaction.
func (d *Deployment) CopyTables(ctx context.Context) (all Tables, err error) {
	tx, err := d.DB.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	err = mysqltx.Each(ctx, tx, func(rows *sql.Rows) error {
		var name, column string
		err := rows.Scan(&name, &column)
		if len(all) == 0 || all[len(all)-1].name != name {
			all = append(all, table{name: name})
		}
		last := &all[len(all)-1]
		last.columns = append(last.columns, "`"+column+"`")
		return err
	}, columnsSQL)
	for i := range all {
		err = errors.Join(err, all[i].read(ctx, tx))
	}
	return all, err
}

func (t *table) read(ctx context.Context, tx *sql.Tx) error {
	return mysqltx.Each(ctx, tx, func(rows *sql.Rows) error {
		types, err := rows.ColumnTypes()
		if err != nil {
			return err
		}
		values := make([]any, len(types))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			return err
		}
		for i, value := range values {
			values[i] = *value.(*any)
			text, ok := values[i].([]byte)
			if ok && !strings.Contains(types[i].DatabaseTypeName(), "BINARY") { // JSON is no binary
				values[i] = string(text)
			}
		}
		t.rows = append(t.rows, values)
		return nil
	}, "SELECT "+strings.Join(t.columns, ", ")+" FROM `"+t.name+"`")
}

const countersSQL = `
SELECT table_name FROM information_schema.columns WHERE table_schema = DATABASE() AND extra LIKE '%auto_increment%'`

// PutTablesBack makes MySQL what it was. It gives ids again. Nobody may have a transaction open.
func (d *Deployment) PutTablesBack(all Tables) {
	d.T.Helper()
	ctx := d.T.Context()
	conn, err := d.DB.Conn(ctx)
	require.NoError(d.T, err)
	defer conn.Close()
	execute := func(statement string, args ...any) {
		_, err := conn.ExecContext(ctx, statement, args...)
		require.NoError(d.T, err)
	}
	execute("SET foreign_key_checks = 0")
	execute("BEGIN")
	for _, t := range all {
		execute("DELETE FROM `" + t.name + "`")
		for some := range slices.Chunk(t.rows, 500) {
			row := "(" + mysqltx.List("?", len(t.columns)) + ")"
			execute("INSERT INTO `"+t.name+"` ("+strings.Join(t.columns, ", ")+") VALUES "+
				mysqltx.List(row, len(some)), slices.Concat(some...)...)
		}
	}
	execute("COMMIT")
	for _, name := range Column[string](d, countersSQL) {
		execute("ALTER TABLE `" + name + "` AUTO_INCREMENT = 1") // above the highest that is left
	}
	execute("SET foreign_key_checks = 1")
}

// Line is what Redis had of a coupon at one instant, by key.
type Line map[string]kept

type kept struct {
	dump    string
	expires bool
}

// CopyLine copies what Redis has of a coupon.
func (d *Deployment) CopyLine(ctx context.Context, couponID coupon.CouponID) (Line, error) {
	line := Line{}
	for _, key := range d.Keys(couponID) {
		dump, err := d.Redis.Dump(ctx, key).Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		left, problem := d.Redis.PTTL(ctx, key).Result()
		if err := errors.Join(err, problem); err != nil {
			return nil, fmt.Errorf("copy %s: %w", key, err)
		}
		line[key] = kept{dump, left > 0}
	}
	return line, nil
}

// keptFor is longer than any coupon of a test needs its keys.
const keptFor = 10 * 24 * time.Hour

// PutLineBack makes Redis what it was, in the same epoch: see FailOver.
func (d *Deployment) PutLineBack(couponID coupon.CouponID, line Line) {
	d.T.Helper()
	d.LoseRedis(couponID)
	for key, was := range line {
		left := time.Duration(0)
		if was.expires {
			left = keptFor
		}
		require.NoError(d.T, d.Redis.Restore(d.T.Context(), key, left, was.dump).Err())
	}
}

// FailOver makes the next script of a coupon begin an epoch, as if its state were that of another server. It may be
// called from any goroutine.
func (d *Deployment) FailOver(couponID coupon.CouponID) {
	d.T.Helper()
	assert.NoError(d.T, d.Redis.HDel(d.T.Context(), d.Key("state", couponID), "run_id").Err())
}

// Keys are all keys of a coupon.
func (d *Deployment) Keys(couponID coupon.CouponID) []string {
	all := []string{d.Queue(couponID)}
	for _, kind := range []string{"state", "issued", "rejected", "dlq", "dlq:reason", "returned"} {
		all = append(all, d.Key(kind, couponID))
	}
	return all
}
