package settle

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// LastNight is history.LastNight, repeated after transient errors.
func (s *Settler) LastNight(ctx context.Context, newest time.Time) (last time.Time, err error) {
	return last, s.DB.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) (err error) {
		last, err = history.LastNight(ctx, q, newest)
		return err
	})
}

// HasEnded is history.HasEnded, repeated after transient errors.
func (s *Settler) HasEnded(ctx context.Context, run history.Nonce) (ended bool, err error) {
	return ended, s.DB.OnConn(ctx, func(ctx context.Context, q mysqltx.Querier, _ int) (err error) {
		ended, err = history.HasEnded(ctx, q, run)
		return err
	})
}

const markTimeout = 3 * time.Second

// markAbandoned tries once to mark runs without recent heartbeats. A failure is logged and does not stop the run.
func (s *Settler) markAbandoned(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	abandoned, err := history.Abandon(ctx, s.DB.Pool())
	if err != nil {
		s.Logger.Warn("abandoned runs not marked", zap.Error(err))
	}
	for _, id := range abandoned {
		s.Logger.Warn("run abandoned: its last heartbeat is old", zap.Uint64("run_id", uint64(id)))
	}
}

// keepResults tries once to store the coupons' results. A failure is only logged, because the settlements are recorded.
func (s *Settler) keepResults(ctx context.Context, r run, report *Report) {
	var results []history.Result
	for _, c := range report.Coupons {
		if c.Status != coupon.Unchanged && c.Status != coupon.NotDue {
			results = append(results, history.Result{Coupon: c.Coupon, Status: c.Status, Gap: c.Gap, Millis: c.Millis,
				Error: c.recorded()})
		}
	}
	if err := history.Keep(ctx, s.DB.Pool(), r.id, results); err != nil {
		s.Logger.Warn("timings and errors not kept", zap.Uint64("run_id", uint64(r.id)), zap.Error(err))
	}
}

// maxLookedUp bounds the number of unchanged coupons that lookUpEarlier looks up.
const maxLookedUp = 20

// lookUpEarlier completes the report: each unchanged coupon gets the earlier run that settled it.
func (s *Settler) lookUpEarlier(ctx context.Context, r run, report *Report) {
	if !r.rules.tellsEarlier {
		return
	}
	looked := 0
	for i := range report.Coupons {
		c := &report.Coupons[i]
		if c.Status != coupon.Unchanged {
			continue
		}
		if looked++; looked > maxLookedUp {
			return
		}
		var err error
		if c.Earlier, err = history.LastSettled(ctx, s.DB.Pool(), c.Coupon, r.id, r.cutoff); err != nil {
			s.Logger.Warn("earlier settlement not looked up", zap.Uint64("coupon_id", uint64(c.Coupon)), zap.Error(err))
			return
		}
	}
}
