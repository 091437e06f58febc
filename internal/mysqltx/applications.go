package mysqltx

import (
	"context"
	"database/sql"
	"strconv"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// ApplicationsTable turns ApplicationsJSON into rows.
const ApplicationsTable = `JSON_TABLE(?, '$[*]' COLUMNS (
	n FOR ORDINALITY, user_id BIGINT UNSIGNED PATH '$[0]', arrival BIGINT UNSIGNED PATH '$[1]'
)) AS j`

// UsersTable turns UsersJSON into rows.
const UsersTable = "JSON_TABLE(?, '$[*]' COLUMNS (n FOR ORDINALITY, user_id BIGINT UNSIGNED PATH '$')) AS j"

// UsersJSON returns [user id, …].
func UsersJSON(users []coupon.UserID) string {
	const perUser = 12 // bytes: a number and a comma
	text := append(make([]byte, 0, 2+perUser*len(users)), '[')
	for i, user := range users {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendUint(text, uint64(user), 10)
	}
	return string(append(text, ']'))
}

// AppliedAt converts the arrival of ApplicationsTable into DATETIME(6). FROM_UNIXTIME would lose microseconds.
const AppliedAt = `CAST('1970-01-01' AS DATETIME(6)) + INTERVAL j.arrival MICROSECOND`

// ByUser returns the indexes of a page sorted by user id, which is the order of the tables' keys. It sorts by some bits
// of the ids at a time, from the lowest to the highest: comparing takes several times as long.
func ByUser(page []coupon.Application) []int {
	const bits = 11
	users, highest := make([]coupon.UserID, len(page)), coupon.UserID(0)
	sorted, next := make([]int, len(page)), make([]int, len(page))
	for i, a := range page {
		users[i], sorted[i] = a.User(), i
		highest = max(highest, users[i])
	}
	for shift := 0; highest>>shift > 0; shift += bits {
		digit := func(u coupon.UserID) int { return int(u >> shift & (1<<bits - 1)) }
		var starts [1<<bits + 1]int
		for _, u := range users {
			starts[digit(u)+1]++
		}
		for d := range 1 << bits {
			starts[d+1] += starts[d]
		}
		for _, i := range sorted {
			start := &starts[digit(users[i])]
			next[*start] = i
			*start++
		}
		sorted, next = next, sorted
	}
	return sorted
}

// ApplicationsJSON returns [[user id, µs], …], as a string: MySQL does not accept the driver's bytes as JSON.
func ApplicationsJSON(page []coupon.Application) string {
	const perApplication = 40 // bytes: two numbers, brackets, commas
	text := make([]byte, 0, 2+perApplication*len(page))
	text = append(text, '[')
	for i, a := range page {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, '[')
		text = strconv.AppendUint(text, uint64(a.User()), 10)
		text = append(text, ',')
		text = strconv.AppendInt(text, int64(a.Arrival), 10)
		text = append(text, ']')
	}
	return string(append(text, ']'))
}

// CollectApplications runs a query that selects user_id and applied_at, and returns its rows as applications.
func CollectApplications(ctx context.Context, q Querier, source coupon.Source, query string,
	args ...any) (page []coupon.Application, err error) {
	err = Each(ctx, q, func(rows *sql.Rows) error {
		var user coupon.UserID
		var appliedAt time.Time
		err := rows.Scan(&user, &appliedAt)
		page = append(page, coupon.Application{Member: user.Member(), Arrival: coupon.ArrivalAt(appliedAt),
			Source: source})
		return err
	}, query, args...)
	return page, err
}
