package settle

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/records"
	"github.com/jajeong/jajeong/internal/text"
)

// finished is the final state of a settlement whose records are complete.
type finished struct {
	counts    Counts
	recorded  bool // the settlement has a row; of an immediate run, which looks again at once, a row with a count
	seatsLeft int
}

// finish marks the settlement as cleaned up. If seats are left or the window is over, it calls reopenOrFinalise.
func (s *settlement) finish(ctx context.Context, done settled) (*finished, error) {
	s.begin(StepFinish)
	var end finished
	err := s.DB.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) (err error) {
		end, err = s.completeRecords(ctx, q, done)
		return err
	})
	if err == nil && done.issued.account.InBoth > 0 && end.counts.UnderReview > 0 {
		err = s.countReviewed(ctx)
	}
	if err != nil {
		return nil, err
	}
	sold := done.issued.account.Sold || done.issued.seatsLeft == 0
	mayReopen := end.seatsLeft > 0 && (sold || s.run.rules.reopens)
	if !mayReopen && !s.mayFinalise(s.coupon) {
		return &end, nil
	}
	end.seatsLeft, err = s.reopenOrFinalise(ctx, done.issued.pending)
	return &end, err
}

// countReviewed counts again after somebody left the queue who was settled at a later arrival. In the queue both
// counted as one; in the DLQ they are two, and the excess would hide a loss.
func (s *settlement) countReviewed(ctx context.Context) error {
	return s.underLock(ctx, func(ctx context.Context, tx *sql.Tx, locked coupon.Coupon) error {
		account, err := s.Auditor.Account(ctx, tx, locked.ID)
		if err == nil && account.Gap() < 0 {
			_, err = s.addExcess(ctx, account)
		}
		return err
	})
}

// completeRecords ends the clean-up of the settlement and of earlier ones. The settlement row has the outcomes, also of
// pages whose COMMIT got no reply.
func (s *settlement) completeRecords(ctx context.Context, q mysqltx.Querier, done settled) (finished, error) {
	at := s.Now().UTC()
	now, err := records.ReadProgress(ctx, q, s.run.id, s.coupon.ID)
	if err != nil {
		return finished{}, err
	}
	counts := done.tally().Counts
	if now.Recorded {
		counts.Issued, counts.UnderReview, counts.AlreadyIssued, counts.NotSelected =
			now.Issued, now.UnderReview, now.AlreadyIssued, now.NotSelected
	}
	// If another run moved some of them, this run did not. It may have ended the clean-up of this one too early, as
	// well.
	if counts.UnderReview > 0 || done.tally().UnderReview > 0 {
		moved, err := s.Line.Moved(ctx, s.coupon.ID, s.run.id, s.run.settledAt())
		if err != nil {
			return finished{}, err
		}
		counts.UnderReview = moved
	}
	for run, cutoff := range done.closed.before { // they may have asked before a server lacked their clean-up
		if _, err := promise.AskForLater(ctx, q, run, cutoff, s.coupon.ID); err != nil {
			return finished{}, err
		}
	}
	if now.Recorded {
		if counts.AlreadyIssued+counts.NotSelected > 0 {
			if _, err := promise.AskForLater(ctx, q, s.run.id, s.run.cutoff, s.coupon.ID); err != nil {
				return finished{}, err
			}
		}
		if err := records.MarkCleaned(ctx, q, s.run.id, s.coupon.ID, counts.UnderReview, at); err != nil {
			return finished{}, err
		}
	}
	for _, p := range done.issued.pending {
		if !p.Covered {
			continue // a run with a later cutoff may have left applications that this run has not read
		}
		if _, err := s.endCleanUp(ctx, q, p, at); err != nil {
			return finished{}, err
		}
	}
	recorded := now.Recorded && (counts.sum() > 0 || !s.run.rules.looksAgain)
	return finished{counts, recorded, now.SeatsLeft}, nil // seats may have been added since the transaction
}

// endCleanUp marks the settlement of another run as cleaned up, and corrects how many applications it has moved to the
// DLQ. What it decided to move, but did not, this run has moved. It reports whether it has asked for a restore.
func (s *settlement) endCleanUp(ctx context.Context, q mysqltx.Querier, of records.Pending,
	at time.Time) (asks bool, err error) {
	if of.ID == s.run.id {
		return false, nil
	}
	moved, err := s.Line.Moved(ctx, s.coupon.ID, of.ID, of.At)
	if err != nil {
		return false, err
	}
	if asks, err = promise.AskForLater(ctx, q, of.ID, of.Cutoff, s.coupon.ID); err != nil {
		return false, err
	}
	return asks, records.MarkCleaned(ctx, q, of.ID, s.coupon.ID, moved, at)
}

// reopenOrFinalise lets Redis accept applications if seats are free, and finalises the coupon if its window is over. If
// Redis was lost after the seats were given, or somebody asks for a restore, it restores first: nobody is looked for in
// the journal of a finalised coupon.
func (s *settlement) reopenOrFinalise(ctx context.Context, pending []records.Pending) (seatsLeft int, err error) {
	var was outlook
	end := func(pending []records.Pending) error {
		return s.underLock(ctx, func(ctx context.Context, tx *sql.Tx, locked coupon.Coupon) (err error) {
			seatsLeft, was = locked.Free(), unsettled
			if left, err := s.reopen(ctx, tx, locked); err != nil || left || !s.mayFinalise(locked) {
				return err
			}
			was, err = s.finalise(ctx, tx, locked, pending)
			return err
		})
	}
	if err := end(pending); err != nil || was != restoreDue {
		return seatsLeft, err
	}
	s.begin(StepRestore)
	if err := s.Journal.RestoreCoupon(s.run.stop, s.coupon.ID); err != nil {
		return seatsLeft, cmp.Or(s.run.stopped(), err)
	}
	if err = end(nil); err == nil && was != finalised {
		err = &coupon.Error{Class: coupon.Infrastructure, Err: text.Errorf(text.RestoredLate)}
	}
	return seatsLeft, err
}

// reopen lets Redis accept applications if seats are free. It does not if NOT_SELECTED applications are left: the next
// run gives them the seats.
func (s *settlement) reopen(ctx context.Context, tx *sql.Tx, c coupon.Coupon) (left bool, err error) {
	if c.Free() == 0 {
		return false, nil
	}
	if left, err = records.AnyNotSelected(ctx, tx, c.ID); err != nil || left {
		return left, err
	}
	return false, s.Door.SetSold(ctx, c.ID, false)
}

// mayFinalise reports whether the run finalises coupons and the window is over.
func (s *settlement) mayFinalise(c coupon.Coupon) bool {
	return s.run.rules.finalises && !c.ClosesAt.After(s.run.cutoff)
}

// outlook is what becomes of a coupon whose window is over.
type outlook int

const (
	finalised  outlook = iota
	unsettled          // somebody waits, is in the DLQ, where an operator may still grant a seat, or is missing
	restoreDue         // nobody is left, as far as Redis knows
)

// finalise finalises a coupon of which nobody is left. Keys are removed before the commit: after a crash in between,
// the coupon is due again with an empty line.
func (s *settlement) finalise(ctx context.Context, tx *sql.Tx, c coupon.Coupon,
	pending []records.Pending) (outlook, error) {
	account, err := s.Auditor.Account(ctx, tx, c.ID)
	due := !c.Finalised() && account.RestoreDue() != promise.NotDue // of a finalised one, Redis may have nothing
	switch {
	case err != nil || account.Waiting > 0 || account.UnderReview > 0:
		return unsettled, err
	case due:
		return restoreDue, nil
	case account.Gap() > 0, !c.Finalised() && account.Line.Issued > account.Issued: // MySQL has lost who is marked
		return unsettled, nil
	}
	at := s.Now().UTC()
	redis, cancel := mysqltx.Meanwhile(ctx)
	defer cancel()
	for _, p := range pending { // Redis is empty, so settlements with later cutoffs are clean too
		asks, err := s.endCleanUp(redis, tx, p, at)
		if err != nil {
			return unsettled, err
		}
		due = due || asks
	}
	if due && !c.Finalised() {
		return restoreDue, nil
	}
	s.begin(StepSweep)
	swept, err := s.Door.Sweep(ctx, c.ID, c.ClosesAt)
	if err != nil || !swept || c.Finalised() {
		return finalised, err
	}
	return finalised, records.MarkFinalised(ctx, tx, c.ID)
}
