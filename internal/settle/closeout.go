package settle

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/ahead"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/decision"
	"github.com/jajeong/jajeong/internal/line"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/records"
)

// progressEvery is the interval between log lines about the progress of a long close-out.
const progressEvery = 10 * time.Second

// closeOut decides the applications that got no seat, page by page.
func (s *settlement) closeOut(ctx context.Context, done issued) (sum tally, err error) {
	logged, refusedAnew := s.Now(), done.seated.refused.anew
	err = s.eachPage(ctx, func(page []coupon.Application) error {
		s.begin(StepCloseOut)
		d, err := s.closePage(ctx, page, done.seated, refusedAnew)
		sum = sum.plus(d.tally)
		refusedAnew = d.refused.anew
		if now := s.Now(); now.Sub(logged) >= progressEvery {
			s.logger.Info("recording the rest of the line", zap.Int("read", sum.Read), zap.Int("not_selected", sum.NotSelected))
			logged = now
		}
		return err
	})
	return sum, err
}

// eachPage visits the line in Redis up to the cutoff, page by page. After a request to stop it returns an error.
func (s *settlement) eachPage(ctx context.Context, visit func(page []coupon.Application) error) error {
	rest := line.Reader{Queue: s.Line, Coupon: s.coupon.ID, Cutoff: s.run.cutoff, Size: pageApplications}
	for page, err := range ahead.Pages(ctx, rest.NextOrNil) {
		if err == nil {
			err = s.run.stopped()
		}
		if err != nil {
			return err
		}
		if err := visit(*page); err != nil {
			return err
		}
		s.progress(len(*page))
	}
	return nil
}

type closedPage struct {
	decision.Decisions
	refused refusals
	tally   tally
}

// closePage decides one page in its own transaction, under the coupon's lock, and then moves the applications in Redis.
func (s *settlement) closePage(ctx context.Context, page []coupon.Application, before seated, refusedAnew int) (done closedPage, err error) {
	err = s.underLock(ctx, func(ctx context.Context, tx *sql.Tx, locked coupon.Coupon) (err error) {
		done, err = s.recordPage(ctx, tx, locked, page, before.winners, refusedAnew)
		return err
	})
	if err != nil {
		return closedPage{}, err
	}
	done.tally = tally{Counts: Counts{Read: done.Read - before.readAgain(page), NotSelected: len(done.NotSelected), AlreadyIssued: len(done.AlreadyIssued)}}
	// Failures move to the DLQ first, so that the rest of the page is one range of the queue. If the user of a failure
	// has another DLQ entry, the failure stays in the queue until the next run.
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

func (s *settlement) recordPage(ctx context.Context, tx *sql.Tx, locked coupon.Coupon, page []coupon.Application, winners winners, refusedAnew int) (closedPage, error) {
	boundary, err := records.LastIssued(ctx, tx, locked.ID)
	if err != nil {
		return closedPage{}, err
	}
	all, err := decision.Classify(ctx, tx, s.Users, locked.ID, decision.AssumeExisting, page)
	if err != nil {
		return closedPage{}, err
	}
	d := closedPage{Decisions: decision.Decide(all, locked.Free(), boundary, s.run.stays), refused: s.run.newRefusals(locked.TotalQuantity, refusedAnew)}
	changes := len(d.AlreadyIssued) + len(d.NotSelected) + len(d.Review)
	if changes > 0 {
		if err := s.recordRun(ctx, tx); err != nil {
			return d, err
		}
	}
	if len(d.NotSelected) > 0 {
		// Another run may have reopened the coupon. Without SOLD_OUT, Redis could accept a NOT_SELECTED user again.
		if err := s.Door.SetSold(ctx, locked.ID, true); err != nil {
			return d, err
		}
	}
	if d.AlreadyIssued, err = s.recordOutcome(ctx, tx, coupon.OutcomeAlreadyIssued, "", d.AlreadyIssued, &d.refused); err != nil {
		return d, err
	}
	if d.NotSelected, err = s.recordOutcome(ctx, tx, coupon.OutcomeNotSelected, "", d.NotSelected, &d.refused); err != nil {
		return d, err
	}
	outcomes := slices.Concat(d.AlreadyIssued, d.NotSelected)
	if len(outcomes) == 0 && (changes == 0 || !s.run.immediate()) { // an immediate run is never recorded without a settlement
		return d, nil
	}
	if err := s.auditManual(ctx, tx, winners); err != nil {
		return d, err
	}
	if err := records.AddToSums(ctx, tx, locked.ID, outcomes...); err != nil {
		return d, err
	}
	return d, records.AddOutcomes(ctx, tx, s.run.rows(), locked.ID, len(d.AlreadyIssued), len(d.NotSelected))
}

// recordOutcome returns the applications whose rows were stored.
func (s *settlement) recordOutcome(ctx context.Context, tx *sql.Tx, outcome coupon.Outcome, reason string, applications []coupon.Application,
	refused *refusals) ([]coupon.Application, error) {
	return refused.insert(ctx, tx, 0, applications, func(_ int, part []coupon.Application) error {
		err := records.InsertOutcomes(ctx, tx, s.run.rows(), s.coupon.ID, outcome, reason, part)
		if part[0].User() != 0 { // malformed members may share an arrival, so their duplicates are no bad rows
			err = mysqltx.DuplicateAsBadRow(err)
		}
		return err
	})
}
