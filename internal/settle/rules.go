package settle

import (
	"go.uber.org/zap/zapcore"

	"github.com/jajeong/jajeong/internal/coupon"
)

// rules are what the trigger of a run decides. The code reads them and does not ask for the trigger.
type rules struct {
	// A cutoff may be some minutes ahead; without one, it is the nearest midnight instead of the last.
	mayBeEarly     bool
	fences         bool // waits until the coupon's shard has passed the cutoff; else the shard has given the cutoff
	waitsForLock   bool // waits for a coupon that another session has locked; else the coupon is BUSY at once
	attempts       int  // how often it is tried if Redis servers take over or lose applications meanwhile
	restores       bool // enters again whom Redis has lost, also if the coupon is frozen; else the coupon is BUSY
	countsRows     bool // counts the rows of MySQL for the account; else it reads the sums of table settled
	looksAgain     bool // looks again soon: rolls back if nothing changes, and a settlement of 0 is no result
	recordsLate    bool // inserts its row of settlement_run with the first change, and finds it by its nonce
	asksApproval   bool // needs an approval if the policy names runs
	asksForOthers  bool // is refused if it would issue to others than DLQ entries where a run needs an approval
	auditsOperator bool // the first change of a coupon gets an audit event with the operator
	auditsHold     bool // a held coupon gets an audit event
	readsDLQ       bool // reads the DLQ, and removes from Redis what other runs have issued; see queueAlone
	keepsEntries   bool // a DLQ entry that finds no seat stays in the DLQ
	triesOnce      bool // tries a refused row only once for each cutoff
	setsAside      bool // moves the first applications to the DLQ if MySQL is away
	postpones      bool // a long close-out waits until every coupon of the run is issued
	reopens        bool // calls reopenOrFinalise for free seats even if Redis did not answer SOLD_OUT
	finalises      bool // finalises a coupon whose window is over
	keepsWinners   bool // the result has the winners
	logsWinners    bool // logs how many were issued; immediate runs are too many for that
	tellsEarlier   bool // the result of an unchanged coupon has the earlier run that settled it
	warns          bool // logs a coupon that was not settled as a warning; else an operator sees it in the report
}

// maxAttempts bounds the attempts at a settlement if other Redis servers take over during it, or lose applications.
const maxAttempts = 3

// rulesOf is the table of the rules: what all runs but the immediate ones do, and what each trigger adds. Immediate
// runs have rules of their own; a nightly run does for their coupons what they leave out.
func rulesOf(trigger coupon.Trigger) rules {
	r := rules{fences: true, waitsForLock: true, attempts: maxAttempts, restores: true, countsRows: true,
		auditsHold: true, readsDLQ: true, postpones: true, reopens: true, finalises: true, logsWinners: true}
	switch trigger {
	case coupon.Cron:
		r.mayBeEarly, r.triesOnce, r.setsAside, r.warns = true, true, true, true
	case coupon.Manual:
		r.asksApproval, r.auditsOperator, r.tellsEarlier = true, true, true
	case coupon.DLQRetry:
		r.asksForOthers, r.keepsEntries = true, true
	case coupon.ImmediateRun:
		return rules{attempts: 1, looksAgain: true, recordsLate: true, keepsWinners: true}
	}
	return r
}

// alarm is the log level for a coupon that was not settled.
func (r rules) alarm() zapcore.Level {
	if r.warns {
		return zapcore.WarnLevel
	}
	return zapcore.InfoLevel
}
