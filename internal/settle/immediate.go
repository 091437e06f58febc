package settle

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/records"
)

// moreApplications is how many an immediate run issues if more have probably applied meanwhile.
const moreApplications = 2_500

// Issuance is the result of an immediate run.
type Issuance struct {
	Result
	Locked bool            // another session has the coupon's row
	Waits  bool            // a restore is due, which no immediate run makes
	More   bool            // moreApplications were issued: the caller calls again at once
	Delays []time.Duration // commit minus arrival of each issued application, by the clock of the coupon's shard
}

// IssueNow settles one immediate coupon up to the newest arrival. It is the same settlement as that of a nightly run,
// by the rules of coupon.ImmediateRun. The cutoff is the highest arrival plus 1, read from Redis; no new arrival can be
// below it. It reads the queue alone: nightly runs and operators retry the DLQ. While a restore is due, or the highest
// arrival is too far ahead of the clock of the coupon's shard, its status is BUSY. The run starts by that clock, too.
//
// It never fails for good: the next call continues. After stop is cancelled, it has Grace to finish.
func (s *Settler) IssueNow(stop context.Context, couponID coupon.CouponID) (done Issuance) {
	ctx, release := outlive(stop, s.Grace)
	defer release()
	one := *s
	one.DB, one.Line = mysqltx.NewBrief(s.DB.Pool()), queueAlone{s.Line}
	one.Observer, one.Progress = unobserved{}, nil
	var now looked
	r := run{Order: Order{Trigger: coupon.ImmediateRun}, rules: rulesOf(coupon.ImmediateRun), stop: stop,
		memory: new(memory), nonce: history.NewNonce(), coupons: 1}
	t := &task{settlement: one.newSettlement(r, coupon.Coupon{ID: couponID})}
	t.do(func() (_ settled, err error) {
		if t.run.zone, err = one.Zone(ctx); err != nil {
			return settled{}, err
		}
		if now, err = t.lookNow(ctx); err != nil {
			return settled{}, err
		}
		if !t.coupon.Immediate() || t.coupon.Finalised() { // changed since the caller read it
			return settled{notDue: true}, nil
		}
		return t.settle(ctx)
	})
	if done.Result = t.result(); done.Status == coupon.NotDue {
		done.Status = coupon.Unchanged
	}
	done.Locked, done.Waits = mysqltx.IsLockWait(t.err), errors.Is(t.err, errRestoreDue)
	done.More = done.Issued >= moreApplications
	for _, w := range t.done.winners {
		done.Delays = append(done.Delays, now.shard.Time().Add(t.done.issued.at.Sub(now.at)).Sub(w.Arrival.Time()))
	}
	return done
}

// looked is when an immediate run looked at Redis.
type looked struct {
	shard coupon.Arrival // time of the look by the clock of the coupon's shard
	at    time.Time      // the same moment by the clock of this process
}

// lookNow reads the coupon, and chooses the cutoff.
func (s *settlement) lookNow(ctx context.Context) (now looked, err error) {
	err = s.DB.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) (err error) {
		read, err := records.Coupon(ctx, q, s.coupon.ID)
		if err == nil {
			s.coupon = read
		}
		return err
	})
	if err != nil {
		return now, err
	}
	look, err := s.look(ctx)
	if err != nil {
		return now, err
	}
	now = looked{coupon.ArrivalAt(look.Now), s.Now()}
	s.epoch, s.run.cutoff, s.run.startedAt = look.Epoch, (look.Last + 1).Time(), look.Now
	switch {
	case !look.Restored:
		err = errors.Join(errBusy, errRestoreDue)
	case look.Last > look.Latest(): // no application can have that arrival
		err = errBusy
	}
	return now, err
}

// recordRun inserts the row of an immediate run, in the transaction of its first change. Every other run has its row,
// and a preview has none.
func (s *settlement) recordRun(ctx context.Context, tx *sql.Tx) (err error) {
	if s.run.rules.recordsLate && s.run.id == 0 {
		s.run.id, err = history.BeginImmediate(ctx, tx, s.run.start(), s.run.settledAt())
	}
	return err
}

// queueAlone is a Line whose pages have no DLQ entries.
type queueAlone struct{ Line }

func (q queueAlone) Page(ctx context.Context, couponID coupon.CouponID, after coupon.Cursor,
	cutoff time.Time) ([]coupon.Application, coupon.Cursor, error) {
	return q.Queue(ctx, couponID, after, cutoff)
}

// unobserved is an Observer that keeps nothing: `settle serve` has the metrics of immediate runs.
type unobserved struct{}

func (unobserved) Begin()                    {}
func (unobserved) Progress(int)              {}
func (unobserved) Spend(Step, time.Duration) {}
func (unobserved) Note(Result)               {}
func (unobserved) End(*Report, error)        {}
