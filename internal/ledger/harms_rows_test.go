package ledger_test

import (
	"maps"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/ledger"
)

var harms = func() map[string]harm {
	all := maps.Clone(plainHarms)
	maps.Copy(all, rowHarms)
	return all
}()

const (
	standing      = waitingEnds - waiting + 1 + 1 // with the blocked one under review
	winnersByRuns = thirdRunEnds
)

// alter changes one row of a user's.
func alter(table, set string, n uint64, args ...any) func(*fixture) {
	return func(c *fixture) {
		c.change(1, "UPDATE "+table+" SET "+set+" WHERE coupon_id = ? AND user_id = ?", append(args, c.id, c.user(n))...)
	}
}

// alterRun changes one column of the second run.
func alterRun(set string) func(*fixture) {
	return func(c *fixture) { c.change(1, "UPDATE settlement_run SET "+set+" WHERE id = ?", c.runs()[1]) }
}

func one(code ledger.Code) map[ledger.Code]int64 { return map[ledger.Code]int64{code: 1} }

// rowHarms are about who is never looked for, and single columns and keys.
var rowHarms = map[string]harm{
	// Invariant 1.
	"a seat that another run gave": { // and so left one of its own out
		do:    alter("user_coupon", "position = position - 1", secondRun),
		codes: map[ledger.Code]int64{ledger.SeatWrong: 2}, alone: true},
	"a seat by hand that a run gave": {
		do: alter("user_coupon", "position = 3", handGivenAlone), codes: one(ledger.SeatWrong), alone: true},
	"a seat above all": {
		do:    alter("user_coupon", "position = position + 1", thirdRunEnds),
		codes: map[ledger.Code]int64{ledger.SeatWrong: 2}, alone: true},
	"a seat above all, by hand": {
		do: alter("user_coupon", "position = 21", handGiven), codes: one(ledger.SeatWrong), alone: true},
	"a seat behind free ones": {
		do: func(c *fixture) {
			c.change(1, "UPDATE coupon SET total_quantity = total_quantity + 5 WHERE id = ?", c.id)
			alter("user_coupon", "position = position + 4", thirdRunEnds)(c)
		},
		codes: one(ledger.SeatWrong), alone: true},

	// Invariant 4.
	"finalised while people wait": { // and before it closes
		do: func(c *fixture) {
			c.change(1, "UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6) WHERE id = ?", c.id)
		},
		codes: map[ledger.Code]int64{ledger.NeverSettled: standing + 1}, alone: true},
	"finalised while people wait, when it has closed": {
		do: func(c *fixture) {
			c.change(1, "UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6), apply_closes_at = ? WHERE id = ?", c.now(), c.id)
		},
		codes: map[ledger.Code]int64{ledger.NeverSettled: standing}, alone: true},
	"finalised while seats are free for who was not selected": {
		do: func(c *fixture) {
			c.change(1, "UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6), apply_closes_at = ?, total_quantity = total_quantity + 2 WHERE id = ?", c.now(), c.id)
		},
		codes: map[ledger.Code]int64{ledger.NeverSettled: standing + 2}, alone: true},
	"an entry under review that expires": {
		do: func(c *fixture) {
			require.True(c.t, c.rdb.Expire(c.t.Context(), c.dlq(), time.Hour).Val())
		},
		codes: one(ledger.Expiring), alone: true},
	"the queue expires before it is settled": {
		do: func(c *fixture) {
			require.True(c.t, c.rdb.Expire(c.t.Context(), c.queue(), 10*time.Minute).Val())
		},
		codes: map[ledger.Code]int64{ledger.Expiring: waitingEnds - waiting + 1}, alone: true},
	"the queue lives as long as it must": {
		do: func(c *fixture) {
			require.True(c.t, c.rdb.Expire(c.t.Context(), c.queue(), candidates.MinTTL).Val())
		}, alone: true},
	"a coupon that opens when people wait already": {
		do: func(c *fixture) {
			c.change(1, "UPDATE coupon SET apply_opens_at = apply_closes_at - INTERVAL 1 SECOND WHERE id = ?", c.id)
		},
		codes: map[ledger.Code]int64{ledger.NeverSettled: standing}, alone: true},
	"the reasons expire": {
		do: func(c *fixture) {
			require.True(c.t, c.rdb.Expire(c.t.Context(), c.reasons(), time.Hour).Val())
		},
		codes: one(ledger.Expiring), alone: true},

	// Invariant 6: what Redis keeps.
	"rejected at the door, and waiting": {
		do: func(c *fixture) {
			c.wrote(3)(c.rdb.SAdd(c.t.Context(), c.rejected(), c.member(waiting), c.member(idle), "park").Result())
		},
		codes: map[ledger.Code]int64{ledger.MarkedWithoutRejection: 3}},
	"not selected, and rejected at the door": {
		do: func(c *fixture) {
			c.wrote(1)(c.rdb.SAdd(c.t.Context(), c.rejected(), c.member(notSelectedEnds)).Result())
		},
		codes: one(ledger.MarkedWithoutRejection)},
	"a reason lost": {
		do: func(c *fixture) {
			c.wrote(1)(c.rdb.HDel(c.t.Context(), c.reasons(), c.member(blocked)).Result())
		},
		unexplained: 1, alone: true},
	"a reason for another": {
		do: func(c *fixture) {
			c.wrote(1)(c.rdb.HDel(c.t.Context(), c.reasons(), c.member(blocked)).Result())
			c.wrote(1)(c.rdb.HSet(c.t.Context(), c.reasons(), c.member(unknown), "{}").Result())
		},
		unexplained: 1, alone: true},
	"a reason that cannot be read": {
		do: func(c *fixture) {
			c.wrote(0)(c.rdb.HSet(c.t.Context(), c.reasons(), c.member(blocked), "because").Result())
		},
		unexplained: 1, alone: true},
	"a reason for nobody": {
		do: func(c *fixture) {
			c.wrote(1)(c.rdb.HSet(c.t.Context(), c.reasons(), c.member(unknown), "{}").Result())
		},
		unexplained: -1},

	// Invariant 6: what runs write into a coupon's row.
	"a coupon that expires later":   {do: alter("user_coupon", "expires_at = expires_at + INTERVAL 1 DAY", 4), codes: one(ledger.ValidityWrong), alone: true},
	"a coupon that expires earlier": {do: alter("user_coupon", "expires_at = expires_at - INTERVAL 1 MICROSECOND", 5), codes: one(ledger.ValidityWrong), alone: true},
	"a coupon that never expires":   {do: alter("user_coupon", "expires_at = NULL", 10), codes: one(ledger.ValidityWrong), alone: true},
	"a coupon issued at another time": {
		do:    alter("user_coupon", "issued_at = issued_at + INTERVAL 1 HOUR, expires_at = expires_at + INTERVAL 1 HOUR", 11),
		codes: one(ledger.ValidityWrong), alone: true},
	"a coupon valid for other days": {
		do: func(c *fixture) {
			c.change(1, "UPDATE coupon SET validity_days = validity_days + 1 WHERE id = ?", c.id)
		},
		codes: map[ledger.Code]int64{ledger.ValidityWrong: winnersByRuns}, alone: true},

	// Invariant 6: what runs write into an outcome.
	"an outcome of nobody": {do: alter("application_outcome", "user_id = 0", 22), codes: one(ledger.OutcomeWrong), alone: true},
	"an outcome of no run": {do: alter("application_outcome", "run_id = NULL", 23), codes: one(ledger.OutcomeWrong), alone: true},
	"an outcome explained": {do: alter("application_outcome", "reason = 'for a friend'", 24), codes: one(ledger.OutcomeWrong), alone: true},
	"an outcome later":     {do: alter("application_outcome", "recorded_at = recorded_at + INTERVAL 1 SECOND", 24), codes: one(ledger.OutcomeWrong), alone: true},
	"an outcome of another run": {
		do: func(c *fixture) {
			c.change(1, "UPDATE application_outcome SET run_id = ? WHERE coupon_id = ? AND user_id = ?", c.runs()[0], c.id, c.user(24))
		},
		codes: map[ledger.Code]int64{ledger.OutcomeWrong: 1, ledger.ArrivalWrong: 1, ledger.RecordWrong: 0}, alone: true},
	"told ALREADY_ISSUED, and somebody else has it": {
		do: func(c *fixture) {
			c.change(1, "UPDATE application_outcome SET user_id = ? WHERE coupon_id = ? AND user_id = ?", c.user(idle), c.id, c.user(handGiven))
		},
		codes: one(ledger.OutcomeWrong), alone: true},
	"rejected by nobody": {
		do:    alter("application_outcome", "outcome = 'REJECTED', reason = 'for a friend'", 24),
		codes: map[ledger.Code]int64{ledger.OutcomeWrong: 1, ledger.RecordWrong: 0}, alone: true},

	// Invariant 6: what is said of a run.
	"a run of somebody else's":  {do: alterRun("operator = 'lee'"), codes: one(ledger.RunWrong), alone: true},
	"a run made nightly":        {do: alterRun("trigger_kind = 'CRON'"), codes: one(ledger.RunWrong), alone: true},
	"a run in other letters":    {do: alterRun("operator = 'KIM'"), codes: one(ledger.RunWrong), alone: true},
	"a run for another reason":  {do: alterRun("reason = 'tests'"), codes: one(ledger.RunWrong), alone: true},
	"a run with a later cutoff": {do: alterRun("cutoff = cutoff + INTERVAL 1 MICROSECOND"), codes: one(ledger.RunWrong), alone: true},
	"a run that began earlier": {
		do:    alterRun("started_at = started_at - INTERVAL 1 SECOND"),
		codes: map[ledger.Code]int64{ledger.RunWrong: 1, ledger.RecordWrong: 0, ledger.ValidityWrong: secondRunEnds - secondRun + 1}, alone: true},
	"a record at another time": recordHarm("settled_at", "settled_at - INTERVAL 1 SECOND", 0),
}
