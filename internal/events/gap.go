package events

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Gap is a period whose events a sink may lack although it had acknowledged them. It is kept in event_relay until a
// replay of the whole period has run to its end.
type Gap struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`     // exclusive
	Replay string    `json:"replay"` // the command that publishes the events again
}

const (
	// clocksMargin is how much the clocks of the sink and of MySQL may drift apart within the time for which events are
	// kept.
	clocksMargin = time.Minute
	// gapRows bounds the rows that are read to find the oldest event of a gap. It relies on the order of publication:
	// events are published about in the order in which they happened, so the rows published first have the oldest
	// event.
	gapRows = 1_000_000
)

func newGap(sink string, from, to time.Time) *Gap {
	command := fmt.Sprintf("settle events replay --sink %s --from %s --to %s", sink, from.Format(time.RFC3339),
		to.Format(time.RFC3339))
	return &Gap{from, to, command}
}

// The ids are in the indexes, so that no row is read for its publication alone. The row with the lowest id has the
// oldest event: a run gets its id when it begins, which is the time of its events; a row of coupon_log gets it in the
// transaction of its change. Those that begin together may get ids in another order than times, by seconds: noteGap has
// a margin of minutes.
const oldestPublishedSQL = `
SELECT MIN(o.at) FROM (
  SELECT settled_at AS at FROM settlement WHERE run_id = (
    SELECT MIN(a.run_id) FROM (SELECT run_id FROM settlement FORCE INDEX (settlement_published)
    WHERE published_at >= ? AND published_at < ? AND first_user_coupon_id > 0 ORDER BY published_at LIMIT ?) a)
  UNION ALL
  SELECT at FROM coupon_log WHERE id = (
    SELECT MIN(b.id) FROM (SELECT id FROM coupon_log FORCE INDEX (coupon_log_published)
    WHERE published_at >= ? AND published_at < ? ORDER BY published_at LIMIT ?) b)) o`

const (
	gapSQL      = "SELECT may_lack_from, may_lack_to FROM event_relay WHERE sink = ?"
	noteGapSQL  = "UPDATE event_relay SET may_lack_from = ?, may_lack_to = ? WHERE sink = ?"
	closeGapSQL = `
UPDATE event_relay SET may_lack_from = NULL, may_lack_to = NULL
WHERE sink = ? AND may_lack_from = ? AND may_lack_to = ? AND server = ?`
)

// noteGap adds what was published from a time on and before another to what the sink may lack. A replay selects events
// by when they happened, which is before their publication: mayBeLost is the margin on both sides. It returns nil if
// that is no news.
func noteGap(ctx context.Context, tx *sql.Tx, sink string, since, before time.Time) (*Gap, error) {
	var oldest sql.NullTime
	err := tx.QueryRowContext(ctx, oldestPublishedSQL, since, before, gapRows, since, before, gapRows).Scan(&oldest)
	if err != nil || !oldest.Valid {
		return nil, mysqltx.Wrap(err, "read the oldest event that sink %s may lack", sink)
	}
	from, to := oldest.Time.Add(-mayBeLost).Truncate(time.Minute),
		before.Add(mayBeLost+time.Minute).Truncate(time.Minute)
	known, err := ReadGap(ctx, tx, sink)
	if err != nil {
		return nil, err
	}
	if known != nil {
		if known.From.Before(from) {
			from = known.From
		}
		if known.To.After(to) {
			to = known.To
		}
		if known.From.Equal(from) && known.To.Equal(to) {
			return nil, nil
		}
	}
	err = mysqltx.Exec(ctx, tx, 1, noteGapSQL, from, to, sink)
	return newGap(sink, from, to), mysqltx.Wrap(err, "note what sink %s may lack", sink)
}

// ReadGap returns what a sink may lack. It is nil if nothing is known to be missing.
func ReadGap(ctx context.Context, q mysqltx.Querier, sink string) (*Gap, error) {
	all, err := mysqltx.Collect(ctx, q, (*lacking).fields, gapSQL, sink)
	if err != nil || len(all) == 0 {
		return nil, mysqltx.Wrap(err, "read what sink %s may lack", sink)
	}
	return all[0].gap(sink), nil
}

// lacking are the columns of a gap.
type lacking struct{ from, to sql.NullTime }

func (l *lacking) fields() []any { return []any{&l.from, &l.to} }

func (l *lacking) gap(sink string) *Gap {
	if !l.from.Valid {
		return nil
	}
	return newGap(sink, l.from.Time, l.to.Time)
}

// CloseGap forgets a gap that a replay has filled, and returns what the sink may still lack: the gap if it has grown
// meanwhile, or if the relay publishes to another server than the replay did.
func CloseGap(ctx context.Context, db *mysqltx.DB, sink string, gap *Gap, server string) (left *Gap, err error) {
	err = db.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		closed, err := mysqltx.Affected(tx.ExecContext(ctx, closeGapSQL, sink, gap.From, gap.To, server))
		if left = nil; err != nil || closed == 1 {
			return err
		}
		left, err = ReadGap(ctx, tx, sink)
		return err
	})
	return left, mysqltx.Wrap(err, "note that the events which sink %s lacked were published again", sink)
}
