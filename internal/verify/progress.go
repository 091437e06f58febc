package verify

import (
	"context"
	"database/sql"
	"math"
	"time"

	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/seal"
)

// progress says how far checks of all coupons have come: rows of table verify_progress.
type progress map[string]uint64

const (
	turnOfCoupons = "turn of coupon" // the first coupon of the next turn
	lastEnd       = "ended"          // when the last whole check ended (µs since 1970)
)

// table is a table that grows by rows with higher ids. A check reads the rows above those that earlier checks have
// read, and in turns the others.
type table struct {
	name, id string
	at       string // the time of a row; empty: a row that is committed after one with a higher id waits for its turn
	piece    uint64 // ids in one statement
}

var (
	couponTable = table{name: "coupon", id: "id", piece: 1000}
	issuedTable = table{name: "user_coupon", id: "id", piece: 100_000}
	recordTable = table{name: "settlement", id: "run_id", at: "settled_at"}
	eventTable  = table{name: "audit_event", id: "id", at: "at", piece: 100_000}
	logTable    = table{name: "coupon_log", id: "id", at: "at", piece: 10_000}
	grown       = []table{couponTable, issuedTable, recordTable, eventTable, logTable}
)

func readProgress(ctx context.Context, db *sql.DB) (progress, error) {
	p := progress{}
	err := mysqltx.Each(ctx, db, func(rows *sql.Rows) error {
		var name string
		var value uint64
		err := rows.Scan(&name, &value)
		p[name] = value
		return err
	}, "SELECT name, value FROM verify_progress")
	return p, mysqltx.Wrap(err, "read table verify_progress")
}

// overlap is how far the progress stays behind: no run and no change of an issued coupon takes so long.
const overlap = 24 * time.Hour

// reach returns the progress after this check. A transaction can commit a lower id after a higher one: in tables with a
// time, it stays before the given one. It takes back what cannot be: somebody wrote it, so that checks leave rows out.
func (p progress) reach(ctx context.Context, db *sql.DB, now time.Time) (progress, error) {
	before := now.Add(-overlap)
	if p[seal.ProgressFinalised] > uint64(now.UnixMicro()) {
		p[seal.ProgressFinalised] = 0
	}
	reached := progress{seal.ProgressFinalised: uint64(before.UnixMicro())}
	for _, t := range grown {
		highest, err := highestOf(ctx, db, t)
		if err != nil {
			return nil, err
		}
		if p[t.name] > highest {
			p[t.name] = 0
		}
		if t.at != "" {
			query := "SELECT COALESCE(MAX(" + t.id + "), ?) FROM " + t.name +
				" WHERE " + t.id + " > ? AND " + t.at + " < ?"
			err := db.QueryRowContext(ctx, query, p[t.name], p[t.name], before).Scan(&highest)
			if err != nil {
				return nil, mysqltx.Wrap(err, "read the last id of table %s", t.name)
			}
		}
		reached[t.name] = highest
	}
	return reached, nil
}

func highestOf(ctx context.Context, db *sql.DB, t table) (highest uint64, err error) {
	err = db.QueryRowContext(ctx, "SELECT COALESCE(MAX("+t.id+"), 0) FROM "+t.name).Scan(&highest)
	return highest, mysqltx.Wrap(err, "read the highest id of table %s", t.name)
}

const moveSQL = "INSERT INTO verify_progress (name, value) VALUES (?, ?) ON DUPLICATE KEY UPDATE value = VALUES(value)"

// Done notes how far a check has come that has looked at the whole plan, and has sealed or noted every coupon of it.
func (p *Plan) Done(ctx context.Context, db *sql.DB) error {
	return mysqltx.NewBrief(db).Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		now, err := mysqltx.Now(ctx, tx)
		if err != nil {
			return err
		}
		p.reached[lastEnd] = uint64(now.UnixMicro())
		for name, value := range p.reached {
			if p.kept[name] {
				continue
			}
			if err := mysqltx.Upsert(ctx, tx, moveSQL, name, value); err != nil {
				return mysqltx.Wrap(err, "note the progress of %s", name)
			}
		}
		return nil
	})
}

// span is a range of ids, both included.
type span struct{ from, to uint64 }

const highestID = math.MaxUint64

// before is the part of a span before another one. It may be empty.
func (s span) before(other span) span {
	if s.to >= other.from {
		s.to = other.from - 1
	}
	return s
}

// eachPiece calls do for parts of a span in which there are rows.
func eachPiece(ctx context.Context, db *sql.DB, t table, s span, do func(span) error) error {
	for s.from <= s.to {
		var first sql.Null[uint64]
		err := db.QueryRowContext(ctx, "SELECT MIN("+t.id+") FROM "+t.name+" WHERE "+t.id+" BETWEEN ? AND ?", s.from,
			s.to).Scan(&first)
		if err != nil || !first.Valid {
			return mysqltx.Wrap(err, "read ids of table %s", t.name)
		}
		piece := span{first.V, s.to}
		if s.to-first.V >= t.piece {
			piece.to = first.V + t.piece - 1
		}
		if err := do(piece); err != nil || piece.to == s.to {
			return err
		}
		s.from = piece.to + 1
	}
	return nil
}

// keep lets the next check look again where a rule has found something. A check of all rows has had no turn: the next
// one begins at the first row that was found.
func (p *Plan) keep(r stray, first uint64) {
	if !p.all {
		p.kept[r.turn()], p.kept[r.grows.name] = true, true
		return
	}
	if at, is := p.reached[r.turn()]; !is || first < at {
		p.reached[r.turn()] = first
	}
}

// spansOf are the ids of a rule that are looked at: all of them; or those that are new and those whose turn it is.
func (p *Plan) spansOf(ctx context.Context, db *sql.DB, r stray) ([]span, error) {
	if p.all {
		return []span{{0, highestID}}, nil
	}
	recent := span{p.progress[r.grows.name] + 1, highestID}
	if r.grows.name == couponTable.name {
		turn, err := p.takeTurn(ctx, db, r.turn())
		return []span{turn.before(recent), recent}, err
	}
	of := r.column
	if r.grows.name == issuedTable.name {
		of = issuedTable
	}
	highest, err := highestOf(ctx, db, of)
	if err != nil {
		return nil, err
	}
	turn := span{from: p.progress[r.turn()]}
	if turn.from > highest {
		turn.from = 0
	}
	turn.to = turn.from + highest/turns
	p.reached[r.turn()] = turn.to + 1
	return []span{turn.before(recent), recent}, nil
}
