package verify

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/seal"
)

// checkSeal checks invariant 6: what was sealed is unchanged. It is the last check: it computes what Seal writes if the
// others find nothing.
func (c *check) checkSeal(ctx context.Context) error {
	if !c.row.Finalised() {
		return nil
	}
	run, err := seal.NewestRun(ctx, c.tx, c.Coupon)
	if err != nil {
		return err
	}
	rows, err := seal.Rows(ctx, c.tx, c.Coupon)
	if err != nil {
		return err
	}
	c.seal = &seal.Seal{Run: run, AuditSeq: c.AuditHead.Seq}
	if c.seal.Digest, err = seal.Digest(ctx, c.tx, c.Coupon, rows, c.AuditHead.Seq); err != nil {
		return err
	}
	old, err := seal.Read(ctx, c.tx, c.Coupon)
	if err != nil || old == nil {
		return err
	}
	now, err := seal.Digest(ctx, c.tx, c.Coupon, rows, old.AuditSeq)
	if err == nil && now != old.Digest {
		c.find(6, SealBroken, 1, "the sealed rows have changed: the seal has %s, the rows have %s", old.Digest, now)
	}
	return err
}

// right reports whether a coupon can be sealed.
func (v *Verdict) right() bool {
	for _, f := range v.Findings {
		if !f.OfCreation() {
			return false
		}
	}
	return true
}

const sealableSQL = `
SELECT c.finalised_at IS NOT NULL, COALESCE(h.seq, 0), p.coupon_id IS NOT NULL FROM coupon c
LEFT JOIN audit_head h ON h.coupon_id = c.id LEFT JOIN purged_coupon p ON p.coupon_id = c.id WHERE c.id = ?` + underLock

// Seal writes what a check has found about finalised coupons, and lists their users. If every coupon of the plan was checked, the next check
// begins where this one has ended.
func (r *Verifier) Seal(ctx context.Context, db *sql.DB, p *Plan, checked []*Verdict) error {
	for _, v := range checked {
		if err := r.sealOne(ctx, db, v); err != nil {
			return err
		}
	}
	if len(checked) < len(p.Coupons) {
		return nil
	}
	return p.moveMarks(ctx, db)
}

// sealOne leaves a coupon out that has changed since its check.
func (r *Verifier) sealOne(ctx context.Context, db *sql.DB, v *Verdict) error {
	if v.seal == nil {
		return nil
	}
	if err := seal.List(ctx, db, v.Coupon); err != nil {
		return err
	}
	return mysqltx.NewBrief(db).Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		var finalised, purged bool
		var head uint64
		err := tx.QueryRowContext(ctx, sealableSQL, v.Coupon).Scan(&finalised, &head, &purged)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return mysqltx.Wrap(err, "lock coupon %d", v.Coupon)
		}
		run, err := seal.NewestRun(ctx, tx, v.Coupon)
		if err != nil || !finalised || purged || head != v.seal.AuditSeq || run != v.seal.Run {
			return err
		}
		at, err := mysqltx.Now(ctx, tx)
		switch {
		case err != nil:
			return err
		case v.right():
			return seal.Put(ctx, tx, v.Coupon, *v.seal, at)
		default:
			return seal.Wrong(ctx, tx, v.Coupon, at)
		}
	})
}

const (
	// sealLife is the time after which a sealed coupon is checked again.
	sealLife = 90 * 24 * time.Hour
	// overlap is how far the marks stay behind: no run and no change of an issued coupon takes so long.
	overlap = 24 * time.Hour
)

// Plan is what a check of all coupons looks at. Sealed coupons without a change have their turn every 90 days.
type Plan struct {
	Coupons []coupon.CouponID
	Sealed  Sealed

	all     bool
	marks   marks
	reached marks // the marks of the next check
	turns   marks // how far the turns through tables will have come
}

// Sealed says what a check of all coupons has left out.
type Sealed struct {
	Left   int64      `json:"left"`             // sealed coupons that are not checked
	Oldest *time.Time `json:"oldest,omitempty"` // when the first of them was last checked
	Uses   int        `json:"uses"`             // their issued coupons that were changed: these changes are replayed
}

const (
	allSQL = `
SELECT c.id FROM coupon c LEFT JOIN purged_coupon p ON p.coupon_id = c.id WHERE p.coupon_id IS NULL ORDER BY c.id`
	// plannedSQL has coupons that are not finalised, or were and are not sealed, or have a new run or audit event, or
	// whose seal has its turn.
	plannedSQL = `
SELECT x.id FROM (
    SELECT id FROM coupon FORCE INDEX (coupon_due) WHERE finalised_at IS NULL
    UNION SELECT c.id FROM coupon c FORCE INDEX (coupon_due) LEFT JOIN seal s ON s.coupon_id = c.id
        WHERE c.finalised_at >= ? AND s.coupon_id IS NULL
    UNION SELECT coupon_id FROM settlement WHERE run_id > ?
    UNION SELECT coupon_id FROM audit_event WHERE id > ?
    UNION SELECT coupon_id FROM seal WHERE checked_at IS NULL OR checked_at < ?
) x JOIN coupon c ON c.id = x.id LEFT JOIN purged_coupon p ON p.coupon_id = x.id
WHERE p.coupon_id IS NULL ORDER BY x.id`
	// unsealedSQL has finalised coupons without a row of table seal: somebody deleted it, or wrote finalised_at.
	unsealedSQL = `
SELECT c.id FROM coupon c LEFT JOIN seal s ON s.coupon_id = c.id LEFT JOIN purged_coupon p ON p.coupon_id = c.id
WHERE c.id BETWEEN ? AND ? AND c.finalised_at IS NOT NULL AND s.coupon_id IS NULL AND p.coupon_id IS NULL`
	leftSQL   = "SELECT COUNT(*) FROM seal"
	oldestSQL = "SELECT MIN(checked_at) FROM seal WHERE checked_at >= ?"
)

// Plan plans a check of all coupons: whole, or of what may have changed since the last one and what has its turn.
func (r *Verifier) Plan(ctx context.Context, db *sql.DB, all bool) (*Plan, error) {
	now, err := mysqltx.Now(ctx, db)
	if err != nil {
		return nil, err
	}
	p := &Plan{all: all, turns: marks{}}
	if p.marks, err = readMarks(ctx, db); err != nil {
		return nil, err
	}
	if p.reached, err = p.marks.reach(ctx, db, now.Add(-overlap)); err != nil {
		return nil, err
	}
	if all {
		p.Coupons, err = mysqltx.Column[coupon.CouponID](ctx, db, allSQL)
		return p, mysqltx.Wrap(err, "read coupons")
	}
	p.Coupons, err = mysqltx.Column[coupon.CouponID](ctx, db, plannedSQL, time.UnixMicro(int64(p.marks[seal.MarkFinalised])),
		p.marks[recordTable.name], p.marks[eventTable.name], now.Add(-sealLife))
	if err != nil {
		return nil, mysqltx.Wrap(err, "read the coupons to check")
	}
	spans, err := p.spansOf(ctx, db, couponTable, couponTable)
	if err != nil {
		return nil, err
	}
	for _, ids := range spans {
		unsealed, err := mysqltx.Column[coupon.CouponID](ctx, db, unsealedSQL, ids.from, ids.to)
		if err != nil {
			return nil, mysqltx.Wrap(err, "read coupons without a seal")
		}
		p.Coupons = append(p.Coupons, unsealed...)
	}
	slices.Sort(p.Coupons)
	p.Coupons = slices.Compact(p.Coupons)
	return p, r.addChanged(ctx, db, p)
}

// changedUsesSQL has the issued coupons of sealed coupons with rows of coupon_log in a range of ids.
const changedUsesSQL = `
SELECT DISTINCT u.coupon_id, u.id FROM coupon_log l JOIN user_coupon u ON u.id = l.user_coupon_id
JOIN seal s ON s.coupon_id = u.coupon_id WHERE l.id BETWEEN ? AND ? ORDER BY u.coupon_id`

// addChanged replays the changes of issued coupons of sealed coupons. It adds the coupons of those that do not follow
// from coupon_log: their check says what is wrong.
func (r *Verifier) addChanged(ctx context.Context, db *sql.DB, p *Plan) error {
	planned := map[coupon.CouponID]bool{}
	for _, id := range p.Coupons {
		planned[id] = true
	}
	highest, err := highestOf(ctx, db, logTable)
	if err != nil {
		return err
	}
	for _, s := range (span{p.marks[logTable.name] + 1, highest}).pieces(replayedTogether) {
		changed := map[coupon.CouponID][]coupon.UserCouponID{}
		err := mysqltx.Each(ctx, db, func(rows *sql.Rows) error {
			var of coupon.CouponID
			var id coupon.UserCouponID
			err := rows.Scan(&of, &id)
			if !planned[of] {
				changed[of] = append(changed[of], id)
			}
			return err
		}, changedUsesSQL, s.from, s.to)
		if err != nil {
			return mysqltx.Wrap(err, "read changes of issued coupons")
		}
		for id, issued := range changed {
			right, err := followsFromLog(ctx, db, id, issued)
			if err != nil {
				return err
			}
			p.Sealed.Uses += len(issued)
			if !right && !planned[id] {
				planned[id] = true
				p.Coupons = append(p.Coupons, id)
			}
		}
	}
	slices.Sort(p.Coupons)
	return nil
}

// replayedTogether bounds the rows of coupon_log that are read by one statement.
const replayedTogether = 10_000

func followsFromLog(ctx context.Context, db *sql.DB, id coupon.CouponID,
	issued []coupon.UserCouponID) (right bool, err error) {
	var of coupon.Coupon
	err = db.QueryRowContext(ctx, checkedSQL, id).Scan(of.Fields()...)
	if errors.Is(err, sql.ErrNoRows) { // purged meanwhile
		return true, nil
	}
	if err != nil {
		return false, mysqltx.Wrap(err, "read coupon %d", id)
	}
	found, valid := logFindings{discount: of.Discount}, true
	err = replay(ctx, db, func(one issuedLog) {
		found.judge(one)
		valid = valid && one.validAsIssued(of.ValidityDays)
	}, namedSQL, id, jsonArray(issued))
	return valid && !found.any(), err
}

// CountLeft counts the sealed coupons that the plan leaves out. It reads an index with a row for each sealed coupon.
func (r *Verifier) CountLeft(ctx context.Context, db *sql.DB, p *Plan) error {
	if p.all {
		return nil
	}
	planned, err := mysqltx.Column[int64](ctx, db, "SELECT COUNT(*) FROM seal WHERE coupon_id IN "+
		"(SELECT j.id FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$')) AS j)", jsonArray(p.Coupons))
	if err == nil {
		err = db.QueryRowContext(ctx, leftSQL).Scan(&p.Sealed.Left)
	}
	if err != nil {
		return mysqltx.Wrap(err, "count seals")
	}
	p.Sealed.Left -= planned[0]
	if p.Sealed.Left <= 0 {
		return nil
	}
	now, err := mysqltx.Now(ctx, db)
	if err != nil {
		return err
	}
	var oldest sql.NullTime
	err = db.QueryRowContext(ctx, oldestSQL, now.Add(-sealLife)).Scan(&oldest)
	if oldest.Valid {
		p.Sealed.Oldest = &oldest.Time
	}
	return mysqltx.Wrap(err, "read the oldest seal")
}
