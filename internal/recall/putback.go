package recall

import (
	"context"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/sleep"
)

const (
	// pauseBetween is the pause between two calls of a comparison, so that Redis can serve applicants.
	pauseBetween = 2 * time.Millisecond
	// compareTimeout is the time limit of a comparison. After one has failed, the next waits at least retryAfter.
	compareTimeout = 8 * time.Second
	retryAfter     = 200 * time.Millisecond

	// recallWorkers is how many epochs Recall reads in parallel. recallTimeout is the time limit of each read.
	recallWorkers = 8
	recallTimeout = time.Second
)

// compare compares a coupon's answers with Redis. It starts again whenever the server changes meanwhile.
func (m *Memory) compare(couponID coupon.CouponID, p *promises) {
	ctx, cancel := context.WithTimeout(context.Background(), compareTimeout)
	defer cancel()
	result := PutBack{Coupon: couponID}
	for again := true; again && result.Err == nil; {
		again, result.Err = m.compareAll(ctx, p, &result)
	}
	m.putBack.Add(int64(result.Back))
	m.moved.Add(int64(result.Moved))
	if m.OnPutBack != nil && (result.Back+result.Moved > 0 || result.Err != nil) {
		m.OnPutBack(result)
	}
	if result.Err != nil {
		_ = sleep.For(context.Background(), retryAfter)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.comparing = false
}

// compareAll compares all answers that the present server may lack. again reports that the server changed meanwhile.
func (m *Memory) compareAll(ctx context.Context, p *promises, result *PutBack) (again bool, err error) {
	now, err := m.restore(ctx, p, nil, result)
	if err != nil || now.Code == candidates.RestoreNoWindow { // the next refresh of the catalog publishes the window
		return false, err
	}
	p.mu.Lock()
	if now.Code == candidates.RestoreFinal { // every application has its outcome, so none can be missing
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
		result.Compared += len(answers)
		epoch, missing, err := m.store.Missing(ctx, result.Coupon, answers)
		for part := range slices.Chunk(missing, candidates.MaxRestored) {
			if err != nil || epoch != now.Epoch {
				break
			}
			var r candidates.Restored
			r, err = m.restore(ctx, p, part, result)
			epoch = r.Epoch
		}
		if err != nil || epoch != now.Epoch {
			return err == nil, err
		}
		p.mu.Lock()
		p.compared(from, to, epoch)
		p.mu.Unlock()
		from = to
		if err := sleep.For(ctx, pauseBetween); err != nil {
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

// restore learns the server's counts, and puts back the applications of answers, if there are any.
func (m *Memory) restore(ctx context.Context, p *promises, answers []candidates.Answer,
	result *PutBack) (candidates.Restored, error) {
	p.mu.Lock()
	carried := p.seen
	p.mu.Unlock()
	r, err := m.store.Restore(ctx, result.Coupon, carried, answers)
	if err != nil {
		return r, err
	}
	result.Back += r.Back
	result.Moved += r.Moved
	if r.Code == candidates.RestoreDone {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.learn(carried, r.Reply)
	}
	return r, nil
}
