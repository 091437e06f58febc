// Package audit writes, chains and checks audit events. An event names a change of a coupon or of one of its users, its author,
// its reason and its time.
//
// The events of a coupon are a chain of hashes, numbered from 1, with its end in audit_head. Append is the only writer of
// both tables. Its transaction must hold the coupon's row lock, or the chain forks.
//
// The chain reveals a changed, removed or added event. An account that can write both tables can forge the whole chain; a printed
// head reveals that: number and hash, as `settle verify` prints them, bind all events up to that number.
package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Action is the kind of change: audit_event.action.
type Action string

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

// Hash binds an event to the previous one by SHA-256 over its hash, empty for the first event, and every column but the id.
// A length in bytes precedes each field and NULL is -, so that two events never hash the same bytes.
func (e Event) Hash(previous string) string {
	h := sha256.New()
	write := func(fields ...string) {
		for _, field := range fields {
			fmt.Fprintf(h, "%d:%s", len(field), field)
		}
	}
	write(previous, fmt.Sprint(e.Seq), fmt.Sprint(e.At.UnixMicro()), e.Actor, string(e.Action), e.Coupon.String())
	for _, id := range []*uint64{(*uint64)(e.User), (*uint64)(e.Run)} {
		if id != nil {
			write(fmt.Sprint(*id))
		} else {
			fmt.Fprint(h, "-")
		}
	}
	write(e.Reason, e.Detail)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// The checker parses the details of two actions.
const (
	arrivalMark  = `", arrival `
	cutoffPrefix = "cutoff "
)

func ApplicationEntry(member string, arrival coupon.Arrival) Entry {
	return Entry{User: coupon.ParseUserID(member), Detail: fmt.Sprintf("%q, arrival %d", member, arrival)}
}

// Arrival is the arrival in the detail of an ApplicationEntry, if it was not cut.
func (e Event) Arrival() coupon.Arrival {
	at := strings.LastIndex(e.Detail, arrivalMark)
	if at < 0 {
		return 0
	}
	arrival, _ := strconv.ParseInt(e.Detail[at+len(arrivalMark):], 10, 64)
	return coupon.Arrival(arrival)
}

func SettleEntry(cutoff time.Time, issued int, winnersDigest string) Entry {
	result := "nothing issued"
	if issued > 0 {
		result = fmt.Sprintf("issued %d, %s", issued, winnersDigest)
	}
	return Entry{Detail: cutoffPrefix + cutoff.UTC().Format(time.RFC3339Nano) + ", " + result}
}

// Cutoff is the cutoff in the detail of a SettleEntry, unparsed.
func (e Event) Cutoff() string {
	text, ok := strings.CutPrefix(e.Detail, cutoffPrefix)
	if !ok {
		return ""
	}
	cutoff, _, _ := strings.Cut(text, ",")
	return cutoff
}
