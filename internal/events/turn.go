package events

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/mysqltx"
)

// markRows bounds the settlements, and the rows of coupon_log, that one transaction marks.
const markRows = 1_000

const insertSQL = "INSERT INTO event_relay (sink) VALUES (?)"

// historySQL marks settlements from before the events were turned on: they have nothing to publish.
const historySQL = `
UPDATE settlement SET first_user_coupon_id = NULL WHERE published_at IS NULL AND first_user_coupon_id > 0
ORDER BY published_at, first_user_coupon_id LIMIT ?`

const (
	// historyEndSQL reads where coupon_log ended when the events were turned on, for whatever sink.
	historyEndSQL = "SELECT MIN(log_id) FROM event_relay WHERE from_at IS NOT NULL"
	lastChangeSQL = "SELECT COALESCE(MAX(id), 0) FROM coupon_log"
	turnOnSQL     = "UPDATE event_relay SET from_at = UTC_TIMESTAMP(6), log_id = ? WHERE sink = ?"
)

// turnOn marks what is already there as history. It takes several rounds; inserting the row first keeps other relays
// away. If another sink was turned on before, nothing is history: what that sink has not got, this one gets.
func turnOn(ctx context.Context, tx *sql.Tx, sink string, inserted bool) (err error) {
	defer func() { err = mysqltx.Wrap(err, "turn on sink %s", sink) }()
	if !inserted {
		return mysqltx.Exec(ctx, tx, 1, insertSQL, sink)
	}
	var end sql.Null[uint64]
	if err := tx.QueryRowContext(ctx, historyEndSQL).Scan(&end); err != nil {
		return err
	}
	if !end.Valid {
		marked, err := mysqltx.Affected(tx.ExecContext(ctx, historySQL, markRows))
		if err != nil || marked == markRows {
			return err
		}
		if err := tx.QueryRowContext(ctx, lastChangeSQL).Scan(&end.V); err != nil {
			return err
		}
	}
	return mysqltx.Exec(ctx, tx, 1, turnOnSQL, end.V, sink)
}

const (
	claimSQL = "UPDATE event_relay SET claimed_at = UTC_TIMESTAMP(6) WHERE sink = ?"
	laterSQL = `
SELECT o.sink FROM event_relay o JOIN event_relay r ON r.sink = ? AND o.claimed_at > r.claimed_at
    ORDER BY o.claimed_at DESC LIMIT 1`
)

// Superseded means that a process with another sink was started later. A deployment has one sink: what one sink has
// got, the other does not get.
type Superseded struct{ Sink, By string }

func (s *Superseded) Error() string {
	return fmt.Sprintf(
		"a process with EVENT_SINK=%s was started later than those with %s: a deployment has one sink, so set "+
			"EVENT_SINK to the same in all of them, and restart them",
		s.By, s.Sink)
}

// claim makes the sink that of the deployment. Once a process has claimed it, a sink that is claimed later supersedes
// it.
func claim(ctx context.Context, tx *sql.Tx, sink string, claimed bool) error {
	if !claimed {
		return mysqltx.Wrap(mysqltx.Exec(ctx, tx, 1, claimSQL, sink), "claim sink %s", sink)
	}
	later, err := mysqltx.Column[string](ctx, tx, laterSQL, sink)
	if err == nil && len(later) > 0 {
		return &Superseded{sink, later[0]}
	}
	return mysqltx.Wrap(err, "read the other sinks")
}

// mayBeLost is how much of what the sink had acknowledged is published again, if it may have lost anything: a replica
// or an append-only file is seconds behind; the rest is margin. What it lost before that, a person publishes again: see
// Gap.
const mayBeLost = 10 * time.Minute

const lastPublishedSQL = `
SELECT UTC_TIMESTAMP(6), MAX(p.at) FROM (SELECT MAX(published_at) AS at FROM settlement
    UNION ALL SELECT MAX(published_at) FROM coupon_log) p`

// The oldest are first, so that the last publication stays known until the end.
const (
	settlementsAgainSQL = `
UPDATE settlement SET published_at = NULL WHERE published_at >= ? ORDER BY published_at LIMIT ?`
	changesAgainSQL = "UPDATE coupon_log SET published_at = NULL WHERE published_at >= ? ORDER BY published_at LIMIT ?"
)

// publishAgain marks what was published in the ten minutes before the last publication as not published, and notes
// where the sink's events are now. If that takes several rounds, the others follow. gap is what the sink lacks besides,
// if that is news.
func publishAgain(ctx context.Context, tx *sql.Tx, at cursor, look Look, sink string) (again int, gap *Gap, err error) {
	var now time.Time
	var since sql.NullTime // NULL, which matches no row, if nothing was ever published
	if err := tx.QueryRowContext(ctx, lastPublishedSQL).Scan(&now, &since); err != nil {
		return 0, nil, mysqltx.Wrap(err, "read the last publication")
	}
	since.Time = since.Time.Add(-mayBeLost)
	if look.Lacks > 0 && since.Valid {
		if gap, err = noteGap(ctx, tx, sink, now.Add(-look.Lacks-clocksMargin), since.Time); err != nil {
			return 0, nil, err
		}
	}
	for _, query := range []string{settlementsAgainSQL, changesAgainSQL} {
		marked, err := mysqltx.Affected(tx.ExecContext(ctx, query, since, markRows))
		if err != nil {
			return 0, nil, mysqltx.Wrap(err, "mark what sink %s may have lost", sink)
		}
		if again += marked; marked == markRows {
			return again, gap, nil
		}
	}
	return again, gap, cursor{Place: look.Place, log: at.log}.write(ctx, tx, sink)
}
