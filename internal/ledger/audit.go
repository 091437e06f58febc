package ledger

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"time"
)

// AuditEvent is a row of audit_event: who did what to a coupon or one of its users, why, when. The events of a coupon
// are a chain, numbered from 1.
//
// What the chain shows by itself: an event that was changed, taken away or added by somebody who cannot also write every
// event behind it and audit_head. Who can write both tables can make up another chain. No table can prevent that; what
// has been printed can: the number and hash of a chain's end, as `settle verify` says them, bind every event up to
// there, and a chain that has another hash for that number is another chain.
type AuditEvent struct {
	Seq    uint64
	At     time.Time // to the microsecond
	Actor  string
	Action string
	Coupon uint64
	User   *uint64 // nil: nobody in particular
	Run    *uint64 // nil: outside any
	Reason string
	Detail string
}

// Hash binds an event to the one before: SHA-256 over that one's hash, empty for the first, and every column as it is
// stored. Each field has its length in bytes before it, or is - for NULL, so that no two events read alike. Left out is
// only the id, which the database gives when the row is written; the number says the same.
func (e AuditEvent) Hash(previous string) string {
	h := sha256.New()
	writeField(h, previous)
	writeField(h, strconv.FormatUint(e.Seq, 10))
	writeField(h, strconv.FormatInt(e.At.UnixMicro(), 10))
	writeField(h, e.Actor)
	writeField(h, e.Action)
	writeField(h, strconv.FormatUint(e.Coupon, 10))
	for _, id := range []*uint64{e.User, e.Run} {
		if id != nil {
			writeField(h, strconv.FormatUint(*id, 10))
		} else {
			_, _ = h.Write([]byte{'-'}) // a hash takes everything
		}
	}
	writeField(h, e.Reason)
	writeField(h, e.Detail)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func writeField(h hash.Hash, text string) { fmt.Fprintf(h, "%d:%s", len(text), text) }

// Head is the end of a coupon's chain of events.
type Head struct {
	Seq  uint64 `json:"seq"`  // of the last event; 0: there is none
	Hash string `json:"hash"` // of the last event
}

const auditHeadSQL = "SELECT seq, hash FROM audit_head WHERE coupon_id = ?"

// AuditHead reads the end of a coupon's chain; 0 and an empty hash when there are no events. Who is going to add to the
// chain must hold the coupon's lock.
func AuditHead(ctx context.Context, q interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, coupon uint64) (head Head, err error) {
	err = q.QueryRowContext(ctx, auditHeadSQL, coupon).Scan(&head.Seq, &head.Hash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return Head{}, fmt.Errorf("read end of the audit chain of coupon %d: %w", coupon, err)
	}
	return head, nil
}

// auditSQL has the events without a number first, and those with one number, which a unique key prevents, side by side.
const auditSQL = `
SELECT seq, at, actor, action, coupon_id, user_id, run_id, reason, detail, COALESCE(hash, '')
FROM audit_event WHERE coupon_id = ? ORDER BY seq, id`

// checkAudit walks the chain of events. An event is judged by the hash stored with the one before it, so that each
// change is found once and not again in all events behind.
func checkAudit(ctx context.Context, tx *sql.Tx, v *Verdict) (err error) {
	if v.AuditHead, err = AuditHead(ctx, tx, v.Coupon); err != nil {
		return err
	}
	rows, err := tx.QueryContext(ctx, auditSQL, v.Coupon)
	if err != nil {
		return err
	}
	defer rows.Close()
	c := chain{head: v.AuditHead, next: 1, whole: true}
	for rows.Next() {
		var e AuditEvent
		var seq sql.Null[uint64]
		var hash string
		if err := rows.Scan(&seq, &e.At, &e.Actor, &e.Action, &e.Coupon, &e.User, &e.Run, &e.Reason, &e.Detail, &hash); err != nil {
			return err
		}
		e.Seq = seq.V // 0 for NULL, which no event has
		if c.add(e, hash) {
			v.signed.note(e)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	c.end()
	if c.changed > 0 {
		v.find(6, AuditChanged, c.changed, "%d audit events are not what they were when written, the first of them event %d", c.changed, c.firstChanged)
	}
	if c.removed > 0 {
		v.find(6, AuditRemoved, c.removed, "%d audit events are gone, the first of them event %d; there were %d", c.removed, c.firstRemoved, c.head.Seq)
	}
	if c.inserted > 0 {
		v.find(6, AuditInserted, c.inserted, "%d audit events were not written by the program: the chain ends with event %d", c.inserted, c.head.Seq)
	}
	return nil
}

// chain is what has been seen of a coupon's events.
type chain struct {
	head     Head
	next     uint64 // the number that comes next
	previous string // the hash stored with the event before
	whole    bool   // that event was there
	right    bool   // and was what it says

	changed, removed, inserted int64
	firstChanged, firstRemoved uint64
}

// add says whether the event is what it was when written.
func (c *chain) add(e AuditEvent, hash string) bool {
	if e.Seq < c.next || e.Seq > c.head.Seq {
		c.inserted++
		return false
	}
	c.miss(e.Seq)
	c.right = !c.whole || e.Hash(c.previous) == hash
	if !c.right {
		c.change(e.Seq)
	}
	c.next, c.previous, c.whole = e.Seq+1, hash, true
	return c.right
}

// miss counts what should have come before seq.
func (c *chain) miss(seq uint64) {
	if seq == c.next {
		return
	}
	if c.removed == 0 {
		c.firstRemoved = c.next
	}
	c.removed += int64(seq - c.next)
	c.whole = false
}

func (c *chain) change(seq uint64) {
	if c.changed == 0 {
		c.firstChanged = seq
	}
	c.changed++
}

// end compares the last event with the head, which knows it also when it was changed and its hash with it.
func (c *chain) end() {
	c.miss(c.head.Seq + 1)
	if c.head.Seq > 0 && c.whole && c.right && c.previous != c.head.Hash {
		c.change(c.head.Seq)
	}
}
