// Package audit writes, chains and checks audit events. An event records a change of a coupon or of one of its users:
// who made it, when and why.
//
// The events of a coupon form a chain of hashes. They are numbered from 1, and audit_head has the number and the hash
// of the last one. Append is the only writer of the tables audit_event and audit_head. Its transaction must hold the
// coupon's row lock, or the chain forks.
//
// The chain reveals a changed, removed or added event. An account that can write both tables can forge a whole chain. A
// head that `settle verify` has printed reveals even that: its number and hash bind all events up to that number.
package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/jajeong/jajeong/internal/coupon"
)

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
	CouponEdited      Action = "COUPON_CHANGED" // before it opened
	CouponExtended    Action = "COUPON_EXTENDED"
	CouponPaused      Action = "COUPON_PAUSED"
	CouponResumed     Action = "COUPON_RESUMED"
	CouponSeats       Action = "COUPON_SEATS_CHANGED"
	CouponRecounted   Action = "COUPON_RECOUNTED"
	CouponUnfinalised Action = "COUPON_UNFINALISED"
	CouponFrozen      Action = "COUPON_FROZEN"
	CouponUnfrozen    Action = "COUPON_UNFROZEN"
	CouponCadence     Action = "COUPON_CADENCE_CHANGED"

	CouponGranted      Action = "COUPON_GRANTED"
	CouponListGranted  Action = "COUPON_LIST_GRANTED" // to the users of a page of a list
	CouponRevoked      Action = "COUPON_REVOKED"
	CouponReissued     Action = "COUPON_REISSUED"
	CouponUserExtended Action = "COUPON_USER_EXTENDED"
	CouponUnused       Action = "COUPON_UNUSED" // an operator undid its use
	UserForgotten      Action = "USER_FORGOTTEN"

	ApplicationsRestored Action = "APPLICATIONS_RESTORED"
	PromiseUnknown       Action = "PROMISE_UNKNOWN"
	ReceiptHonoured      Action = "RECEIPT_HONOURED"
	ApprovalUsed         Action = "APPROVAL_USED"
)

// NightlyActor is the actor of events that no operator caused.
const NightlyActor = "settle"

// NamesProgram reports whether a name is that of NightlyActor in any spelling. No person may have it.
func NamesProgram(name string) bool { return folded(name) == NightlyActor }

// KeyActor begins the actor of events that a program of the shop caused by the management API; the name of its key
// follows.
const KeyActor = "key:"

// NamesKey reports whether a name is that of a key in any spelling. No person may have it.
func NamesKey(name string) bool { return strings.HasPrefix(folded(name), KeyActor) }

func folded(name string) string { return strings.ToLower(norm.NFKC.String(strings.TrimSpace(name))) }

// Event is a row of audit_event without its id and hash.
type Event struct {
	Seq    uint64    // number within the coupon, from 1; 0: the row has no number
	At     time.Time // in whole microseconds
	Actor  string
	Action Action
	Coupon coupon.CouponID
	User   *coupon.UserID // nil: the event is about the coupon as a whole, or about a person who was forgotten
	Run    *coupon.RunID  // nil: the change is not part of a run
	Reason string
	Detail Detail
	Seats  int64 // by how much the change moved the coupon's total_quantity; in the first event, all its seats

	Account string // MySQL account that wrote the event
	SignIn  string // who the actor is by the sign-in of the console; empty: nobody was signed in

	// UserHash is SHA-256 over UserSalt and the decimal user id. It stays if the person is forgotten: User and UserSalt
	// are then empty. It is empty in events without a user.
	UserSalt, UserHash []byte
}

// Hash returns the SHA-256 of the previous event's hash ("" for the first event) and all columns except the id, with
// UserHash instead of the user. The length in bytes precedes each field, and NULL is written as -, so that two events
// never hash the same bytes.
func (e Event) Hash(previous string) string {
	h := sha256.New()
	write := func(fields ...string) {
		for _, field := range fields {
			fmt.Fprintf(h, "%d:%s", len(field), field)
		}
	}
	write(previous, fmt.Sprint(e.Seq), fmt.Sprint(e.At.UnixMicro()), e.Actor, string(e.Action), e.Coupon.String())
	writeOrNull := func(field string) { // a field that is not NULL is not empty
		if field == "" {
			fmt.Fprint(h, "-")
		} else {
			write(field)
		}
	}
	writeOrNull(hex.EncodeToString(e.UserHash))
	run := ""
	if e.Run != nil {
		run = fmt.Sprint(*e.Run)
	}
	writeOrNull(run)
	write(e.Reason, string(e.Detail), fmt.Sprint(e.Seats), e.Account, e.SignIn)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// hashUser hides a user id in a hash that can be checked while the salt exists.
func hashUser(salt []byte, user coupon.UserID) []byte {
	sum := sha256.Sum256(append(slices.Clone(salt), user.Member()...))
	return sum[:]
}

// Payload returns what the event says beyond its other columns; nil if the program did not write the detail.
func (e Event) Payload() Payload { return e.Detail.Payload(e.Action) }

// userIntact reports whether the user is the one of UserHash, or was forgotten.
func (e Event) userIntact() bool {
	if e.User == nil {
		return e.UserSalt == nil
	}
	return bytes.Equal(e.UserHash, hashUser(e.UserSalt, *e.User))
}
