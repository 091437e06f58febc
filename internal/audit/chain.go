package audit

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Origin has the fields that all events of one change share.
type Origin struct {
	At     time.Time    // UTC, to the microsecond
	Actor  string       // the operator; empty means NightlyActor
	SignIn string       // who the actor is by the sign-in of the console; empty: nobody was signed in
	Run    coupon.RunID // 0: the change is not part of a run
	Reason string
}

// Entry has the fields that differ between the events of one change.
type Entry struct {
	User    coupon.UserID // 0: the event is about the coupon as a whole
	Payload Payload       // its type is the one that Payloads has for the action
	Seats   int64         // by how much the change has moved the coupon's total_quantity
}

// ErrForked means that a chain has events after its head: events were added, or the head was moved back.
var ErrForked = errors.New("the chain of audit events goes on after its head")

const (
	// The seats are of use to the first event of a chain alone.
	beginSQL = `
SELECT CURRENT_USER(), COALESCE(h.seq, 0), COALESCE(h.hash, ''), COALESCE(c.total_quantity, 0)
FROM (SELECT ? AS id) o LEFT JOIN audit_head h ON h.coupon_id = o.id LEFT JOIN coupon c ON c.id = o.id`

	insertSQL = "INSERT INTO audit_event (seq, at, actor, action, coupon_id, user_id, user_salt, user_hash, run_id, " +
		"reason, detail, seats, account, sign_in, hash) VALUES "
	columns = 15 // columns of insertSQL

	moveHeadSQL = "INSERT INTO audit_head (coupon_id, seq, hash) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE seq = " +
		"VALUES(seq), hash = VALUES(hash)"

	maxBatch = 200 // events in one INSERT, which has then at most 2 MB
)

// Append adds one event per entry to the coupon's chain. tx must hold the lock of the coupon's row. A change of the
// seats is written before its event, and other events of the same change before it: the seats of a chain add up to
// total_quantity.
func Append(ctx context.Context, tx mysqltx.Querier, origin Origin, action Action, couponID coupon.CouponID,
	entries ...Entry) error {
	if len(entries) == 0 {
		return nil
	}
	event := Event{At: origin.At, Actor: origin.actor(), Action: action, Coupon: couponID, Run: idOrNull(origin.Run),
		Reason: origin.Reason, SignIn: origin.SignIn}
	var head Head
	var seats int64
	err := tx.QueryRowContext(ctx, beginSQL, couponID).Scan(&event.Account, &head.Seq, &head.Hash, &seats)
	if err != nil {
		return mysqltx.Wrap(err, "read end of the audit chain of coupon %d", couponID)
	}
	if head.Seq == 0 {
		entries = slices.Clone(entries)
		entries[0].Seats = seats
	}
	for batch := range slices.Chunk(entries, maxBatch) {
		if head, err = insert(ctx, tx, head, event, batch); err != nil {
			return fmt.Errorf("audit %s of coupon %d: %w", action, couponID, err)
		}
	}
	err = mysqltx.Upsert(ctx, tx, moveHeadSQL, couponID, head.Seq, head.Hash)
	return mysqltx.Wrap(err, "move head of the audit chain of coupon %d", couponID)
}

func insert(ctx context.Context, tx mysqltx.Querier, head Head, event Event, entries []Entry) (Head, error) {
	var rows []any
	for _, entry := range entries {
		head.Seq++
		detail, err := Encode(event.Action, entry.Payload)
		if err != nil {
			return head, err
		}
		event.Seq, event.User, event.Detail, event.Seats = head.Seq, idOrNull(entry.User), detail, entry.Seats
		event.hideUser()
		head.Hash = event.Hash(head.Hash)
		rows = append(rows, event.Seq, event.At, event.Actor, event.Action, event.Coupon, event.User, event.UserSalt,
			event.UserHash, event.Run, event.Reason, event.Detail, event.Seats, event.Account, event.SignIn, head.Hash)
	}
	err := mysqltx.Exec(ctx, tx, len(entries), insertSQL+mysqltx.List(mysqltx.In(columns), len(entries)), rows...)
	if mysqltx.IsDuplicate(err) {
		err = &coupon.Error{Class: coupon.Invariant,
			Err: fmt.Errorf("%w: %w; nothing was changed; run `settle verify`", ErrForked, err)}
	}
	return head, err
}

const saltBytes = 16

func (e *Event) hideUser() {
	e.UserSalt, e.UserHash = nil, nil
	if e.User != nil {
		e.UserSalt = make([]byte, saltBytes)
		_, _ = rand.Read(e.UserSalt) // never fails
		e.UserHash = hashUser(e.UserSalt, *e.User)
	}
}

const recordedSQL = "SELECT EXISTS (SELECT 1 FROM audit_event WHERE coupon_id = ? AND action = ? AND actor = ? AND " +
	"at = ? AND run_id <=> ?)"

// Recorded reports whether Append has recorded the change. The reason is not compared.
func Recorded(ctx context.Context, q mysqltx.Querier, origin Origin, action Action,
	couponID coupon.CouponID) (found bool, err error) {
	err = q.QueryRowContext(ctx, recordedSQL, couponID, action, origin.actor(), origin.At,
		idOrNull(origin.Run)).Scan(&found)
	return found, mysqltx.Wrap(err, "read audit of coupon %d", couponID)
}

const recordedOfUserSQL = "SELECT EXISTS (SELECT 1 FROM audit_event WHERE coupon_id = ? AND action = ? AND actor = ? " +
	"AND at = ? AND user_id = ?)"

// RecordedOfUser reports whether Append has recorded a change of one user, outside any run. The reason is not compared.
// It is only for a transaction that runs again within one command: `settle user forget` removes the user from the
// events later.
func RecordedOfUser(ctx context.Context, q mysqltx.Querier, origin Origin, action Action, couponID coupon.CouponID,
	user coupon.UserID) (found bool, err error) {
	err = q.QueryRowContext(ctx, recordedOfUserSQL, couponID, action, origin.actor(), origin.At, user).Scan(&found)
	return found, mysqltx.Wrap(err, "read audit of coupon %d", couponID)
}

const happenedSQL = "SELECT EXISTS (SELECT 1 FROM audit_event WHERE coupon_id = ? AND action = ? AND user_id = ? AND " +
	"detail = ?)"

// Happened reports whether Append has recorded this act of anybody about a user.
func Happened(ctx context.Context, q mysqltx.Querier, action Action, couponID coupon.CouponID, user coupon.UserID,
	payload Payload) (found bool, err error) {
	detail, err := Encode(action, payload)
	if err == nil {
		err = q.QueryRowContext(ctx, happenedSQL, couponID, action, user, detail).Scan(&found)
	}
	return found, mysqltx.Wrap(err, "read audit of coupon %d", couponID)
}

func (o Origin) actor() string { return cmp.Or(o.Actor, NightlyActor) }

func idOrNull[ID coupon.UserID | coupon.RunID](id ID) *ID {
	if id == 0 {
		return nil
	}
	return &id
}

type Head struct {
	Seq  uint64 `json:"seq"`  // number of the last event; 0: the chain is empty
	Hash string `json:"hash"` // hash of the last event
}

const headSQL = "SELECT seq, hash FROM audit_head WHERE coupon_id = ?"

// ReadHead returns the end of a coupon's chain. It is the zero Head if there are no events.
func ReadHead(ctx context.Context, q mysqltx.Querier, couponID coupon.CouponID) (head Head, err error) {
	err = q.QueryRowContext(ctx, headSQL, couponID).Scan(&head.Seq, &head.Hash)
	if errors.Is(err, sql.ErrNoRows) {
		return Head{}, nil
	}
	return head, mysqltx.Wrap(err, "read end of the audit chain of coupon %d", couponID)
}

// Chained is a FROM clause for the events e of a chain. It leaves out rows that the program did not write.
const Chained = " FROM audit_event e JOIN audit_head h ON h.coupon_id = e.coupon_id AND e.seq BETWEEN 1 AND h.seq "

type Verdict struct {
	Head     Head
	Changed  Damage // events that differ from what was written
	Removed  Damage // events that are missing, in the middle or at the end
	Inserted int64  // rows outside the chain
}

type Damage struct {
	Count int64
	First uint64 // Seq of the first damaged event
}

const checkSQL = `
SELECT seq, at, actor, action, coupon_id, user_id, user_salt, user_hash, run_id, reason, detail, seats, account,
    sign_in, COALESCE(hash, '')
FROM audit_event WHERE coupon_id = ? ORDER BY seq, id`

// Check visits each intact event of a chain. It hashes an event with the stored hash of the one before, so that a
// changed event does not make the later events count as changed.
func Check(ctx context.Context, q mysqltx.Querier, couponID coupon.CouponID, visit func(Event)) (v Verdict, err error) {
	if v.Head, err = ReadHead(ctx, q, couponID); err != nil {
		return v, err
	}
	next, previous := uint64(1), "" // the next event's number, and the stored hash of the event before it
	present, intact := true, true   // whether the event before it was there, and whether its hash was right
	skipTo := func(seq uint64) {
		if seq > next {
			v.Removed.add(next, int64(seq-next))
			present = false
		}
	}
	err = mysqltx.Each(ctx, q, func(rows *sql.Rows) error {
		var e Event
		var seq sql.Null[uint64]
		var hash string
		if err := rows.Scan(&seq, &e.At, &e.Actor, &e.Action, &e.Coupon, &e.User, &e.UserSalt, &e.UserHash, &e.Run,
			&e.Reason, &e.Detail, &e.Seats, &e.Account, &e.SignIn, &hash); err != nil {
			return err
		}
		e.Seq = seq.V // NULL becomes 0, which is no event's number
		if e.Seq < next || e.Seq > v.Head.Seq {
			v.Inserted++
			return nil
		}
		skipTo(e.Seq)
		if intact = e.userIntact() && (!present || e.Hash(previous) == hash); intact {
			visit(e)
		} else {
			v.Changed.add(e.Seq, 1)
		}
		next, previous, present = e.Seq+1, hash, true
		return nil
	}, checkSQL, couponID)
	skipTo(v.Head.Seq + 1)
	if v.Head.Seq > 0 && present && intact && previous != v.Head.Hash { // the last event and its hash were changed
		v.Changed.add(v.Head.Seq, 1)
	}
	return v, err
}

func (d *Damage) add(first uint64, n int64) {
	d.First = cmp.Or(d.First, first)
	d.Count += n
}
