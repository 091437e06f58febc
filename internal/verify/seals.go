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

// checkSeal checks invariant 6: what was sealed is unchanged, also of a coupon that seats were added to. It is the last
// check: it computes what Seal writes if the others find nothing.
func (c *check) checkSeal(ctx context.Context) error {
	old, err := seal.Read(ctx, c.tx, c.Coupon)
	if err != nil || old == nil && !c.row.Finalised() {
		return err
	}
	state, err := seal.ReadState(ctx, c.tx, c.Coupon)
	if err != nil {
		return err
	}
	state.AuditSeq = c.AuditHead.Seq // those that were checked
	now := &seal.Seal{State: state, SealedAt: c.began}
	both := []*seal.Seal{now}
	if old != nil {
		both = append(both, old)
	}
	digests, err := seal.Digests(ctx, c.tx, c.Coupon, both...)
	if err != nil {
		return err
	}
	now.Digest = digests[0]
	// A coupon that can lose its end again is sealed by the next check.
	if c.row.Finalised() && c.began.Sub(c.row.FinalisedAt) >= coupon.EndGuard {
		c.seal = now
	}
	if old != nil && digests[1] != old.Digest {
		c.find(6, SealBroken, 1, "rows have changed that were sealed at %s: the seal has %s, the rows have %s",
			old.SealedAt.Format(time.RFC3339), old.Digest, digests[1])
	}
	return nil
}

// right reports whether a coupon can be sealed.
func (v *Verdict) right() bool {
	for _, f := range v.Findings {
		if !f.lasts() {
			return false
		}
	}
	return true
}

// broken reports whether the rows are not those that were sealed.
func (v *Verdict) broken() bool {
	return slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Code == SealBroken })
}

// List names the users with outcomes of a finalised coupon, whatever its check says.
func (r *Verifier) List(ctx context.Context, db *sql.DB, id coupon.CouponID) error {
	return seal.List(ctx, db, id)
}

// Seal writes what a check has found about a coupon that is finalised, or was sealed.
func (r *Verifier) Seal(ctx context.Context, db *sql.DB, v *Verdict) error {
	if v.seal == nil {
		return r.NoteWrong(ctx, db, v)
	}
	return seal.Locked(ctx, db, v.Coupon, func(ctx context.Context, tx *sql.Tx, finalised bool) error {
		state, err := seal.ReadState(ctx, tx, v.Coupon)
		switch {
		case err != nil || state != v.seal.State || !finalised: // the next check looks again
			return err
		case v.right():
			return seal.Right(ctx, tx, v.Coupon, v.seal)
		default:
			return v.noteWrong(ctx, tx)
		}
	})
}

func (v *Verdict) noteWrong(ctx context.Context, tx *sql.Tx) error {
	return seal.Wrong(ctx, tx, v.Coupon, v.broken(), v.began)
}

// NoteWrong lets each check of all coupons look at a coupon that was found wrong, if it is finalised or was sealed.
func (r *Verifier) NoteWrong(ctx context.Context, db *sql.DB, v *Verdict) error {
	if v.right() || v.seal == nil && !v.broken() {
		return nil
	}
	return seal.Locked(ctx, db, v.Coupon, func(ctx context.Context, tx *sql.Tx, _ bool) error {
		return v.noteWrong(ctx, tx)
	})
}

// NoteUnchecked lets the next check of all coupons look at a coupon that could not be checked.
func (r *Verifier) NoteUnchecked(ctx context.Context, db *sql.DB, id coupon.CouponID) error {
	return seal.Locked(ctx, db, id, func(ctx context.Context, tx *sql.Tx, _ bool) error {
		now, err := mysqltx.Now(ctx, tx)
		if err != nil {
			return err
		}
		return seal.Wrong(ctx, tx, id, false, now)
	})
}

// Plan is what a check of all coupons looks at: what may have changed since the last one, and a part of the rest, so
// that each coupon has its turn within the given number of checks.
type Plan struct {
	Coupons []coupon.CouponID
	Sealed  Sealed

	all      bool
	progress progress        // of earlier checks
	reached  progress        // of this one, once it has ended
	kept     map[string]bool // what stays as it was, because something was found there
	part     int64           // coupons that have their turn
}

// turns is the number of checks in which every coupon and every row has its turn.
const turns = 90

// Sealed says what a check of all coupons has left out.
type Sealed struct {
	Left     int64      `json:"left"`             // coupons that are not checked
	Oldest   *time.Time `json:"oldest,omitempty"` // when the first of all that were found right was last checked
	Replayed int        `json:"replayed"`         // changes of issued coupons since, which were replayed
}

const (
	allSQL = `
SELECT c.id FROM coupon c LEFT JOIN purged_coupon p ON p.coupon_id = c.id WHERE p.coupon_id IS NULL ORDER BY c.id`
	// plannedSQL has coupons that are not finalised, or were and are not sealed, or have a run or an audit event that
	// is not sealed, or were not right, or have their turn, unless a check that was stopped has looked at them.
	plannedSQL = `
SELECT x.id FROM (
    SELECT id FROM coupon FORCE INDEX (coupon_due) WHERE finalised_at IS NULL
    UNION SELECT c.id FROM coupon c FORCE INDEX (coupon_due) LEFT JOIN seal s ON s.coupon_id = c.id
        WHERE c.finalised_at >= ? AND s.coupon_id IS NULL
    UNION SELECT r.coupon_id FROM (SELECT DISTINCT coupon_id FROM settlement WHERE run_id > ?) r
        LEFT JOIN seal s ON s.coupon_id = r.coupon_id WHERE s.coupon_id IS NULL
        OR s.records < (SELECT COUNT(*) FROM settlement x WHERE x.coupon_id = r.coupon_id)
    UNION SELECT e.coupon_id FROM audit_event e LEFT JOIN seal s ON s.coupon_id = e.coupon_id AND s.audit_seq >= e.seq
        WHERE e.id > ? AND s.coupon_id IS NULL
    UNION SELECT coupon_id FROM seal WHERE wrong = TRUE
    UNION SELECT c.id FROM coupon c LEFT JOIN seal s ON s.coupon_id = c.id
        AND s.checked_at > ? AND s.checked_at <= UTC_TIMESTAMP(6)
        WHERE c.id BETWEEN ? AND ? AND s.coupon_id IS NULL
) x JOIN coupon c ON c.id = x.id LEFT JOIN purged_coupon p ON p.coupon_id = x.id
WHERE p.coupon_id IS NULL ORDER BY x.id`
	countSQL  = "SELECT COUNT(*) FROM coupon"
	oldestSQL = "SELECT MIN(checked_at) FROM seal WHERE wrong = FALSE"
)

// Plan plans a check of all coupons: of what may have changed since the last one and what has its turn, or of
// everything.
func (r *Verifier) Plan(ctx context.Context, db *sql.DB, all bool) (*Plan, error) {
	now, err := mysqltx.Now(ctx, db)
	if err != nil {
		return nil, err
	}
	p := &Plan{all: all, kept: map[string]bool{}}
	if p.progress, err = readProgress(ctx, db); err != nil {
		return nil, err
	}
	if p.reached, err = p.progress.reach(ctx, db, now); err != nil {
		return nil, err
	}
	if all {
		p.Coupons, err = mysqltx.Column[coupon.CouponID](ctx, db, allSQL)
		return p, mysqltx.Wrap(err, "read coupons")
	}
	var coupons int64
	if err := db.QueryRowContext(ctx, countSQL).Scan(&coupons); err != nil {
		return nil, mysqltx.Wrap(err, "count coupons")
	}
	p.part = coupons/turns + 1
	ended := now // no check has ended: none was stopped since
	if micros := p.progress[lastEnd]; micros > 0 {
		ended = time.UnixMicro(int64(micros)).UTC()
	}
	ids, err := p.takeTurn(ctx, db, turnOfCoupons)
	if err != nil {
		return nil, err
	}
	finalised := time.UnixMicro(int64(p.progress[seal.ProgressFinalised])).UTC()
	p.Coupons, err = mysqltx.Column[coupon.CouponID](ctx, db, plannedSQL, finalised, p.progress[recordTable.name],
		p.progress[eventTable.name], ended, ids.from, ids.to)
	if err != nil {
		return nil, mysqltx.Wrap(err, "read the coupons to check")
	}
	if err := r.addChanged(ctx, db, p); err != nil {
		return nil, err
	}
	p.Sealed.Left = max(0, coupons-int64(len(p.Coupons)))
	var oldest sql.NullTime
	err = db.QueryRowContext(ctx, oldestSQL).Scan(&oldest)
	if oldest.Valid {
		p.Sealed.Oldest = &oldest.Time
	}
	return p, mysqltx.Wrap(err, "read the oldest seal")
}

const turnSQL = "SELECT id FROM coupon WHERE id >= ? ORDER BY id LIMIT 1 OFFSET ?"

// takeTurn chooses the coupons of the next turn. After the last one it begins again.
func (p *Plan) takeTurn(ctx context.Context, db *sql.DB, name string) (ids span, err error) {
	ids = span{p.progress[name], highestID}
	var next uint64 // 0: these are the last ones
	err = db.QueryRowContext(ctx, turnSQL, ids.from, p.part).Scan(&next)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return ids, mysqltx.Wrap(err, "read the coupons whose turn it is")
	}
	if p.reached[name] = next; next > 0 {
		ids.to = next - 1
	}
	return ids, nil
}

// usedSQL counts the changes of issued coupons of sealed coupons in a range of ids of coupon_log.
const usedSQL = `
SELECT u.coupon_id, u.id, COUNT(*) FROM coupon_log l JOIN user_coupon u ON u.id = l.user_coupon_id
JOIN seal s ON s.coupon_id = u.coupon_id WHERE l.id BETWEEN ? AND ? GROUP BY u.coupon_id, u.id ORDER BY u.coupon_id`

// addChanged replays the changes of issued coupons of sealed coupons. It adds the coupons of those that do not follow
// from coupon_log: their check says what is wrong.
func (r *Verifier) addChanged(ctx context.Context, db *sql.DB, p *Plan) error {
	planned := map[coupon.CouponID]bool{}
	for _, id := range p.Coupons {
		planned[id] = true
	}
	recent := span{p.progress[logTable.name] + 1, highestID}
	err := eachPiece(ctx, db, logTable, recent, func(ids span) error {
		changed := map[coupon.CouponID][]coupon.UserCouponID{}
		err := mysqltx.Each(ctx, db, func(rows *sql.Rows) error {
			var of coupon.CouponID
			var id coupon.UserCouponID
			var changes int
			err := rows.Scan(&of, &id, &changes)
			if !planned[of] {
				changed[of] = append(changed[of], id)
				p.Sealed.Replayed += changes
			}
			return err
		}, usedSQL, ids.from, ids.to)
		if err != nil {
			return mysqltx.Wrap(err, "read changes of issued coupons")
		}
		for id, issued := range changed {
			right, err := followsFromLog(ctx, db, id, issued)
			if err != nil {
				return err
			}
			if !right {
				planned[id] = true
				p.Coupons = append(p.Coupons, id)
			}
		}
		return nil
	})
	slices.Sort(p.Coupons)
	return err
}

func followsFromLog(ctx context.Context, db *sql.DB, id coupon.CouponID,
	issued []coupon.UserCouponID) (right bool, err error) {
	var of coupon.Coupon
	err = db.QueryRowContext(ctx, couponSQL, id).Scan(of.Fields()...)
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
