package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// Payload is what an event says beyond its other columns. Each action has one type of payload, see Payloads.
type Payload interface{ payload() }

// Payloads has the type of each action's payload, as its zero value.
var Payloads = map[Action]Payload{
	GapHeld:     MissingPromises{},
	GapAccepted: WrittenOff{},
	CountHeld:   WrongCount{},

	DLQRetried:   Retried{},
	DLQDropped:   Application{},
	ManualSettle: Settled{},

	CouponCreated:     NewCoupon{},
	CouponClosed:      CouponChange{},
	CouponEdited:      CouponChange{},
	CouponExtended:    CouponChange{},
	CouponPaused:      CouponChange{},
	CouponResumed:     CouponChange{},
	CouponSeats:       CouponChange{},
	CouponRecounted:   CouponChange{},
	CouponFrozen:      CouponChange{},
	CouponUnfrozen:    CouponChange{},
	CouponCadence:     CouponChange{},
	CouponUnfinalised: Unfinalised{},

	CouponGranted:      HolderChange{},
	CouponListGranted:  GrantedList{},
	CouponRevoked:      HolderChange{},
	CouponReissued:     HolderChange{},
	CouponUserExtended: HolderChange{},
	CouponUnused:       HolderChange{},
	UserForgotten:      Forgotten{},

	ApplicationsRestored: Restored{}, PromiseUnknown: UnknownPromises{},
	ReceiptHonoured: Honoured{},
	ApprovalUsed:    UsedApproval{},
}

// Change is the old and the new value of something.
type Change[T any] struct {
	From T `json:"from"`
	To   T `json:"to"`
}

// Changed returns nil if both values are the same.
func Changed[T comparable](from, to T) *Change[T] {
	if from == to {
		return nil
	}
	return &Change[T]{from, to}
}

// ChangedTime is Changed for instants. A zero time is none, and becomes nil.
func ChangedTime(from, to time.Time) *Change[*time.Time] {
	if from.Equal(to) {
		return nil
	}
	return &Change[*time.Time]{known(from), known(to)}
}

func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// Figures account for the applications that a coupon has accepted.
type Figures struct {
	Accepted    int64 `json:"accepted"`
	Waiting     int64 `json:"waiting"`
	UnderReview int64 `json:"underReview"`
	Issued      int64 `json:"issued"`
	Outcomes    int64 `json:"outcomes"`
	InBoth      int64 `json:"inBoth"`
	WrittenOff  int64 `json:"writtenOff"`
	Erased      int64 `json:"erased"`
}

// In returns the figures in words. Those that are rarely above zero are left out if they are zero.
func (f Figures) In(l text.Language) string {
	words := l.Sprintf(text.DetailFigures, f.Accepted, f.Waiting, f.UnderReview, f.Issued, f.Outcomes, f.InBoth,
		f.WrittenOff)
	if f.Erased > 0 {
		words += l.Sprintf(text.OutcomesErased, f.Erased)
	}
	return words
}

type MissingPromises struct {
	Missing int64   `json:"missing"`
	Account Figures `json:"account"`
}

// WrittenOff is a gap that an operator has accepted.
type WrittenOff struct {
	MissingPromises
	Digest string `json:"digest"` // digest that the operator approved
}

type WrongCount struct {
	Recorded int64 `json:"recorded"` // issued_count
	Coupons  int64 `json:"coupons"`  // rows of user_coupon
	Seats    int64 `json:"seats"`
}

// Application is an application of the event's user.
type Application struct {
	Arrival coupon.Arrival `json:"arrival"`
	Member  string         `json:"member,omitempty"` // member of the DLQ entry if it is no user id
}

// Retried is one application, or all that are under review.
type Retried struct {
	All bool `json:"all,omitempty"`
	Application
}

type Settled struct {
	Cutoff time.Time `json:"cutoff"`
	Issued int       `json:"issued"`
	Digest string    `json:"digest"` // digest of the winners
}

type NewCoupon struct {
	Key          string    `json:"key"` // client_key
	Name         string    `json:"name"`
	Seats        int64     `json:"seats"`
	Opens        time.Time `json:"opensAt"`
	Closes       time.Time `json:"closesAt"`
	Campaign     uint64    `json:"campaignId"` // 0: none
	ValidityDays int64     `json:"validityDays"`
	coupon.Discount
	Cadence   coupon.Cadence `json:"cadence"`
	LineLimit int64          `json:"lineLimit"` // 0: none
}

// CouponChange has the columns that changed. The others are nil.
type CouponChange struct {
	Seats     *Change[int]            `json:"seats,omitempty"`
	Issued    *Change[int]            `json:"issued,omitempty"`
	Closes    *Change[*time.Time]     `json:"closesAt,omitempty"`
	Status    *Change[coupon.Status]  `json:"status,omitempty"`
	Finalised *Change[*time.Time]     `json:"finalisedAt,omitempty"`
	Cadence   *Change[coupon.Cadence] `json:"cadence,omitempty"`
	Frozen    *Change[bool]           `json:"frozen,omitempty"`
	StoppedAt *time.Time              `json:"stoppedAt,omitempty"` // end of accepting; only a pause has it

	// What only a coupon changes that has not opened.
	Name         *Change[string]          `json:"name,omitempty"`
	Opens        *Change[*time.Time]      `json:"opensAt,omitempty"`
	Campaign     *Change[uint64]          `json:"campaignId,omitempty"` // 0: none
	ValidityDays *Change[int]             `json:"validityDays,omitempty"`
	Discount     *Change[coupon.Discount] `json:"discount,omitempty"`
}

// ChangeOf compares two states of a coupon.
func ChangeOf(was, is coupon.Coupon) CouponChange {
	return CouponChange{
		Seats: Changed(was.TotalQuantity, is.TotalQuantity), Issued: Changed(was.IssuedCount, is.IssuedCount),
		Closes: ChangedTime(was.ClosesAt, is.ClosesAt), Status: Changed(was.Status, is.Status),
		Finalised: ChangedTime(was.FinalisedAt, is.FinalisedAt), Cadence: Changed(was.Cadence, is.Cadence),
		Frozen: Changed(was.Frozen, is.Frozen), Name: Changed(was.Name, is.Name),
		Opens: ChangedTime(was.OpensAt, is.OpensAt), Campaign: Changed(was.CampaignID, is.CampaignID),
		ValidityDays: Changed(was.ValidityDays, is.ValidityDays), Discount: Changed(was.Discount, is.Discount),
	}
}

// Unfinalised says why a coupon is to be settled again: for its new seats, or because Redis or MySQL has lost its end.
type Unfinalised struct {
	LostEnd bool `json:"lostEnd,omitzero"`
}

// HolderChange is a change of the coupon of the event's user.
type HolderChange struct {
	Expires *Change[*time.Time] `json:"expiresAt,omitempty"`
	CouponChange
}

// GrantedList is a page of a list. Its users are those of coupon_log with the time of the event.
type GrantedList struct {
	List     string    `json:"list"`               // digest of the users of the whole list
	Users    int64     `json:"users"`              // how many these are
	Approval uint64    `json:"approval,omitempty"` // by which the list was granted
	Expires  time.Time `json:"expiresAt"`
	CouponChange
}

type Forgotten struct {
	Outcomes int `json:"outcomes"` // rows that were deleted
	Events   int `json:"events"`   // audit events that lost the user
}

// Restored counts applications.
type Restored struct {
	Back      int64 `json:"back,omitempty"`      // put back from the journal
	Moved     int64 `json:"moved,omitempty"`     // moved to their first arrival
	FromMarks int64 `json:"fromMarks,omitempty"` // winners entered again from their marks
	Missing   int64 `json:"missing,omitempty"`
}

// UnknownPromises compares what the journal has seen accepted with whom a new Redis server and MySQL know. Known are
// also those whom the server misses by its own count.
type UnknownPromises struct {
	Accepted int64 `json:"accepted"`
	Known    int64 `json:"known"`
}

// Honoured is the application of a receipt.
type Honoured struct {
	Arrival coupon.Arrival `json:"arrival"`
}

type UsedApproval struct {
	Approval uint64 `json:"approval"`
	Action   string `json:"action"`
	Digest   string `json:"digest"` // digest of the plan
	Maker    string `json:"maker"`
	Checker  string `json:"checker"`
}

func (MissingPromises) payload() {}
func (WrongCount) payload()      {}
func (Application) payload()     {}
func (Settled) payload()         {}
func (NewCoupon) payload()       {}
func (CouponChange) payload()    {}
func (Unfinalised) payload()     {}
func (Forgotten) payload()       {}
func (Restored) payload()        {}
func (UnknownPromises) payload() {}
func (Honoured) payload()        {}
func (UsedApproval) payload()    {}

// maxMember is in characters. As JSON, a member of so many fits into the column, whatever it consists of.
const maxMember = 300

// ApplicationOf repeats the member only if it is no user id: the payload outlives a person who is forgotten.
func ApplicationOf(a coupon.Application) (user coupon.UserID, is Application) {
	is.Arrival = a.Arrival
	if user = a.User(); user == 0 {
		is.Member = mysqltx.Shorten(a.Member, maxMember)
	}
	return user, is
}

// Dropped has an entry for each application.
func Dropped(applications []coupon.Application) []Entry {
	entries := make([]Entry, len(applications))
	for i, a := range applications {
		entries[i].User, entries[i].Payload = ApplicationOf(a)
	}
	return entries
}

// RetriedEach has an entry for each application.
func RetriedEach(applications []coupon.Application) []Entry {
	entries := make([]Entry, len(applications))
	for i, a := range applications {
		user, is := ApplicationOf(a)
		entries[i] = Entry{User: user, Payload: Retried{Application: is}}
	}
	return entries
}

// Detail is a payload as MySQL has it: canonical JSON, without spaces, its fields in the order of the type.
type Detail string

// maxDetail is the width of column audit_event.detail, in characters.
const maxDetail = 2000

// Encode returns the detail of an event. It fails if the payload has another type than the action's, or is too long.
func Encode(action Action, p Payload) (Detail, error) {
	if p == nil || reflect.TypeOf(p) != reflect.TypeOf(Payloads[action]) {
		return "", fmt.Errorf("%T is not the payload of %s", p, action)
	}
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // a name of many letters would become too long
	if err := e.Encode(p); err != nil {
		return "", err
	}
	detail := strings.TrimSuffix(text.String(), "\n")
	if n := utf8.RuneCountInString(detail); n > maxDetail {
		return "", fmt.Errorf("the payload has %d characters, more than %d", n, maxDetail)
	}
	return Detail(detail), nil
}

// Payload returns the payload of an event's detail. It returns nil for what Append has not written.
func (d Detail) Payload(action Action) Payload {
	zero, known := Payloads[action]
	if !known {
		return nil
	}
	read := reflect.New(reflect.TypeOf(zero))
	strict := json.NewDecoder(strings.NewReader(string(d)))
	strict.DisallowUnknownFields()
	if strict.Decode(read.Interface()) != nil || strict.More() {
		return nil
	}
	is, _ := read.Elem().Interface().(Payload) // as zero is
	return is
}

// MarshalJSON returns the detail as it is stored; as a string if the program did not write it.
func (d Detail) MarshalJSON() ([]byte, error) {
	if text := []byte(d); json.Valid(text) {
		return text, nil
	}
	return json.Marshal(string(d))
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (d *Detail) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte{'"'}) {
		return json.Unmarshal(text, (*string)(d))
	}
	*d = Detail(text)
	return nil
}
