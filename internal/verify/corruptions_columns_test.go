package verify_test

import (
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/verify"
)

const (
	undecided     = waitingEnds - waiting + 1 + 1 // with the blocked user in the DLQ
	winnersByRuns = thirdRunEnds
)

func finalise(more string) func(*fixture) {
	return alterCoupon("finalised_at = UTC_TIMESTAMP(6)" + more)
}

// closeRow ends the window in MySQL alone.
func closeRow(c *fixture) { alterCoupon("apply_closes_at = ?", c.Now())(c) }

// columnCorruptions are of single columns and keys, or leave applications that no run settles.
var columnCorruptions = map[string]corruption{
	// Invariant 1.
	"a seat of another run": { // its own run has a free seat then
		do: alter("user_coupon", secondRun, "position = position - 1"), codes: found{verify.SeatWrong: 2}, alone: true},
	"a seat of a run, by hand": {do: alter("user_coupon", byHandAlone, "position = 3"),
		codes: found{verify.SeatWrong: 1}, alone: true},
	"a seat above the last": {
		do: alter("user_coupon", thirdRunEnds, "position = position + 1"), codes: found{verify.SeatWrong: 2},
		alone: true},
	"a seat above the last, by hand": {do: alter("user_coupon", byHand, "position = 21"),
		codes: found{verify.SeatWrong: 1}, alone: true},
	"a seat behind free seats": {
		do: all(alterCoupon("total_quantity = total_quantity + 5"),
			alter("user_coupon", thirdRunEnds, "position = position + 4")),
		codes: found{verify.SeatWrong: 1}, seats: 5, alone: true},

	// Invariant 4.
	"finalised before it closes, with applications": {do: finalise(""),
		codes: found{verify.NeverSettled: undecided + 1}, alone: true},
	"finalised after it closed, with applications": {do: all(closeRow, finalise("")),
		codes: found{verify.NeverSettled: undecided}, alone: true},
	"finalised with free seats for users not selected": {
		do:    all(closeRow, finalise(", total_quantity = total_quantity + 2")),
		codes: found{verify.NeverSettled: undecided + 2}, seats: 2, alone: true},
	"opens after applications arrived": {
		do:    alterCoupon("apply_opens_at = apply_closes_at - INTERVAL 1 SECOND"),
		codes: found{verify.NeverSettled: undecided, verify.ArrivalWrong: populatedAccepted}, alone: true},
	"a DLQ that expires": {do: redis(1, "EXPIRE", "dlq", "3600"), codes: found{verify.Expiring: 1},
		alone: true},
	"DLQ reasons that expire": {do: redis(1, "EXPIRE", "dlq:reason", "3600"), codes: found{verify.Expiring: 1},
		alone: true},
	"a queue that expires early": {do: redis(1, "EXPIRE", "queue", "600"),
		codes: found{verify.Expiring: waitingEnds - waiting + 1}, alone: true},
	"a queue that lives long enough": {
		do: redis(1, "EXPIRE", "queue", fmt.Sprint(int64(candidates.MinTTL/time.Second))), alone: true},

	// Invariant 6: rejections and reasons in Redis.
	"marks without a rejection": {
		do: redis(3, "SADD", "rejected", waiting, idle, "park"), codes: found{verify.MarkedWithoutRejection: 3}},
	"not selected, marked as rejected": {do: redis(1, "SADD", "rejected", notSelectedEnds),
		codes: found{verify.MarkedWithoutRejection: 1}},
	"a reason removed": {do: redis(1, "HDEL", "dlq:reason", blocked), unexplained: 1, alone: true},
	"a reason of another user": {
		do:          all(redis(1, "HDEL", "dlq:reason", blocked), redis(1, "HSET", "dlq:reason", unknown, "{}")),
		unexplained: 1, alone: true},
	"an unreadable reason":      {do: redis(0, "HSET", "dlq:reason", blocked, "because"), unexplained: 1, alone: true},
	"a reason without an entry": {do: redis(1, "HSET", "dlq:reason", unknown, "{}"), unexplained: -1},

	// Invariant 6: the rows of coupons.
	"a coupon that expires later": {
		do: alter("user_coupon", 4, "expires_at = expires_at + INTERVAL 2 DAY"), codes: found{verify.ValidityWrong: 1},
		alone: true},
	"a coupon that expires earlier": {
		do:    alter("user_coupon", 5, "expires_at = expires_at - INTERVAL 1 MICROSECOND"),
		codes: found{verify.ValidityWrong: 1}, alone: true},
	"a coupon that expires an hour later than the others of its run": {
		do: alter("user_coupon", 4, "expires_at = expires_at + INTERVAL 1 HOUR"), codes: found{verify.ValidityWrong: 1},
		alone: true},
	"a coupon issued at another time": {
		do: alter("user_coupon", 11,
			"issued_at = issued_at + INTERVAL 1 HOUR, expires_at = expires_at + INTERVAL 1 HOUR"),
		codes: found{verify.ValidityWrong: 1}, alone: true},
	"other days of validity": {
		do: alterCoupon("validity_days = validity_days + 3"), codes: found{verify.ValidityWrong: winnersByRuns},
		alone: true},

	// Invariant 6: the rows of outcomes.
	"an outcome of no user": {do: alter("application_outcome", 22, "user_id = 0"),
		codes: found{verify.OutcomeWrong: 1}, lost: 1, alone: true},
	"an outcome that repeats a member": {do: alter("application_outcome", 22, "member = 'x'"),
		codes: found{verify.OutcomeWrong: 1}, alone: true},
	"NOT_SELECTED with a note": {do: alter("application_outcome", 24, "note = 'for a friend'"),
		codes: found{verify.OutcomeWrong: 1}, alone: true},
	"an outcome at another time": {do: alter("application_outcome", 24,
		"recorded_at = recorded_at + INTERVAL 1 SECOND"), codes: found{verify.OutcomeWrong: 1}, alone: true},
	"an outcome of another run": {
		do:    func(c *fixture) { alter("application_outcome", 24, "run_id = ?", c.Runs(c.id)[0])(c) },
		codes: found{verify.OutcomeWrong: 1, verify.ArrivalWrong: 1, verify.RecordWrong: 0}, alone: true},
	"ALREADY_ISSUED without a coupon": {
		do:    func(c *fixture) { alter("application_outcome", byHand, "user_id = ?", c.user(idle))(c) },
		codes: found{verify.OutcomeWrong: 1}, lost: 1, alone: true},
	"REJECTED without an audit event": {
		do:    alter("application_outcome", 24, "outcome = 'REJECTED', note = 'BAD_ROW: for a friend'"),
		codes: found{verify.OutcomeWrong: 1, verify.RecordWrong: 0}, alone: true},

	// Invariant 6: the rows of runs.
	"a run of another operator": {do: alterRun(1, "operator = 'lee'"), codes: found{verify.RunWrong: 1},
		alone: true},
	"a run with another trigger": {do: alterRun(1, "trigger_kind = 'CRON'"), codes: found{verify.RunWrong: 1},
		alone: true},
	"a run of an operator in capitals": {do: alterRun(1, "operator = 'KIM'"), codes: found{verify.RunWrong: 1},
		alone: true},
	"a run with another reason": {do: alterRun(1, "reason = 'tests'"), codes: found{verify.RunWrong: 1},
		alone: true},
	"a run with another cutoff": {do: alterRun(1, "cutoff = cutoff + INTERVAL 1 MICROSECOND"),
		codes: found{verify.RunWrong: 1}, alone: true},
	"a run that began at another time": {
		do:    alterRun(1, "started_at = started_at - INTERVAL 1 SECOND"),
		codes: found{verify.RunWrong: 1, verify.RecordWrong: 0, verify.ValidityWrong: secondRunEnds - secondRun + 1},
		alone: true},

	// Invariant 6: the sums.
	"a sum of coupons too low": {do: alterSums("issued = issued - 1"), codes: found{verify.SumWrong: 1},
		alone: true},
	"a sum of outcomes too high": {do: alterSums("concluded = concluded + 2"), codes: found{verify.SumWrong: 1},
		alone: true},
	"another last arrival issued": {do: alterSums("last_issued = last_issued - 1"), codes: found{verify.SumWrong: 1},
		alone: true},
	"settled up to a lower arrival": {do: alterSums("settled_up_to = settled_up_to - 1"),
		codes: found{verify.SumWrong: 1}, alone: true},
	// Its outcome may be gone.
	"settled up to a higher arrival": {do: alterSums("settled_up_to = settled_up_to + 1"), alone: true},
	"settled up to the last cutoff": {
		do:    alterSums("settled_up_to = settled_up_to + 3600000000"),
		codes: found{verify.SumWrong: 1, verify.ClockAhead: 1}, alone: true},
	"all sums wrong": {
		do:    alterSums("issued = 0, concluded = 0, settled_up_to = 0, last_issued = 0"),
		codes: found{verify.SumWrong: 4}, alone: true},
	"the sums removed": {do: write(1, "DELETE FROM settled WHERE coupon_id = ?"), codes: found{verify.SumWrong: 4},
		alone: true},

	"a record at another time": {do: alterRecord("settled_at = settled_at - INTERVAL 1 SECOND"),
		codes: found{verify.RecordWrong: 0}, alone: true},
}
