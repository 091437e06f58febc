package settle

import (
	"context"
	"database/sql"
	"slices"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// finish notes that Redis is clean; where newcomers may be let in again, or the coupon is over, it says so.
func (s *settlement) finish(ctx context.Context) error {
	s.begin(StepFinish)
	if err := s.signReview(ctx); err != nil {
		return err
	}
	if err := s.DB.OnConn(ctx, s.completeRecords); err != nil {
		return err
	}
	if s.result.SeatsLeft == 0 && s.coupon.ClosesAt.After(s.run.cutoff) {
		return nil
	}
	return s.DB.Do(ctx, s.reopenOrFinalise)
}

// completeRecords writes what only the end of a settlement knows, and takes over from the record what a repeated
// transaction has lost count of.
func (s *settlement) completeRecords(ctx context.Context, q mysqltx.Querier, _ int) error {
	at := s.Now().UTC()
	coupon, err := selectCoupon(ctx, q, s.coupon.ID)
	if err != nil {
		return err
	}
	s.coupon = coupon
	read, rejected := s.result.Read, s.result.Rejected
	recorded := s.ownUncleaned()
	if s.concluded {
		found, err := loadRecord(ctx, q, s.run, s.coupon.ID, s.result)
		if err != nil {
			return err
		}
		s.result.Read, s.result.Rejected = read, rejected
		recorded = recorded || found
	}
	if recorded || s.result.changed() {
		if err := completeRecord(ctx, q, s.run, s.coupon.ID, read, rejected, at); err != nil {
			return err
		}
	}
	for _, u := range s.uncleaned {
		if !u.covered || u.run == s.run.id {
			continue // one that is not covered settled what lies behind this cutoff, which has not been walked
		}
		if err := markCleaned(ctx, q, u.run, s.coupon.ID, at); err != nil {
			return err
		}
	}
	s.result.SeatsLeft = coupon.Free() // seats may have been added since they were given
	return nil
}

// ownUncleaned: this run has recorded something already.
func (s *settlement) ownUncleaned() bool {
	return slices.ContainsFunc(s.uncleaned, func(u uncleaned) bool { return u.run == s.run.id })
}

func (s *settlement) reopenOrFinalise(ctx context.Context, tx *sql.Tx, _ int) error {
	coupon, err := lockCoupon(ctx, tx, s.coupon.ID)
	if err != nil {
		return err
	}
	s.result.SeatsLeft = coupon.Free()
	if coupon.Free() > 0 {
		left, err := anyNotSelected(ctx, tx, coupon.ID)
		if err != nil {
			return err
		}
		if left {
			return nil // they get the free seats in the next run; until then newcomers must not
		}
		if err := s.Door.SetSold(ctx, coupon.ID, false); err != nil {
			return err
		}
	}
	return s.finalise(ctx, tx, coupon)
}

// finalise ends a coupon whose door shut before the cutoff and for which nobody waits. Who is under review keeps it
// from ending, held entries too: a person may still give them a seat. The keys go first: a crash before the commit
// leaves a coupon that is due again and has nothing left to settle.
func (s *settlement) finalise(ctx context.Context, tx *sql.Tx, c coupon.Coupon) error {
	if c.ClosesAt.After(s.run.cutoff) {
		return nil
	}
	account, err := s.Auditor.Account(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	if account.Waiting > 0 || account.UnderReview > 0 || account.Gap() > 0 {
		return nil
	}
	for _, u := range s.uncleaned { // nothing stands in Redis: those of later cutoffs are clean as well
		if err := markCleaned(ctx, tx, u.run, c.ID, s.Now().UTC()); err != nil {
			return err
		}
	}
	if err := keepPromise(ctx, tx, c.ID, account, s.Now().UTC()); err != nil {
		return err
	}
	s.begin(StepSweep)
	swept, err := s.Door.Sweep(ctx, c.ID, c.ClosesAt)
	if err != nil || !swept || c.Finalised() {
		return err
	}
	return markFinalised(ctx, tx, c.ID, s.Now().UTC())
}
