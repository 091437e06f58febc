package verify

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/sleep"
)

// RestoreTime is how long a program waits for `settle serve`, which looks every second whether a restore is due.
const RestoreTime = 5 * time.Second

const (
	// lookInterval is the time between two looks whether a restore is still due.
	lookInterval = 200 * time.Millisecond
	// maxLooks bounds the wait, also if Redis changes its server again and again.
	maxLooks = 150
)

// waitForRestore waits while a restore is due that would end a finding. Pods get time to hand over whom they know, and
// then `settle serve` to begin. All coupons of a Verifier share the latter time, so that their waits do not add up. All
// times are of the Redis clock.
func (r *Verifier) waitForRestore(ctx context.Context, db *sql.DB, c *check) error {
	if !slices.ContainsFunc(c.Findings, Finding.endsByRestore) {
		return nil
	}
	for range maxLooks {
		look, err := r.Store.Observe(ctx, c.Coupon, 0)
		if err != nil {
			return err
		}
		b, err := readBooks(ctx, db, c.Coupon) // after Redis: who is settled meanwhile counts twice, and not as missing
		if err != nil {
			return err
		}
		missing := look.Accepted - look.Waiting - look.DLQ - b.issued - b.concluded - b.writtenOff - b.erased
		if b.compared(look) && look.Returned == 0 && b.asked == 0 && missing <= look.Left &&
			look.Issued >= b.issued {
			return nil
		}
		wait := r.waitUntil(look).Sub(look.Now)
		if wait <= 0 {
			return nil
		}
		if err := sleep.For(ctx, min(wait, lookInterval)); err != nil {
			return err
		}
	}
	return nil
}

// waitUntil is when `settle serve` has had time to begin: counted from the first look at which a restore was due, or,
// if that is later, from the time that pods have. Nobody has met a server yet that has no state of the coupon.
func (r *Verifier) waitUntil(look coupon.Look) time.Time {
	pods := look.RestoresIn
	if look.Since == 0 {
		pods = r.HandOverTime
	}
	until := look.Now.Add(pods + r.RestoreTime)
	for {
		first := r.until.Load()
		if first != nil && (look.RestoresIn == 0 || !first.Before(until)) {
			return *first
		}
		if r.until.CompareAndSwap(first, &until) {
			return until
		}
	}
}

// endsByRestore reports whether a restore may end the finding.
func (f Finding) endsByRestore() bool { return f.Code == PromiseLost || f.Code == MarkWrong }
