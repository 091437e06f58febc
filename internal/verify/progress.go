package verify

import (
	"context"
	"database/sql"
	"math"
	"time"

	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/seal"
)

// marks say how far checks of all coupons have come: rows of table verify_mark.
type marks map[string]uint64

// table is a table that grows by rows with higher ids. A check reads the rows above its mark, and in turns the others.
type table struct {
	name, id string
	at       string // the time of a row; empty: rows are committed in the order of their ids
}

var (
	couponTable  = table{name: "coupon", id: "id"}
	issuedTable  = table{name: "user_coupon", id: "id"}
	recordTable  = table{name: "settlement", id: "run_id", at: "settled_at"}
	eventTable   = table{name: "audit_event", id: "id", at: "at"}
	logTable     = table{name: "coupon_log", id: "id", at: "at"}
	markedTables = []table{couponTable, issuedTable, recordTable, eventTable, logTable}
)

func readMarks(ctx context.Context, db *sql.DB) (marks, error) {
	m := marks{}
	err := mysqltx.Each(ctx, db, func(rows *sql.Rows) error {
		var name string
		var value uint64
		err := rows.Scan(&name, &value)
		m[name] = value
		return err
	}, "SELECT name, value FROM verify_mark")
	return m, mysqltx.Wrap(err, "read table verify_mark")
}

// reach returns the marks of the next check. A transaction can commit a lower id after a higher one: in tables with a
// time, marks stay before the given one.
func (m marks) reach(ctx context.Context, db *sql.DB, before time.Time) (marks, error) {
	reached := marks{seal.MarkFinalised: uint64(before.UnixMicro())}
	for _, t := range markedTables {
		query, args := "SELECT COALESCE(MAX("+t.id+"), 0) FROM "+t.name, []any(nil)
		if t.at != "" {
			query, args = query+" WHERE "+t.id+" > ? AND "+t.at+" < ?", []any{m[t.name], before}
		}
		var highest uint64
		if err := db.QueryRowContext(ctx, query, args...).Scan(&highest); err != nil {
			return nil, mysqltx.Wrap(err, "read the highest id of table %s", t.name)
		}
		reached[t.name] = max(highest, m[t.name])
	}
	return reached, nil
}

func highestOf(ctx context.Context, db *sql.DB, t table) (highest uint64, err error) {
	err = db.QueryRowContext(ctx, "SELECT COALESCE(MAX("+t.id+"), 0) FROM "+t.name).Scan(&highest)
	return highest, mysqltx.Wrap(err, "read the highest id of table %s", t.name)
}

const moveMarkSQL = "INSERT INTO verify_mark (name, value) VALUES (?, ?) ON DUPLICATE KEY UPDATE value = VALUES(value)"

func (p *Plan) moveMarks(ctx context.Context, db *sql.DB) error {
	return mysqltx.NewBrief(db).Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		for _, all := range []marks{p.reached, p.turns} {
			for name, value := range all {
				if err := mysqltx.Upsert(ctx, tx, moveMarkSQL, name, value); err != nil {
					return mysqltx.Wrap(err, "move the mark %s", name)
				}
			}
		}
		return nil
	})
}

// span is a range of ids, both included.
type span struct{ from, to uint64 }

const (
	turns      = 90      // checks in which the turn through a table ends
	readAtOnce = 250_000 // ids in one statement
	highestID  = math.MaxInt64
)

// pieces splits a span.
func (s span) pieces(size uint64) (all []span) {
	for from := s.from; from <= s.to; from += size {
		all = append(all, span{from, min(s.to, from+size-1)})
	}
	return all
}

// spansOf are the ids of a column that are looked at: all of them; or those above a mark and those whose turn it is.
func (p *Plan) spansOf(ctx context.Context, db *sql.DB, column, mark table) ([]span, error) {
	highest, err := highestOf(ctx, db, column)
	if err != nil {
		return nil, err
	}
	recent, turn := span{p.marks[mark.name] + 1, highest}, "turn of "+column.name
	if p.all {
		recent.from = 0
	}
	spans := append(recent.pieces(readAtOnce), span{max(recent.from, highest+1), highestID})
	if p.all {
		return spans, nil
	}
	from := p.marks[turn]
	if from > highest {
		from = 0
	}
	p.turns[turn] = from + highest/turns + 1
	return append(spans, span{from, p.turns[turn] - 1}.pieces(readAtOnce)...), nil
}
