// Package promise says whether accepted applications of a coupon are missing, and whether a restore is due. Package
// journal has the restore, and tells why nobody is lost.
package promise

import (
	"context"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Books are what MySQL has of a coupon's promises: its rows in the tables journal and settled.
type Books struct {
	Mark
	Accepted int64 // the highest count of a restored server
	Unfound  int64 // promises that restores did not find
	Asked    int64 // how often a restore was asked for, since the last one

	Issued      int64 // rows of user_coupon from runs
	Concluded   int64 // rows of application_outcome
	WrittenOff  int64 // lost promises that an operator has accepted
	Erased      int64 // outcomes of users who were forgotten
	SettledUpTo coupon.Arrival
}

// Mark says how far the journal came.
type Mark struct {
	Epoch string         // of the server that was copied; empty: none was
	UpTo  coupon.Arrival // who stood there at this arrival or before it is in the journal, or was settled
}

// Covers reports whether the journal has, or MySQL has settled, who was told an arrival in an epoch.
func (m Mark) Covers(epoch string, arrival coupon.Arrival) bool {
	return m.Epoch != "" && m.Epoch == epoch && arrival <= m.UpTo
}

// Columns are the columns that Fields scans. Tables journal and settled have the aliases j and s, and may lack a row.
const Columns = `COALESCE(j.epoch, ''), COALESCE(j.up_to, 0), COALESCE(j.accepted, 0), COALESCE(j.unfound, 0),
    COALESCE(j.asked, 0), COALESCE(s.issued, 0), COALESCE(s.concluded, 0), COALESCE(s.written_off, 0),
    COALESCE(s.erased, 0), COALESCE(s.settled_up_to, 0)`

func (b *Books) Fields() []any {
	return []any{&b.Epoch, &b.UpTo, &b.Accepted, &b.Unfound, &b.Asked, &b.Issued, &b.Concluded, &b.WrittenOff,
		&b.Erased, &b.SettledUpTo}
}

const (
	// readTimeout bounds one statement.
	readTimeout = 2 * time.Second
	booksSQL    = "SELECT " + Columns + `
FROM (SELECT ? AS id) o LEFT JOIN journal j ON j.coupon_id = o.id LEFT JOIN settled s ON s.coupon_id = o.id`
)

// Read reads the books of a coupon. Without rows, all of them are zero.
func Read(ctx context.Context, q mysqltx.Querier, couponID coupon.CouponID) (b Books, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err = q.QueryRowContext(ctx, booksSQL, couponID).Scan(b.Fields()...)
	return b, mysqltx.Wrap(err, "read journal and sums of coupon %d", couponID)
}

// Highest is the highest arrival that MySQL knows.
func (b Books) Highest() coupon.Arrival { return max(b.UpTo, b.SettledUpTo) }

// Settled returns how many promises MySQL accounts for.
func (b Books) Settled() int64 { return b.Issued + b.Concluded + b.WrittenOff + b.Erased }

// Missing returns how many promises are missing, or less. The line must have been read before the books: a settlement
// commits before it removes anybody from Redis, so that an application that moves meanwhile counts twice.
func (b Books) Missing(l coupon.Line) int64 {
	return max(0, l.Accepted-b.Settled()-l.Waiting-l.DLQ)
}

// Lost reports whether a user who is found nowhere may be one whose promise is missing, unknown or written off.
func (b Books) Lost(l coupon.Line) bool { return b.Missing(l)+b.Unfound+b.WrittenOff > 0 }

// Ahead reports whether somebody has written the last arrival: it lies above every arrival that Redis or MySQL knows,
// and no application can have it. Then Redis accepts nobody. The look must have been taken before the books. It is no
// Cause: nobody is missing, and only `settle serve` restores for it.
func (b Books) Ahead(l coupon.Look) bool { return l.Last > max(l.Latest(), l.Highest, b.Highest()) }

// Cause is why a restore is due.
type Cause string

const (
	NotDue     Cause = ""
	NewServer  Cause = "NEW_SERVER"  // the server, or its state, was not compared with the journal since another served
	Missing    Cause = "MISSING"     // more promises are missing than the last restore has left
	HandedOver Cause = "HANDED_OVER" // pods have handed over users who may be missing
	AskedFor   Cause = "ASKED_FOR"   // a pod, a copy or a settlement has asked for a restore
)

// Due returns why a restore is due. The line must have been read before the books. Only two looks can tell whether
// users lack their marks: a clean-up may be about to mark them.
func (b Books) Due(l coupon.Line) Cause {
	switch {
	case l.Since == 0 || !l.Restored || b.Epoch != "" && b.Epoch != l.Epoch:
		return NewServer
	case b.Missing(l) > l.Left:
		return Missing
	case l.Returned > 0:
		return HandedOver
	case b.Asked > 0:
		return AskedFor
	default:
		return NotDue
	}
}
