package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

type Head struct {
	Seq  uint64 `json:"seq"`  // of the last event; 0: the chain is empty
	Hash string `json:"hash"` // of the last event
}

const headSQL = "SELECT seq, hash FROM audit_head WHERE coupon_id = ?"

// ReadHead reads the end of a coupon's chain; zero without events.
func ReadHead(ctx context.Context, q RowQuerier, couponID coupon.CouponID) (head Head, err error) {
	err = q.QueryRowContext(ctx, headSQL, couponID).Scan(&head.Seq, &head.Hash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return Head{}, fmt.Errorf("read end of the audit chain of coupon %d: %w", couponID, err)
	}
	return head, nil
}

// Chained is the FROM clause of the events e of a chain. Other rows were not written by the program.
const Chained = " FROM audit_event e JOIN audit_head h ON h.coupon_id = e.coupon_id AND e.seq BETWEEN 1 AND h.seq "

// Verdict is what Check found in one chain.
type Verdict struct {
	Head     Head
	Changed  Damage // events that differ from what was written
	Removed  Damage // events that are missing, in the middle or at the end
	Inserted int64  // rows outside the chain
}

// Damage counts damaged events and names the first.
type Damage struct {
	Count int64
	First uint64 // its Seq
}

const checkSQL = `
SELECT seq, at, actor, action, coupon_id, user_id, run_id, reason, detail, COALESCE(hash, '')
FROM audit_event WHERE coupon_id = ? ORDER BY seq, id`

// Check visits each intact event of a chain. It hashes with the stored hash of the previous event, so that each change is
// found once.
func Check(ctx context.Context, q mysqltx.Querier, couponID coupon.CouponID, visit func(Event)) (Verdict, error) {
	head, err := ReadHead(ctx, q, couponID)
	if err != nil {
		return Verdict{}, err
	}
	w := walk{Verdict: Verdict{Head: head}, next: 1, present: true}
	err = mysqltx.Each(ctx, q, func(rows *sql.Rows) error {
		var e Event
		var seq sql.Null[uint64]
		var hash string
		err := rows.Scan(&seq, &e.At, &e.Actor, &e.Action, &e.Coupon, &e.User, &e.Run, &e.Reason, &e.Detail, &hash)
		e.Seq = seq.V // 0 for NULL, which no event has
		if err == nil && w.add(e, hash) {
			visit(e)
		}
		return err
	}, checkSQL, couponID)
	w.end()
	return w.Verdict, err
}

type walk struct {
	Verdict
	next     uint64 // the expected number
	previous string // the hash stored with the previous event
	present  bool   // the previous event was there
	intact   bool   // and its hash was right
}

func (w *walk) add(e Event, hash string) bool {
	if e.Seq < w.next || e.Seq > w.Head.Seq {
		w.Inserted++
		return false
	}
	w.skipTo(e.Seq)
	w.intact = !w.present || e.Hash(w.previous) == hash
	if !w.intact {
		w.Changed.add(e.Seq, 1)
	}
	w.next, w.previous, w.present = e.Seq+1, hash, true
	return w.intact
}

func (w *walk) skipTo(seq uint64) {
	if seq > w.next {
		w.Removed.add(w.next, int64(seq-w.next))
		w.present = false
	}
}

// end compares the last event with the head, which shows a change of both the event and its hash.
func (w *walk) end() {
	w.skipTo(w.Head.Seq + 1)
	if w.Head.Seq > 0 && w.present && w.intact && w.previous != w.Head.Hash {
		w.Changed.add(w.Head.Seq, 1)
	}
}

func (d *Damage) add(first uint64, n int64) {
	if d.Count == 0 {
		d.First = first
	}
	d.Count += n
}
