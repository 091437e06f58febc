package settle

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/decision"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/line"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// maxTakeovers bounds the attempts at a settlement during which another Redis server takes over. Each costs the time that
// pods have to put applications back.
const maxTakeovers = 3

// settlement settles one coupon in one run. Nothing in it is written after newSettlement: each phase returns a value.
type settlement struct {
	*Settler
	run    run
	coupon coupon.Coupon // as the run found it
	steps  *stepTimer
	logger *zap.Logger // adds run_id and coupon_id
}

// settled is how far a settlement has come. Each phase sets its own field once.
type settled struct {
	notDue    bool
	issued    issued    // fence and transaction
	aside     tally     // put under review because MySQL was away
	cleaned   tally     // clean-up
	postponed bool      // the close-out waits until every coupon of the run is issued
	closed    closed    // close-out
	finished  *finished // nil before the end
	preview   *Preview  // of a preview alone
}

// issued is what the transaction committed.
type issued struct {
	coupon    coupon.Coupon  // as it was locked
	account   ledger.Account // of its promises
	seated    seated
	pin       string           // what an operator approves of seated and account
	pending   []pendingCleanup // includes this run if it recorded anything
	seatsLeft int
	waiting   int // in the queue, those behind the cutoff included
}

// closed is what became of the rest of the line.
type closed struct {
	tally   tally
	decided bool // at least one page was
}

// finished is a settlement whose records are complete.
type finished struct {
	counts    Counts
	seatsLeft int
}

// settle is one settlement. A long line is closed out later, by closeOutAndFinish, so that no winner of another coupon waits
// until the outcomes of this one are recorded.
func (s *settlement) settle(ctx context.Context) (done settled, err error) {
	if !s.due() {
		return settled{notDue: true}, nil
	}
	winners := s.run.memory.reserve(s.coupon.Free())
	defer winners.release()
	if done.issued, err = s.issueBehindFence(ctx, winners); err != nil {
		return s.notIssued(ctx, done.issued, err)
	}
	if done.cleaned, err = s.cleanUp(ctx, done.issued, winners); err != nil {
		return done, err
	}
	if done.issued.seatsLeft == 0 {
		if err := s.Door.SetSold(ctx, s.coupon.ID, true); err != nil {
			return done, err
		}
	}
	if done.issued.waiting > pageApplications {
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

// due reports whether applications may have arrived before the cutoff.
func (s *settlement) due() bool { return s.coupon.OpensAt.Before(s.run.cutoff) }

// issueBehindFence runs the transaction behind the fence. It starts again where another Redis server took over meanwhile:
// the line that was read may lack applications that pods are about to put back.
func (s *settlement) issueBehindFence(ctx context.Context, winners *remembered) (done issued, err error) {
	done.coupon = s.coupon
	for n := 1; ; n++ {
		if err := s.waitForFence(ctx); err != nil {
			return done.undone(), err
		}
		err = s.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, attempt int) (err error) {
			done, err = s.issue(ctx, tx, attempt, winners)
			return err
		})
		switch {
		case err == nil:
			return done, nil
		case n == maxTakeovers || !errors.Is(err, errTakenOver):
			return done.undone(), err
		}
	}
}

// undone is what an error leaves of a transaction that was rolled back.
func (i issued) undone() issued {
	return issued{coupon: i.coupon, account: i.account, seatsLeft: i.coupon.Free()}
}

// issue gives the free seats to the first eligible applications of the line. Seats, count and record are committed in one
// transaction; in a later attempt the record shows that an earlier one was committed.
func (s *settlement) issue(ctx context.Context, tx *sql.Tx, attempt int, winners *remembered) (issued, error) {
	winners.reset()
	s.begin(StepLock)
	locked, err := lockCoupon(ctx, tx, s.coupon.ID)
	if err != nil {
		return issued{coupon: s.coupon}, err
	}
	pending, err := selectPendingCleanups(ctx, tx, locked.ID, s.run.cutoff)
	if err != nil {
		return issued{coupon: locked}, err
	}
	if attempt > 1 { // another run may have cleaned up since: pending need not show the record
		if recorded, found, err := loadRecord(ctx, tx, s.run.id, locked.ID); err != nil || found {
			winners.forget()
			return issued{coupon: locked, seated: recorded, pending: pending, seatsLeft: locked.Free()}, err
		}
	}
	done, err := s.give(ctx, tx, locked, winners)
	if err != nil {
		return done, err
	}
	if done.pending, err = s.record(ctx, tx, locked, done.seated, pending); err != nil {
		return done, err
	}
	if err := s.sameServer(ctx); err != nil {
		return done, err
	}
	// Late, because the catalog waits for this row.
	if err := keepPromise(ctx, tx, locked.ID, done.account, s.run.startedAt); err != nil {
		return done, err
	}
	if done.account.Gap() > 0 {
		if err := writeOff(ctx, tx, s.run, locked.ID, done.account, done.pin); err != nil {
			return done, err
		}
	}
	s.begin(StepCommit)
	done.seated.tally, err = s.reviewReturned(ctx, tx, done.seated)
	return done, err
}

// give accounts for a locked coupon, seats the winners, and compares them with those that were approved.
func (s *settlement) give(ctx context.Context, tx *sql.Tx, c coupon.Coupon, winners *remembered) (issued, error) {
	s.begin(StepAccount)
	account, err := s.account(ctx, tx, c)
	if err != nil {
		return issued{coupon: c, account: account}, err
	}
	seats, err := s.seat(ctx, tx, c, account.Past, winners)
	if err != nil {
		return issued{coupon: c, account: account}, err
	}
	n := seats.winners.count
	done := issued{coupon: c, account: account, seated: seats, pin: seats.winners.pin(account.Gap()), seatsLeft: c.Free() - n, waiting: int(account.Waiting) - n}
	return done, s.approve(ctx, tx, done)
}

// account holds the coupon if its count of issued coupons is wrong, since that count says how many seats are free, or if
// accepted applications are missing, unless an operator accepts that.
func (s *settlement) account(ctx context.Context, tx *sql.Tx, c coupon.Coupon) (ledger.Account, error) {
	account, err := s.Auditor.Account(ctx, tx, c.ID)
	if err != nil {
		return account, err
	}
	if counted := int64(c.IssuedCount); counted != account.Past.Coupons {
		return account, invariant(&CountHeld{c.ID, counted, account.Past.Coupons, int64(c.TotalQuantity)})
	}
	if account.Gap() <= 0 {
		return account, nil
	}
	if err := s.sameServer(ctx); err != nil {
		return account, err
	}
	if !s.run.AcceptGap {
		return account, invariant(&GapHeld{Gap: account.Gap(), Account: account})
	}
	return account, nil
}

// record deletes the records of refused NOT_SELECTED applications and counts the seats. Unless nothing changed it adds the
// row and its audit event, and this run to those that need a clean-up.
func (s *settlement) record(ctx context.Context, tx *sql.Tx, c coupon.Coupon, seats seated, pending []pendingCleanup) ([]pendingCleanup, error) {
	if err := deleteNotSelected(ctx, tx, c.ID, applicationsOf(seats.refusedReturned())); err != nil {
		return nil, err
	}
	if seats.winners.count > 0 {
		s.begin(StepCount)
		if err := takeSeats(ctx, tx, c.ID, seats.winners.count); err != nil {
			return nil, err
		}
	}
	if !seats.tally.changed() {
		return pending, nil
	}
	s.begin(StepRecord)
	if err := insertRecord(ctx, tx, s.run, c.ID, seats); err != nil {
		return nil, err
	}
	return append(pending, pendingCleanup{run: s.run.id, covered: true}), s.auditManual(ctx, tx, seats.winners)
}

// notIssued does what is left to do for a coupon whose transaction failed.
func (s *settlement) notIssued(ctx context.Context, known issued, err error) (settled, error) {
	done := settled{issued: known}
	switch {
	case errors.As(err, new(*GapHeld)):
		return done, errors.Join(err, s.auditHold(ctx, audit.GapHeld, err))
	case errors.As(err, new(*CountHeld)):
		return done, errors.Join(err, s.auditHold(ctx, audit.CountHeld, err))
	case errors.As(err, new(*mysqltx.CommitUnknown)): // nothing may be moved
		return done, err
	case mysqltx.IsAway(err) && ctx.Err() == nil:
		aside, failed := s.setAside(ctx, known.coupon, err)
		return settled{issued: known, aside: aside}, errors.Join(err, failed)
	default:
		return done, errors.Join(fmt.Errorf("%w; nothing was moved", err), s.countAttempts(ctx, err))
	}
}

// cleanUp removes from Redis the applications that this run issued or rejected, and those of earlier runs that did not come so
// far. MySQL knows all of them. It does not know the refused rows, which move to the DLQ.
func (s *settlement) cleanUp(ctx context.Context, done issued, winners *remembered) (tally, error) {
	if n := done.seated.winners.count; n > 0 {
		s.logger.Info("coupons issued", zap.Int("issued", n))
	}
	if n := done.seated.kept; n > 0 {
		s.logger.Info("seats kept for applications that this run does not try", zap.Int("seats", n))
	}
	s.begin(StepCleanUp)
	for _, p := range done.pending {
		if p.run == s.run.id && winners.complete() {
			if err := s.removeRemembered(ctx, winners); err != nil {
				return tally{}, err
			}
			if done.seated.tally.Rejected == 0 {
				continue
			}
		} else if err := s.removePages(ctx, p.run, coupon.MarkIssued, selectIssued); err != nil {
			return tally{}, err
		}
		if err := s.removePages(ctx, p.run, coupon.MarkRejected, selectRejected); err != nil {
			return tally{}, err
		}
	}
	return s.moveToReview(ctx, done.seated.refusedWaiting())
}

// closeOut walks the rest of the line and decides every application in it, page by page.
func (s *settlement) closeOut(ctx context.Context, done issued) (sum closed, err error) {
	logged, refusedAnew := s.Now(), done.seated.refused.anew
	for page, err := range line.Ahead(ctx, s.restOfLine().NextOrNil) {
		if err != nil {
			return sum, err
		}
		if err := s.run.stopped(); err != nil {
			return sum, err
		}
		s.begin(StepCloseOut)
		sum.decided = true
		d, err := s.closePage(ctx, *page, done.seated, refusedAnew)
		sum.tally = sum.tally.plus(d.tally)
		if err != nil {
			return sum, err
		}
		refusedAnew = d.refused.anew
		s.progress(len(*page))
		if now := s.Now(); now.Sub(logged) >= progressEvery {
			s.logger.Info("recording the rest of the line", zap.Int("read", sum.tally.Read), zap.Int("not_selected", sum.tally.NotSelected))
			logged = now
		}
	}
	return sum, nil
}

// closedPage is one page that was closed out.
type closedPage struct {
	decision.Decisions
	refused refusals
	tally   tally
}

// closePage decides one page in a transaction of its own, which locks the coupon so that no seat is given meanwhile. When
// that is committed, it moves the applications in Redis.
func (s *settlement) closePage(ctx context.Context, page []coupon.Application, before seated, refusedAnew int) (done closedPage, err error) {
	err = s.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) (err error) {
		done, err = s.recordPage(ctx, tx, page, before.winners, refusedAnew)
		return err
	})
	if err != nil {
		return closedPage{}, err
	}
	done.tally = tally{Counts: Counts{Read: done.Read - before.readAgain(page), NotSelected: len(done.NotSelected), AlreadyIssued: len(done.AlreadyIssued)}}
	// The DLQ first: the others stand side by side then. If another application of the user has a DLQ entry, this one waits
	// for the next run.
	moved, err := s.moveToReview(ctx, slices.Concat(done.Review, done.refused.failures))
	done.tally = done.tally.plus(moved)
	if err != nil {
		return done, err
	}
	holders := slices.Concat(done.IssuedBefore, done.AlreadyIssued)
	if _, err := s.Line.Remove(ctx, s.coupon.ID, s.coupon.ClosesAt, coupon.MarkIssued, holders); err != nil {
		return done, err
	}
	others := slices.Concat(done.RecordedBefore, done.NotSelected)
	_, err = s.Line.Remove(ctx, s.coupon.ID, s.coupon.ClosesAt, coupon.MarkNone, others)
	return done, err
}

// recordPage decides a page and records its outcomes.
func (s *settlement) recordPage(ctx context.Context, tx *sql.Tx, page []coupon.Application, winners winners, refusedAnew int) (closedPage, error) {
	locked, err := lockCoupon(ctx, tx, s.coupon.ID)
	if err != nil {
		return closedPage{}, err
	}
	boundary, err := selectLastIssued(ctx, tx, locked.ID)
	if err != nil {
		return closedPage{}, err
	}
	all, err := decision.Classify(ctx, tx, s.Users, locked.ID, decision.AssumeExisting, page)
	if err != nil {
		return closedPage{}, err
	}
	d := closedPage{Decisions: decision.Decide(all, locked.Free(), boundary, s.run.stays), refused: s.run.newRefusals(locked.TotalQuantity, refusedAnew)}
	if len(d.NotSelected) > 0 {
		// Another run may have opened the door since, and given the last seats. A user who is not selected must not be
		// accepted once more.
		if err := s.Door.SetSold(ctx, locked.ID, true); err != nil {
			return d, err
		}
	}
	if d.AlreadyIssued, err = s.recordOutcome(ctx, tx, coupon.OutcomeAlreadyIssued, d.AlreadyIssued, &d.refused); err != nil {
		return d, err
	}
	if d.NotSelected, err = s.recordOutcome(ctx, tx, coupon.OutcomeNotSelected, d.NotSelected, &d.refused); err != nil {
		return d, err
	}
	if len(d.AlreadyIssued)+len(d.NotSelected) == 0 {
		return d, nil
	}
	if err := s.auditManual(ctx, tx, winners); err != nil {
		return d, err
	}
	return d, addToRecord(ctx, tx, s.run, locked.ID, d.Decisions)
}

// recordOutcome records an outcome and returns the applications whose rows MySQL took.
func (s *settlement) recordOutcome(ctx context.Context, tx *sql.Tx, outcome coupon.Outcome, applications []coupon.Application, refused *refusals) ([]coupon.Application, error) {
	return refused.insert(ctx, tx, 0, applications, func(_ int, part []coupon.Application) error {
		return insertOutcomes(ctx, tx, s.run, s.coupon.ID, outcome, "", part)
	})
}

// finish records that Redis is clean. Where newcomers may be let in again, or the coupon is over, it does that.
func (s *settlement) finish(ctx context.Context, done settled) (*finished, error) {
	s.begin(StepFinish)
	if t := done.tally(); s.run.Trigger == coupon.Manual && t.UnderReview+t.Rejected > 0 { // nothing else may be recorded
		if err := s.underLock(ctx, func(ctx context.Context, tx *sql.Tx, _ coupon.Coupon) error {
			return s.auditManual(ctx, tx, done.issued.seated.winners)
		}); err != nil {
			return nil, err
		}
	}
	var end finished
	err := s.DB.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) (err error) {
		end, err = s.completeRecords(ctx, q, done)
		return err
	})
	if err != nil {
		return nil, err
	}
	if end.seatsLeft == 0 && s.coupon.ClosesAt.After(s.run.cutoff) {
		return &end, nil
	}
	seatsLeft := end.seatsLeft
	err = s.underLock(ctx, func(ctx context.Context, tx *sql.Tx, locked coupon.Coupon) error {
		seatsLeft = locked.Free()
		return s.reopenOrFinalise(ctx, tx, locked, done.issued.pending)
	})
	return &finished{end.counts, seatsLeft}, err
}

// completeRecords writes what only the end of a settlement knows. The outcomes are counted by the record itself, because a
// repeated transaction of the close-out has lost count of them.
func (s *settlement) completeRecords(ctx context.Context, q mysqltx.Querier, done settled) (finished, error) {
	at := s.Now().UTC()
	now, err := selectCoupon(ctx, q, s.coupon.ID)
	if err != nil {
		return finished{}, err
	}
	counts := done.tally().Counts
	isOwn := func(p pendingCleanup) bool { return p.run == s.run.id }
	recorded := slices.ContainsFunc(done.issued.pending, isOwn)
	if done.closed.decided {
		record, found, err := loadRecord(ctx, q, s.run.id, s.coupon.ID)
		if err != nil {
			return finished{}, err
		}
		if found {
			recorded = true
			counts.Issued, counts.AlreadyIssued, counts.NotSelected = record.tally.Issued, record.tally.AlreadyIssued, record.tally.NotSelected
		}
	}
	if recorded || counts.changed() {
		if err := completeRecord(ctx, q, s.run, s.coupon.ID, counts, at); err != nil {
			return finished{}, err
		}
	}
	for _, p := range done.issued.pending {
		if !p.covered || isOwn(p) {
			continue // a run that is not covered settled applications behind this cutoff, which were not walked
		}
		if err := markCleaned(ctx, q, p.run, s.coupon.ID, at); err != nil {
			return finished{}, err
		}
	}
	return finished{counts, now.Free()}, nil // seats may have been added since
}

// reopenOrFinalise lets newcomers in again if seats are free, or ends the coupon if it is over.
func (s *settlement) reopenOrFinalise(ctx context.Context, tx *sql.Tx, c coupon.Coupon, pending []pendingCleanup) error {
	if c.Free() > 0 {
		left, err := anyNotSelected(ctx, tx, c.ID)
		if err != nil {
			return err
		}
		if left {
			return nil // they get the free seats in the next run; until then newcomers must not
		}
		if err := s.Door.SetSold(ctx, c.ID, false); err != nil {
			return err
		}
	}
	if c.ClosesAt.After(s.run.cutoff) {
		return nil
	}
	return s.finalise(ctx, tx, c, pending)
}

// finalise ends a coupon whose applying has ended, if no application waits. A coupon with DLQ entries is not finalised,
// because an operator may still grant them a seat. The keys go first: after a crash before the commit, the coupon is due
// again and has nothing left to settle.
func (s *settlement) finalise(ctx context.Context, tx *sql.Tx, c coupon.Coupon, pending []pendingCleanup) error {
	account, err := s.Auditor.Account(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	if account.Waiting > 0 || account.UnderReview > 0 || account.Gap() > 0 {
		return nil
	}
	at := s.Now().UTC()
	for _, p := range pending { // Redis is empty: the settlements of later cutoffs are clean as well
		if err := markCleaned(ctx, tx, p.run, c.ID, at); err != nil {
			return err
		}
	}
	if err := keepPromise(ctx, tx, c.ID, account, at); err != nil {
		return err
	}
	s.begin(StepSweep)
	swept, err := s.Door.Sweep(ctx, c.ID, c.ClosesAt)
	if err != nil || !swept || c.Finalised() {
		return err
	}
	return markFinalised(ctx, tx, c.ID, at)
}
