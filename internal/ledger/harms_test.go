package ledger_test

import (
	"cmp"
	"math"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/ledger"
)

// harm is one corruption of a worldly coupon and what must follow from it. How far figures that are compared drift
// apart is said in numbers, since several harms at once can cancel out there: a lost row and an extra one leave the
// count right.
type harm struct {
	do func(c *fixture)

	codes map[ledger.Code]int64 // found by themselves, and how many
	gap   int64                 // promises lost; negative: nobody promised

	unexplained             int64 // entries under review without a reason; negative: reasons without an entry, which are told where there is none of these
	coupons, counted, seats int64 // rows in user_coupon, issued_count and total_quantity, more than before

	alone bool // says nothing beside others: it is about everything, or hides others
}

// expected are the codes and counts that must follow from all of the harms.
func expected(harms ...harm) map[ledger.Code]int64 {
	want := map[ledger.Code]int64{}
	var gap, coupons, counted, seats, unexplained, idle int64
	for _, h := range harms {
		for code, n := range h.codes {
			want[code] += n
		}
		gap, coupons, counted, seats = gap+h.gap, coupons+h.coupons, counted+h.counted, seats+h.seats
		unexplained += max(0, h.unexplained)
		idle += min(0, h.unexplained)
	}
	if n := cmp.Or(unexplained, idle); n != 0 {
		want[ledger.ReasonMissing] = n
	}
	switch {
	case gap > 0:
		want[ledger.PromiseLost] = gap
	case gap < 0:
		want[ledger.Excess] = -gap
	}
	if counted != coupons {
		want[ledger.CountWrong] = counted - coupons
	}
	if coupons > seats { // a worldly coupon is sold out to the seat
		want[ledger.Oversold] = coupons - seats
	}
	return want
}

// Unless it stands alone, each harm has victims of its own. The digest of a run's winners is right or wrong once:
// RECORD_WRONG counts the coupons that are missing, which may be none.
var plainHarms = map[string]harm{
	// Invariant 1.
	"a coupon taken away": {
		do: func(c *fixture) {
			c.change(1, deleteCoupon, c.id, c.user(2))
			c.unmark(2)
		},
		codes: map[ledger.Code]int64{ledger.RecordWrong: 1}, gap: 1, coupons: -1},
	"a coupon taken away, the mark left": {
		do:    func(c *fixture) { c.change(1, deleteCoupon, c.id, c.user(3)) },
		codes: map[ledger.Code]int64{ledger.RecordWrong: 1, ledger.MarkedWithoutCoupon: 1}, gap: 1, coupons: -1},
	"a coupon given by hand taken away": {
		do: func(c *fixture) { c.change(1, deleteCoupon, c.id, c.user(handGivenAlone)) }, coupons: -1},
	"a coupon given by hand, not counted": {
		do: func(c *fixture) {
			c.exec("INSERT INTO user_coupon (coupon_id, user_id) VALUES (?, ?)", c.id, c.user(idle))
		},
		coupons: 1},
	"a coupon given by hand and counted, without a seat": {
		do:      func(c *fixture) { c.give(idle + 1) },
		coupons: 1, counted: 1},
	"counted too low":  {do: func(c *fixture) { c.recount("issued_count - 2") }, counted: -2},
	"counted too high": {do: func(c *fixture) { c.recount("issued_count + 5") }, counted: 5},
	"seats taken back": {
		do: func(c *fixture) {
			c.change(1, "UPDATE coupon SET total_quantity = total_quantity - 3 WHERE id = ?", c.id)
		},
		seats: -3, alone: true},

	"a coupon without a seat": {
		do: func(c *fixture) {
			c.change(1, "UPDATE user_coupon SET position = 0 WHERE coupon_id = ? AND user_id = ?", c.id, c.user(secondRun))
		},
		codes: map[ledger.Code]int64{ledger.SeatWrong: 1}},
	"two coupons with one seat": {
		do: func(c *fixture) {
			c.change(1, "UPDATE user_coupon SET position = position - 1 WHERE coupon_id = ? AND user_id = ?", c.id, c.user(11))
		},
		codes: map[ledger.Code]int64{ledger.SeatWrong: 1}},

	// Invariant 2.
	"held twice, once by hand": {
		do: func(c *fixture) {
			c.change(1, "UPDATE coupon SET total_quantity = total_quantity + 1 WHERE id = ?", c.id)
			c.give(4)
		},
		codes: map[ledger.Code]int64{ledger.HeldTwice: 1}, coupons: 1, counted: 1, seats: 1},
	"held three times": {
		do: func(c *fixture) {
			c.change(1, "UPDATE coupon SET total_quantity = total_quantity + 2 WHERE id = ?", c.id)
			c.give(5)
			c.give(5)
		},
		codes: map[ledger.Code]int64{ledger.HeldTwice: 2}, coupons: 2, counted: 2, seats: 2},
	"issued twice by a run": {
		do: func(c *fixture) {
			c.change(1, "UPDATE coupon SET total_quantity = total_quantity + 1, issued_count = issued_count + 1 WHERE id = ?", c.id)
			c.change(1, `INSERT INTO user_coupon (coupon_id, user_id, position, applied_at, run_id)
				SELECT coupon_id, user_id, position, applied_at, run_id FROM user_coupon WHERE coupon_id = ? AND user_id = ?`, c.id, c.user(13))
		},
		codes: map[ledger.Code]int64{ledger.ValidityWrong: 1, ledger.HeldTwice: 1, ledger.SeatWrong: 1, ledger.RecordWrong: -1}, gap: -1, coupons: 1, counted: 1, seats: 1},
	"issued and rejected": {
		do:    func(c *fixture) { c.recordToo(14, "REJECTED") },
		codes: map[ledger.Code]int64{ledger.OutcomeWrong: 1, ledger.SettledTwice: 1}, gap: -1},
	"issued and rejected, and promised twice": {
		do: func(c *fixture) {
			c.recordToo(15, "ALREADY_ISSUED")
			c.promised(1)
		},
		codes: map[ledger.Code]int64{ledger.OutcomeWrong: 1, ledger.SettledTwice: 1}},
	"issued and not selected": {
		do:    func(c *fixture) { c.recordToo(16, "NOT_SELECTED") },
		codes: map[ledger.Code]int64{ledger.OutcomeWrong: 1, ledger.SettledTwice: 1, ledger.PassedOver: 1}, gap: -1},

	// Invariant 3.
	"a seat given past an eligible earlier arrival": { // two of them: whoever lost it, and the first who was not selected
		do: func(c *fixture) {
			at := c.appliedOutcome(20)
			c.recordToo(thirdRunEnds, "NOT_SELECTED")
			c.change(1, "UPDATE user_coupon SET user_id = ?, applied_at = ? WHERE coupon_id = ? AND user_id = ?", c.user(20), at, c.id, c.user(thirdRunEnds))
			c.change(1, "DELETE FROM application_outcome WHERE coupon_id = ? AND user_id = ?", c.id, c.user(20))
		},
		codes: map[ledger.Code]int64{ledger.OutcomeWrong: 1, ledger.PassedOver: 2, ledger.RecordWrong: 0, ledger.MarkedWithoutCoupon: 1}, alone: true},
	"not selected before the last seat": {
		do: func(c *fixture) {
			c.change(1, moveOutcome, c.far(), c.id, c.user(19))
			c.change(1, moveOutcome, c.appliedAt(thirdRunEnds).Add(-time.Microsecond), c.id, c.user(20))
		},
		codes: map[ledger.Code]int64{ledger.PassedOver: 2}},
	"not selected with the last seat's arrival": {do: func(c *fixture) {
		c.change(1, moveOutcome, c.appliedAt(thirdRunEnds), c.id, c.user(21))
	}},
	"not selected before the last seat, but blocked": {do: func(c *fixture) {
		c.change(1, moveOutcome, c.far(), c.id, c.user(22))
		c.exec("UPDATE `user` SET status = 'BLOCKED' WHERE id = ?", c.user(22))
	}},
	"rejected before the last seat": {do: func(c *fixture) {
		c.change(1, moveOutcome, c.far(), c.id, c.user(23))
		c.change(1, "UPDATE application_outcome SET outcome = 'REJECTED' WHERE coupon_id = ? AND user_id = ?", c.id, c.user(23))
	},
		codes: map[ledger.Code]int64{ledger.OutcomeWrong: 1, ledger.RecordWrong: 0}}, // its run counted it otherwise
	"waiting since before the last seat": {
		do: func(c *fixture) {
			c.add(c.queue(), c.member(idle+2), c.far())
			c.add(c.queue(), c.member(idle+3), c.appliedAt(thirdRunEnds).Add(-time.Microsecond))
			c.promised(2)
		},
		codes: map[ledger.Code]int64{ledger.PassedOver: 2}},
	"waiting with the last seat's arrival": {do: func(c *fixture) {
		c.add(c.queue(), c.member(idle+9), c.appliedAt(thirdRunEnds))
		c.promised(1)
	}},
	"unknown, blocked or no user id, waiting since before the last seat": {do: func(c *fixture) {
		c.add(c.queue(), c.member(unknown), c.far())
		c.add(c.queue(), "kim", c.far())
		c.users("WITHDRAWN", unknown+1, unknown+1)
		c.add(c.queue(), c.member(unknown+1), c.far())
		c.promised(3)
	}},
	"under review since before the last seat": {do: func(c *fixture) {
		c.add(c.dlq(), c.member(idle+4), c.far())
		c.promised(1)
	}, unexplained: 1},
	"two arrivals exchanged": {
		do:    func(c *fixture) { c.exchange("applied_at", 8, 9) },
		codes: map[ledger.Code]int64{ledger.OrderWrong: 1}},
	"two seats exchanged": {
		do:    func(c *fixture) { c.exchange("position", 16, 17) },
		codes: map[ledger.Code]int64{ledger.OrderWrong: 1, ledger.RecordWrong: 0}},
	"the seats of a run in reverse": {
		do: func(c *fixture) {
			c.change(6, "UPDATE user_coupon SET position = 100 - position WHERE coupon_id = ? AND run_id = ?", c.id, c.runs()[0])
		},
		codes: map[ledger.Code]int64{ledger.SeatWrong: 6, ledger.OrderWrong: 5, ledger.RecordWrong: 0}, alone: true},

	// Invariant 4.
	"lost in the queue": {
		do: func(c *fixture) {
			c.wrote(2)(c.rdb.ZRem(c.t.Context(), c.queue(), c.member(waiting), c.member(waiting+1)).Result())
		}, gap: 2},
	"the whole queue lost": {
		do:  func(c *fixture) { c.wrote(1)(c.rdb.Del(c.t.Context(), c.queue()).Result()) },
		gap: 6, alone: true},
	"all of redis lost": {
		do: func(c *fixture) {
			c.keepPromise(c.now())
			c.wrote(5)(c.rdb.Del(c.t.Context(), c.keys()...).Result())
		},
		gap: 7, alone: true},
	"lost under review": {
		do: func(c *fixture) {
			c.wrote(1)(c.rdb.ZRem(c.t.Context(), c.dlq(), c.member(blocked)).Result())
		}, gap: 1, unexplained: -1},
	"an outcome lost": {
		do: func(c *fixture) {
			c.change(1, "DELETE FROM application_outcome WHERE coupon_id = ? AND user_id = ?", c.id, c.user(24))
		}, gap: 1},
	"an outcome nobody applied for": {
		do: func(c *fixture) {
			c.exec("INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome) VALUES (?, ?, ?, 'REJECTED')", c.id, c.user(unknown), c.now())
		}, codes: map[ledger.Code]int64{ledger.OutcomeWrong: 1}, gap: -1},
	"promised more by redis": {do: func(c *fixture) { c.promised(4) }, gap: 4},
	"promised more by mysql": {
		do: func(c *fixture) {
			c.change(1, "UPDATE promise SET accepted = ? WHERE coupon_id = ?", worldlyAccepted+3, c.id)
		}, gap: 3, alone: true},
	"promised less by redis": {do: func(c *fixture) { c.promised(-2) }, alone: true}, // MySQL remembers
	"promised less by both": {
		do: func(c *fixture) {
			c.promised(-2)
			c.change(1, "UPDATE promise SET accepted = 0 WHERE coupon_id = ?", c.id)
		}, gap: -2, alone: true},
	"written off though it was not lost": {
		do: func(c *fixture) {
			c.change(1, "UPDATE promise SET written_off = 2 WHERE coupon_id = ?", c.id)
		}, gap: -2},
	"written into the queue by hand": {do: func(c *fixture) { c.add(c.queue(), c.member(idle+5), c.now()) }, gap: -1},
	"waiting and under review": {
		do:  func(c *fixture) { c.add(c.dlq(), c.member(waiting+2), c.stands(waiting+2)) },
		gap: -1, unexplained: 1},
	"a winner under review, with a new arrival": {do: func(c *fixture) { c.add(c.dlq(), c.member(17), c.now()) }, gap: -1, unexplained: 1},
	"written into the dlq by hand":              {do: func(c *fixture) { c.add(c.dlq(), "lee", c.now()) }, gap: -1, unexplained: 1},
	"a winner written into the queue again, with a leading zero": { // which is no user id
		do: func(c *fixture) { c.add(c.queue(), "0"+c.member(7), c.appliedAt(7)) }, gap: -1},
	"a winner waits again, with a new arrival": {
		do: func(c *fixture) { c.add(c.queue(), c.member(18), c.now()) }, gap: -1},

	// Invariant 5.
	"one stands in the future": {
		do: func(c *fixture) {
			c.add(c.queue(), c.member(idle+6), c.now().Add(time.Hour))
			c.promised(1)
		},
		codes: map[ledger.Code]int64{ledger.LineRewound: 1}},
	"one stands in the future under review": {
		do: func(c *fixture) {
			c.add(c.dlq(), c.member(idle+6), c.now().Add(time.Hour))
			c.promised(1)
		},
		codes: map[ledger.Code]int64{ledger.LineRewound: 1}, alone: true, unexplained: 1},
	"one stands at the end of time": {
		do: func(c *fixture) {
			c.wrote(1)(c.rdb.ZAdd(c.t.Context(), c.queue(), redis.Z{Score: math.Inf(1), Member: c.member(idle + 6)}).Result())
			c.promised(1)
		},
		codes: map[ledger.Code]int64{ledger.LineRewound: 1}, alone: true},
	"the line runs ahead": {
		do: func(c *fixture) {
			require.NoError(c.t, c.rdb.HSet(c.t.Context(), c.state(), "last", c.now().Add(time.Hour).UnixMicro()).Err())
		},
		codes: map[ledger.Code]int64{ledger.ClockAhead: 1}, alone: true},
	"the line runs ahead, as mysql remembers": {
		do:    func(c *fixture) { c.keepPromise(c.now().Add(time.Minute)) },
		codes: map[ledger.Code]int64{ledger.ClockAhead: 1}, alone: true},
	"the line runs a little ahead": {
		do:    func(c *fixture) { c.keepPromise(c.now().Add(4 * time.Second)) },
		alone: true},
	"the line runs ahead of who stands in the future": {
		do: func(c *fixture) {
			at := c.now().Add(time.Hour)
			c.add(c.queue(), c.member(idle+6), at)
			c.promised(1)
			c.keepPromise(at)
		},
		codes: map[ledger.Code]int64{ledger.ClockAhead: 1}, alone: true},

	"settled though it arrived with the cutoff": {
		do: func(c *fixture) {
			c.change(1, "UPDATE settlement_run SET cutoff = ? WHERE id = ?", c.appliedAt(secondRunEnds), c.runs()[1])
		},
		codes: map[ledger.Code]int64{ledger.RunWrong: 1, ledger.ArrivalWrong: 1}, alone: true},
	"recorded as not selected though it arrived behind the cutoff": {
		do: func(c *fixture) {
			c.change(1, moveOutcome, c.now(), c.id, c.user(24))
		},
		codes: map[ledger.Code]int64{ledger.ArrivalWrong: 1}, alone: true},
	"a coupon in the middle without its arrival": {
		do: func(c *fixture) {
			c.change(1, "UPDATE user_coupon SET applied_at = NULL WHERE coupon_id = ? AND user_id = ?", c.id, c.user(9))
		},
		codes: map[ledger.Code]int64{ledger.ArrivalWrong: 1}, alone: true},
	"one from the future got a seat": {
		do: func(c *fixture) {
			c.change(1, "UPDATE user_coupon SET applied_at = applied_at + INTERVAL 2 HOUR WHERE coupon_id = ? AND user_id = ?", c.id, c.user(thirdRunEnds))
		},
		codes: map[ledger.Code]int64{ledger.ArrivalWrong: 1, ledger.LineRewound: 1, ledger.RecordWrong: 0,
			ledger.PassedOver: notSelectedEnds - notSelected + 1 + waitingEnds - waiting + 1}, alone: true},

	// Invariant 6.
	"a record that counted fewer who held it before": recordHarm("already_issued_count", "0", 0),
	"a record that counted more who held it before":  recordHarm("already_issued_count", "2", 0),
	"a record that counted fewer not selected":       recordHarm("not_selected_count", "5", 0),
	"a record that read fewer than it issued":        recordHarm("read_count", "5", 0),
	"an outcome of a run that never was": {
		do: func(c *fixture) {
			c.change(1, "UPDATE application_outcome SET run_id = 1000000 WHERE coupon_id = ? AND user_id = ?", c.id, c.user(22))
		},
		codes: map[ledger.Code]int64{ledger.RecordMissing: 1}},
	"a run lost": {
		do:    func(c *fixture) { c.change(1, "DELETE FROM settlement_run WHERE id = ?", c.runs()[0]) },
		codes: map[ledger.Code]int64{ledger.RunMissing: 1}},
	"a record with another count":         recordHarm("issued_count", "issued_count + 2", 2),
	"a record with another first arrival": recordHarm("first_arrival", "first_arrival - 1", 0),
	"a record without a first arrival":    recordHarm("first_arrival", "NULL", 0),
	"a record with another last arrival":  recordHarm("last_arrival", "last_arrival + 1", 0),
	"a record with another digest":        recordHarm("winners_digest", "CONCAT('sha256:', SHA2('1\n', 256))", 0),
	"a record without a digest":           recordHarm("winners_digest", "NULL", 0),
	"a coupon with an earlier arrival than its run recorded": {
		do: func(c *fixture) {
			c.change(1, "UPDATE user_coupon SET applied_at = applied_at - INTERVAL 1 MICROSECOND WHERE coupon_id = ? AND user_id = ?", c.id, c.user(secondRun))
		},
		codes: map[ledger.Code]int64{ledger.RecordWrong: 0}, alone: true},
	"a coupon without its arrival": {
		do: func(c *fixture) {
			c.change(1, "UPDATE user_coupon SET applied_at = NULL WHERE coupon_id = ? AND user_id = ?", c.id, c.user(secondRunEnds))
		},
		codes: map[ledger.Code]int64{ledger.ArrivalWrong: 1, ledger.RecordWrong: 0}, alone: true},
	"a coupon in somebody else's hands": {
		do: func(c *fixture) {
			c.change(1, "UPDATE user_coupon SET user_id = ? WHERE coupon_id = ? AND user_id = ?", c.user(idle+7), c.id, c.user(secondRun+1))
		},
		codes: map[ledger.Code]int64{ledger.RecordWrong: 0, ledger.MarkedWithoutCoupon: 1}, alone: true},
	"a coupon that no run gave any more": {
		do: func(c *fixture) {
			c.change(1, "UPDATE user_coupon SET run_id = NULL WHERE coupon_id = ? AND user_id = ?", c.id, c.user(6))
		},
		codes: map[ledger.Code]int64{ledger.RecordWrong: 1}, gap: 1},
	"a coupon of a run that never was": {
		do: func(c *fixture) {
			c.change(1, "UPDATE user_coupon SET run_id = 1000000 WHERE coupon_id = ? AND user_id = ?", c.id, c.user(1))
		},
		codes: map[ledger.Code]int64{ledger.RecordWrong: 1, ledger.RecordMissing: 1}},
	"a record lost": {
		do: func(c *fixture) {
			c.change(1, "DELETE FROM settlement WHERE coupon_id = ? AND run_id = ?", c.id, c.runs()[1])
		},
		codes: map[ledger.Code]int64{ledger.RecordMissing: secondRunEnds - secondRun + 1}},
	"a record for another coupon": {
		do: func(c *fixture) {
			c.change(1, "UPDATE settlement SET coupon_id = coupon_id + 1000000 WHERE coupon_id = ? AND run_id = ?", c.id, c.runs()[2])
		},
		codes: map[ledger.Code]int64{ledger.RecordMissing: thirdRunEnds - thirdRun + 1 + 1 + notSelectedEnds - notSelected + 1}, alone: true},
	"a record of coupons that were never given": {
		do: func(c *fixture) {
			c.exec("INSERT INTO settlement (run_id, coupon_id, issued_count, first_arrival, last_arrival, winners_digest, cleaned_at) VALUES (1000001, ?, 1, 1, 1, 'x', NOW(6))", c.id)
		},
		codes: map[ledger.Code]int64{ledger.RunMissing: 1, ledger.RecordWrong: 1}},
	"a winner waits again": {
		do:    func(c *fixture) { c.add(c.queue(), c.member(10), c.appliedAt(10)) },
		codes: map[ledger.Code]int64{ledger.StillStanding: 1}},
	"winners under review again": {
		do: func(c *fixture) {
			c.add(c.dlq(), c.member(11), c.appliedAt(11))
			c.add(c.dlq(), c.member(12), c.appliedAt(12))
		},
		codes: map[ledger.Code]int64{ledger.StillStanding: 2}, unexplained: 2},
	"one with another outcome waits again": {
		do:    func(c *fixture) { c.add(c.queue(), c.member(handGiven), c.appliedOutcome(handGiven)) },
		codes: map[ledger.Code]int64{ledger.StillStanding: 1}},
	"the last who arrived is settled and waits": {
		do: func(c *fixture) {
			figures, err := c.store.Figures(c.t.Context(), c.id, 0)
			require.NoError(c.t, err)
			require.Equal(c.t, figures.LastArrival, figures.Highest)
			c.exec("INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome) VALUES (?, ?, ?, 'NOT_SELECTED')",
				c.id, c.user(waitingEnds), time.UnixMicro(figures.Highest).UTC())
		},
		codes: map[ledger.Code]int64{ledger.OutcomeWrong: 1, ledger.StillStanding: 1}, alone: true},
	"marked without a coupon": {
		do: func(c *fixture) {
			c.wrote(3)(c.rdb.SAdd(c.t.Context(), c.marks(), c.member(idle+8), c.member(unknown+2), "park").Result())
		},
		codes: map[ledger.Code]int64{ledger.MarkedWithoutCoupon: 3}},
	"nobody marked": {
		do:    func(c *fixture) { c.wrote(1)(c.rdb.Del(c.t.Context(), c.marks()).Result()) },
		alone: true}, // they are answered from MySQL a settlement later
	"not known to be cleaned up": {
		do: func(c *fixture) {
			c.change(2, "UPDATE settlement SET cleaned_at = NULL WHERE coupon_id = ? AND run_id <> ?", c.id, c.runs()[1])
		},
		codes: map[ledger.Code]int64{ledger.CleanUpToDo: 2}, alone: true},
	"to be cleaned up, and so no wonder": {
		do: func(c *fixture) {
			c.change(1, "UPDATE settlement SET cleaned_at = NULL WHERE coupon_id = ? AND run_id = ?", c.id, c.runs()[2])
			c.add(c.queue(), c.member(thirdRun), c.appliedAt(thirdRun))
			c.add(c.queue(), c.member(idle), c.far())
			c.promised(1)
		},
		codes: map[ledger.Code]int64{ledger.CleanUpToDo: 1}, alone: true},

	"an audit event with another reason": {
		do: func(c *fixture) {
			c.change(1, "UPDATE audit_event SET reason = 'for a friend' WHERE coupon_id = ? AND seq = 1", c.id)
		},
		codes: map[ledger.Code]int64{ledger.AuditChanged: 1}},
	"an audit event taken away": {
		do:    func(c *fixture) { c.change(1, deleteEvents, c.id, 3, 3) },
		codes: map[ledger.Code]int64{ledger.AuditRemoved: 1}},
	"two audit events taken away": {
		do:    func(c *fixture) { c.change(2, deleteEvents, c.id, 5, 6) },
		codes: map[ledger.Code]int64{ledger.AuditRemoved: 2}},
	"an audit event rewritten, with the hash": { // the next one shows it
		do:    func(c *fixture) { c.rewrite(8) },
		codes: map[ledger.Code]int64{ledger.AuditChanged: 1}},
	"the last audit events taken away": {
		do:    func(c *fixture) { c.change(2, deleteEvents, c.id, auditEvents-1, auditEvents) },
		codes: map[ledger.Code]int64{ledger.AuditRemoved: 2}},
	"an audit event without a number": {
		do: func(c *fixture) {
			c.exec("INSERT INTO audit_event (actor, action, coupon_id) VALUES ('kim', 'GAP_ACCEPTED', ?)", c.id)
		},
		codes: map[ledger.Code]int64{ledger.AuditInserted: 1}},
	"an audit event with a number in use": {
		do:    func(c *fixture) { c.write(c.event(9), "sha256:0") },
		codes: map[ledger.Code]int64{ledger.AuditInserted: 1}},
	"an audit event far behind the last": {
		do:    func(c *fixture) { c.write(c.event(1000), "sha256:0") },
		codes: map[ledger.Code]int64{ledger.AuditInserted: 1}},
	"an audit event behind the last, with the right hash": {
		do: func(c *fixture) {
			e := c.event(auditEvents + 1)
			c.write(e, e.Hash(c.hashOf(auditEvents)))
		},
		codes: map[ledger.Code]int64{ledger.AuditInserted: 1}, alone: true},
	"an audit event squeezed in, the others moved up": { // each says another number now
		do: func(c *fixture) {
			c.change(4, "UPDATE audit_event SET seq = seq + 1 WHERE coupon_id = ? AND seq > ?", c.id, auditEvents-4)
			c.write(c.event(auditEvents-3), "sha256:0")
		},
		codes: map[ledger.Code]int64{ledger.AuditChanged: 4, ledger.AuditInserted: 1}, alone: true},
	"the first audit event taken away": {
		do:    func(c *fixture) { c.change(1, deleteEvents, c.id, 1, 1) },
		codes: map[ledger.Code]int64{ledger.AuditRemoved: 1}, alone: true},
	"all audit events taken away": {
		do:    func(c *fixture) { c.change(auditEvents, deleteEvents, c.id, 1, auditEvents) },
		codes: map[ledger.Code]int64{ledger.AuditRemoved: auditEvents}, alone: true},
	"an audit event moved to another coupon": {
		do: func(c *fixture) {
			c.change(1, "UPDATE audit_event SET coupon_id = coupon_id + 1000000 WHERE coupon_id = ? AND seq = 4", c.id)
		},
		codes: map[ledger.Code]int64{ledger.AuditRemoved: 1}, alone: true},
	"two audit events exchanged": {
		do: func(c *fixture) {
			c.change(2, "UPDATE audit_event SET seq = 11 - seq WHERE coupon_id = ? AND seq IN (5, 6)", c.id)
		},
		codes: map[ledger.Code]int64{ledger.AuditChanged: 3}, alone: true},
	"the last audit event rewritten, with the hash": { // the head shows it
		do:    func(c *fixture) { c.rewrite(auditEvents) },
		codes: map[ledger.Code]int64{ledger.AuditChanged: 1}, alone: true},
	"the last audit event with another detail": {
		do: func(c *fixture) {
			c.change(1, "UPDATE audit_event SET detail = 'x' WHERE coupon_id = ? AND seq = ?", c.id, auditEvents)
		},
		codes: map[ledger.Code]int64{ledger.AuditChanged: 1}, alone: true},
	"the last audit event without its hash": {
		do: func(c *fixture) {
			c.change(1, "UPDATE audit_event SET hash = NULL WHERE coupon_id = ? AND seq = ?", c.id, auditEvents)
		},
		codes: map[ledger.Code]int64{ledger.AuditChanged: 1}, alone: true},
	"the head of the audit chain with another hash": {
		do: func(c *fixture) {
			c.change(1, "UPDATE audit_head SET hash = 'sha256:0' WHERE coupon_id = ?", c.id)
		},
		codes: map[ledger.Code]int64{ledger.AuditChanged: 1}, alone: true},
	"the head of the audit chain moved back": {
		do: func(c *fixture) {
			c.change(1, "UPDATE audit_head SET seq = seq - 2, hash = ? WHERE coupon_id = ?", c.hashOf(auditEvents-2), c.id)
		},
		codes: map[ledger.Code]int64{ledger.AuditInserted: 2}, alone: true},
	"the head of the audit chain lost": {
		do:    func(c *fixture) { c.change(1, "DELETE FROM audit_head WHERE coupon_id = ?", c.id) },
		codes: map[ledger.Code]int64{ledger.AuditInserted: auditEvents}, alone: true},
}
