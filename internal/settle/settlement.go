package settle

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Bounds of one settlement.
const (
	// pageApplications are classified and inserted at once: enough that the round trips do not show and that sorting by
	// user id pays, few enough that a page of JSON stays below a megabyte.
	pageApplications = 20_000
	// firstApplications are the first page, so that inserting soon begins; each further one is twice as long.
	firstApplications = 2_500
	// leastApplications are read for even the fewest seats: some of them may be refused.
	leastApplications = 1_000
	// progressEvery is how often the log tells how far recording the rest of a line has come.
	progressEvery = 10 * time.Second
)

// settlement settles one coupon in one run.
type settlement struct {
	*Settler
	run    run
	coupon coupon.Coupon // as the run found it; lock reads it again
	result *Result
	logger *zap.Logger

	// Runs whose work Redis may not have heard of yet, this one included once it has committed.
	uncleaned []uncleaned
	// Who was issued by the transaction in hand, as far as there is room; nil when that is not remembered.
	winners []winner
	room    int
	// Whether it recorded that somebody is rejected, and whether it is not the first.
	rejects, tried bool
	// Seats that are kept for whom the run leaves out.
	kept int
	// How many are left waiting, whether they are to be concluded later, and whether a page of them was.
	left             int
	later, concluded bool

	// Whose row the database refused in the transaction in hand, and how many of these for the first time, those of the
	// pages concluded before it included.
	unstorable  []coupon.Failure
	refusedAnew int
	inVain      []coupon.Failure // were refused before, and once more in a transaction that failed
	tookBack    map[place]bool   // were not selected, and are under review by this run: they are read once

	// How far the run has come with this coupon, and how that went.
	begun bool
	step  Step // what it is at
	since time.Time
	took  time.Duration
	err   error
}

// Step is a step of a settlement, logged at debug level as it begins: what a run was at when it died.
type Step string

// The steps, in their order. Pages repeat issue and conclude.
const (
	StepFence    Step = "fence"
	StepLock     Step = "lock"
	StepAccount  Step = "account"
	StepIssue    Step = "issue"
	StepCount    Step = "count"
	StepRecord   Step = "record"
	StepCommit   Step = "commit"
	StepTell     Step = "tell"
	StepConclude Step = "conclude"
	StepFinish   Step = "finish"
	StepSweep    Step = "sweep"
)

func (s *settlement) begin(step Step) {
	s.logger.Debug("step", zap.String("step", string(step)))
	s.timeStep(step)
}

// timeStep ends the step before, and begins one if there is another.
func (s *settlement) timeStep(step Step) {
	now := s.Now()
	if s.step != "" {
		s.Metrics.spend(s.step, now.Sub(s.since))
	}
	s.step, s.since = step, now
}

// settle is the whole settlement, but for the rest of a long line. A crash between any two steps is repaired by running
// again: what has committed is found in MySQL, what has not never happened, and Redis is told again.
func (s *settlement) settle(ctx context.Context) error {
	if !s.due() {
		s.result.Status = coupon.NotDue
		return nil
	}
	if err := s.waitForFence(ctx); err != nil {
		return err
	}
	defer s.reserve(s.coupon.Free())()
	if err := s.issueFenced(ctx); err != nil {
		return err
	}
	if s.result.Issued > 0 {
		s.logger.Info("coupons issued", zap.Int("issued", s.result.Issued))
	}
	if s.kept > 0 {
		s.logger.Info("seats kept for applications that this run does not try", zap.Int("seats", s.kept))
	}
	if err := s.tellRedis(ctx); err != nil {
		return err
	}
	if s.result.SeatsLeft == 0 {
		if err := s.Door.SetSold(ctx, s.coupon.ID, true); err != nil {
			return err
		}
	}
	if s.left > pageApplications {
		s.later = true
		return nil
	}
	return s.conclude(ctx)
}

// due: people may have applied before the cutoff.
func (s *settlement) due() bool { return s.coupon.OpensAt.Before(s.run.cutoff) }

// issueFenced issues behind the fence, and does so again where another server took over meanwhile: what was read of the line may
// lack people whom pods are about to put back.
func (s *settlement) issueFenced(ctx context.Context) error {
	err := s.DB.Do(ctx, s.issue)
	for n := 1; n < takeovers && errors.Is(err, errTakenOver); n++ {
		if err := s.waitForFence(ctx); err != nil {
			return err
		}
		err = s.DB.Do(ctx, s.issue)
	}
	if err != nil {
		return s.notIssued(ctx, err)
	}
	return nil
}

// conclude gives everybody else their outcome and finishes. For a long line that is done when all coupons of the run are
// issued: nobody with a seat waits until it is written down who has none.
func (s *settlement) conclude(ctx context.Context) error {
	if err := s.concludeLine(ctx); err != nil {
		return errors.Join(err, s.noteInVain(ctx))
	}
	return s.finish(ctx)
}

// notIssued does what is left to do for a coupon whose transaction failed.
func (s *settlement) notIssued(ctx context.Context, err error) error {
	gap := s.result.Gap
	s.result.reset() // what was counted has been rolled back
	s.result.Gap, s.result.SeatsLeft = gap, s.coupon.Free()
	var unknown *mysqltx.CommitUnknown
	switch {
	case errors.As(err, new(*GapHeld)):
		return errors.Join(err, s.auditHold(ctx, audit.GapHeld, err))
	case errors.As(err, new(*CountHeld)):
		return errors.Join(err, s.auditHold(ctx, audit.CountHeld, err))
	case errors.As(err, &unknown): // nothing may be moved
		return err
	case mysqltx.IsAway(err) && ctx.Err() == nil:
		return errors.Join(err, s.setAside(ctx, err))
	default:
		return errors.Join(fmt.Errorf("%w; nothing was moved", err), s.noteInVain(ctx))
	}
}

// auditHold keeps that this run held the coupon, and why.
func (s *settlement) auditHold(ctx context.Context, action audit.Action, why error) error {
	return s.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		if _, err := lockCoupon(ctx, tx, s.coupon.ID); err != nil {
			return err
		}
		if done, err := audit.Recorded(ctx, tx, s.run.id, action, s.coupon.ID); err != nil || done {
			return err
		}
		return s.run.audit(ctx, tx, action, s.coupon.ID, audit.Entry{Detail: why.Error()})
	})
}

// issue gives the free seats to the first eligible of the line. Coupons, count and record stand or fall together with
// the transaction it runs in; when that is repeated after a lost COMMIT, the record of this run tells that it is done.
func (s *settlement) issue(ctx context.Context, tx *sql.Tx, _ int) error {
	s.result.reset()
	s.unstorable, s.refusedAnew, s.tookBack, s.winners, s.rejects, s.left, s.kept = nil, 0, nil, nil, false, 0, 0
	s.begin(StepLock)
	coupon, err := lockCoupon(ctx, tx, s.coupon.ID)
	if err != nil {
		return err
	}
	s.coupon = coupon
	s.result.SeatsLeft = coupon.Free()
	if s.uncleaned, err = selectUncleaned(ctx, tx, coupon.ID, s.run.cutoff); err != nil {
		return err
	}
	if s.tried { // another run may have cleaned up since, so that only the record itself tells
		if done, err := loadRecord(ctx, tx, s.run, coupon.ID, s.result); err != nil || done {
			return err
		}
	}
	s.tried = true
	s.begin(StepAccount)
	account, err := s.checkPromises(ctx, tx)
	if err != nil {
		return err
	}

	free := coupon.Free()
	winners := newDigest()
	line := s.readyLine(account.Past)
	for free > 0 && !line.ended { // once, unless rows were refused
		for page, err := range line.pages(ctx, free) {
			if err != nil {
				return err
			}
			s.begin(StepIssue)
			issued, refused, kept, err := s.issuePage(ctx, tx, page, free, coupon.IssuedCount+winners.count)
			if err != nil {
				return err
			}
			if err := s.settleReturned(ctx, tx, issued, refused); err != nil {
				return err
			}
			winners.add(issued)
			s.remember(issued, winners.count)
			s.foresee(issued)
			s.progress(len(issued))
			s.kept += kept
			if free -= len(issued) + kept; free == 0 {
				break
			}
		}
	}

	if err := s.approved(ctx, tx, winners); err != nil {
		return err
	}
	s.left = int(account.Waiting) - winners.count
	returned := s.unstorableReturned()
	if err := s.takeBack(ctx, tx, returned); err != nil {
		return err
	}

	s.result.Read, s.result.Issued, s.result.SeatsLeft = s.result.Read+winners.count, winners.count, coupon.Free()-winners.count
	if s.run.dryRun {
		s.result.Preview.Digest = winners.String() // of nobody, too: that can be approved as well
	}
	if winners.count > 0 {
		s.begin(StepCount)
		s.result.FirstArrival, s.result.LastArrival, s.result.WinnersDigest = winners.first, winners.last, winners.String()
		if err := takeSeats(ctx, tx, coupon.ID, winners.count); err != nil {
			return err
		}
	}
	if s.result.changed() {
		s.uncleaned = append(s.uncleaned, uncleaned{run: s.run.id, covered: true})
		s.begin(StepRecord)
		if err := insertRecord(ctx, tx, s.run, coupon.ID, s.result); err != nil {
			return err
		}
		if err := s.sign(ctx, tx); err != nil {
			return err
		}
	}
	if s.run.dryRun {
		return nil // it rolls back: nobody is to wait for the promise row, nor Redis to hear of it
	}
	if err := s.sameServer(ctx); err != nil {
		return err
	}
	// Last, since the catalog waits for this row.
	if err := keepPromise(ctx, tx, coupon.ID, account, s.run.startedAt); err != nil {
		return err
	}
	if account.Gap() > 0 {
		if err := writeOff(ctx, tx, s.run, coupon.ID, account); err != nil {
			return err
		}
	}
	s.begin(StepCommit)
	return s.reviewReturned(ctx, tx, returned)
}

// sign keeps in whose name a coupon is settled by hand, once in each run: with the first that it records.
func (s *settlement) sign(ctx context.Context, tx *sql.Tx) error {
	if s.run.Trigger != coupon.Manual {
		return nil
	}
	if done, err := audit.Recorded(ctx, tx, s.run.id, audit.ManualSettle, s.coupon.ID); err != nil || done {
		return err
	}
	return s.run.audit(ctx, tx, audit.ManualSettle, s.coupon.ID, audit.SettleEntry(s.run.cutoff, s.result.Issued, s.result.WinnersDigest))
}

// signReview signs a run that put somebody under review and may have recorded nothing else.
func (s *settlement) signReview(ctx context.Context) error {
	if s.run.Trigger != coupon.Manual || s.result.Rejected == 0 {
		return nil
	}
	return s.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		if _, err := lockCoupon(ctx, tx, s.coupon.ID); err != nil {
			return err
		}
		return s.sign(ctx, tx)
	})
}

// checkPromises holds the coupon when its count of what was issued is wrong, since free seats go by it, and when more
// applications were accepted than can be accounted for, unless an operator accepts that.
func (s *settlement) checkPromises(ctx context.Context, tx *sql.Tx) (ledger.Account, error) {
	account, err := s.Auditor.Account(ctx, tx, s.coupon.ID)
	if err != nil {
		return account, err
	}
	s.result.Gap = account.Gap()
	if counted := int64(s.coupon.IssuedCount); counted != account.Past.Coupons {
		return account, &coupon.Error{Class: coupon.Invariant, Err: &CountHeld{s.coupon.ID, counted, account.Past.Coupons, int64(s.coupon.TotalQuantity)}}
	}
	if account.Gap() > 0 {
		if err := s.sameServer(ctx); err != nil {
			return account, err
		}
	}
	held := &GapHeld{Gap: account.Gap(), Account: account}
	held.Approved, held.Pinned = s.run.MostGap[s.coupon.ID]
	if held.Gap > 0 && (!s.run.AcceptGap || held.Pinned && held.Gap > held.Approved) {
		return account, &coupon.Error{Class: coupon.Invariant, Err: held}
	}
	return account, nil
}

// concludeLine gives everybody who is left before the cutoff their outcome: who cannot hold a coupon goes under
// review, and when no seat is left the others are recorded as not selected.
func (s *settlement) concludeLine(ctx context.Context) error {
	s.refusedAnew = 0
	said := s.Now()
	line := &reader{line: s.Line, coupon: s.coupon.ID, cutoff: s.run.cutoff, size: pageApplications}
	for page, err := range ahead(ctx, line.nextOrNil) {
		if err != nil {
			return err
		}
		if err := s.run.stopped(); err != nil {
			return err
		}
		s.begin(StepConclude)
		s.concluded = true
		if err := s.concludePage(ctx, *page); err != nil {
			return err
		}
		if now := s.Now(); now.Sub(said) >= progressEvery {
			s.logger.Info("recording the rest of the line", zap.Int("read", s.result.Read), zap.Int("not_selected", s.result.NotSelected))
			said = now
		}
	}
	return nil
}

// concludePage decides one page in a transaction of its own, under the coupon's lock so that nobody gives a seat
// meanwhile, and tells Redis when that has committed.
func (s *settlement) concludePage(ctx context.Context, page []coupon.Application) error {
	var d decisions
	before := s.refusedAnew
	err := s.DB.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		s.unstorable, s.refusedAnew = nil, before
		locked, err := lockCoupon(ctx, tx, s.coupon.ID)
		if err != nil {
			return err
		}
		if d, err = s.decidePage(ctx, tx, locked, page); err != nil {
			return err
		}
		if len(d.notSelected) > 0 {
			// Another run may have let newcomers in since this one shut the door, and the seats be gone again: whoever is
			// not selected must not be accepted once more.
			if err := s.Door.SetSold(ctx, locked.ID, true); err != nil {
				return err
			}
		}
		if d.alreadyIssued, err = s.record(ctx, tx, coupon.OutcomeAlreadyIssued, d.alreadyIssued); err != nil {
			return err
		}
		if d.notSelected, err = s.record(ctx, tx, coupon.OutcomeNotSelected, d.notSelected); err != nil {
			return err
		}
		d.review = append(d.review, s.unstorable...)
		if len(d.alreadyIssued)+len(d.notSelected) > 0 {
			if err := s.sign(ctx, tx); err != nil {
				return err
			}
		}
		return addToRecord(ctx, tx, s.run, locked.ID, d)
	})
	if err != nil {
		return err
	}
	s.result.Read += d.read
	s.result.NotSelected += len(d.notSelected)
	s.result.AlreadyIssued += len(d.alreadyIssued)

	// First: the others stand side by side then. Whose place under review is still taken by a settled one waits for the
	// next run.
	reviewed, err := s.Line.Review(ctx, s.coupon.ID, s.run.id, s.run.startedAt, d.review)
	s.result.reject(reviewed, d.review)
	if err != nil {
		return err
	}
	holders := slices.Concat(d.issuedBefore, d.alreadyIssued)
	if _, err := s.Line.Remove(ctx, s.coupon.ID, s.coupon.ClosesAt, coupon.MarkIssued, holders); err != nil {
		return err
	}
	others := slices.Concat(d.recordedBefore, d.notSelected)
	if _, err := s.Line.Remove(ctx, s.coupon.ID, s.coupon.ClosesAt, coupon.MarkNone, others); err != nil {
		return err
	}
	s.progress(len(page))
	return nil
}

// decidePage finds out what becomes of a page of the rest of the line.
func (s *settlement) decidePage(ctx context.Context, tx *sql.Tx, c coupon.Coupon, page []coupon.Application) (decisions, error) {
	boundary, err := selectLastIssued(ctx, tx, c.ID)
	if err != nil {
		return decisions{}, err
	}
	all, err := s.classify(ctx, tx, c.ID, anyPast, page)
	if err != nil {
		return decisions{}, err
	}
	d := decide(all, c.Free(), boundary, s.run.stays)
	last := place{}
	for _, a := range page {
		is := place{a.Member, a.Arrival}
		if a.Source != coupon.SourceHeld && s.tookBack[is] && is != last {
			d.read--
		}
		last = is
	}
	return d, nil
}

// record writes down an outcome and returns whose could be.
func (s *settlement) record(ctx context.Context, tx *sql.Tx, outcome coupon.Outcome, applications []coupon.Application) ([]coupon.Application, error) {
	return s.store(ctx, tx, 0, applications, func(_ int, part []coupon.Application) error {
		return insertOutcomes(ctx, tx, s.run, s.coupon.ID, outcome, "", part)
	})
}
