package settle

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/ledger"
)

// verdict is what becomes of one application on the day it is looked at.
type verdict byte

const (
	eligible      verdict = iota
	settled               // recorded in MySQL with this very arrival: only Redis has not heard yet
	holdsAlready          // the user holds the coupon by another arrival or by hand
	unknownUser           // there is no such user
	inactiveUser          // the user is blocked or withdrawn
	malformedUser         // the member is no user id
)

// Cause is why an application is under review: stable, in capitals, what operators group by.
type Cause string

// The causes that a settlement finds by itself.
const (
	CauseUnknownUser  Cause = "UNKNOWN_USER"
	CauseInactiveUser Cause = "INACTIVE_USER"
	CauseMalformed    Cause = "MALFORMED_USER_ID"
	// CausePassedOver: the user could not be given a coupon when this place in the line was settled and can be now,
	// but the seats behind have been given. The next free seat is theirs.
	CausePassedOver Cause = "PASSED_OVER"
	// CauseBadRow: the database refused this user's row alone; its error is the message. Every run tries again.
	CauseBadRow Cause = "BAD_ROW"
	// CauseDatabaseAway: among the first of the line while MySQL could not be reached. Every run tries again.
	CauseDatabaseAway Cause = "DATABASE_AWAY"
)

// classified is an application with its verdict.
type classified struct {
	Application
	verdict verdict
	holds   bool   // settled as issued, or holdsAlready: the door may answer ALREADY_ISSUED
	status  string // the user's status, for inactiveUser
}

// rejection is why this application cannot be settled; ok is false where nothing stands against it.
func (c classified) rejection() (f Failure, ok bool) {
	f.Application = c.Application
	switch c.verdict {
	case unknownUser:
		f.Cause, f.Message = CauseUnknownUser, fmt.Sprintf("there is no user %d", c.User)
	case inactiveUser:
		f.Cause, f.Message = CauseInactiveUser, fmt.Sprintf("user %d is %s", c.User, c.status)
	case malformedUser:
		f.Cause, f.Message = CauseMalformed, "the member is not a user id in plain decimal"
	default:
		return Failure{}, false
	}
	return f, true
}

// applicationsTable turns a JSON array of [user id, arrival, …] into rows. User ids were checked canonical before:
// JSON_TABLE would turn other text into 0.
const applicationsTable = `JSON_TABLE(?, '$[*]' COLUMNS (
	n FOR ORDINALITY, user_id BIGINT UNSIGNED PATH '$[0]', arrival BIGINT UNSIGNED PATH '$[1]'
)) AS j`

// appliedAt is the arrival of applicationsTable as DATETIME(6); FROM_UNIXTIME would lose microseconds.
const appliedAt = `CAST('1970-01-01' AS DATETIME(6)) + INTERVAL j.arrival MICROSECOND`

// exceptionsSQL finds whoever is not simply eligible; almost everybody is, and makes no row. A member that is no user
// id asks for user 0, whom nobody is, and finds what was recorded when it was dropped.
const exceptionsSQL = `
SELECT j.n, u.status, c.user_id IS NOT NULL,
       COALESCE(c.run_id IS NOT NULL AND c.applied_at = ` + appliedAt + `, FALSE), o.user_id IS NOT NULL, COALESCE(o.reason, '')
FROM ` + applicationsTable + `
LEFT JOIN ` + "`user`" + ` u ON u.id = j.user_id
LEFT JOIN user_coupon c ON c.coupon_id = ? AND c.user_id = j.user_id
LEFT JOIN application_outcome o ON o.coupon_id = ? AND o.user_id = j.user_id AND o.applied_at = ` + appliedAt + `
WHERE u.id IS NULL OR u.status <> 'ACTIVE' OR c.id IS NOT NULL OR o.user_id IS NOT NULL`

// classify looks up a page of the line, in the order of the page.
func classify(ctx context.Context, tx *sql.Tx, coupon uint64, page []Application) ([]classified, error) {
	all := make([]classified, len(page))
	for i, a := range page {
		all[i].Application = a
	}
	rows, err := tx.QueryContext(ctx, exceptionsSQL, applicationsJSON(page), coupon, coupon)
	if err != nil {
		return nil, fmt.Errorf("classify applications of coupon %d: %w", coupon, err)
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		var status sql.NullString
		var holds, holdsThis, recorded bool
		var reason string
		if err := rows.Scan(&n, &status, &holds, &holdsThis, &recorded, &reason); err != nil {
			return nil, fmt.Errorf("classify applications of coupon %d: %w", coupon, err)
		}
		c := &all[n-1]
		if c.User == 0 { // all of these are user 0: the record says which
			holds, recorded = false, recorded && strings.HasPrefix(reason, ledger.Malformed(c.Member))
		}
		c.holds = holds
		switch {
		case holdsThis, recorded && c.Source != NotSelected: // its own record does not settle a NOT_SELECTED one
			c.verdict = settled
		case c.User == 0:
			c.verdict = malformedUser
		case holds:
			c.verdict = holdsAlready
		case !status.Valid:
			c.verdict = unknownUser
		case status.String != "ACTIVE":
			c.verdict, c.status = inactiveUser, status.String
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("classify applications of coupon %d: %w", coupon, err)
	}
	return all, nil
}

// applicationsJSON is [[user, arrival], …]. It is a string because the driver marks bytes as
// binary, which the server does not take for JSON.
func applicationsJSON(page []Application) string {
	const perApplication = 40 // two numbers, brackets, commas
	text := make([]byte, 0, 2+perApplication*len(page))
	text = append(text, '[')
	for i, a := range page {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, '[')
		text = strconv.AppendUint(text, a.User, 10)
		text = append(text, ',')
		text = strconv.AppendInt(text, a.Arrival, 10)
		text = append(text, ']')
	}
	return string(append(text, ']'))
}

func fromArrival(µs int64) time.Time { return time.UnixMicro(µs).UTC() }
