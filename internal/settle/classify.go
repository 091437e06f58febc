package settle

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/users"
)

// verdict is what becomes of one application on the day it is looked at.
type verdict byte

const (
	eligible       verdict = iota
	alreadySettled         // recorded in MySQL with this very arrival: only Redis has not heard yet
	holdsAlready           // the user holds the coupon by another arrival or by hand
	unknownUser            // there is no such user
	inactiveUser           // the user's status is not one that means active
	malformedUser          // the member is no user id
)

// classified is an application with its verdict.
type classified struct {
	coupon.Application
	verdict verdict
	holds   bool   // settled as issued, or holdsAlready: the door may answer ALREADY_ISSUED
	status  string // the user's status, for inactiveUser
}

// rejection is why this application cannot be settled; ok is false where nothing stands against it.
func (c classified) rejection() (f coupon.Failure, ok bool) {
	f.Application = c.Application
	switch c.verdict {
	case unknownUser:
		f.Cause, f.Message = coupon.CauseUnknownUser, fmt.Sprintf("there is no user %d", c.User())
	case inactiveUser:
		f.Cause, f.Message = coupon.CauseInactiveUser, fmt.Sprintf("user %d is %s", c.User(), users.Shown(c.status))
	case malformedUser:
		f.Cause, f.Message = coupon.CauseMalformed, "the member is not a user id in plain decimal"
	default:
		return coupon.Failure{}, false
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

// exceptionsSQL, in which users.Table puts the shop's table, finds whoever is not simply eligible; almost everybody is, and makes no row. A user with several outcomes
// makes several. Each user is looked up by a key, whatever the server believes about its tables: of one that has just been
// filled it may think that it is empty, and read all of it for every page. The first two parameters behind the JSON say whether there is any coupon to find at all, and the two
// behind those the same of outcomes: where not, the server does not look for one of each user.
const exceptionsSQL = `
SELECT j.n, {id} IS NOT NULL, {active}, {status}, c.user_id IS NOT NULL, IF(c.run_id IS NULL, NULL, c.applied_at), o.applied_at
FROM JSON_TABLE(?, '$[*]' COLUMNS (n FOR ORDINALITY, user_id BIGINT UNSIGNED PATH '$')) AS j
LEFT JOIN {users} ON {id} = j.user_id AND j.user_id <= {last}
LEFT JOIN user_coupon c ON ? AND c.coupon_id = ? AND c.user_id = j.user_id
LEFT JOIN application_outcome o FORCE INDEX (PRIMARY) ON ? AND o.coupon_id = ? AND o.user_id = j.user_id AND o.user_id > 0
WHERE NOT {active} OR c.user_id IS NOT NULL OR o.user_id IS NOT NULL`

func applicationsOf(failures []coupon.Failure) []coupon.Application {
	all := make([]coupon.Application, len(failures))
	for i, f := range failures {
		all[i] = f.Application
	}
	return all
}

func applicationsIn(page []classified) []coupon.Application {
	all := make([]coupon.Application, len(page))
	for i, c := range page {
		all[i] = c.Application
	}
	return all
}

// assumeExisting has classify look for coupons and outcomes of each user.
var assumeExisting = ledger.Past{Held: true, Recorded: true, Settled: true}

// classify looks up a page of the line, in the order of the page.
func (s *Settler) classify(ctx context.Context, q mysqltx.Querier, couponID coupon.CouponID, past ledger.Past, page []coupon.Application) ([]classified, error) {
	all := make([]classified, len(page))
	for i, a := range page {
		all[i].Application = a
	}
	malformed := false
	order := byUser(page) // as the keys have them
	directory, err := s.Users.Table(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("classify applications of coupon %d: %w", couponID, err)
	}
	rows, err := q.QueryContext(ctx, directory.SQL(exceptionsSQL), usersJSON(page, order), past.Held, couponID, past.Recorded, couponID)
	if err != nil {
		return nil, fmt.Errorf("classify applications of coupon %d: %w", couponID, err)
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		var exists, active, holds bool
		var status string
		var issued, recorded sql.NullTime
		if err := rows.Scan(&n, &exists, &active, &status, &holds, &issued, &recorded); err != nil {
			return nil, fmt.Errorf("classify applications of coupon %d: %w", couponID, err)
		}
		c := &all[order[n-1]]
		c.holds = holds && c.User() != 0 // many members are user 0
		switch {
		case c.verdict == alreadySettled: // by another row
		case arrivedAt(issued, c.Arrival), arrivedAt(recorded, c.Arrival) && c.Source != coupon.SourceNotSelected: // its own record does not settle a NOT_SELECTED one
			c.verdict = alreadySettled
		case c.User() == 0:
			c.verdict, malformed = malformedUser, true
		case holds:
			c.verdict = holdsAlready
		case !exists:
			c.verdict = unknownUser
		case !active:
			c.verdict, c.status = inactiveUser, status
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("classify applications of coupon %d: %w", couponID, err)
	}
	if malformed && past.Recorded {
		return all, findDropped(ctx, q, couponID, all)
	}
	return all, nil
}

func arrivedAt(t sql.NullTime, arrival coupon.Arrival) bool {
	return t.Valid && t.Time.UnixMicro() == arrival
}

const droppedSQL = `
SELECT j.n, o.reason FROM ` + applicationsTable + `
JOIN application_outcome o ON o.coupon_id = ? AND o.user_id = 0 AND o.applied_at = ` + appliedAt

// findDropped finds the members that are no user ids and were dropped before: all of these are user 0, and the record
// says which.
func findDropped(ctx context.Context, q mysqltx.Querier, couponID coupon.CouponID, all []classified) error {
	var malformed []coupon.Application
	var at []int
	for i, c := range all {
		if c.verdict == malformedUser {
			malformed, at = append(malformed, c.Application), append(at, i)
		}
	}
	rows, err := q.QueryContext(ctx, droppedSQL, applicationsJSON(malformed), couponID)
	if err != nil {
		return fmt.Errorf("find dropped members of coupon %d: %w", couponID, err)
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		var reason string
		if err := rows.Scan(&n, &reason); err != nil {
			return fmt.Errorf("find dropped members of coupon %d: %w", couponID, err)
		}
		if c := &all[at[n-1]]; strings.HasPrefix(reason, ledger.Malformed(c.Member)) {
			c.verdict = alreadySettled
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("find dropped members of coupon %d: %w", couponID, err)
	}
	return nil
}

// byUser are the places in a page in the order of user ids: neighbours in the line are none in any key.
func byUser(page []coupon.Application) []int {
	places := make([]int, len(page))
	for i := range places {
		places[i] = i
	}
	slices.SortFunc(places, func(a, b int) int { return cmp.Compare(page[a].User(), page[b].User()) })
	return places
}

// usersJSON is [user, …]. It is a string because the driver marks bytes as binary, which the server does not take for
// JSON.
func usersJSON(page []coupon.Application, order []int) string {
	const perUser = 12 // a number and a comma
	text := make([]byte, 1, 2+perUser*len(page))
	text[0] = '['
	for i, place := range order {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendUint(text, page[place].User(), 10)
	}
	return string(append(text, ']'))
}

// applicationsJSON is [[user, arrival], …], a string as well.
func applicationsJSON(page []coupon.Application) string {
	const perApplication = 40 // two numbers, brackets, commas
	text := make([]byte, 0, 2+perApplication*len(page))
	text = append(text, '[')
	for i, a := range page {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, '[')
		text = strconv.AppendUint(text, a.User(), 10)
		text = append(text, ',')
		text = strconv.AppendInt(text, a.Arrival, 10)
		text = append(text, ']')
	}
	return string(append(text, ']'))
}

func fromArrival(µs int64) time.Time { return time.UnixMicro(µs).UTC() }
