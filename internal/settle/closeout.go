package settle

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/ahead"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/decision"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/line"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/records"
)

// progressEvery is the interval between log lines about the progress of a long close-out.
const progressEvery = 10 * time.Second

// closeOut decides the applications that got no seat, page by page. While a page is recorded, the next one is read and
// classified, and the previous one is removed from Redis.
func (s *settlement) closeOut(ctx context.Context, done issued) (sum tally, err error) {
	logged, before := s.Now(), asOf(done)
	var leaving func() (tally, error) // waits for the end of the page that leaves Redis; nil: there is none
	left := func() error {
		if leaving == nil {
			return nil
		}
		wait := leaving
		leaving = nil
		moved, err := wait()
		sum = sum.plus(moved)
		return err
	}
	defer func() { err = errors.Join(err, left()) }()
	// Outcomes are not looked up if the account found no recorded application that is still in Redis.
	past := ledger.Past{Held: true, Recorded: done.account.InBoth > 0}
	err = s.eachPage(ctx, past, func(page restPage) error {
		s.begin(StepCloseOut)
		d, err := s.closePage(ctx, page, before)
		if err != nil {
			return err
		}
		sum, before = sum.plus(d.tally), before.after(d)
		if err := left(); err != nil {
			return err
		}
		copied := *s // the next transaction sets the id of the run
		leaving = ahead.Beside(func() (tally, error) { return copied.leave(ctx, d) })
		if now := s.Now(); now.Sub(logged) >= progressEvery {
			s.logger.Info("recording the rest of the line", zap.Int("not_selected", sum.NotSelected),
				zap.Int("under_review", sum.UnderReview))
			logged = now
		}
		return nil
	})
	return sum, err
}

// restPage is a page of the line that was classified before its transaction.
type restPage struct {
	classified []decision.Application
	eligible   []coupon.Application
	rows       *records.OutcomeRows // rows of the eligible
	sure       bool                 // the classification still holds, except for rows that are already recorded
}

// rowsOf returns the rows of a part of the page. Those of all eligible applications are packed already.
func (p restPage) rowsOf(part []coupon.Application) *records.OutcomeRows {
	if slices.Equal(part, p.eligible) {
		return p.rows
	}
	return records.PackOutcomes(part)
}

// eachPage visits the line in Redis up to the cutoff, page by page. After a request to stop it returns an error.
func (s *settlement) eachPage(ctx context.Context, past ledger.Past, visit func(page restPage) error) error {
	rest := &line.Reader{Queue: s.Line, Coupon: s.coupon.ID, Cutoff: s.run.cutoff, Size: pageApplications}
	read := func(ctx context.Context) (*restPage, error) { return s.readRest(ctx, rest, past) }
	for page, err := range ahead.Pages(ctx, read) {
		if err == nil {
			err = s.run.stopped()
		}
		if err != nil {
			return err
		}
		if err := visit(*page); err != nil {
			return err
		}
		s.progress(len(page.classified))
	}
	return nil
}

// readRest returns nil at the end of the line.
func (s *settlement) readRest(ctx context.Context, rest *line.Reader, past ledger.Past) (*restPage, error) {
	applications, err := rest.Next(ctx, nil)
	if err != nil || len(applications) == 0 {
		return nil, err
	}
	page := &restPage{eligible: make([]coupon.Application, 0, len(applications))}
	err = s.DB.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) (err error) {
		page.classified, err = decision.Classify(ctx, q, s.Users, s.coupon.ID, past, applications)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, c := range page.classified {
		if c.Verdict == decision.Eligible {
			page.eligible = append(page.eligible, c.Application)
		}
	}
	page.rows = records.PackOutcomes(page.eligible)
	return page, nil
}

// closing is what a page has to know of the settlement so far.
type closing struct {
	seated      seated
	issuedCount int // issued_count of the coupon after this settlement has issued
	refusedAnew int // rows that were refused for the first time
	underReview int // applications that the settlement has decided to move to the DLQ
}

func asOf(done issued) closing {
	return closing{done.seated, done.coupon.IssuedCount + done.seated.winners.count, done.seated.refused.anew,
		done.seated.underReview()}
}

func (c closing) after(page closedPage) closing {
	c.refusedAnew, c.underReview = page.refused.anew, c.underReview+len(page.failures())
	return c
}

type closedPage struct {
	decision.Decisions
	refused refusals
	tally   tally // does not count the applications that move to the DLQ
}

// failures are the applications that move to the DLQ.
func (p closedPage) failures() []coupon.Failure { return slices.Concat(p.Review, p.refused.failures) }

// closePage decides one page in its own transaction, under the coupon's lock. After a duplicate the transaction is
// repeated; the second attempt classifies the whole page under the lock.
func (s *settlement) closePage(ctx context.Context, page restPage, before closing) (done closedPage, err error) {
	attempt := 0
	var settledBy runs
	err = s.underLock(ctx, func(ctx context.Context, tx *sql.Tx, locked coupon.Coupon) (err error) {
		attempt++
		if done, err = s.recordPage(ctx, tx, locked, page, before, attempt); err != nil {
			return err
		}
		settledBy, err = records.Recorders(ctx, tx, locked.ID, done.RecordedBefore)
		return err
	})
	if err != nil {
		return closedPage{}, err
	}
	done.tally = tally{Counts: Counts{NotSelected: len(done.NotSelected), AlreadyIssued: len(done.AlreadyIssued)},
		before: settledBy}
	return done, nil
}

// leave moves the applications of a recorded page in Redis, and counts those that go to the DLQ.
func (s *settlement) leave(ctx context.Context, done closedPage) (tally, error) {
	// Failures move to the DLQ first, so that the rest of the page is one range of the queue. If the user of a failure
	// has another DLQ entry, the failure stays in the queue until the next run.
	moved, err := s.moveToReview(ctx, done.failures())
	if err != nil {
		return moved, err
	}
	if _, err := s.Line.Remove(ctx, s.coupon.ID, s.coupon.ClosesAt, coupon.MarkIssued, done.Holders); err != nil {
		return moved, err
	}
	others := slices.Concat(done.RecordedBefore, done.AlreadyIssued, done.NotSelected)
	_, err = s.Line.Remove(ctx, s.coupon.ID, s.coupon.ClosesAt, coupon.MarkNone, others)
	return moved, err
}

func (s *settlement) recordPage(ctx context.Context, tx *sql.Tx, locked coupon.Coupon, page restPage, before closing,
	attempt int) (closedPage, error) {
	boundary, err := records.LastIssued(ctx, tx, locked.ID)
	if err != nil {
		return closedPage{}, err
	}
	// If no seat was given or added meanwhile, an application that will be NOT_SELECTED needs no second look: if it is
	// recorded already, its row is a duplicate.
	page.sure = attempt == 1 && locked.Free() == 0 && locked.IssuedCount == before.issuedCount
	all, err := decision.ClassifyAgain(ctx, tx, s.Users, locked.ID, page.classified, func(c decision.Application) bool {
		return page.sure && c.Verdict == decision.Eligible && c.Source == coupon.SourceQueue && c.Arrival > boundary
	})
	if err != nil {
		return closedPage{}, err
	}
	d := closedPage{Decisions: decision.Decide(all, locked.Free(), boundary, s.run.stays),
		refused: s.run.newRefusals(locked.TotalQuantity, before.refusedAnew)}
	if len(d.AlreadyIssued)+len(d.NotSelected)+len(d.Review) == 0 {
		return d, nil
	}
	if err := s.recordRun(ctx, tx); err != nil {
		return d, err
	}
	if len(d.NotSelected) > 0 {
		// Another run may have reopened the coupon. Without SOLD_OUT, Redis could accept a NOT_SELECTED user again.
		if err := s.Door.SetSold(ctx, locked.ID, true); err != nil {
			return d, err
		}
	}
	if d.AlreadyIssued, err = s.recordOutcome(ctx, tx, records.Ending{Outcome: coupon.OutcomeAlreadyIssued},
		d.AlreadyIssued, &d.refused, page); err != nil {
		return d, err
	}
	if d.NotSelected, err = s.recordOutcome(ctx, tx, records.Ending{Outcome: coupon.OutcomeNotSelected}, d.NotSelected,
		&d.refused, page); err != nil {
		return d, err
	}
	if err := s.auditManual(ctx, tx, before.seated.winners); err != nil {
		return d, err
	}
	if err := records.AddToSums(ctx, tx, locked.ID, slices.Concat(d.AlreadyIssued, d.NotSelected)...); err != nil {
		return d, err
	}
	return d, records.AddOutcomes(ctx, tx, s.run.rows(), locked.ID, before.after(d).underReview, len(d.AlreadyIssued),
		len(d.NotSelected))
}

// recordOutcome returns the applications whose rows were stored. A page that is not sure was classified under the lock.
// A duplicate in it is a bad row, because a trigger has found the row of another table.
func (s *settlement) recordOutcome(ctx context.Context, tx *sql.Tx, as records.Ending,
	applications []coupon.Application, refused *refusals, page restPage) ([]coupon.Application, error) {
	return refused.insert(ctx, tx, 0, applications, func(_ int, part []coupon.Application) error {
		err := records.InsertOutcomes(ctx, tx, s.run.rows(), s.coupon.ID, as, page.rowsOf(part))
		// Malformed members may share an arrival, so their duplicates are no bad rows.
		if !page.sure && part[0].User() != 0 {
			err = mysqltx.DuplicateAsBadRow(err)
		}
		return err
	})
}
