package settle

import (
	"context"
	"database/sql"
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
	More   bool            // moreApplications were issued: the caller calls again at once
	Delays []time.Duration // commit minus arrival of each issued application, by the clock of the coupon's shard
}

// IssueNow settles one immediate coupon up to the newest arrival. It is the same settlement as that of a nightly run,
// by the rules of coupon.ImmediateRun. The cutoff is the highest arrival plus 1, read from Redis; no new arrival can be
// below it. It reads the queue alone: nightly runs and operators retry the DLQ. While pods put applications back, its
// status is BUSY.
//
// It never fails for good: the next call continues. After stop is cancelled, it has Grace to finish.
func (s *Settler) IssueNow(stop context.Context, couponID coupon.CouponID) (done Issuance) {
	ctx, release := outlive(stop, s.Grace)
	defer release()
	one := *s
	one.DB, one.Door, one.Line = mysqltx.NewBrief(s.DB.Pool()), looking{s.Door}, queueAlone{s.Line}
	one.Observer, one.Progress = unobserved{}, nil
	var now looked
	r := run{Order: Order{Trigger: coupon.ImmediateRun}, rules: rulesOf(coupon.ImmediateRun), stop: stop,
		memory: new(memory), nonce: history.NewNonce(), coupons: 1}
	t := &task{settlement: one.newSettlement(r, coupon.Coupon{ID: couponID})}
	t.do(func() (_ settled, err error) {
		if t.run.zone, err = one.Zone(ctx); err != nil {
			return settled{}, err
		}
		if now, err = t.look(ctx); err != nil {
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
	done.Locked = mysqltx.IsLockWait(t.err)
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

// look reads the coupon, and chooses the cutoff.
func (s *settlement) look(ctx context.Context) (now looked, err error) {
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
	last, shard, forPods, err := s.Door.Look(ctx, s.coupon.ID, s.coupon.Promise)
	if err != nil {
		return now, err
	}
	now = looked{shard, s.Now()}
	s.run.cutoff, s.run.startedAt = (last + 1).Time(), now.at.UTC().Truncate(time.Microsecond)
	if forPods > 0 {
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

// looking is a Door whose Fence only looks: no new arrival can be below the cutoff of an immediate run.
type looking struct{ Door }

func (d looking) Fence(ctx context.Context, couponID coupon.CouponID, _ time.Time,
	known coupon.Promise) (wait, forPods time.Duration, err error) {
	_, _, forPods, err = d.Look(ctx, couponID, known)
	return 0, forPods, err
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
