package settle

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/decision"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/line"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/records"
	"github.com/jajeong/jajeong/internal/sleep"
	"github.com/jajeong/jajeong/internal/text"
)

// maxPageAttempts bounds the attempts to insert a page whose users are given the coupon by hand at the same time.
const maxPageAttempts = 3

// seated is the result of a transaction just before its commit.
type seated struct {
	winners  winners
	kept     int                 // number of seats kept for DLQ entries that the run leaves out
	refused  refusals            // rows that MySQL refused
	tally    tally               // counts winners and NOT_SELECTED applications; later steps count the others
	returned []coupon.Failure    // NOT_SELECTED applications that are rejected now
	recorded int                 // number of rows by which application_outcome grows; negative if records are deleted
	firstRow coupon.UserCouponID // not above the id of any inserted row
	others   int                 // number of winners that were not under review
}

// row returns the settlement row.
func (s seated) row() records.Settlement {
	t, w := s.tally, s.winners
	return records.Settlement{Issued: t.Issued, UnderReview: s.underReview(), Rejected: t.Rejected,
		AlreadyIssued: t.AlreadyIssued,
		First:         w.first, Last: w.last, FirstRow: s.firstRow, Digest: w.digest}
}

// underReview counts the applications that the transaction decides to move to the DLQ, before and after the commit.
func (s seated) underReview() int { return s.tally.UnderReview + len(s.refusedOf(false)) }

// waitForFence waits until the clock of the coupon's shard has passed the cutoff. After that, no new arrival is below
// the cutoff.
func (s *settlement) waitForFence(ctx context.Context) error {
	s.begin(StepFence)
	if !s.run.rules.fences { // an immediate run has looked already
		return nil
	}
	for {
		look, err := s.look(ctx)
		if err != nil {
			return err
		}
		s.epoch = look.Epoch
		if !look.Restored && look.RestoresIn > 0 {
			s.logger.Warn("redis is new to this coupon, or another server took over: pods hand over whom it may lack",
				zap.Duration("wait", look.RestoresIn))
		}
		switch wait := s.run.cutoff.Sub(look.Now); {
		case wait <= 0:
			return nil
		case s.run.stopped() != nil:
			return s.run.stopped()
		case wait > calendar.MaxEarliness:
			return setupError(text.CutoffTooFar, s.run.cutoff.In(s.run.zone).Format(time.RFC3339),
				wait.Round(time.Second))
		case sleep.For(s.run.stop, wait) != nil:
			return s.run.stopped()
		}
	}
}

// look looks at the coupon in Redis. In a run that fences, it fences the cutoff.
func (s *settlement) look(ctx context.Context) (coupon.Look, error) {
	known := coupon.Known{Highest: s.coupon.Known, Opens: s.coupon.OpensAt}
	if s.run.rules.fences {
		known.Cutoff = s.run.cutoff
	}
	return s.Door.Look(ctx, s.coupon.ID, known)
}

// sameLine returns an error if Redis has changed or lost applications since the account: those with seats may have
// arrived after them.
func (s *settlement) sameLine(ctx context.Context, tx *sql.Tx, c coupon.Coupon, account ledger.Account) error {
	look, err := s.look(ctx)
	if err != nil {
		return err
	}
	now, err := promise.Read(ctx, tx, c.ID)
	account.Line, account.Books.Asked = look.Line, now.Asked
	switch {
	case err != nil || c.Finalised():
		return err
	case look.Epoch != s.epoch:
		return promise.ErrTakenOver
	case account.RestoreDue() != promise.NotDue:
		return errRestoreDue
	default:
		return nil
	}
}

// seat gives the free seats of a locked coupon to the first eligible applications of the line.
func (s *settlement) seat(ctx context.Context, tx *sql.Tx, c coupon.Coupon, past ledger.Past,
	winners *remembered) (seated, error) {
	got := seated{refused: s.run.newRefusals(c.TotalQuantity, 0)}
	digest := newDigest()
	pages := &pageReader{settlement: s, past: past, ask: firstApplications,
		line: &line.Reader{Queue: s.Line, Coupon: s.coupon.ID, Cutoff: s.run.cutoff, NotSelected: past.Recorded}}
	left := budget{coupon: c}
	for left.free() > 0 && !pages.ended { // a second round is needed only if rows were refused
		for page, err := range pages.read(ctx, left.free()) {
			if err != nil {
				return seated{}, err
			}
			s.begin(StepIssue)
			on, err := s.seatPage(ctx, tx, *page, left, &got)
			if err != nil {
				return seated{}, err
			}
			returned, rejected, err := s.recordReturned(ctx, tx, on)
			if err != nil {
				return seated{}, err
			}
			got.recorded -= len(fromRecords(on.stored))
			got.others += len(notUnderReview(on.stored))
			digest.add(on.stored)
			winners.add(on.stored)
			s.progress(len(on.stored))
			got.tally, got.returned = got.tally.plus(returned), append(got.returned, rejected...)
			if left = left.without(on); left.free() == 0 {
				break
			}
		}
	}
	got.winners, got.kept = digest.sum(), left.kept
	moved := got.refusedOf(true)
	got.tally = got.tally.plus(tally{Counts: Counts{Issued: got.winners.count}}).plus(reviewed(moved))
	return got, nil
}

// pageSeats is the result of giving seats to one page.
type pageSeats struct {
	stored   []coupon.Application
	ended    []decision.Application // NOT_SELECTED applications that cannot get a seat any more
	rejected []coupon.Failure       // NOT_SELECTED applications of users who have a refused row in the page
	kept     int
}

// budget counts the seats that a transaction has given and may still give.
type budget struct {
	coupon      coupon.Coupon // the row as read under the lock
	given, kept int
}

func (b budget) free() int { return b.coupon.Free() - b.given - b.kept }

func (b budget) without(on pageSeats) budget {
	return budget{b.coupon, b.given + len(on.stored), b.kept + on.kept}
}

// seatPage gives or keeps seats for the first eligible applications of a page. If a refused row leaves a seat free, the
// next application gets it. If a user got the coupon by hand meanwhile, the rest of the page is classified again.
func (s *settlement) seatPage(ctx context.Context, tx *sql.Tx, next selection, before budget,
	all *seated) (on pageSeats, err error) {
	if next.seats() > before.free() { // more seats are gone than planned: an earlier page replaced refused rows
		next = s.run.choose(next.from, before.free(), newPageUsers(next.from))
	}
	for attempt := 1; ; {
		left := before.without(on)
		stored, err := all.refused.insert(ctx, tx, left.given, next.chosen,
			func(given int, part []coupon.Application) error {
				first, err := records.InsertIssued(ctx, tx, s.run.rows(), left.coupon, s.run.zone,
					left.coupon.IssuedCount+given, next.rowsOf(part))
				all.firstRow = cmp.Or(all.firstRow, first)
				if attempt == maxPageAttempts {
					err = mysqltx.DuplicateAsBadRow(err)
				}
				return err
			})
		if mysqltx.IsDuplicate(err) {
			page := mapped(next.from, func(c decision.Application) coupon.Application { return c.Application })
			again, err := decision.Classify(ctx, tx, s.Users, s.coupon.ID, decision.AssumeExisting, page)
			if err != nil {
				return on, err
			}
			next = s.run.choose(again, left.free(), newPageUsers(again))
			attempt++
			continue
		}
		if err != nil {
			return on, err
		}
		on.stored, on.kept = append(on.stored, stored...), on.kept+next.kept
		ended, second := next.secondPlaces(on.stored)
		on.rejected = append(on.rejected, all.refused.of(second)...)
		on.ended = slices.Concat(on.ended, next.ended, ended)
		if left = before.without(on); left.free() == 0 || len(next.rest) == 0 {
			return on, nil
		}
		next = s.run.choose(next.rest, left.free(), next.users)
	}
}

// fromRecords returns the applications that were recorded as NOT_SELECTED.
func fromRecords(all []coupon.Application) []coupon.Application {
	return slices.DeleteFunc(slices.Clone(all),
		func(a coupon.Application) bool { return a.Source != coupon.SourceNotSelected })
}

func notUnderReview(all []coupon.Application) []coupon.Application {
	return slices.DeleteFunc(slices.Clone(all), func(a coupon.Application) bool {
		return a.Source != coupon.SourceQueue && a.Source != coupon.SourceNotSelected
	})
}

// recordReturned updates the records of NOT_SELECTED applications. If the application has a seat now, its record is
// deleted. If it cannot get a seat any more, the record gets the final outcome.
func (s *settlement) recordReturned(ctx context.Context, tx *sql.Tx,
	on pageSeats) (sum tally, rejected []coupon.Failure, err error) {
	if err := records.DeleteNotSelected(ctx, tx, s.coupon.ID, fromRecords(on.stored)); err != nil {
		return tally{}, nil, err
	}
	rejected = on.rejected
	for _, c := range on.ended {
		if f, ok := c.Failure(); ok {
			rejected = append(rejected, f)
			continue
		}
		if err := records.UpdateNotSelected(ctx, tx, s.run.rows(), s.coupon.ID, c.Application,
			records.Ending{Outcome: coupon.OutcomeAlreadyIssued}); err != nil {
			return tally{}, nil, err
		}
		sum = sum.plus(tally{Counts: Counts{AlreadyIssued: 1}})
	}
	for _, f := range rejected {
		if err := records.UpdateNotSelected(ctx, tx, s.run.rows(), s.coupon.ID, f.Application,
			records.RejectedFor(f)); err != nil {
			return tally{}, nil, err
		}
		sum = sum.plus(tally{Counts: Counts{Rejected: 1}})
	}
	return sum, rejected, nil
}

// refusedOf(true) returns the refused rows of NOT_SELECTED applications. They move to the DLQ before the commit, which
// deletes their records. refusedOf(false) returns all other refused rows, which move after the commit.
func (s seated) refusedOf(returned bool) []coupon.Failure {
	return slices.DeleteFunc(slices.Clone(s.refused.failures), func(f coupon.Failure) bool {
		return returned != (f.Source == coupon.SourceNotSelected)
	})
}

// reviewReturned moves NOT_SELECTED applications with refused rows to the DLQ. If the commit then fails, they are in
// the DLQ and recorded in MySQL; the record counts. If the user has another DLQ entry, the application is rejected.
func (s *settlement) reviewReturned(ctx context.Context, tx *sql.Tx, seats seated) (seated, error) {
	sum := &seats.tally
	redis, cancel := mysqltx.Meanwhile(ctx)
	defer cancel()
	for _, f := range seats.refusedOf(true) {
		seats.recorded-- // the caller has deleted the record
		// Redis gets the application at an arrival of the past: the journal would not look there.
		told := coupon.Answer{User: f.User(), Arrival: f.Arrival}
		if err := promise.AddRows(ctx, tx, s.coupon.ID, []coupon.Answer{told}); err != nil {
			return seats, err
		}
		moved, err := s.Line.Review(redis, s.coupon.ID, s.run.id, s.run.settledAt(), []coupon.Failure{f})
		if err != nil {
			return seats, err
		}
		if moved > 0 {
			continue
		}
		sum.UnderReview--
		sum.causes[f.Cause]--
		sum.Rejected++
		seats.recorded++
		if err := records.InsertOutcomes(ctx, tx, s.run.rows(), s.coupon.ID, records.RejectedFor(f),
			records.PackOutcomes([]coupon.Application{f.Application})); err != nil {
			return seats, err
		}
		if err := records.RejectReviewed(ctx, tx, s.run.id, s.coupon.ID); err != nil {
			return seats, err
		}
	}
	return seats, nil
}

// countAttempts counts the attempts at rows that earlier settlements refused too, if this settlement failed because too
// many other rows were refused. Otherwise they would be tried for ever if every night fails.
func (s *settlement) countAttempts(ctx context.Context, err error) error {
	var many *tooManyRefused
	if !errors.As(err, &many) {
		return nil
	}
	_, err = s.moveToReview(ctx, many.before)
	return err
}

// moveToReview moves failures to the DLQ and counts those that were moved.
func (s *settlement) moveToReview(ctx context.Context, failures []coupon.Failure) (tally, error) {
	n, err := s.Line.Review(ctx, s.coupon.ID, s.run.id, s.run.settledAt(), failures)
	return reviewed(failures[:min(int(n), len(failures))]), err
}

func mapped[T, U any](list []T, of func(T) U) []U {
	all := make([]U, len(list))
	for i, one := range list {
		all[i] = of(one)
	}
	return all
}
