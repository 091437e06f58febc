package verify_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/verify"
)

var (
	longAgo         = (*fixture).longAgo
	justBefore      = (*fixture).justBefore
	withTheLastSeat = func(c *fixture) time.Time { return c.appliedAt(thirdRunEnds) }
	now             = func(c *fixture) time.Time { return c.Now() }
	inAnHour        = func(c *fixture) time.Time { return c.Now().Add(time.Hour) }
	emptyRedis      = func(c *fixture) { c.redis(5, "DEL", c.keys()...) }
)

// Each mixable corruption has users of its own. The digest of a run is right or wrong once: RECORD_WRONG counts the
// coupons that are missing, which may be none.
var plainCorruptions = map[string]corruption{
	// Invariant 1.
	"a coupon removed": {
		do:    all(remove("user_coupon", 2), redis(1, "ZREM", "issued", 2)),
		codes: found{verify.RecordWrong: 1}, gap: 1, lost: 1, coupons: -1, issued: -1},
	"a coupon removed, not its mark": {
		do:    remove("user_coupon", 3),
		codes: found{verify.RecordWrong: 1, verify.MarkedWithoutCoupon: 1}, gap: 1, lost: 1, coupons: -1, issued: -1},
	"a coupon by hand removed": {do: remove("user_coupon", byHandAlone), coupons: -1},
	"a coupon by hand, not counted": {
		do: func(c *fixture) {
			c.Exec("INSERT INTO user_coupon (coupon_id, user_id, expires_at) VALUES (?, ?, '2038-01-01')", c.id,
				c.user(idle))
		}, codes: found{verify.CouponUnexplained: 1}, coupons: 1},
	"a coupon by SQL, counted": {
		do: func(c *fixture) {
			alterCoupon("issued_count = issued_count + 1, total_quantity = total_quantity + 1")(c)
			c.Exec("INSERT INTO user_coupon (coupon_id, user_id, expires_at) VALUES (?, ?, '2038-01-01')", c.id,
				c.user(idle+7))
		}, codes: found{verify.CouponUnexplained: 1}, coupons: 1, counted: 1, seats: 1},
	"a coupon by hand, without a free seat": {do: giveByHand(idle + 1), coupons: 1, counted: 1},
	"issued_count too low":                  {do: alterCoupon("issued_count = issued_count - 2"), counted: -2},
	"issued_count too high":                 {do: alterCoupon("issued_count = issued_count + 5"), counted: 5},
	"seats taken back": {do: alterCoupon("total_quantity = total_quantity - 3"), seats: -3,
		alone: true},
	"a coupon without a seat": {do: alter("user_coupon", secondRun, "position = 0"),
		codes: found{verify.SeatWrong: 1}},
	"two coupons with one seat": {do: alter("user_coupon", 11, "position = position - 1"),
		codes: found{verify.SeatWrong: 1}},

	// Invariant 2.
	"two coupons, one by hand": {
		do:    all(alterCoupon("total_quantity = total_quantity + 1"), giveByHand(4)),
		codes: found{verify.HeldTwice: 1}, coupons: 1, counted: 1, seats: 1},
	"three coupons": {
		do:    all(alterCoupon("total_quantity = total_quantity + 2"), giveByHand(5), giveByHand(5)),
		codes: found{verify.HeldTwice: 2}, coupons: 2, counted: 2, seats: 2},
	"issued twice by a run": {
		do: func(c *fixture) {
			alterCoupon("total_quantity = total_quantity + 1, issued_count = issued_count + 1")(c)
			c.change(1, `INSERT INTO user_coupon (coupon_id, user_id, position, applied_at, expires_at, run_id)
				SELECT coupon_id, user_id, position, applied_at, expires_at, run_id FROM user_coupon WHERE coupon_id = ?
					AND user_id = ?`, c.id, c.user(13))
		},
		codes: found{verify.ValidityWrong: 1, verify.HeldTwice: 1, verify.SeatWrong: 1, verify.RecordWrong: -1},
		gap:   -1, coupons: 1, counted: 1, seats: 1, issued: 1},
	"issued and rejected": {do: recordToo(14, "REJECTED"),
		codes: found{verify.OutcomeWrong: 1, verify.RecordMissing: 1, verify.SettledTwice: 1}, gap: -1, concluded: 1},
	"issued and rejected, with two promises": {
		do:    all(recordToo(15, "ALREADY_ISSUED"), addPromises(1)),
		codes: found{verify.RecordMissing: 1, verify.SettledTwice: 1}, concluded: 1},
	"issued and not selected": {
		do:    recordToo(16, "NOT_SELECTED"),
		codes: found{verify.RecordMissing: 1, verify.SettledTwice: 1, verify.PassedOver: 1}, gap: -1, concluded: 1},

	// Invariant 3.
	"a seat for a later arrival": { // passed over: the user who lost the seat, and the first NOT_SELECTED user
		do: func(c *fixture) {
			at := c.appliedAt(20)
			recordToo(thirdRunEnds, "NOT_SELECTED")(c)
			alter("user_coupon", thirdRunEnds, "user_id = ?, applied_at = ?", c.user(20), at)(c)
			remove("application_outcome", 20)(c)
		},
		codes: found{verify.RecordMissing: 1, verify.PassedOver: 2, verify.RecordWrong: 0,
			verify.MarkedWithoutCoupon: 1, verify.MarkWrong: 1}, alone: true},
	"not selected before the last seat": {do: all(moveOutcome(19, longAgo), moveOutcome(20, justBefore)),
		codes: found{verify.PassedOver: 2}},
	"not selected with the last seat's arrival": {do: moveOutcome(21, withTheLastSeat)},
	"not selected before the last seat, since blocked": {do: all(moveOutcome(22, longAgo),
		func(c *fixture) { c.setStatus("BLOCKED", 22, 22) }), alone: true},
	"rejected before the last seat": { // the run counted another outcome
		do:    all(moveOutcome(23, longAgo), alter("application_outcome", 23, "outcome = 'REJECTED'")),
		codes: found{verify.OutcomeWrong: 1, verify.RecordWrong: 0}},
	"waiting since before the last seat": {do: all(enqueue(longAgo, idle+2), enqueue(justBefore, idle+3)),
		codes: found{verify.PassedOver: 2}},
	"waiting with the last seat's arrival": {do: enqueue(withTheLastSeat, idle+9)},
	"not active, waiting since before the last seat": {do: func(c *fixture) {
		c.addUsers(unknown+8, unknown+8)
		c.setStatus("WITHDRAWN", unknown+8, unknown+8)
		enqueue(longAgo, unknown+7, unknown+8)(c)
		c.ApplyAt(c.id, "kim", c.longAgo())
	}},
	"in the DLQ since before the last seat": {do: func(c *fixture) {
		c.add(c.key("dlq"), c.member(idle+4), c.longAgo())
		c.AddPromises(c.id, 1)
	}, unexplained: 1},
	"two arrivals exchanged": {do: exchange("applied_at", 8, 9),
		codes: found{verify.OrderWrong: 1, verify.MarkWrong: 2}},
	"two seats exchanged": {do: exchange("position", 16, 17),
		codes: found{verify.OrderWrong: 1, verify.RecordWrong: 0}},
	"the seats of a run in reverse": {
		do: func(c *fixture) {
			c.change(6, "UPDATE user_coupon SET position = 100 - position WHERE coupon_id = ? AND run_id = ?", c.id,
				c.Runs(c.id)[0])
		},
		codes: found{verify.SeatWrong: 6, verify.OrderWrong: 5, verify.RecordWrong: 0}, alone: true},

	// Invariant 4.
	"lost from the queue": {do: redis(2, "ZREM", "queue", waiting, waiting+1), gap: 2, lost: 2},
	"the queue lost":      {do: redis(1, "DEL", "queue"), gap: 6, lost: 6, alone: true},
	"Redis emptied":       {do: emptyRedis, gap: 7, lost: 7, alone: true},
	"lost from the DLQ":   {do: redis(1, "ZREM", "dlq", blocked), gap: 1, lost: 1, unexplained: -1},
	"an outcome removed":  {do: remove("application_outcome", 24), gap: 1, lost: 1, concluded: -1},
	"an outcome without an application": {
		do: func(c *fixture) {
			c.Exec("INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome, run_id, recorded_at) "+
				"VALUES (?, ?, ?, 'REJECTED', 0, NOW(6))", c.id, c.user(unknown), c.Now())
		}, codes: found{verify.OutcomeWrong: 1, verify.RecordMissing: 1}, gap: -1, concluded: 1, later: true},
	"more promises in Redis":     {do: addPromises(4), gap: 4},
	"added to the queue by hand": {do: func(c *fixture) { c.add(c.queue(), c.member(idle+5), c.Now()) }, gap: -1},
	"in the queue and the DLQ": {do: func(c *fixture) {
		c.add(c.key("dlq"), c.member(waiting+2), c.Arrivals(c.id)[c.member(waiting+2)].Time())
	}, gap: -1, unexplained: 1},
	"a winner in the DLQ, with a new arrival": {
		do: func(c *fixture) { c.add(c.key("dlq"), c.member(17), c.Now()) }, gap: -1, unexplained: 1},
	"added to the DLQ by hand": {do: func(c *fixture) { c.add(c.key("dlq"), "lee", c.Now()) }, gap: -1, unexplained: 1},
	"a winner in the queue, with a leading zero": { // the member is no user id
		do: func(c *fixture) { c.add(c.queue(), "0"+c.member(7), c.appliedAt(7)) }, gap: -1},
	"a winner in the queue, with a new arrival": {do: func(c *fixture) { c.add(c.queue(), c.member(18), c.Now()) },
		gap: -1},

	// Invariant 5.
	"an arrival in the future": {do: enqueue(inAnHour, idle+6), codes: found{verify.LineRewound: 1}},
	"an arrival in the future in the DLQ": {
		do: func(c *fixture) {
			c.add(c.key("dlq"), c.member(idle+6), inAnHour(c))
			c.AddPromises(c.id, 1)
		},
		codes: found{verify.LineRewound: 1}, alone: true, unexplained: 1},
	"an infinite arrival": {
		do:    all(redis(1, "ZADD", "queue", "+inf", idle+6), addPromises(1)),
		codes: found{verify.LineRewound: 1}, alone: true},
	"the last arrival ahead of the clock": {
		do: func(c *fixture) {
			require.NoError(c.T, c.Redis.HSet(c.T.Context(), c.key("state"), "last", inAnHour(c).UnixMicro()).Err())
		},
		codes: found{verify.ClockAhead: 1}, alone: true},
	"the last arrival a little ahead of the clock": {
		do: func(c *fixture) {
			c.redis(0, "HSET", c.key("state"), "last", c.Now().Add(4*time.Second).UnixMicro())
		}, alone: true},
	"the last arrival ahead with an application": {
		do: func(c *fixture) {
			at := inAnHour(c)
			c.ApplyAt(c.id, c.member(idle+6), at)
			c.redis(0, "HSET", c.key("state"), "last", at.UnixMicro())
		},
		codes: found{verify.ClockAhead: 1}, alone: true},
	"settled with an arrival at the cutoff": {
		do: func(c *fixture) {
			c.change(1, "UPDATE settlement_run SET cutoff = ? WHERE id = ?", c.appliedAt(secondRunEnds),
				c.Runs(c.id)[1])
		},
		codes: found{verify.RunWrong: 1, verify.ArrivalWrong: 1}, alone: true},
	"not selected with an arrival after the cutoff": {do: moveOutcome(24, now), codes: found{verify.ArrivalWrong: 1},
		later: true, alone: true},
	"a coupon within a run without an arrival": {do: alter("user_coupon", 9, "applied_at = NULL"),
		codes: found{verify.ArrivalWrong: 1, verify.MarkWrong: 1}, alone: true},
	"a seat for an arrival in the future": {
		do: alter("user_coupon", thirdRunEnds, "applied_at = applied_at + INTERVAL 2 HOUR"),
		codes: found{verify.ArrivalWrong: 1, verify.LineRewound: 1, verify.RecordWrong: 0, verify.MarkWrong: 1,
			verify.PassedOver: notSelectedEnds - notSelected + 1 + waitingEnds - waiting + 1}, alone: true},

	// Invariant 6: records of runs.
	"a record with fewer ALREADY_ISSUED": {do: alterRecord("already_issued_count = 0"),
		codes: found{verify.RecordWrong: 0}, alone: true},
	"a record with more ALREADY_ISSUED": {do: alterRecord("already_issued_count = 2"),
		codes: found{verify.RecordWrong: 0}, alone: true},
	"a record with fewer NOT_SELECTED": {do: alterRecord("not_selected_count = 5"),
		codes: found{verify.RecordWrong: 0}, alone: true},
	"a record with more NOT_SELECTED than other runs can have decided anew": {
		do: alterRecord("not_selected_count = 20"), codes: found{verify.RecordWrong: 0}, alone: true},
	"a record with as many NOT_SELECTED as other runs can have decided anew": {
		do: alterRecord("not_selected_count = 19"), alone: true},
	"a record with REJECTED": {do: alterRecord("ended_count = 1"), codes: found{verify.RecordWrong: 0},
		alone: true},
	// The entry may have left the DLQ.
	"a record with more under review": {do: alterRecord("under_review_count = 1"), alone: true},
	"a record with fewer under review": {
		do: func(c *fixture) {
			c.change(1, "UPDATE settlement SET under_review_count = 0 WHERE coupon_id = ? AND run_id = ?", c.id,
				c.Runs(c.id)[0])
		},
		codes: found{verify.ReviewUncounted: 1}, alone: true},
	"a record with another count": {do: alterRecord("issued_count = issued_count + 2"),
		codes: found{verify.RecordWrong: 2}, alone: true},
	"a record with another first arrival": {
		do: alterRecord("first_arrival = first_arrival - 1"), codes: found{verify.RecordWrong: 0}, alone: true},
	"a record without a first arrival": {do: alterRecord("first_arrival = NULL"), codes: found{verify.RecordWrong: 0},
		alone: true},
	"a record with another last arrival": {do: alterRecord("last_arrival = last_arrival + 1"),
		codes: found{verify.RecordWrong: 0, verify.SumWrong: 1}, alone: true},
	"a record with another digest": {
		do: alterRecord("winners_digest = CONCAT('sha256:', SHA2('1\n', 256))"), codes: found{verify.RecordWrong: 0},
		alone: true},
	"a record without a digest": {do: alterRecord("winners_digest = NULL"), codes: found{verify.RecordWrong: 0},
		alone: true},
	"a record removed": {
		do: func(c *fixture) {
			c.change(1, "DELETE FROM settlement WHERE coupon_id = ? AND run_id = ?", c.id, c.Runs(c.id)[1])
		},
		codes: found{verify.RecordMissing: secondRunEnds - secondRun + 1}},
	"a record for another coupon": {
		do: alterRecord("coupon_id = coupon_id + 1000000"),
		codes: found{verify.RecordMissing: thirdRunEnds - thirdRun + 1 + 1 + notSelectedEnds - notSelected + 1,
			verify.SumWrong: 1}, alone: true},
	"a record without coupons": {
		do: write(1,
			"INSERT INTO settlement (run_id, coupon_id, issued_count, first_arrival, last_arrival, winners_digest, "+
				"settled_at, cleaned_at) VALUES (1000001, ?, 1, 1, 1, 'x', NOW(6), NOW(6))"),
		codes: found{verify.RunMissing: 1, verify.RecordWrong: 1}},
	"a run removed": {
		do:    func(c *fixture) { c.change(1, "DELETE FROM settlement_run WHERE id = ?", c.Runs(c.id)[0]) },
		codes: found{verify.RunMissing: 1}},
	"an outcome of a missing run": {do: alter("application_outcome", 22, "run_id = 1000000"),
		codes: found{verify.RecordMissing: 1}},
	"a coupon of a missing run": {
		do: alter("user_coupon", 1, "run_id = 1000000"), codes: found{verify.RecordWrong: 1, verify.RecordMissing: 1}},
	"a coupon of no run": {do: alter("user_coupon", 6, "run_id = NULL"),
		codes: found{verify.RecordWrong: 1, verify.CouponUnexplained: 1, verify.MarkWrong: 1}, gap: 1, lost: 1,
		issued: -1},
	"a coupon with another arrival than recorded": {
		do:    alter("user_coupon", secondRun, "applied_at = applied_at - INTERVAL 1 MICROSECOND"),
		codes: found{verify.RecordWrong: 0, verify.MarkWrong: 1}, alone: true},
	"a coupon without an arrival": {
		do:    alter("user_coupon", secondRunEnds, "applied_at = NULL"),
		codes: found{verify.ArrivalWrong: 1, verify.RecordWrong: 0, verify.MarkWrong: 1}, alone: true},
	"a coupon of another user": {
		do:    func(c *fixture) { alter("user_coupon", secondRun+1, "user_id = ?", c.user(idle+7))(c) },
		codes: found{verify.RecordWrong: 0, verify.MarkedWithoutCoupon: 1, verify.MarkWrong: 1}, lost: 1, alone: true},

	// Invariant 6: settled applications in Redis, marks and clean-ups.
	"a winner in the queue": {do: returned("queue", 10), codes: found{verify.StillStanding: 1}},
	"winners in the DLQ": {do: returned("dlq", 11, 12), codes: found{verify.StillStanding: 2},
		unexplained: 2},
	"ALREADY_ISSUED, in the queue": {do: returned("queue", byHand), codes: found{verify.StillStanding: 1}},
	"the last arrival is settled and waits": {
		do: func(c *fixture) {
			figures := c.look()
			require.Equal(c.T, figures.Last, figures.Highest)
			c.Exec("INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome, run_id, recorded_at) "+
				"VALUES (?, ?, ?, 'NOT_SELECTED', 0, NOW(6))",
				c.id, c.user(waitingEnds), figures.Highest.Time())
		},
		codes: found{verify.RecordMissing: 1, verify.StillStanding: 1}, concluded: 1, later: true, alone: true},
	"marks without a coupon": {do: redis(3, "ZADD", "issued", "0", idle+8, "0", unknown+2, "0", "park"),
		codes: found{verify.MarkedWithoutCoupon: 3}},
	"marks removed": {do: redis(1, "DEL", "issued"), codes: found{verify.MarkWrong: thirdRunEnds}, alone: true},
	"pending clean-ups": {
		do: func(c *fixture) {
			c.change(2, "UPDATE settlement SET cleaned_at = NULL WHERE coupon_id = ? AND run_id <> ?", c.id,
				c.Runs(c.id)[1])
		},
		codes: found{verify.CleanUpToDo: 2}, alone: true},
	"a pending clean-up explains applications in Redis": {
		do:    all(alterRecord("cleaned_at = NULL"), returned("queue", thirdRun), enqueue(longAgo, idle)),
		codes: found{verify.CleanUpToDo: 1}, alone: true},

	// Invariant 6: the chain of audit events.
	"an audit event with another reason": {do: alterEvents("reason = 'for a friend'", 1),
		codes: found{verify.AuditChanged: 1}},
	"an audit event removed":   {do: removeEvents(3, 3), codes: found{verify.AuditRemoved: 1}},
	"two audit events removed": {do: removeEvents(5, 6), codes: found{verify.AuditRemoved: 2}},
	// The next event shows it.
	"an audit event and its hash changed": {do: rewriteEvent(8), codes: found{verify.AuditChanged: 1}},
	"the last audit events removed": {do: removeEvents(auditEvents-1, auditEvents),
		codes: found{verify.AuditRemoved: 2}},
	"the first audit event removed": {do: removeEvents(1, 1), codes: found{verify.AuditRemoved: 1},
		alone: true},
	"all audit events removed": {do: removeEvents(1, auditEvents),
		codes: found{verify.AuditRemoved: auditEvents}, alone: true},
	"an audit event moved to another coupon": {do: alterEvents("coupon_id = coupon_id + 1000000", 4),
		codes: found{verify.AuditRemoved: 1}, alone: true},
	// The head shows it.
	"the last audit event and its hash change": {do: rewriteEvent(auditEvents), codes: found{verify.AuditChanged: 1},
		alone: true},
	"the last audit event with another detail": {do: alterEvents("detail = 'x'", auditEvents),
		codes: found{verify.AuditChanged: 1}, alone: true},
	"the last audit event without its hash": {do: alterEvents("hash = NULL", auditEvents),
		codes: found{verify.AuditChanged: 1}, alone: true},
	"an audit event without a number": {
		do: write(1,
			"INSERT INTO audit_event (account, actor, action, coupon_id) VALUES ('', 'kim', 'GAP_ACCEPTED', ?)"),
		codes: found{verify.AuditInserted: 1}},
	"an audit event with a number in use": {do: func(c *fixture) { c.writeEvent(9, "") },
		codes: found{verify.AuditInserted: 1}},
	"an audit event far behind the last": {do: func(c *fixture) { c.writeEvent(1000, "") },
		codes: found{verify.AuditInserted: 1}},
	"an audit event behind the last, with the right hash": {
		do:    func(c *fixture) { c.writeEvent(auditEvents+1, c.hashAfter(auditEvents, c.event(auditEvents+1))) },
		codes: found{verify.AuditInserted: 1}, alone: true},
	"an audit event inserted, the next moved up": { // each of these has another number
		do: func(c *fixture) {
			c.change(4, "UPDATE audit_event SET seq = seq + 1 WHERE coupon_id = ? AND seq > ?", c.id, auditEvents-4)
			c.writeEvent(auditEvents-3, "")
		},
		codes: found{verify.AuditChanged: 4, verify.AuditInserted: 1}, alone: true},
	"two audit events exchanged": {
		do:    write(2, "UPDATE audit_event SET seq = 11 - seq WHERE coupon_id = ? AND seq IN (5, 6)"),
		codes: found{verify.AuditChanged: 3}, alone: true},
	"the head of the audit chain with another hash": {
		do:    write(1, "UPDATE audit_head SET hash = 'sha256:0' WHERE coupon_id = ?"),
		codes: found{verify.AuditChanged: 1}, alone: true},
	"the head of the audit chain moved back": {
		do: write(1, `UPDATE audit_head SET hash = (SELECT e.hash FROM audit_event e
			WHERE e.coupon_id = audit_head.coupon_id AND e.seq = audit_head.seq - 2),
				seq = seq - 2 WHERE coupon_id = ?`),
		codes: found{verify.AuditInserted: 2}, alone: true},
	"the head of the audit chain removed": {
		do:    write(1, "DELETE FROM audit_head WHERE coupon_id = ?"),
		codes: found{verify.AuditInserted: auditEvents}, alone: true},
}
