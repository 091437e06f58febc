package settle

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/records"
	"github.com/jajeong/jajeong/internal/text"
)

// settlement settles one coupon in one run. Each phase returns a value. Of its fields, only an immediate run changes
// coupon and run.
type settlement struct {
	*Settler
	run    run
	coupon coupon.Coupon // the row as read at the start of the run
	steps  *stepTimer
	logger *zap.Logger // adds run_id and coupon_id

	epoch    string // of the Redis server behind whose fence it works
	searched bool   // a restore has searched for the promises that are missing
}

// settled is the progress of a settlement. Each phase sets its own field once.
type settled struct {
	notDue    bool
	frozen    bool      // the run changes nothing, because the coupon is frozen
	issued    issued    // result of fence and transaction
	aside     tally     // applications moved to the DLQ because MySQL was away
	cleaned   tally     // counts of the clean-up
	postponed bool      // the close-out waits until every coupon of the run is issued
	closed    tally     // counts of the close-out
	finished  *finished // nil until the settlement has finished
	preview   *Preview  // nil unless this is a preview
	winners   []Winner  // winners of an immediate run; empty if the run did not remember them
}

// issued is what the transaction committed.
type issued struct {
	coupon    coupon.Coupon // the row as read under the lock
	account   ledger.Account
	seated    seated
	pin       string            // the digest that an operator approves
	pending   []records.Pending // runs whose clean-up is pending, also this run if it recorded anything
	seatsLeft int
	waiting   int       // number of applications in the queue, before and after the cutoff
	at        time.Time // when the reply to COMMIT came, by the clock of this process
}

// changed reports whether the transaction changed anything. A gap counts as a change, because the transaction commits
// with a gap only if it writes the gap off. So do refused rows, which then move to the DLQ.
func (i issued) changed() bool {
	return i.seated.tally.changed() || len(i.seated.refused.failures) > 0 || i.account.Gap() > 0
}

// settle runs the phases in order. It postpones a long close-out, so that other coupons' winners need not wait for it.
func (s *settlement) settle(ctx context.Context) (done settled, err error) {
	if !s.due() {
		return settled{notDue: true}, nil
	}
	winners := s.run.memory.reserve(s.coupon.Free())
	defer winners.release()
	if done.issued, err = s.issueBehindFence(ctx, winners); err != nil {
		return s.notIssued(ctx, done.issued, err)
	}
	if s.run.rules.keepsWinners {
		done.winners = winners.all()
	}
	if done.cleaned, err = s.cleanUp(ctx, done.issued, winners); err != nil {
		return done, err
	}
	if done.issued.seatsLeft == 0 {
		if err := s.Door.SetSold(ctx, s.coupon.ID, true); err != nil {
			return done, err
		}
	}
	if done.issued.waiting > pageApplications && s.run.rules.postpones {
		done.postponed = true
		return done, nil
	}
	return s.closeOutAndFinish(ctx, done)
}

func (s *settlement) closeOutAndFinish(ctx context.Context, done settled) (settled, error) {
	var err error
	if done.closed, err = s.closeOut(ctx, done.issued); err != nil {
		return done, errors.Join(err, s.countAttempts(ctx, err))
	}
	done.finished, err = s.finish(ctx, done)
	return done, err
}

// due reports whether the window opened before the cutoff, or whether an approved digest must be compared.
func (s *settlement) due() bool {
	_, pinned := s.run.Expect[s.coupon.ID]
	return pinned || s.run.Approvals[s.coupon.ID] > 0 || s.coupon.OpensAt.Before(s.run.cutoff)
}

// issueBehindFence waits for the fence and runs the transaction. If another Redis server takes over meanwhile, or a
// restore is due, it enters again whom Redis has lost, and starts again: those with seats may have arrived after them.
func (s *settlement) issueBehindFence(ctx context.Context, winners *remembered) (done issued, err error) {
	done.coupon = s.coupon
	for n, restores := 1, false; ; n++ {
		if err = s.prepareIssue(ctx, restores); err == nil {
			done, err = s.transact(ctx, winners)
		}
		switch {
		case err == nil || errors.Is(err, errUnchanged):
			return done, nil
		case errors.Is(err, errSearch): // once
			s.searched = true
			n--
		case !errors.Is(err, promise.ErrTakenOver) && !errors.Is(err, errRestoreDue):
			return done.rolledBack(), err
		case !s.run.rules.restores:
			return issued{coupon: s.coupon, seatsLeft: s.coupon.Free()}, errors.Join(errBusy, err)
		case n == s.run.rules.attempts:
			return done.rolledBack(), err
		}
		restores = true
	}
}

// prepareIssue enters again whom Redis has lost, if restores is set, and waits for the fence. A request to stop ends
// the restore at once: another one does the rest.
func (s *settlement) prepareIssue(ctx context.Context, restores bool) error {
	if restores {
		s.begin(StepRestore)
		if err := s.Journal.RestoreCoupon(s.run.stop, s.coupon.ID); err != nil {
			return cmp.Or(s.run.stopped(), err)
		}
	}
	return s.waitForFence(ctx)
}

// transact runs the transaction.
func (s *settlement) transact(ctx context.Context, winners *remembered) (done issued, err error) {
	done.coupon = s.coupon
	var sent *issued // result of the last attempt that reached its COMMIT
	err = s.transaction(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if done, err = s.issue(ctx, tx, sent, winners); err == nil {
			sent = new(done)
		}
		return err
	})
	done.at = s.Now()
	return done, err
}

// frozenRestore returns errRestoreDue for a locked coupon that is frozen, if a restore is due: a freeze stops
// settlements alone.
func (s *settlement) frozenRestore(ctx context.Context, tx *sql.Tx, c coupon.Coupon, err error) error {
	if !errors.Is(err, errFrozen) || !s.run.rules.restores || s.run.dryRun {
		return nil
	}
	account, err := s.Auditor.Account(ctx, tx, c.ID)
	if err == nil {
		err = s.restored(ctx, c, account)
	}
	return err
}

var (
	// errRestoreDue rolls a transaction back, because Redis may have lost applications.
	errRestoreDue = &coupon.Error{Class: coupon.Infrastructure, Err: text.Errorf(text.RestoreDue)}
	// errSearch does so, because promises are missing that no restore of this settlement has searched for.
	errSearch = &coupon.Error{Class: coupon.Infrastructure, Err: text.Errorf(text.RestoreDue)}
)

// restored returns an error if the Redis server is not that of the fence, or if a restore is due. c is the locked row:
// another run may have finalised and swept the coupon.
func (s *settlement) restored(ctx context.Context, c coupon.Coupon, account ledger.Account) error {
	switch {
	case c.Finalised(): // every application has its outcome
		return nil
	case account.Line.Epoch != s.epoch || account.RestoreDue() == promise.NewServer:
		return promise.ErrTakenOver
	case account.RestoreDue() != promise.NotDue:
		return errRestoreDue
	case !account.LacksMarks():
		return nil
	}
	again, err := s.look(ctx) // a clean-up may have marked them meanwhile
	if account.Line = again.Line; err == nil && account.LacksMarks() {
		err = errRestoreDue
	}
	return err
}

// rolledBack returns the result of a transaction that failed.
func (i issued) rolledBack() issued {
	return issued{coupon: i.coupon, account: i.account, seatsLeft: i.coupon.Free()}
}

// issue gives the free seats to the first eligible applications, and commits seats, count and record together. sent is
// the result of an attempt whose COMMIT got no reply: if it was committed, issue returns it.
func (s *settlement) issue(ctx context.Context, tx *sql.Tx, sent *issued, winners *remembered) (issued, error) {
	s.begin(StepLock)
	locked, err := s.lock(ctx, tx)
	if err != nil {
		return issued{coupon: s.coupon}, errors.Join(s.frozenRestore(ctx, tx, locked, err), err)
	}
	if sent != nil {
		if found, err := s.committed(ctx, tx); err != nil || found {
			return *sent, err
		}
	}
	winners.reset()
	done, err := s.give(ctx, tx, locked, winners)
	if err != nil {
		return done, err
	}
	if done.account.Past.Pending {
		done.pending, err = records.PendingCleanUps(ctx, tx, locked.ID, s.run.cutoff, s.run.rules.readsDLQ)
		if err != nil {
			return done, err
		}
	}
	if s.run.rules.looksAgain && !done.changed() {
		return done, errUnchanged
	}
	if err := s.permit(ctx, tx, done); err != nil {
		return done, err
	}
	if done.pending, err = s.record(ctx, tx, done); err != nil {
		return done, err
	}
	if err := s.sameLine(ctx, tx, locked, done.account); err != nil {
		return done, err
	}
	if done.account.Gap() > 0 {
		if err := records.WriteOff(ctx, tx, s.run.origin(), locked.ID, done.account, done.pin); err != nil {
			return done, err
		}
	}
	s.begin(StepCommit)
	if done.seated, err = s.reviewReturned(ctx, tx, done.seated); err != nil {
		return done, err
	}
	return done, s.keepSums(ctx, tx, done)
}

// keepSums writes the sums after the transaction that seats the winners, if they have changed or were wrong.
func (s *settlement) keepSums(ctx context.Context, tx *sql.Tx, done issued) error {
	now := done.account.Sums
	now.Issued += int64(done.seated.winners.count)
	now.Concluded += int64(done.seated.recorded)
	now.LastIssued = max(now.LastIssued, done.seated.winners.last)
	now.SettledUpTo = max(now.SettledUpTo, now.LastIssued)
	if now == done.account.Stored {
		return nil
	}
	return records.KeepSums(ctx, tx, s.coupon.ID, now)
}

// committed reports whether an earlier attempt, whose COMMIT got no reply, was committed. The row of an immediate run
// shows it, and the settlement row of any other run.
func (s *settlement) committed(ctx context.Context, tx *sql.Tx) (found bool, err error) {
	if s.run.rules.recordsLate {
		s.run.id, err = history.Find(ctx, tx, s.run.nonce)
		return s.run.id != 0, err
	}
	p, err := records.ReadProgress(ctx, tx, s.run.id, s.coupon.ID)
	return p.Recorded, err
}

// give checks the account of a locked coupon, seats the winners, and compares them with the approved digest.
func (s *settlement) give(ctx context.Context, tx *sql.Tx, c coupon.Coupon, winners *remembered) (issued, error) {
	s.begin(StepAccount)
	account, err := s.account(ctx, tx, c)
	if err == nil {
		err = s.recordRun(ctx, tx)
	}
	if err != nil {
		return issued{coupon: c, account: account}, err
	}
	seats, err := s.seat(ctx, tx, c, account.Past, winners)
	if err != nil {
		return issued{coupon: c, account: account}, err
	}
	n := seats.winners.count
	done := issued{coupon: c, account: account, seated: seats, pin: seats.winners.pin(account.Gap()),
		seatsLeft: c.Free() - n, waiting: int(account.Waiting) - n}
	return done, s.approve(ctx, tx, done)
}

// account returns an error, which holds the coupon, for a wrong issued_count and for a gap that is not accepted.
func (s *settlement) account(ctx context.Context, tx *sql.Tx, c coupon.Coupon) (account ledger.Account, err error) {
	if s.run.rules.countsRows {
		account, err = s.Auditor.Account(ctx, tx, c.ID)
	} else {
		account, err = s.Auditor.AccountBySums(ctx, tx, c.ID, c.IssuedCount)
	}
	if err != nil {
		return account, err
	}
	if !s.run.dryRun {
		if err := s.restored(ctx, c, account); err != nil {
			return account, err
		}
	}
	if int64(c.IssuedCount) != account.Past.Coupons {
		return account,
			invariant(&hold{text.Errorf(text.CountHeld, c.ID, c.IssuedCount, account.Past.Coupons, c.TotalQuantity),
				audit.CountHeld,
				audit.WrongCount{Recorded: int64(c.IssuedCount), Coupons: account.Past.Coupons,
					Seats: int64(c.TotalQuantity)}})
	}
	switch {
	case account.Gap() == 0:
		return account, nil
	case account.Gap() < 0 && s.run.dryRun: // a run raises the promises
		account.Accepted -= account.Gap()
		return account, nil
	case account.Gap() < 0:
		return s.addExcess(ctx, account)
	case s.run.rules.restores && !s.searched && !s.run.dryRun:
		return account, errSearch
	case !s.run.AcceptGap:
		why := text.Errorf(text.GapHeld, account.Gap(), account.Accepted, account.Figures())
		missing := audit.MissingPromises{Missing: account.Gap(), Account: account.Figures()}
		return account, invariant(&hold{why, audit.GapHeld, missing})
	}
	return account, nil
}

// addExcess raises the promises to what is accounted for: an excess would hide as many losses.
func (s *settlement) addExcess(ctx context.Context, account ledger.Account) (ledger.Account, error) {
	done, err := s.Door.AddExcess(ctx, s.coupon.ID, s.epoch, account.Settled()-account.InBoth)
	if err == nil && !done {
		err = promise.ErrTakenOver
	}
	account.Accepted -= account.Gap()
	return account, err
}

// record deletes the records of refused NOT_SELECTED applications and counts the seats. If anything changed, it also
// inserts the settlement row and the audit event, and adds this run to the pending clean-ups.
func (s *settlement) record(ctx context.Context, tx *sql.Tx, done issued) ([]records.Pending, error) {
	id, seats := done.coupon.ID, done.seated
	returned := mapped(seats.refusedOf(true), func(f coupon.Failure) coupon.Application { return f.Application })
	if err := records.DeleteNotSelected(ctx, tx, id, returned); err != nil {
		return nil, err
	}
	if seats.winners.count > 0 {
		s.begin(StepCount)
		if err := records.TakeSeats(ctx, tx, id, seats.winners.count); err != nil {
			return nil, err
		}
	}
	if !done.changed() {
		return done.pending, nil
	}
	s.begin(StepRecord)
	if err := records.InsertSettlement(ctx, tx, s.run.rows(), id, seats.row()); err != nil {
		return nil, err
	}
	pending := append(done.pending, records.Pending{Run: s.run.rows(), Covered: true})
	if !s.run.rules.auditsOperator {
		return pending, nil
	}
	// The settlement row is new: no earlier transaction of the run can have recorded the operator.
	return pending, audit.Append(ctx, tx, s.run.origin(), audit.ManualSettle, id, s.settleEntry(seats.winners))
}

// notIssued handles an error of the fence or of the transaction.
func (s *settlement) notIssued(ctx context.Context, known issued, err error) (settled, error) {
	done, held := settled{issued: known}, (*hold)(nil)
	err = approval.Void(ctx, s.DB, err)
	switch {
	case !s.run.rules.auditsHold: // nor moves anything: both are left to the nightly run
		return done, errors.Join(err, s.countAttempts(ctx, err))
	case errors.As(err, &held):
		return done, errors.Join(err, s.auditHold(ctx, held))
	case errors.As(err, new(*mysqltx.CommitUnknown)): // nothing may be moved, because the transaction may be committed
		return done, err
	case mysqltx.IsAway(err) && ctx.Err() == nil && s.run.rules.setsAside:
		aside, failed := s.setAside(ctx, known.coupon, err)
		return settled{issued: known, aside: aside}, errors.Join(err, failed)
	default:
		return done, errors.Join(text.Errorf(text.NothingMoved, err), s.countAttempts(ctx, err))
	}
}

// cleanUp removes the issued and rejected applications of all pending clean-ups from Redis. Refused rows go to the DLQ.
func (s *settlement) cleanUp(ctx context.Context, done issued, winners *remembered) (tally, error) {
	if n := done.seated.winners.count; n > 0 && s.run.rules.logsWinners {
		s.logger.Info("coupons issued", zap.Int("issued", n))
	}
	if n := done.seated.kept; n > 0 {
		s.logger.Info("seats kept for applications that this run does not try", zap.Int("seats", n))
	}
	s.begin(StepCleanUp)
	for _, p := range done.pending {
		switch own := p.ID == s.run.id; {
		case own && winners.complete:
			if err := s.removeRemembered(ctx, winners); err != nil {
				return tally{}, err
			}
			if done.seated.tally.Rejected == 0 {
				continue
			}
		case own || s.run.rules.readsDLQ:
			if err := s.removePages(ctx, p.ID, coupon.MarkIssued); err != nil {
				return tally{}, err
			}
		case !p.Covered: // the close-out finds in the queue what other runs have issued
			continue
		}
		if err := s.removePages(ctx, p.ID, coupon.MarkRejected); err != nil {
			return tally{}, err
		}
	}
	return s.moveToReview(ctx, done.seated.refusedOf(false))
}
