package settle

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/decision"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// maxPageAttempts bounds classifying a page again because its users were given the coupon by hand meanwhile.
const maxPageAttempts = 3

// seated is what a transaction has given, before it is committed.
type seated struct {
	winners  winners
	kept     int              // seats kept for applications that the run leaves out
	refused  refusals         // rows that MySQL refused
	tally    tally            // of the winners and of NOT_SELECTED applications; the others are counted by clean-up and close-out
	returned []coupon.Failure // NOT_SELECTED applications that were rejected
	moved    map[place]bool   // NOT_SELECTED applications that go under review
}

// place identifies an application, wherever it is stored.
type place struct {
	member  string
	arrival coupon.Arrival
}

func placeOf(a coupon.Application) place { return place{a.Member, a.Arrival} }

// waitForFence returns when the clock of the coupon's shard has passed the cutoff, and pods have had the time to put back
// the applications that a failover lost. From then on nothing arrives below the cutoff.
func (s *settlement) waitForFence(ctx context.Context) error {
	s.begin(StepFence)
	for {
		wait, forPods, err := s.fence(ctx)
		if err != nil || wait+forPods == 0 {
			return err
		}
		if forPods > 0 {
			s.logger.Warn("redis is new to this coupon, or another server took over: pods put lost applications back first", zap.Duration("wait", forPods))
			wait = forPods
		}
		if err := s.run.stopped(); err != nil {
			return err
		}
		if wait > calendar.MaxEarliness {
			return setupError("the cutoff %s is %s in the future by the Redis clock", s.run.cutoff.Format(time.RFC3339), wait.Round(time.Second))
		}
		if Wait(s.run.stop, wait) != nil {
			return s.run.stopped()
		}
	}
}

func (s *settlement) fence(ctx context.Context) (wait, forPods time.Duration, err error) {
	if s.coupon.Finalised() { // no promise was made since its door was closed
		wait, _, err = s.Door.Fence(ctx, s.coupon.ID, s.run.cutoff, coupon.Promise{})
		return wait, 0, err
	}
	return s.Door.Fence(ctx, s.coupon.ID, s.run.cutoff, s.coupon.Promise)
}

// errTakenOver: another Redis server took over while the line was read.
var errTakenOver = &coupon.Error{Class: coupon.Infrastructure, Err: text.Errorf(text.TakenOver)}

// sameServer is an error if another server has taken over since the fence, or the coupon's state was lost.
func (s *settlement) sameServer(ctx context.Context) error {
	_, forPods, err := s.fence(ctx)
	if err == nil && forPods > 0 {
		return errTakenOver
	}
	return err
}

// seat gives the free seats of a locked coupon to the first eligible applications of the line.
func (s *settlement) seat(ctx context.Context, tx *sql.Tx, c coupon.Coupon, past ledger.Past, winners *remembered) (seated, error) {
	got := seated{refused: s.run.newRefusals(c.TotalQuantity, 0)}
	digest := newDigest()
	pages := s.newPageReader(past)
	left := room{coupon: c}
	for left.free() > 0 && !pages.ended { // once, unless rows are refused
		for page, err := range pages.read(ctx, left.free()) {
			if err != nil {
				return seated{}, err
			}
			s.begin(StepIssue)
			on, err := s.seatPage(ctx, tx, *page, left, &got.refused)
			if err != nil {
				return seated{}, err
			}
			returned, rejected, err := s.recordReturned(ctx, tx, on)
			if err != nil {
				return seated{}, err
			}
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
	moved := got.refusedReturned()
	got.moved = make(map[place]bool, len(moved))
	for _, f := range moved {
		got.moved[placeOf(f.Application)] = true
	}
	got.tally = got.tally.plus(tally{Counts: Counts{Read: got.winners.count + len(moved), Issued: got.winners.count}}).plus(reviewed(moved))
	return got, nil
}

// pageSeats is what one page got.
type pageSeats struct {
	stored   []coupon.Application
	ended    []decision.Application // NOT_SELECTED applications that cannot get a seat any more
	rejected []coupon.Failure       // likewise, because a row of the same user was refused
	kept     int
}

// room is the seats of a coupon that a transaction may still give.
type room struct {
	coupon      coupon.Coupon // locked
	given, kept int
}

func (r room) free() int { return r.coupon.Free() - r.given - r.kept }

func (r room) without(on pageSeats) room {
	return room{r.coupon, r.given + len(on.stored), r.kept + on.kept}
}

// seatPage gives or keeps the free seats to the first eligible applications of a page. It goes on in the page where a
// refused row left its seat free. Where users were given the coupon since the page was classified, it classifies the rest of
// the page again.
func (s *settlement) seatPage(ctx context.Context, tx *sql.Tx, next selection, before room, refused *refusals) (on pageSeats, err error) {
	if next.seats() > before.free() { // an earlier page went on behind a refused row, and gave more seats than it asked for
		next = s.run.choose(next.from, before.free(), newPageUsers(next.from))
	}
	for attempt := 1; ; {
		left := before.without(on)
		stored, err := refused.insert(ctx, tx, left.given, next.chosen, func(given int, part []coupon.Application) error {
			return insertIssued(ctx, tx, s.run, left.coupon, left.coupon.IssuedCount+given, next.rowsOf(part))
		})
		if mysqltx.IsDuplicate(err) && attempt < maxPageAttempts {
			again, err := decision.Classify(ctx, tx, s.Users, s.coupon.ID, decision.AssumeExisting, applicationsIn(next.from))
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
		on.rejected = append(on.rejected, refused.of(second)...)
		on.ended = slices.Concat(on.ended, next.ended, ended)
		if left = before.without(on); left.free() == 0 || len(next.rest) == 0 {
			return on, nil
		}
		next = s.run.choose(next.rest, left.free(), next.users)
	}
}

// recordReturned keeps the records of NOT_SELECTED applications in step: a seat replaces the record. An application that
// cannot get a seat any more ends, and its seat goes to the next in line.
func (s *settlement) recordReturned(ctx context.Context, tx *sql.Tx, on pageSeats) (sum tally, rejected []coupon.Failure, err error) {
	if err := deleteNotSelected(ctx, tx, s.coupon.ID, slices.DeleteFunc(slices.Clone(on.stored), isNot(coupon.SourceNotSelected))); err != nil {
		return tally{}, nil, err
	}
	rejected = on.rejected
	for _, c := range on.ended {
		if f, ok := c.Failure(); ok {
			rejected = append(rejected, f)
			continue
		}
		if err := updateNotSelected(ctx, tx, s.run, s.coupon.ID, c.Application, coupon.OutcomeAlreadyIssued, ""); err != nil {
			return tally{}, nil, err
		}
		sum = sum.plus(tally{Counts: Counts{Read: 1, AlreadyIssued: 1}})
	}
	for _, f := range rejected {
		if err := updateNotSelected(ctx, tx, s.run, s.coupon.ID, f.Application, coupon.OutcomeRejected, string(f.Cause)+": "+f.Message); err != nil {
			return tally{}, nil, err
		}
		sum = sum.plus(tally{Counts: Counts{Read: 1, Rejected: 1}, causes: causes{f.Cause: 1}})
	}
	return sum, rejected, nil
}

func isNot(source coupon.Source) func(coupon.Application) bool {
	return func(a coupon.Application) bool { return a.Source != source }
}

// refusedReturned are the refused rows of NOT_SELECTED applications. They go under review before the commit, because
// their records are taken back by it.
func (s seated) refusedReturned() []coupon.Failure {
	return slices.DeleteFunc(slices.Clone(s.refused.failures), func(f coupon.Failure) bool { return f.Source != coupon.SourceNotSelected })
}

// refusedWaiting are the other refused rows. They go under review after the commit.
func (s seated) refusedWaiting() []coupon.Failure {
	return slices.DeleteFunc(slices.Clone(s.refused.failures), func(f coupon.Failure) bool { return f.Source == coupon.SourceNotSelected })
}

// readAgain counts the applications of a page that were read already as NOT_SELECTED ones, and moved under review.
func (s seated) readAgain(page []coupon.Application) (n int) {
	last := place{}
	for _, a := range page {
		is := placeOf(a)
		if a.Source != coupon.SourceHeld && s.moved[is] && is != last {
			n++
		}
		last = is
	}
	return n
}

// reviewReturned moves refused NOT_SELECTED applications to the DLQ. If the commit then fails, they are stored in both
// places, and the record counts. One whose user has another DLQ entry is rejected.
func (s *settlement) reviewReturned(ctx context.Context, tx *sql.Tx, seats seated) (tally, error) {
	sum := seats.tally
	for _, f := range seats.refusedReturned() {
		moved, err := s.Line.Review(ctx, s.coupon.ID, s.run.id, s.run.startedAt, []coupon.Failure{f})
		if err != nil {
			return sum, err
		}
		if moved > 0 {
			continue
		}
		sum.UnderReview--
		sum.Rejected++
		reason := mysqltx.Shorten(string(f.Cause)+": "+f.Message, maxReasonLetters)
		if err := insertOutcomes(ctx, tx, s.run, s.coupon.ID, coupon.OutcomeRejected, reason, []coupon.Application{f.Application}); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// countAttempts counts the attempts at rows that were refused in earlier settlements too, when those of others made this
// one fail. It may fail every night, and these must not be tried for ever.
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
	n, err := s.Line.Review(ctx, s.coupon.ID, s.run.id, s.run.startedAt, failures)
	return reviewed(failures[:min(int(n), len(failures))]), err
}

// auditManual keeps in whose name a person's run settled the coupon, with the first that it records.
func (s *settlement) auditManual(ctx context.Context, tx *sql.Tx, w winners) error {
	if s.run.Trigger != coupon.Manual {
		return nil
	}
	if done, err := audit.Recorded(ctx, tx, s.run.origin(), audit.ManualSettle, s.coupon.ID); err != nil || done {
		return err
	}
	return s.run.audit(ctx, tx, audit.ManualSettle, s.coupon.ID, audit.SettleEntry(s.run.cutoff, w.count, w.digest))
}

// auditHold keeps that this run held the coupon, and why.
func (s *settlement) auditHold(ctx context.Context, action audit.Action, why error) error {
	return s.underLock(ctx, func(ctx context.Context, tx *sql.Tx, _ coupon.Coupon) error {
		if done, err := audit.Recorded(ctx, tx, s.run.origin(), action, s.coupon.ID); err != nil || done {
			return err
		}
		return s.run.audit(ctx, tx, action, s.coupon.ID, audit.Entry{Detail: why.Error()})
	})
}

// underLock runs work in a transaction that has locked the coupon.
func (s *settlement) underLock(ctx context.Context, work func(ctx context.Context, tx *sql.Tx, locked coupon.Coupon) error) error {
	return s.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		locked, err := lockCoupon(ctx, tx, s.coupon.ID)
		if err != nil {
			return err
		}
		return work(ctx, tx, locked)
	})
}

func applicationsOf(failures []coupon.Failure) []coupon.Application {
	all := make([]coupon.Application, len(failures))
	for i, f := range failures {
		all[i] = f.Application
	}
	return all
}

func applicationsIn(page []decision.Application) []coupon.Application {
	all := make([]coupon.Application, len(page))
	for i, c := range page {
		all[i] = c.Application
	}
	return all
}
