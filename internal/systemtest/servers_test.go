package systemtest

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/verify"
)

// readState reads the state of a coupon from the servers.
func (m *machine) readState(couponID coupon.CouponID) state {
	m.T.Helper()
	s := newState(0)
	m.readMySQL(couponID, &s)
	m.readRedis(couponID, &s)
	return s
}

func (m *machine) readMySQL(couponID coupon.CouponID, s *state) {
	m.T.Helper()
	var issuedCount int
	require.NoError(m.T, m.DB.QueryRow(`SELECT total_quantity, issued_count, finalised_at IS NOT NULL,
		COALESCE((SELECT written_off FROM settled WHERE coupon_id = id), 0) FROM coupon WHERE id = ?`, couponID).
		Scan(&s.seats, &issuedCount, &s.finalised, &s.writtenOff))
	m.eachRow(func(scan func(...any) error) error {
		var user coupon.UserID
		var at sql.NullTime // NULL: by hand
		var outcome string
		is := record{}
		if err := scan(&user, &at, &outcome, &is.seat, &is.run); err != nil {
			return err
		}
		a := applicationKey{user, coupon.ArrivalAt(at.Time)}
		if is.outcome = outcome; s.applications[a].outcome != undecided {
			is.outcome = "both " + s.applications[a].outcome + " and " + outcome
		}
		if outcome == "by hand" {
			s.byHand[user] = is.seat
		} else {
			s.applications[a] = is
		}
		return nil
	}, `SELECT user_id, applied_at, IF(run_id IS NULL, 'by hand', 'ISSUED'), position, COALESCE(run_id, 0)
			FROM user_coupon WHERE coupon_id = ?
		UNION ALL SELECT user_id, applied_at, outcome, 0, COALESCE(run_id, 0) FROM application_outcome
			WHERE coupon_id = ?`, couponID, couponID)
	m.eachRow(func(scan func(...any) error) error {
		var run coupon.RunID
		var cutoff time.Time
		var immediate bool
		err := scan(&run, &cutoff, &immediate)
		s.pendingCleanup[run] = pendingRun{coupon.ArrivalAt(cutoff), immediate}
		return err
	}, `SELECT s.run_id, r.cutoff, r.trigger_kind = 'IMMEDIATE' FROM settlement s JOIN settlement_run r
		ON r.id = s.run_id
		WHERE s.coupon_id = ? AND s.cleaned_at IS NULL`, couponID)
	if issuedCount != s.issuedCount() {
		s.anomalies = append(s.anomalies, fmt.Sprintf("issued_count is %d", issuedCount))
	}
}

func (m *machine) eachRow(row func(scan func(...any) error) error, query string, args ...any) {
	m.T.Helper()
	rows, err := m.DB.Query(query, args...)
	require.NoError(m.T, err)
	defer rows.Close()
	for rows.Next() {
		require.NoError(m.T, row(rows.Scan))
	}
	require.NoError(m.T, rows.Err())
}

func (m *machine) readRedis(couponID coupon.CouponID, s *state) {
	m.T.Helper()
	ctx, all := m.T.Context(), m.Redis.Pipeline()
	queue := all.ZRangeWithScores(ctx, m.Queue(couponID), 0, -1)
	dlq := all.ZRangeWithScores(ctx, m.Key("dlq", couponID), 0, -1)
	reasons := all.HGetAll(ctx, m.Key("dlq:reason", couponID))
	issued := all.ZRange(ctx, m.Key("issued", couponID), 0, -1)
	rejected := all.SMembers(ctx, m.Key("rejected", couponID))
	sold := all.HGet(ctx, m.Key("state", couponID), "sold")
	if _, err := all.Exec(ctx); err != redis.Nil {
		require.NoError(m.T, err)
	}
	add := func(z redis.Z, found place, why candidates.Reason) {
		a := applicationKey{coupon.ParseUserID(z.Member.(string)), coupon.Arrival(z.Score)}
		is := s.applications[a]
		if is.place != absent {
			found = "both " + is.place + " and " + found
		}
		is.place, is.cause, is.refused = found, why.Cause, why.Refused
		if !why.Night.IsZero() {
			is.night = coupon.ArrivalAt(why.Night)
		}
		s.applications[a] = is
	}
	for _, z := range queue.Val() {
		add(z, waiting, candidates.Reason{})
	}
	for _, z := range dlq.Val() {
		var why candidates.Reason
		if err := json.Unmarshal([]byte(reasons.Val()[z.Member.(string)]), &why); err != nil {
			s.anomalies = append(s.anomalies, "a DLQ entry has no readable reason")
		}
		found := held
		if why.Retryable {
			found = retryable
		}
		add(z, found, why)
	}
	if len(reasons.Val()) != len(dlq.Val()) {
		s.anomalies = append(s.anomalies, fmt.Sprintf("%d reasons for %d DLQ entries", len(reasons.Val()),
			len(dlq.Val())))
	}
	for _, member := range issued.Val() {
		s.markedIssued[coupon.ParseUserID(member)] = true
	}
	for _, member := range rejected.Val() {
		s.markedRejected[coupon.ParseUserID(member)] = true
	}
	s.soldOut = sold.Val() == "1"
}

// findings are the expected findings of verify.
func (c *couponModel) findings(known users) (codes []verify.Code) {
	inBoth, movedBack, passedOver := false, false, false
	for a, is := range c.applications {
		// An interrupted run has moved a NOT_SELECTED application to the DLQ without removing the outcome.
		moved := is.place.underReview() && is.outcome == notSelected
		movedBack = movedBack || moved
		// In the queue, an older state of Redis has the application that is settled at a later arrival.
		older := is.place == waiting && is.outcome == undecided && c.settledAfter(a)
		inBoth = inBoth || is.place != absent && is.outcome != undecided && !moved || older
		passedOver = passedOver || is.place == waiting && is.outcome == undecided && known[a.user].status == active &&
			!c.holds(a.user) && a.arrival < c.lastSeated() && !older
	}
	pending := len(c.pendingCleanup) > 0
	for _, finding := range []struct {
		found bool
		code  verify.Code
	}{
		{pending || movedBack, verify.CleanUpToDo}, {passedOver && !pending, verify.PassedOver},
		{inBoth && !pending, verify.StillStanding}, {c.gap() > 0, verify.PromiseLost},
	} {
		if finding.found {
			codes = append(codes, finding.code)
		}
	}
	return codes
}

// settledAfter reports whether the user of an application is settled at a later arrival.
func (c *couponModel) settledAfter(a applicationKey) bool {
	for b, is := range c.applications {
		if b.user == a.user && b.arrival > a.arrival && is.outcome != undecided {
			return true
		}
	}
	return false
}

// describe describes the state in lines. Two states are equal when their descriptions are.
func (s state) describe(name func(coupon.UserID) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seats, %d issued, answers SOLD_OUT: %t, finalised: %t, written off: %d, runs to clean up: %d\n",
		s.seats, s.issuedCount(), s.soldOut, s.finalised, s.writtenOff, len(s.pendingCleanup))
	for i, a := range s.byArrival() {
		is := s.applications[a]
		fmt.Fprintf(&b, "%d. %s:", i+1, name(a.user))
		if is.outcome != undecided {
			fmt.Fprintf(&b, " %s by run %d", is.outcome, is.run)
		}
		if is.seat > 0 {
			fmt.Fprintf(&b, ", seat %d", is.seat)
		}
		if is.place != absent {
			fmt.Fprintf(&b, " %s %s", is.place, is.cause)
		}
		if is.refused > 0 && is.place.underReview() {
			fmt.Fprintf(&b, ", row refused %d times, last by the night %d", is.refused, is.night)
		}
		b.WriteByte('\n')
	}
	for _, user := range slices.Sorted(maps.Keys(s.byHand)) {
		fmt.Fprintf(&b, "%s holds seat %d by hand\n", name(user), s.byHand[user])
	}
	for _, user := range slices.Sorted(maps.Keys(s.markedIssued)) {
		fmt.Fprintf(&b, "%s is answered ALREADY_ISSUED\n", name(user))
	}
	for _, user := range slices.Sorted(maps.Keys(s.markedRejected)) {
		fmt.Fprintf(&b, "%s is answered REJECTED\n", name(user))
	}
	for _, anomaly := range s.anomalies {
		fmt.Fprintln(&b, anomaly)
	}
	return b.String()
}
