package audit

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Origin are the common fields of the events of one change.
type Origin struct {
	At     time.Time    // UTC, to the microsecond
	Actor  string       // the operator; empty: NightlyActor
	Run    coupon.RunID // 0: outside any run
	Reason string
}

// Entry are the fields that differ between the events of one change.
type Entry struct {
	User   coupon.UserID // 0: the coupon as a whole
	Detail string        // Append cuts it to the column's width
}

type RowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// ErrForked reports events after the head of a chain: events were added, or the head was moved back.
var ErrForked = errors.New("the chain of audit events goes on after its head")

const (
	insertSQL = "INSERT INTO audit_event (seq, at, actor, action, coupon_id, user_id, run_id, reason, detail, hash) VALUES "
	insertRow = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

	moveHeadSQL = "INSERT INTO audit_head (coupon_id, seq, hash) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE seq = ?, hash = ?"

	maxBatch         = 200  // bounds one INSERT to 2 MB
	maxDetailLetters = 2000 // of the column
)

// Append adds one event per entry to the coupon's chain. tx must hold the coupon's lock.
func Append(ctx context.Context, tx mysqltx.Querier, origin Origin, action Action, couponID coupon.CouponID, entries ...Entry) error {
	if len(entries) == 0 {
		return nil
	}
	head, err := ReadHead(ctx, tx, couponID)
	if err != nil {
		return err
	}
	event := Event{At: origin.At, Actor: origin.actor(), Action: action, Coupon: couponID, Run: idOrNull(origin.Run), Reason: origin.Reason}
	for batch := range slices.Chunk(entries, maxBatch) {
		if head, err = insert(ctx, tx, head, event, batch); err != nil {
			return fmt.Errorf("audit %s of coupon %d: %w", action, couponID, err)
		}
	}
	if _, err := tx.ExecContext(ctx, moveHeadSQL, couponID, head.Seq, head.Hash, head.Seq, head.Hash); err != nil {
		return fmt.Errorf("move head of the audit chain of coupon %d: %w", couponID, err)
	}
	return nil
}

func insert(ctx context.Context, tx mysqltx.Querier, head Head, event Event, entries []Entry) (Head, error) {
	var args []any
	for _, entry := range entries {
		head.Seq++
		event.Seq, event.User, event.Detail = head.Seq, idOrNull(entry.User), mysqltx.Shorten(entry.Detail, maxDetailLetters)
		head.Hash = event.Hash(head.Hash)
		args = append(args, event.Seq, event.At, event.Actor, event.Action, event.Coupon, event.User, event.Run, event.Reason, event.Detail, head.Hash)
	}
	stored, err := mysqltx.Affected(tx.ExecContext(ctx, insertSQL+strings.Repeat(insertRow+", ", len(entries)-1)+insertRow, args...))
	if mysqltx.IsDuplicate(err) {
		return head, &coupon.Error{Class: coupon.Invariant, Err: fmt.Errorf("%w: %w; nothing was changed; run `settle verify`", ErrForked, err)}
	}
	if err == nil && stored != len(entries) {
		err = fmt.Errorf("%d rows stored, want %d", stored, len(entries))
	}
	return head, err
}

const (
	recordedSQL   = "SELECT EXISTS (SELECT 1 FROM audit_event WHERE coupon_id = ? AND run_id = ? AND action = ?)"
	recordedBySQL = "SELECT EXISTS (SELECT 1 FROM audit_event WHERE coupon_id = ? AND actor = ? AND at = ? AND action = ?)"
)

func Recorded(ctx context.Context, q RowQuerier, run coupon.RunID, action Action, couponID coupon.CouponID) (bool, error) {
	return exists(ctx, q, couponID, recordedSQL, couponID, run, action)
}

// RecordedBy is for changes outside any run, which their actor and time identify.
func RecordedBy(ctx context.Context, q RowQuerier, origin Origin, action Action, couponID coupon.CouponID) (bool, error) {
	return exists(ctx, q, couponID, recordedBySQL, couponID, origin.actor(), origin.At, action)
}

func exists(ctx context.Context, q RowQuerier, couponID coupon.CouponID, query string, args ...any) (found bool, err error) {
	if err := q.QueryRowContext(ctx, query, args...).Scan(&found); err != nil {
		return false, fmt.Errorf("read audit of coupon %d: %w", couponID, err)
	}
	return found, nil
}

func (o Origin) actor() string { return cmp.Or(o.Actor, NightlyActor) }

func idOrNull[ID coupon.UserID | coupon.RunID](id ID) *ID {
	if id == 0 {
		return nil
	}
	return &id
}
