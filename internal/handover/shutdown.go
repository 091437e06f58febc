package handover

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
)

// What Close may take of the 30 s that a process has after a signal.
const (
	lastLook  = 3 * time.Second
	lastWrite = 5 * time.Second
)

// Close hands over what must be handed over before the process ends. What Redis does not take, or no restore has taken
// yet, or what the journal does not copy, is written into the journal, which then asks for a restore. Nobody uses the
// Memory any more.
func (m *Memory) Close(ctx context.Context, db *sql.DB) error {
	left := m.lastLook(ctx)
	ctx, cancel := context.WithTimeout(ctx, lastWrite)
	defer cancel()
	m.addThoseElsewhere(ctx, db, left)
	var problems []error
	for _, id := range slices.Sorted(maps.Keys(left)) {
		all := m.answers(id)
		err := askForRestore(ctx, mysqltx.NewBrief(db), id, all)
		logger := m.logger.With(zap.Uint64("coupon_id", uint64(id)), zap.Int("applications", len(all)))
		if err == nil {
			logger.Warn("redis may lack what this process has told applicants; it was written into the journal")
		} else if len(problems) < maxProblems {
			problems = append(problems,
				fmt.Errorf("write %d applications into the journal of coupon %d: %w", len(all), id, err))
		}
	}
	return errors.Join(problems...)
}

// maxProblems bounds the coupons that an error names.
const maxProblems = 5

// addThoseElsewhere adds the coupons whose journal is a copy of another server than that of this process: the others
// may know nobody of its answers, and nobody hands them over any more. An error means that the journal takes none,
// either.
func (m *Memory) addThoseElsewhere(ctx context.Context, db *sql.DB, left map[coupon.CouponID]bool) {
	for id, l := range m.lines {
		if left[id] || len(m.answers(id)) == 0 {
			continue
		}
		if copied, err := promise.Copied(ctx, db, id); err == nil && copied != "" && copied != l.epoch {
			left[id] = true
		}
	}
}

// lastLook compares what must be compared, and returns the coupons of which Redis, or a restore, has not taken
// everybody.
func (m *Memory) lastLook(ctx context.Context) (left map[coupon.CouponID]bool) {
	ctx, cancel := context.WithTimeout(ctx, lastLook)
	defer cancel()
	left = map[coupon.CouponID]bool{}
	maps.Copy(left, m.look(ctx))
	stop := context.AfterFunc(ctx, m.end)
	m.work.Wait()
	stop()
	m.end()
	for id, l := range m.lines { // nobody else uses it any more
		if l.todo && !left[id] {
			_ = m.compare(ctx, id, l) // it has logged the error
		}
		if l.todo || l.handed > 0 {
			left[id] = true
		}
	}
	return left
}

// answers returns what the journal may lack.
func (m *Memory) answers(id coupon.CouponID) (all []coupon.Answer) {
	for _, t := range m.lines[id].told {
		if t.place != done {
			all = append(all, t.Answer)
		}
	}
	return all
}

// rowsAtOnce bounds the rows of one transaction, so that those before it stay if the time is over.
const rowsAtOnce = 5000

// askForRestore writes answers into the journal, and asks for a restore in each transaction that does so.
func askForRestore(ctx context.Context, db *mysqltx.DB, id coupon.CouponID, all []coupon.Answer) error {
	for some := range slices.Chunk(all, rowsAtOnce) {
		err := db.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
			if err := promise.AddRows(ctx, tx, id, some); err != nil {
				return err
			}
			return promise.Ask(ctx, tx, id)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
