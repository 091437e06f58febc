package catalog

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
)

const (
	// slowJournal is the age from which refreshes note the count of accepted applications. The journal is written once
	// a second.
	slowJournal = 5 * time.Second
	// lateJournal is the age from which JournalLate warns. A failover takes half as long.
	lateJournal = time.Minute
)

// journalColumns are the columns that fields scans. Table journal has the alias w, and may lack a row.
const journalColumns = `COALESCE(w.epoch, ''), COALESCE(w.up_to, 0), COALESCE(w.accepted, 0),
       TIMESTAMPDIFF(MICROSECOND, w.written_at, UTC_TIMESTAMP(6))`

// journalRow is a coupon's row of table journal.
type journalRow struct {
	promise.Mark
	accepted int64
	age      sql.NullInt64 // µs since it was written, by the clock of MySQL; invalid: the coupon has no row
}

func (r *journalRow) fields() []any { return []any{&r.Epoch, &r.UpTo, &r.accepted, &r.age} }

func (r *journalRow) old() time.Duration { return time.Duration(r.age.Int64) * time.Microsecond }

// tellMemory tells the memory how far the journals came. A coupon whose Redis is silent is left out: a restore may have
// ended there, after which the memory must hand over before it forgets.
func (c *Catalog) tellMemory(r *reading, published map[coupon.CouponID]candidates.Published) {
	for _, one := range r.Coupons {
		if one.Finalised() {
			if r.At.Sub(one.FinalisedAt) > coupon.EndGuard {
				c.Memory.Forget(one.ID)
			}
		} else if _, ok := published[one.ID]; ok {
			c.Memory.Journalled(one.ID, r.journals[one.ID].Mark)
		}
	}
}

const (
	// A restore keeps the row locked. It notes the count itself, so nobody waits for it.
	claimJournalSQL = "SELECT coupon_id FROM journal WHERE coupon_id = ? FOR UPDATE SKIP LOCKED"
	// Table journal takes no higher number.
	raiseAcceptedSQL = `
UPDATE journal SET accepted = LEAST(GREATEST(accepted, ?), 9007199254740991) WHERE coupon_id = ?`
)

// raiseAccepted notes how many applications Redis has accepted, in journals that nobody has written for some seconds.
// The count of a server that was not compared yet says nothing of those before it.
func (c *Catalog) raiseAccepted(ctx context.Context, r *reading,
	published map[coupon.CouponID]candidates.Published) error {
	var risen []coupon.CouponID
	for id, now := range published {
		journal := r.journals[id]
		if journal.old() > slowJournal && now.Restored && now.Accepted > journal.accepted {
			risen = append(risen, id)
		}
	}
	slices.Sort(risen)
	var failed failures
	for _, id := range risen {
		if err := c.raise(ctx, id, published[id].Accepted); err != nil {
			failed.add(fmt.Errorf("note the count of coupon %d in its journal: %w", id, err))
		}
	}
	return failed.join()
}

func (c *Catalog) raise(ctx context.Context, id coupon.CouponID, accepted int64) error {
	tx, err := c.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // returns an error after Commit
	switch err := tx.QueryRowContext(ctx, claimJournalSQL, id).Scan(&id); {
	case errors.Is(err, sql.ErrNoRows): // locked, or deleted
		return nil
	case err != nil:
		return err
	}
	if err := mysqltx.Exec(ctx, tx, 1, raiseAcceptedSQL, accepted, id); err != nil {
		return err
	}
	return tx.Commit()
}

// behind returns since when the journal lacks applications that wait in Redis, by the clock of the process, for each
// coupon of which this is so. The journal had everybody when it was last written, or when a refresh last found nobody
// whom it lacked.
func (c *Catalog) behind(r *reading, published map[coupon.CouponID]candidates.Published,
	at time.Time) map[coupon.CouponID]time.Time {
	since := map[coupon.CouponID]time.Time{}
	var earlier map[coupon.CouponID]time.Time
	if h := c.content.Load(); h != nil {
		earlier = h.behind
	}
	for id, journal := range r.journals {
		now, ok := published[id]
		began, before := earlier[id]
		switch {
		case !ok && !before, ok && (now.Line.Waiting == 0 || journal.Covers(now.Epoch, now.Last)):
			continue
		case !before:
			began = at
		}
		if written := at.Add(-journal.old()); journal.age.Valid && written.After(began) {
			began = written
		}
		since[id] = began
	}
	return since
}

// journalAge returns the age of the journal that is furthest behind; 0: none is behind.
func (c *Catalog) journalAge() (id coupon.CouponID, age time.Duration) {
	h, now := c.content.Load(), c.Now()
	if h == nil {
		return 0, 0
	}
	for one, since := range h.behind {
		old := max(0, now.Sub(since))
		if cmp.Or(cmp.Compare(old, age), cmp.Compare(id, one)) > 0 {
			id, age = one, old
		}
	}
	return id, age
}

// JournalLate returns an error if a journal is more than a minute old, and lacks applications. If Redis loses those,
// only the memory of the processes has them.
func (c *Catalog) JournalLate() error {
	if id, age := c.journalAge(); age > lateJournal {
		return fmt.Errorf("the journal of coupon %d is %d s old", id, int(age.Seconds()))
	}
	return nil
}

// logLateJournal logs when a journal becomes late, and when none is any more.
func (c *Catalog) logLateJournal() {
	id, age := c.journalAge()
	switch late := age > lateJournal; {
	case late && !c.late:
		c.late = true
		c.Logger.Error("journal is late; only the memory of the pods has what it lacks; "+
			"is `settle serve` running with the task journal?", zap.Uint64("coupon_id", uint64(id)),
			zap.Duration("age", age))
	case !late && c.late:
		c.late = false
		c.Logger.Info("journal has caught up")
	}
}
