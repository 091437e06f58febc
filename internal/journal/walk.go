package journal

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/standing"
)

const (
	countSQL = "SELECT COUNT(*) FROM line_journal WHERE coupon_id = ?"
	rowsSQL  = `
SELECT arrival, user_id FROM line_journal
WHERE coupon_id = ? AND arrival BETWEEN ? AND ? AND (arrival > ? OR user_id > ?) AND user_id > 0
ORDER BY arrival, user_id LIMIT ?`
)

// walk compares everybody in the journal, by arrival, with Redis and then with MySQL: a settled application is in MySQL
// before it leaves Redis. It enters who is accounted for nowhere.
func (r *restore) walk(ctx context.Context) error {
	var of int64
	if err := r.tx.QueryRowContext(ctx, countSQL, r.coupon.ID).Scan(&of); err != nil {
		return mysqltx.Wrap(err, "count the journal of coupon %d", r.coupon.ID)
	}
	r.done.Compared, r.done.Impossible, r.done.Again, r.later = 0, 0, 0, 0
	for last := (coupon.Answer{}); ; {
		page, err := mysqltx.Collect(ctx, r.tx, func(a *coupon.Answer) []any { return []any{&a.Arrival, &a.User} },
			rowsSQL, r.coupon.ID, last.Arrival, coupon.MaxArrival, last.Arrival, last.User, MaxRows)
		if err != nil || len(page) == 0 {
			return mysqltx.Wrap(err, "read the journal of coupon %d", r.coupon.ID)
		}
		last = page[len(page)-1]
		if err := r.compare(ctx, page); err != nil {
			return err
		}
		r.done.Compared += int64(len(page))
		if r.Progress != nil {
			r.Progress(r.done.Compared, max(of, r.done.Compared))
		}
	}
}

func (r *restore) compare(ctx context.Context, page []coupon.Answer) error {
	redis, cancel := mysqltx.Meanwhile(ctx)
	defer cancel()
	absent, err := r.absent(redis, page)
	if err != nil {
		return err
	}
	lost, err := unsettled(ctx, r.tx, r.coupon.ID, absent)
	if err != nil {
		return err
	}
	return r.enter(ctx, r.possibleOf(lost))
}

// absent returns those who do not stand in Redis at their arrival or an earlier one.
func (r *restore) absent(ctx context.Context, page []coupon.Answer) (all []coupon.Answer, err error) {
	for part := range slices.Chunk(page, candidates.MaxCompared) {
		some, err := r.Line.Absent(ctx, r.coupon.ID, part)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// possibleOf leaves out arrivals at which nobody can have applied. `settle verify` names them.
func (r *restore) possibleOf(lost []candidates.Entry) []candidates.Entry {
	return slices.DeleteFunc(lost, func(e candidates.Entry) bool {
		impossible := !r.possible(e.Arrival)
		if impossible {
			r.done.Impossible++
			if r.opened(e.Arrival) {
				r.later++
				if ahead := e.Arrival.Time().Sub(r.look.Now); ahead <= waitedFor {
					r.done.Again = max(r.done.Again, ahead-coupon.MaxAhead)
				}
			}
		}
		return impossible
	})
}

// waitedFor is how far an arrival may be ahead of the clock, so that restores are repeated until they can enter it: the
// clock of the server before was ahead, or that of this one is late.
const waitedFor = time.Minute

// possible reports whether somebody can have applied at an arrival: after the opening, and not ahead of the clock. It
// may lie after the end of the window: a pod, or a server that serves again, may not have known that an operator closed
// the coupon, and whoever was told stands.
func (r *restore) possible(a coupon.Arrival) bool {
	return r.opened(a) && a <= coupon.ArrivalAt(r.look.Now.Add(coupon.MaxAhead))
}

func (r *restore) opened(a coupon.Arrival) bool { return a >= coupon.ArrivalAt(r.coupon.OpensAt) }

// deservesARow reports whether an arrival may become possible. A row at another one could never be deleted.
func (r *restore) deservesARow(a coupon.Arrival) bool {
	return r.possible(a) || r.opened(a) && a < coupon.ArrivalAt(r.coupon.ClosesAt)
}

// enter enters applications that are in the journal. The change before it is only committed by a server that still is
// the primary: one that was replaced, and that this session still reaches, is read-only or gets no acknowledgement. It
// knows nothing of the settlements of the new one, whose winners would stand again.
func (r *restore) enter(ctx context.Context, lost []candidates.Entry) error {
	if r.order.DryRun {
		for _, e := range lost {
			fmt.Fprintf(r.done.lost, "%d %d\n", e.Arrival, e.User)
		}
		r.done.Back += int64(len(lost))
		return nil
	}
	if len(lost) == 0 {
		return nil
	}
	err := r.beside(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return mysqltx.Exec(ctx, tx, 1, wroteSQL, r.coupon.ID)
	})
	if err != nil {
		return err
	}
	ctx, cancel := mysqltx.Meanwhile(ctx)
	defer cancel()
	for part := range slices.Chunk(lost, candidates.MaxEntered) {
		put, err := r.Line.Enter(ctx, r.coupon.ID, r.look.Epoch, part)
		if err != nil {
			return err
		}
		if put.Epoch != r.look.Epoch {
			return promise.ErrTakenOver
		}
		r.done.Back, r.done.Moved = r.done.Back+put.Entered, r.done.Moved+put.Moved
	}
	return nil
}

// past is what MySQL has of a user for a coupon.
type past struct {
	byRun, byHand bool               // the user has the coupon, from a run or given by hand
	outcomes      []standing.Outcome // rows of table application_outcome
}

// accountedBelow returns the arrival below which the user is accounted for. A coupon given by hand answers no
// application.
func (p past) accountedBelow() coupon.Arrival {
	if p.byRun {
		return coupon.MaxArrival + 1
	}
	return standing.AccountedBelow(p.outcomes)
}

const (
	couponsSQL  = "SELECT user_id, 'ISSUED', run_id IS NULL, 0, 0 FROM user_coupon WHERE coupon_id = ? AND user_id IN "
	outcomesSQL = `
UNION ALL
SELECT o.user_id, o.outcome, FALSE, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', o.applied_at),
       COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', r.cutoff), 0)
FROM application_outcome o LEFT JOIN settlement_run r ON r.id = o.run_id WHERE o.coupon_id = ? AND o.user_id IN `
)

// readPasts reads what MySQL has of up to MaxRows users. It has nothing of those who are missing.
func readPasts(ctx context.Context, q mysqltx.Querier, id coupon.CouponID,
	users ...coupon.UserID) (map[coupon.UserID]past, error) {
	args := []any{id}
	for _, user := range users {
		args = append(args, user)
	}
	all, in := map[coupon.UserID]past{}, mysqltx.In(len(users))
	err := mysqltx.Each(ctx, q, func(rows *sql.Rows) error {
		var user coupon.UserID
		var o standing.Outcome
		var byHand bool
		err := rows.Scan(&user, &o.Outcome, &byHand, &o.Arrival, &o.Cutoff)
		p := all[user]
		switch {
		case o.Outcome != coupon.OutcomeIssued:
			p.outcomes = append(p.outcomes, o)
		case byHand:
			p.byHand = true
		default:
			p.byRun = true
		}
		all[user] = p
		return err
	}, couponsSQL+in+outcomesSQL+in, slices.Concat(args, args)...)
	return all, mysqltx.Wrap(err, "look for coupons and outcomes of coupon %d", id)
}

// unsettled leaves out those whom MySQL accounts for.
func unsettled(ctx context.Context, q mysqltx.Querier, id coupon.CouponID,
	absent []coupon.Answer) (lost []candidates.Entry, err error) {
	for some := range slices.Chunk(absent, MaxRows) {
		users := make([]coupon.UserID, len(some))
		for i, a := range some {
			users[i] = a.User
		}
		pasts, err := readPasts(ctx, q, id, users...)
		if err != nil {
			return nil, err
		}
		for _, a := range some {
			if p := pasts[a.User]; a.Arrival >= p.accountedBelow() {
				lost = append(lost, candidates.Entry{Answer: a, ByHand: p.byHand})
			}
		}
	}
	return lost, nil
}
