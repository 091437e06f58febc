package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Action is the kind of change: audit_event.action.
type Action string

// The actions.
const (
	GapHeld      Action = "GAP_HELD"
	CountHeld    Action = "COUNT_HELD"
	GapAccepted  Action = "GAP_ACCEPTED"
	DLQRetried   Action = "DLQ_RETRIED"
	DLQDropped   Action = "DLQ_DROPPED"
	ManualSettle Action = "SETTLED_BY_HAND"

	CouponCreated     Action = "COUPON_CREATED"
	CouponClosed      Action = "COUPON_CLOSED"
	CouponExtended    Action = "COUPON_EXTENDED"
	CouponPaused      Action = "COUPON_PAUSED"
	CouponResumed     Action = "COUPON_RESUMED"
	CouponSeats       Action = "COUPON_SEATS_CHANGED"
	CouponRecounted   Action = "COUPON_RECOUNTED"
	CouponUnfinalised Action = "COUPON_UNFINALISED" // its Redis keys had been swept
)

// Actions are all of them.
var Actions = []Action{GapHeld, CountHeld, GapAccepted, DLQRetried, DLQDropped, ManualSettle, CouponCreated,
	CouponClosed, CouponExtended, CouponPaused, CouponResumed, CouponSeats, CouponRecounted, CouponUnfinalised}

// NightlyActor is the actor of events that no operator caused.
const NightlyActor = "settle"

// Event is a row of audit_event without its id and hash.
type Event struct {
	Seq    uint64    // from 1 within a coupon; 0: the row has none
	At     time.Time // to the microsecond
	Actor  string
	Action Action
	Coupon coupon.CouponID
	User   *coupon.UserID // nil: the coupon as a whole
	Run    *coupon.RunID  // nil: outside any run
	Reason string
	Detail string
}

// Hash binds an event to the previous one: SHA-256 over the previous hash, empty for the first event, and every column. A length
// in bytes precedes each field, and NULL is -, so that two different events never hash the same bytes. The id is left out,
// because the database assigns it as it stores the row.
func (e Event) Hash(previous string) string {
	h := sha256.New()
	writeField(h, previous)
	writeField(h, strconv.FormatUint(e.Seq, 10))
	writeField(h, strconv.FormatInt(e.At.UnixMicro(), 10))
	writeField(h, e.Actor)
	writeField(h, string(e.Action))
	writeField(h, strconv.FormatUint(e.Coupon, 10))
	for _, id := range []*uint64{e.User, e.Run} {
		if id != nil {
			writeField(h, strconv.FormatUint(*id, 10))
		} else {
			_, _ = h.Write([]byte{'-'}) // never fails
		}
	}
	writeField(h, e.Reason)
	writeField(h, e.Detail)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func writeField(h hash.Hash, text string) { fmt.Fprintf(h, "%d:%s", len(text), text) }
