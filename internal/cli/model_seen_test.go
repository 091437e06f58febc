package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
)

// see reads the facts of a coupon from the servers.
func (w *world) see(couponID coupon.CouponID) facts {
	w.t.Helper()
	f := newFacts(0)
	w.seeDatabase(couponID, &f)
	w.seeRedis(couponID, &f)
	return f
}

func (w *world) seeDatabase(couponID coupon.CouponID, f *facts) {
	w.t.Helper()
	var issuedCount int
	require.NoError(w.t, w.db.QueryRow(`SELECT total_quantity, issued_count, finalised_at IS NOT NULL,
		COALESCE((SELECT written_off FROM promise WHERE coupon_id = id), 0) FROM coupon WHERE id = ?`, couponID).
		Scan(&f.seats, &issuedCount, &f.finalised, &f.writtenOff))
	w.each(func(scan func(...any) error) error {
		var user coupon.UserID
		var at time.Time
		var outcome string
		is := fact{}
		if err := scan(&user, &at, &outcome, &is.seat, &is.run); err != nil {
			return err
		}
		a := applied{user, coupon.ArrivalAt(at)}
		if is.outcome = outcome; f.line[a].outcome != undecided {
			is.outcome = "both " + f.line[a].outcome + " and " + outcome
		}
		if outcome == "by hand" {
			f.byHand[user] = is.seat
		} else {
			f.line[a] = is
		}
		return nil
	}, `SELECT user_id, COALESCE(applied_at, CAST('1970-01-01' AS DATETIME(6))), IF(run_id IS NULL, 'by hand', 'ISSUED'), position, COALESCE(run_id, 0)
			FROM user_coupon WHERE coupon_id = ?
		UNION ALL SELECT user_id, applied_at, outcome, 0, COALESCE(run_id, 0) FROM application_outcome WHERE coupon_id = ?`, couponID, couponID)
	w.each(func(scan func(...any) error) error {
		var run coupon.RunID
		var cutoff time.Time
		err := scan(&run, &cutoff)
		f.unclean[run] = coupon.ArrivalAt(cutoff)
		return err
	}, `SELECT s.run_id, r.cutoff FROM settlement s JOIN settlement_run r ON r.id = s.run_id
		WHERE s.coupon_id = ? AND s.cleaned_at IS NULL`, couponID)
	if issuedCount != f.issuedCount() {
		f.odd = append(f.odd, fmt.Sprintf("issued_count is %d", issuedCount))
	}
}

// each scans the rows of a query.
func (w *world) each(row func(scan func(...any) error) error, query string, args ...any) {
	w.t.Helper()
	rows, err := w.db.Query(query, args...)
	require.NoError(w.t, err)
	defer rows.Close()
	for rows.Next() {
		require.NoError(w.t, row(rows.Scan))
	}
	require.NoError(w.t, rows.Err())
}

func (w *world) seeRedis(couponID coupon.CouponID, f *facts) {
	w.t.Helper()
	ctx, tag := w.t.Context(), "{"+w.queue(couponID)+"}"
	all := w.rdb.Pipeline()
	line := all.ZRangeWithScores(ctx, w.queue(couponID), 0, -1)
	dlq := all.ZRangeWithScores(ctx, "dlq:"+tag, 0, -1)
	reasons := all.HGetAll(ctx, "dlq:reason:"+tag)
	told := all.SMembers(ctx, "issued:"+tag)
	no := all.SMembers(ctx, "rejected:"+tag)
	state := all.HGetAll(ctx, "state:"+tag)
	_, err := all.Exec(ctx)
	require.NoError(w.t, err)

	stand := func(z redis.Z, where place, cause string, refused int, night time.Time) {
		a := applied{number(z.Member.(string)), coupon.Arrival(z.Score)}
		is := f.line[a]
		if is.stands != absent {
			where = "both " + is.stands + " and " + where
		}
		is.stands, is.cause, is.refused = where, cause, refused
		if !night.IsZero() {
			is.night = coupon.ArrivalAt(night)
		}
		f.line[a] = is
	}
	for _, z := range line.Val() {
		stand(z, waiting, "", 0, time.Time{})
	}
	for _, z := range dlq.Val() {
		var why candidates.Reason
		if err := json.Unmarshal([]byte(reasons.Val()[z.Member.(string)]), &why); err != nil {
			f.odd = append(f.odd, "an entry of the DLQ has no readable reason")
		}
		where := held
		if why.Retryable {
			where = retryable
		}
		stand(z, where, why.Cause, why.Refused, why.Night)
	}
	if len(reasons.Val()) != len(dlq.Val()) {
		f.odd = append(f.odd, fmt.Sprintf("%d reasons for %d entries of the DLQ", len(reasons.Val()), len(dlq.Val())))
	}
	for _, user := range told.Val() {
		f.toldIssued[number(user)] = true
	}
	for _, user := range no.Val() {
		f.toldNo[number(user)] = true
	}
	f.soldOut = state.Val()["sold"] == "1"
}

func number(member string) coupon.UserID {
	n, err := strconv.ParseUint(member, 10, 64)
	if err != nil {
		panic(err)
	}
	return coupon.UserID(n)
}

// findings are what verify must say of these facts, gap included, and nothing else.
func (c *modelCoupon) findings(users map[coupon.UserID]person) (codes []ledger.Code) {
	ghost, takenBack, passed := false, false, false
	for a, is := range c.line {
		// Under review before the record was taken back, which did not commit.
		back := is.stands != absent && is.stands != waiting && is.outcome == notSelected
		takenBack = takenBack || back
		ghost = ghost || is.stands != absent && is.outcome != undecided && !back
		passed = passed || is.stands == waiting && is.outcome == undecided && users[a.user].status == active &&
			!c.holds(a.user) && a.arrival < c.lastSeated()
	}
	if len(c.unclean) > 0 || takenBack {
		codes = append(codes, ledger.CleanUpToDo)
	}
	if passed && len(c.unclean) == 0 {
		codes = append(codes, ledger.PassedOver)
	}
	if ghost && len(c.unclean) == 0 {
		codes = append(codes, ledger.StillStanding)
	}
	if c.gap() > 0 {
		codes = append(codes, ledger.PromiseLost)
	}
	return codes
}

// told puts facts into words, a line each.
func (f facts) told(name func(coupon.UserID) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seats, %d issued, door says sold out: %t, finalised: %t, written off: %d, runs to clean up: %d\n",
		f.seats, f.issuedCount(), f.soldOut, f.finalised, f.writtenOff, len(f.unclean))
	for i, a := range f.byArrival() {
		is := f.line[a]
		fmt.Fprintf(&b, "%d. %s:", i+1, name(a.user))
		if is.outcome != undecided {
			fmt.Fprintf(&b, " %s by run %d", is.outcome, is.run)
		}
		if is.seat > 0 {
			fmt.Fprintf(&b, ", seat %d", is.seat)
		}
		if is.stands != absent {
			fmt.Fprintf(&b, " %s %s", is.stands, is.cause)
		}
		if is.refused > 0 && (is.stands == retryable || is.stands == held) {
			fmt.Fprintf(&b, ", row refused %d times, last by the night %d", is.refused, is.night)
		}
		b.WriteByte('\n')
	}
	for _, user := range slices.Sorted(maps.Keys(f.byHand)) {
		fmt.Fprintf(&b, "%s holds seat %d by hand\n", name(user), f.byHand[user])
	}
	for _, user := range slices.Sorted(maps.Keys(f.toldIssued)) {
		fmt.Fprintf(&b, "%s is answered ALREADY_ISSUED\n", name(user))
	}
	for _, user := range slices.Sorted(maps.Keys(f.toldNo)) {
		fmt.Fprintf(&b, "%s is answered REJECTED\n", name(user))
	}
	for _, what := range f.odd {
		fmt.Fprintln(&b, what)
	}
	return b.String()
}
