package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/bench/process"
	"github.com/jajeong/jajeong/internal/coupon"
)

// restored is a restore of a whole line.
type restored struct {
	took          time.Duration // from the loss
	redis         time.Duration // CPU time
	quiet, during heard         // applicants before it and during it
	behind        int64         // applications that the journal lacked at its end
}

// restore measures how `settle serve --tasks journal` notices a loss and restores the line, while users apply or not.
func (s *stage) restore(ctx context.Context, applying bool) (r restored, err error) {
	p, err := s.openShop(ctx, 1, never)
	if err != nil {
		return r, err
	}
	defer p.close()
	if err := p.journalled(ctx, s.backlog); err != nil {
		return r, err
	}
	_, stop, err := p.startJournal(ctx)
	if err != nil {
		return r, err
	}
	defer stop()
	lose := func() error {
		before, began := process.CPUTime(s.redis.Pid()), time.Now()
		if err := p.rdb.Unlink(ctx, p.queue(1), p.state(1)).Err(); err != nil {
			return err
		}
		err := p.awaitRestored(ctx, s.backlog)
		r.took, r.redis = time.Since(began), process.CPUTime(s.redis.Pid())-before
		if err == nil {
			r.behind, err = p.behind(ctx, 1)
		}
		return err
	}
	if !applying {
		if err := wait(ctx, 2*time.Second); err != nil { // the journal lists its coupons first
			return r, err
		}
		return r, lose()
	}
	pod, err := p.startPod(ctx)
	if err != nil {
		return r, err
	}
	defer func() { _ = pod.Stop() }()
	if err := p.awaitOpen(ctx, pod.Apply); err != nil {
		return r, err
	}
	if r.quiet, err = p.load(ctx, pod.Apply, s.rate, func() error { return wait(ctx, s.length) }); err != nil {
		return r, err
	}
	r.during, err = p.load(ctx, pod.Apply, s.rate, lose)
	return r, err
}

// journalled lets n users apply, and journals them.
func (p *shop) journalled(ctx context.Context, n int) error {
	if err := p.fill(ctx, n); err != nil {
		return err
	}
	if err := p.emptyJournal(ctx); err != nil {
		return err
	}
	_, err := p.copyLines(ctx, copiers[0], []coupon.CouponID{1})
	return err
}

// restoreWithin bounds a restore.
const restoreWithin = 3 * time.Minute

// awaitRestored waits until a restore has ended, and checks that all n are back.
func (p *shop) awaitRestored(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, restoreWithin)
	defer cancel()
	for {
		fields, err := p.rdb.HMGet(ctx, p.state(1), "since", "restored").Result()
		if err != nil {
			return err
		}
		if fields[0] != nil && fields[0] == fields[1] {
			break
		}
		if err := wait(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("wait for the restore: %w", err)
		}
	}
	back, err := p.rdb.ZCount(ctx, p.queue(1), "-inf", fmt.Sprint(p.filled)).Result()
	if err == nil && back < int64(n) {
		err = fmt.Errorf("%d of %d applications are back", back, n)
	}
	return err
}
