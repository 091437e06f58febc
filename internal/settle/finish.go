package settle

import (
	"context"
	"database/sql"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/records"
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
	if err != nil {
		return nil, err
	}
	sold := done.issued.account.Sold || done.issued.seatsLeft == 0
	mayReopen := end.seatsLeft > 0 && (sold || s.run.rules.reopens)
	if !mayReopen && !s.mayFinalise(s.coupon) {
		return &end, nil
	}
	err = s.underLock(ctx, func(ctx context.Context, tx *sql.Tx, locked coupon.Coupon) error {
		end.seatsLeft = locked.Free()
		return s.reopenOrFinalise(ctx, tx, locked, done.issued.pending)
	})
	return &end, err
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
	if now.Recorded {
		if counts.AlreadyIssued+counts.NotSelected > 0 {
			if err := promise.AskAfter(ctx, q, s.run.id, s.run.cutoff, s.coupon.ID); err != nil {
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
		if err := s.endCleanUp(ctx, q, p, at); err != nil {
			return finished{}, err
		}
	}
	recorded := now.Recorded && (counts.sum() > 0 || !s.run.rules.looksAgain)
	return finished{counts, recorded, now.SeatsLeft}, nil // seats may have been added since the transaction
}

// endCleanUp marks the settlement of another run as cleaned up, and corrects how many applications it has moved to the
// DLQ. What it decided to move, but did not, this run has moved.
func (s *settlement) endCleanUp(ctx context.Context, q mysqltx.Querier, of records.Pending, at time.Time) error {
	if of.ID == s.run.id {
		return nil
	}
	moved, err := s.Line.Moved(ctx, s.coupon.ID, of.ID, of.At)
	if err != nil {
		return err
	}
	if err := promise.AskAfter(ctx, q, of.ID, of.Cutoff, s.coupon.ID); err != nil {
		return err
	}
	return records.MarkCleaned(ctx, q, of.ID, s.coupon.ID, moved, at)
}

// reopenOrFinalise lets Redis accept applications if seats are free, and finalises the coupon if its window is over.
func (s *settlement) reopenOrFinalise(ctx context.Context, tx *sql.Tx, c coupon.Coupon,
	pending []records.Pending) error {
	if c.Free() > 0 {
		left, err := records.AnyNotSelected(ctx, tx, c.ID)
		if err != nil {
			return err
		}
		if left {
			return nil // the next run gives the free seats to NOT_SELECTED applications before new ones
		}
		if err := s.Door.SetSold(ctx, c.ID, false); err != nil {
			return err
		}
	}
	if !s.mayFinalise(c) {
		return nil
	}
	return s.finalise(ctx, tx, c, pending)
}

// mayFinalise reports whether the run finalises coupons and the window is over.
func (s *settlement) mayFinalise(c coupon.Coupon) bool {
	return s.run.rules.finalises && !c.ClosesAt.After(s.run.cutoff)
}

// finalise finalises a coupon if no application waits or is in the DLQ, where an operator may still grant it a seat.
// Keys are removed before the commit: after a crash in between, the coupon is due again with an empty line.
func (s *settlement) finalise(ctx context.Context, tx *sql.Tx, c coupon.Coupon, pending []records.Pending) error {
	account, err := s.Auditor.Account(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	if account.Waiting > 0 || account.UnderReview > 0 || account.Gap() > 0 {
		return nil
	}
	at := s.Now().UTC()
	redis, cancel := mysqltx.Meanwhile(ctx)
	defer cancel()
	for _, p := range pending { // Redis is empty, so settlements with later cutoffs are clean too
		if err := s.endCleanUp(redis, tx, p, at); err != nil {
			return err
		}
	}
	s.begin(StepSweep)
	swept, err := s.Door.Sweep(ctx, c.ID, c.ClosesAt)
	if err != nil || !swept || c.Finalised() {
		return err
	}
	return records.MarkFinalised(ctx, tx, c.ID, at)
}
