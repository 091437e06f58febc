package settle

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jajeong/jajeong/bench/stage"
)

const yardstick = "LOAD DATA"

// contender is one way to issue a coupon to users.
type contender struct {
	title string
	limit int // the most seats that it can issue in a reasonable time
	// insert prepares the rows, and returns what writes them in a transaction. nil: `settle run`.
	insert inserting
}

type inserting func(users []int) func(ctx context.Context, tx *sql.Tx) error

var contenders = []contender{
	{"settle run", 10_000_000, nil},
	{yardstick, 10_000_000, loadData},
	{"INSERT of 1,000 rows", 1_000_000, values(1000)},
	{"INSERT of 1 row", 100_000, values(1)},
}

func firstCell(name string) string {
	cell, _, _ := strings.Cut(name, " | ")
	return cell
}

// insert measures one transaction in a new database.
func (m *measurement) insert(ctx context.Context, seats int, prepare inserting) (r settled, err error) {
	p, err := m.OpenShop(ctx, 1, seats)
	if err != nil {
		return r, err
	}
	defer p.Close()
	write := prepare(stage.Shuffled(1, seats))
	began := time.Now()
	err = stage.InTransaction(ctx, p.DB, func(tx *sql.Tx) error { return write(ctx, tx) })
	r.took, r.rows = time.Since(began), seats
	if err != nil {
		return r, err
	}
	stored, err := p.Number(ctx, "SELECT COUNT(*) FROM user_coupon")
	if err == nil && stored != seats {
		err = fmt.Errorf("%d rows stored, want %d", stored, seats)
	}
	return r, err
}

const (
	userCouponColumns = "coupon_id, user_id, position, applied_at, issued_at, expires_at, run_id"
	issuedAt          = "2026-11-21 00:00:00.000000"
	expiresAt         = "2026-12-21 00:00:00.000000"
	microseconds      = "2006-01-02 15:04:05.000000"
)

// loadData is the yardstick. It loads only the issued rows, in order of arrival, from memory.
func loadData(users []int) func(context.Context, *sql.Tx) error {
	var file bytes.Buffer
	start := time.Now().Add(-time.Hour).UTC()
	for place, user := range users {
		applied := start.Add(time.Duration(place) * time.Microsecond).Format(microseconds)
		fmt.Fprintf(&file, "1\t%d\t%d\t%s\t%s\t%s\t1\n", user, place+1, applied, issuedAt, expiresAt)
	}
	return func(ctx context.Context, tx *sql.Tx) error {
		return stage.LoadData(ctx, tx, "user_coupon ("+userCouponColumns+")", func(w io.Writer) error {
			_, err := w.Write(file.Bytes())
			return err
		})
	}
}

// values inserts so many rows per statement: many like optimised code, one like most code.
func values(rows int) inserting {
	return func(users []int) func(context.Context, *sql.Tx) error {
		return func(ctx context.Context, tx *sql.Tx) error { return insertValues(ctx, tx, users, rows) }
	}
}

func insertValues(ctx context.Context, tx *sql.Tx, users []int, rows int) error {
	start, place := time.Now().Add(-time.Hour).UTC(), 0
	for chunk := range slices.Chunk(users, rows) {
		text := []byte("INSERT INTO user_coupon (" + userCouponColumns + ") VALUES ")
		for i, user := range chunk {
			if i > 0 {
				text = append(text, ',')
			}
			place++
			text = strconv.AppendInt(append(text, "(1,"...), int64(user), 10)
			text = strconv.AppendInt(append(text, ','), int64(place), 10)
			text = start.Add(time.Duration(place)*time.Microsecond).AppendFormat(append(text, ",'"...), microseconds)
			text = append(text, "','"+issuedAt+"','"+expiresAt+"',1)"...)
		}
		if _, err := tx.ExecContext(ctx, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// measured runs a program to its end.
func measured(cmd *exec.Cmd) (r settled, out []byte, err error) {
	began := time.Now()
	out, r.peak, err = stage.OutputAndPeak(cmd)
	if r.took = time.Since(began); err != nil {
		return r, nil, err
	}
	r.job = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return r, out, nil
}
