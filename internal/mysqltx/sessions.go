package mysqltx

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// lockingSQL has the transactions that hold locks, of sessions whose database is this one. The server gives their
// beginning in its own time zone.
const lockingSQL = `
SELECT p.id, p.user, p.host, p.command, p.time FROM information_schema.innodb_trx t
  JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
 WHERE p.db = DATABASE() AND t.trx_rows_locked > 0 AND t.trx_started < CONVERT_TZ(UTC_TIMESTAMP(), '+00:00',
   'SYSTEM') - INTERVAL ? SECOND
 ORDER BY t.trx_started LIMIT 5`

// LockingSessions returns up to five sessions of this database whose transactions have held locks for longer than that,
// such as `7 jajeong_settle@10.0.0.3:41520 (Sleep, 12 s)`. It needs the right PROCESS.
func LockingSessions(ctx context.Context, q Querier, longer time.Duration) (sessions []string, err error) {
	err = Each(ctx, q, func(rows *sql.Rows) error {
		var id, seconds int64
		var user, host, command string
		if err := rows.Scan(&id, &user, &host, &command, &seconds); err != nil {
			return err
		}
		sessions = append(sessions, fmt.Sprintf("%d %s@%s (%s, %d s)", id, user, host, command, seconds))
		return nil
	}, lockingSQL, int(longer.Seconds()))
	return sessions, Wrap(err, "find sessions with locks")
}
