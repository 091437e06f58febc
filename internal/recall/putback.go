package recall

import (
	"context"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

const (
	// pauseBetween leaves Redis to applicants between two calls.
	pauseBetween = 2 * time.Millisecond
	// compareTimeout bounds a comparison. retryAfter a failed one, the next reply starts another.
	compareTimeout = 8 * time.Second
	retryAfter     = 200 * time.Millisecond

	// recallWorkers ask for epochs in parallel. recallTimeout bounds one call, so that a shard that hangs leaves time for the
	// others.
	recallWorkers = 8
	recallTimeout = time.Second
)

// compare compares the answers with Redis until no server has replaced another meanwhile.
func (m *Memory) compare(couponID coupon.CouponID, p *promises) {
	ctx, cancel := context.WithTimeout(context.Background(), compareTimeout)
	defer cancel()
	c := &comparison{store: m.store, promises: p, result: PutBack{Coupon: couponID}}
	for again := true; again && c.result.Err == nil; {
		again, c.result.Err = c.run(ctx)
	}
	m.putBack.Add(int64(c.result.Back))
	m.moved.Add(int64(c.result.Moved))
	if m.OnPutBack != nil && (c.result.Back+c.result.Moved > 0 || c.result.Err != nil) {
		m.OnPutBack(c.result)
	}
	if c.result.Err != nil {
		_ = pause(context.Background(), retryAfter)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.comparing = false
}

// comparison compares the answers of one coupon with its server.
type comparison struct {
	store    *candidates.Store
	promises *promises
	result   PutBack
}

// run compares all answers that the present server may lack. It must run again if another server replies meanwhile.
func (c *comparison) run(ctx context.Context) (again bool, err error) {
	now, err := c.restore(ctx, nil)
	if err != nil || now.Code == candidates.RestoreNoWindow { // the next refresh of the catalog publishes the window
		return false, err
	}
	p := c.promises
	p.mu.Lock()
	if now.Code == candidates.RestoreFinal { // every application has its outcome
		p.forgetAll()
	}
	from, changes := p.first, p.changes
	p.mu.Unlock()

	for {
		p.mu.Lock()
		answers, to := p.uncompared(from, now.Epoch)
		p.mu.Unlock()
		if len(answers) == 0 {
			break
		}
		c.result.Compared += len(answers)
		same, err := c.putBack(ctx, now.Epoch, answers)
		if err != nil || !same {
			return err == nil, err
		}
		p.mu.Lock()
		p.compared(from, to, now.Epoch)
		p.mu.Unlock()
		from = to
		if err := pause(ctx, pauseBetween); err != nil {
			return false, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changes != changes {
		return true, nil
	}
	p.changed = false
	return false, nil
}

// putBack puts missing applications back. same is false if a server of another epoch replied.
func (c *comparison) putBack(ctx context.Context, epoch string, answers []candidates.Answer) (same bool, err error) {
	is, missing, err := c.store.Missing(ctx, c.result.Coupon, answers)
	for err == nil && is == epoch && len(missing) > 0 {
		n := min(len(missing), candidates.MaxRestore)
		r, err := c.restore(ctx, missing[:n])
		if err != nil {
			return false, err
		}
		is = r.Epoch
		c.result.Back += r.Back
		c.result.Moved += r.Moved
		if missing = missing[n:]; len(missing) > 0 {
			if err := pause(ctx, pauseBetween); err != nil {
				return false, err
			}
		}
	}
	return is == epoch, err
}

// restore puts applications back and learns the server's counts. Without applications it does only the latter.
func (c *comparison) restore(ctx context.Context, answers []candidates.Answer) (candidates.Restored, error) {
	p := c.promises
	p.mu.Lock()
	carried := p.seen
	p.mu.Unlock()
	r, err := c.store.Restore(ctx, c.result.Coupon, carried, answers)
	if err == nil && r.Code == candidates.RestoreDone {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.learn(carried, r.Reply)
	}
	return r, err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
