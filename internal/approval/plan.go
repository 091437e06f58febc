// Package approval lets a second person approve a change before it is made.
//
// A change that the policy names is planned, asked for, approved by another person, and then executed by the one who
// asked. The plan has the action, its arguments, and the old and new values of the rows that it changes. Its digest
// binds the three steps together: the package that executes plans again under the lock of the coupon's row, and Use
// compares the digests in the same transaction. An approval with another digest is void.
//
// The policy is in MySQL. Use locks it in share mode, so that no change is under way while a version is added.
//
// Approvals stop errors and show misuse. They do not stop an account that can write the tables: `settle verify`
// compares the audit events with the approvals, and needs both to be forged.
package approval

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Action is a kind of change that a policy can name. Rows of MySQL have the values.
type Action string

const (
	Run        Action = "run" // a settlement by hand; it includes AcceptGap
	AcceptGap  Action = "accept-gap"
	Create     Action = "create"
	Edit       Action = "change" // of a coupon that has not opened
	AddSeats   Action = "add-seats"
	Close      Action = "close"
	Extend     Action = "extend"
	Pause      Action = "pause"
	Resume     Action = "resume"
	Freeze     Action = "freeze"
	Unfreeze   Action = "unfreeze"
	Cadence    Action = "cadence"
	Recount    Action = "recount"
	Grant      Action = "grant"
	Revoke     Action = "revoke"
	Reissue    Action = "reissue"
	ExtendUser Action = "extend-user"
	Unuse      Action = "unuse" // a used coupon goes back to its user
	Honour     Action = "honour"
	Drop       Action = "drop"
	Restore    Action = "restore"

	// SetPolicy needs an approval while the policy names any action.
	SetPolicy Action = "policy"
)

// Actions are those that a policy can name.
var Actions = []Action{Run, AcceptGap, Create, Edit, AddSeats, Close, Extend, Pause, Resume, Freeze, Unfreeze, Cadence,
	Recount, Grant, Revoke, Reissue, ExtendUser, Unuse, Honour, Drop, Restore}

// Costly are the actions whose plans have a cost.
var Costly = []Action{Create, Edit, AddSeats, Grant}

// Plan says what a change would do. It has nothing that moves by itself, such as positions.
type Plan struct {
	Action    Action            `json:"action"`
	Coupon    coupon.CouponID   `json:"coupon,omitempty"`
	User      coupon.UserID     `json:"user,omitempty"`
	Arguments map[string]string `json:"arguments,omitempty"`
	Changes   []Change          `json:"changes"`
	CostWon   int64             `json:"costWon,omitempty"` // the highest discount that it makes possible, of all new seats
	Pin       string            `json:"pin,omitempty"`     // digest of the winners and the gap; only settlements have it

	// Salt keeps the digest from revealing a user who was forgotten. Ask chooses it.
	Salt string `json:"salt,omitempty"`
}

// Change is one value that a plan changes. From is empty for what is new.
type Change struct {
	What string `json:"what"`
	From string `json:"from,omitempty"`
	To   string `json:"to"`
}

// Digest is sha256:… of the plan's JSON, whose keys are in a fixed order. A settlement has the digest that its preview
// shows.
func (p Plan) Digest() string {
	if p.Pin != "" {
		return p.Pin
	}
	sum := sha256.Sum256([]byte(p.JSON()))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (p Plan) JSON() string {
	written, _ := json.Marshal(p) // no error: the fields are strings and numbers
	return string(written)
}

// sameRequest reports whether two plans are for the same action with the same arguments, whatever they would change.
func (p Plan) sameRequest(other Plan) bool {
	return p.Action == other.Action && p.Coupon == other.Coupon && p.User == other.User &&
		maps.Equal(p.Arguments, other.Arguments)
}

// isOfList reports whether the plan gives a coupon to the users of a list, which is done page by page.
func (p Plan) isOfList() bool { return p.Action == Grant && p.Arguments[fileArgument] != "" }

// fileArgument has the digest of a list.
const fileArgument = "file"

func (p Plan) salted() Plan {
	if p.User != 0 {
		p.Salt = rand.Text()
	}
	return p
}
