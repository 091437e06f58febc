package jajeongtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

// AddCoupon adds a coupon whose window began an hour ago and ends in an hour.
func (d *Deployment) AddCoupon(seats int) coupon.CouponID {
	d.T.Helper()
	now := d.Now()
	return d.AddCouponBetween(seats, now.Add(-time.Hour), now.Add(time.Hour))
}

// AddCouponBetween adds a coupon with that window.
func (d *Deployment) AddCouponBetween(seats int, opens, closes time.Time) coupon.CouponID {
	d.T.Helper()
	added, err :=
		d.DB.Exec("INSERT INTO coupon (name, total_quantity, apply_opens_at, apply_closes_at) VALUES (?, ?, ?, ?)",
			"심야 쿠폰", seats, opens.UTC(), closes.UTC())
	require.NoError(d.T, err)
	id, err := added.LastInsertId()
	require.NoError(d.T, err)
	window := coupon.Window{Coupon: coupon.CouponID(id), Version: 1, Opens: d.Now().Add(time.Hour), Closes: closes}
	_, _, err = d.Store.Publish(d.T.Context(), window, 0) // as it was before its opening
	require.NoError(d.T, err)
	window.Opens = opens
	_, published, err := d.Store.Publish(d.T.Context(), window, 0)
	require.NoError(d.T, err)
	require.True(d.T, published)
	return window.Coupon
}

// SetSeats sets the seats of a coupon in the database, with the audit event of an operator.
func (d *Deployment) SetSeats(couponID coupon.CouponID, seats int) {
	d.T.Helper()
	require.NoError(d.T, d.AddSeats(couponID,
		int64(seats)-d.Number("SELECT total_quantity FROM coupon WHERE id = ?", couponID)))
}

// AddSeats adds seats to a coupon in the database, with the audit event of an operator.
func (d *Deployment) AddSeats(couponID coupon.CouponID, more int64) error {
	tx, err := d.DB.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.Exec("UPDATE coupon SET total_quantity = total_quantity + ? WHERE id = ?", more,
		couponID); err != nil {
		return err
	}
	origin := audit.Origin{At: time.Now().UTC().Truncate(time.Microsecond), Actor: "park", Reason: "seats"}
	if err := audit.Append(context.Background(), tx, origin, audit.CouponSeats, couponID,
		audit.Entry{Payload: audit.CouponChange{}, Seats: more}); err != nil {
		return err
	}
	return tx.Commit()
}

// InsertGranted inserts the rows of coupons that an operator has given, without counting them.
func (d *Deployment) InsertGranted(couponID coupon.CouponID, users ...coupon.UserID) {
	d.T.Helper()
	for _, statement := range Granted(couponID, users...) {
		d.Exec(statement)
	}
}

// Granted are the statements of InsertGranted.
func Granted(couponID coupon.CouponID, users ...coupon.UserID) (statements []string) {
	for _, user := range users {
		statements = append(statements,
			fmt.Sprintf(
				"INSERT INTO user_coupon (coupon_id, user_id, expires_at, seq) VALUES (%d, %d, '2038-01-01', 1)",
				couponID, user),
			fmt.Sprintf(`INSERT INTO coupon_log (user_coupon_id, seq, kind, expires_at, seats, actor, at)
				SELECT MAX(id), 1, 'GRANTED', '2038-01-01', 1, 'kim', UTC_TIMESTAMP(6) FROM user_coupon
					WHERE coupon_id = %d AND user_id = %d`, couponID, user))
	}
	return statements
}

// SetWindow sets the window of a coupon, in the database and for the pods.
func (d *Deployment) SetWindow(couponID coupon.CouponID, opens, closes time.Time) {
	d.T.Helper()
	d.Exec("UPDATE coupon SET apply_opens_at = ?, apply_closes_at = ? WHERE id = ?", opens.UTC(), closes.UTC(),
		couponID)
	_, _, err := d.Store.Publish(d.T.Context(),
		coupon.Window{Coupon: couponID, Version: 1, Opens: opens, Closes: closes}, 0)
	require.NoError(d.T, err)
}

// Apply lets users apply in this order. Every one must be accepted.
func (d *Deployment) Apply(couponID coupon.CouponID, users ...coupon.UserID) {
	d.T.Helper()
	for chunk := range slices.Chunk(users, 500) {
		receipts, err := d.Store.ApplyAll(d.T.Context(), couponID, chunk)
		require.NoError(d.T, err)
		for i, receipt := range receipts {
			require.Equal(d.T, candidates.Accepted, receipt.Code, "user %d", chunk[i])
		}
	}
}

// AddQueue adds active users and a coupon for which they apply in this order.
func (d *Deployment) AddQueue(seats int, users ...coupon.UserID) coupon.CouponID {
	d.T.Helper()
	d.AddUsers(users...)
	couponID := d.AddCoupon(seats)
	d.Apply(couponID, users...)
	return couponID
}

// AddImmediate adds an open immediate coupon, whose window is published. The users exist and have applied, in this
// order.
func (d *Deployment) AddImmediate(seats int, users ...coupon.UserID) coupon.CouponID {
	d.T.Helper()
	couponID := d.AddQueue(seats, users...)
	d.Exec("UPDATE coupon SET cadence = 'IMMEDIATE' WHERE id = ?", couponID)
	return couponID
}

// Answer lets a user apply and returns the answer.
func (d *Deployment) Answer(couponID coupon.CouponID, user coupon.UserID) candidates.Code {
	d.T.Helper()
	receipt, err := d.Store.Apply(d.T.Context(), couponID, user)
	require.NoError(d.T, err)
	return receipt.Code
}

// ApplyAt writes an application with this arrival into the queue, as if it had been accepted then.
func (d *Deployment) ApplyAt(couponID coupon.CouponID, member string, arrival time.Time) {
	d.T.Helper()
	require.NoError(d.T, d.Redis.ZAdd(d.T.Context(), d.Queue(couponID),
		redis.Z{Score: float64(arrival.UnixMicro()), Member: member}).Err())
	d.AddPromises(couponID, 1)
}

// AddPromises increases the count of accepted applications in Redis.
func (d *Deployment) AddPromises(couponID coupon.CouponID, more int64) {
	d.T.Helper()
	require.NoError(d.T, d.Redis.HIncrBy(d.T.Context(), d.Key("state", couponID), "accepted", more).Err())
}

// ApplyLine writes applications of these users into the queue, in this order, as if they had been accepted a minute
// ago.
func (d *Deployment) ApplyLine(couponID coupon.CouponID, users ...coupon.UserID) {
	d.T.Helper()
	ctx, first, pipe := d.T.Context(), d.Now().Add(-time.Minute).UnixMicro(), d.Redis.Pipeline()
	for i, user := range users {
		pipe.Do(ctx, "ZADD", d.Queue(couponID), first+int64(i), uint64(user))
	}
	pipe.HIncrBy(ctx, d.Key("state", couponID), "accepted", int64(len(users)))
	_, err := pipe.Exec(ctx)
	require.NoError(d.T, err)
}

// MoveToReview moves an application from the queue to the DLQ, as a run does.
func (d *Deployment) MoveToReview(couponID coupon.CouponID, member string, why coupon.Failure) {
	d.T.Helper()
	why.Application = coupon.Application{Member: member, Arrival: d.Arrivals(couponID)[member],
		Source: coupon.SourceQueue}
	moved, err := d.Store.Review(d.T.Context(), couponID, 0, time.Time{}, []coupon.Failure{why})
	require.NoError(d.T, err)
	require.EqualValues(d.T, 1, moved)
}

// Queue is the key of a coupon's queue.
func (d *Deployment) Queue(couponID coupon.CouponID) string {
	return fmt.Sprintf("%scandidates:coupon:%d", d.Prefix, couponID)
}

// Key is another key of a coupon: state, issued, rejected, dlq or dlq:reason.
func (d *Deployment) Key(kind string, couponID coupon.CouponID) string {
	return kind + ":{" + d.Queue(couponID) + "}"
}

// Waiting are the members of the queue, in order.
func (d *Deployment) Waiting(couponID coupon.CouponID) []string {
	d.T.Helper()
	members, err := d.Redis.ZRange(d.T.Context(), d.Queue(couponID), 0, -1).Result()
	require.NoError(d.T, err)
	return members
}

// Arrivals are the arrivals of the queue's members, in µs.
func (d *Deployment) Arrivals(couponID coupon.CouponID) map[string]coupon.Arrival {
	return d.scores(d.Queue(couponID))
}

// UnderReview are the arrivals of the DLQ's members, in µs.
func (d *Deployment) UnderReview(couponID coupon.CouponID) map[string]coupon.Arrival {
	return d.scores(d.Key("dlq", couponID))
}

func (d *Deployment) scores(key string) map[string]coupon.Arrival {
	d.T.Helper()
	entries, err := d.Redis.ZRangeWithScores(d.T.Context(), key, 0, -1).Result()
	require.NoError(d.T, err)
	found := map[string]coupon.Arrival{}
	for _, e := range entries {
		found[e.Member.(string)] = coupon.Arrival(e.Score)
	}
	return found
}

// Reason is why a member is in the DLQ.
func (d *Deployment) Reason(couponID coupon.CouponID, member string) candidates.Reason {
	d.T.Helper()
	reasons, err := d.Store.Reasons(d.T.Context(), couponID, []string{member})
	require.NoError(d.T, err)
	require.Contains(d.T, reasons, member)
	return reasons[member]
}

// Issued are the holders of the coupon, in order of their seats.
func (d *Deployment) Issued(couponID coupon.CouponID) []coupon.UserID {
	d.T.Helper()
	return Column[coupon.UserID](d, "SELECT user_id FROM user_coupon WHERE coupon_id = ? ORDER BY position", couponID)
}

// Seats are the seats that runs have issued, in order.
func (d *Deployment) Seats(couponID coupon.CouponID) []uint64 {
	d.T.Helper()
	return d.IDs("SELECT position FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL ORDER BY position",
		couponID)
}

// Outcome are the users with that outcome, in order of arrival.
func (d *Deployment) Outcome(couponID coupon.CouponID, outcome string) []coupon.UserID {
	d.T.Helper()
	return Column[coupon.UserID](d,
		"SELECT user_id FROM application_outcome WHERE coupon_id = ? AND outcome = ? ORDER BY applied_at", couponID,
		outcome)
}

// Runs are the runs with a record of the coupon, in order.
func (d *Deployment) Runs(couponID coupon.CouponID) []coupon.RunID {
	d.T.Helper()
	return Column[coupon.RunID](d, "SELECT run_id FROM settlement WHERE coupon_id = ? ORDER BY run_id", couponID)
}

// Audit appends audit events in a transaction of its own. An entry without a payload gets the empty one of the action.
func (d *Deployment) Audit(origin audit.Origin, action audit.Action, couponID coupon.CouponID,
	entries ...audit.Entry) error {
	d.T.Helper()
	entries = slices.Clone(entries)
	for i := range entries {
		if entries[i].Payload == nil {
			entries[i].Payload = audit.Payloads[action]
		}
	}
	tx, err := d.DB.Begin()
	require.NoError(d.T, err)
	defer func() { _ = tx.Rollback() }()
	if err := audit.Append(d.T.Context(), tx, origin, action, couponID, entries...); err != nil {
		return err
	}
	return tx.Commit()
}

// Payloads are the payloads of the coupon's audit events of this action, in order.
func (d *Deployment) Payloads(couponID coupon.CouponID, action audit.Action) (all []audit.Payload) {
	d.T.Helper()
	for _, detail := range Column[audit.Detail](d,
		"SELECT detail FROM audit_event WHERE coupon_id = ? AND action = ? ORDER BY id", couponID, action) {
		all = append(all, detail.Payload(action))
	}
	return all
}

// IDs are the only column of a query.
func (d *Deployment) IDs(query string, args ...any) []uint64 {
	d.T.Helper()
	return Column[uint64](d, query, args...)
}

// Column is the only column of a query.
func Column[T any](d *Deployment, query string, args ...any) []T {
	d.T.Helper()
	rows, err := d.DB.Query(query, args...)
	require.NoError(d.T, err)
	defer rows.Close()
	values := []T{}
	for rows.Next() {
		var value T
		require.NoError(d.T, rows.Scan(&value))
		values = append(values, value)
	}
	require.NoError(d.T, rows.Err())
	return values
}

// Number is the only value of a query.
func (d *Deployment) Number(query string, args ...any) int64 {
	d.T.Helper()
	return Column[int64](d, query, args...)[0]
}

// Snapshot has every row that a settlement may write to MySQL, except for the list of runs.
func (d *Deployment) Snapshot() (rows []string) {
	d.T.Helper()
	for _, query := range []string{
		"SELECT CONCAT_WS('|', id, issued_count, status, finalised_at, version) FROM coupon ORDER BY id",
		"SELECT CONCAT_WS('|', id, coupon_id, user_id, position, applied_at, issued_at, expires_at, run_id, status) " +
			"FROM user_coupon ORDER BY id",
		"SELECT CONCAT_WS('|', coupon_id, user_id, applied_at, outcome, COALESCE(cause, ''), note, COALESCE(member, " +
			"''), run_id) FROM application_outcome ORDER BY 1",
		"SELECT CONCAT_WS('|', run_id, coupon_id, issued_count, under_review_count, ended_count, not_selected_count, " +
			"winners_digest, cleaned_at) FROM settlement ORDER BY 1",
		"SELECT CONCAT_WS('|', coupon_id, issued, concluded, settled_up_to, last_issued, written_off) " +
			"FROM settled ORDER BY 1",
	} {
		rows = append(rows, Column[string](d, query)...)
	}
	return rows
}

// Between are the ids from first to last.
func Between[N ~uint64](first, last N) []N {
	ids := make([]N, 0, last-first+1)
	for id := first; id <= last; id++ {
		ids = append(ids, id)
	}
	return ids
}

// list is ids in SQL.
func list[ID ~uint64](ids []ID) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ids)), ","), "[]")
}
