package events

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Event is a CloudEvent 1.0. The pair (Source, ID) identifies it: a repetition has the same pair.
type Event struct {
	SpecVersion  string `json:"specversion"`
	Type         string `json:"type"`
	Source       string `json:"source"`
	ID           string `json:"id"`
	Subject      string `json:"subject"`      // the user
	PartitionKey string `json:"partitionkey"` // the user, so that the events of one user stay in order
	// 0 for issued, then coupon_log.seq: the order of the events of one issued coupon.
	Sequence        int       `json:"sequence"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            any       `json:"data"`
}

// Message is an encoded event.
type Message struct {
	Key  string // the user: a sink that has partitions keeps messages of one key in order
	Body []byte // the event as JSON
}

// The type of an event is typePrefix, what happened, and typeVersion. Within a version, fields are only added.
const (
	typePrefix  = "kr.jajeong.coupon."
	typeVersion = ".v1"
)

// IssuedType is the type of the first event of an issued coupon, unless it was given by hand.
const IssuedType = typePrefix + "issued" + typeVersion

// TypeOf returns the type of the event for a row of coupon_log.
func TypeOf(kind coupon.LogKind) string {
	return typePrefix + strings.ToLower(string(kind)) + typeVersion
}

// Issued is the data of an issued event. Times are UTC.
type Issued struct {
	Coupon     coupon.CouponID     `json:"couponId"`
	User       coupon.UserID       `json:"userId"`
	UserCoupon coupon.UserCouponID `json:"userCouponId"`
	Position   int                 `json:"position"`  // the seat number
	AppliedAt  time.Time           `json:"appliedAt"` // the arrival
	IssuedAt   time.Time           `json:"issuedAt"`
	ExpiresAt  time.Time           `json:"expiresAt"` // exclusive
	Run        coupon.RunID        `json:"runId"`
}

// Changed is the data of an event of coupon_log. Order and amounts are of the order that the change concerns.
type Changed struct {
	Coupon     coupon.CouponID     `json:"couponId"`
	User       coupon.UserID       `json:"userId"`
	UserCoupon coupon.UserCouponID `json:"userCouponId"`
	Order      *string             `json:"orderId,omitempty"`
	Amount     *int64              `json:"amountWon,omitempty"`
	Discount   *int64              `json:"discountWon,omitempty"`
	ExpiresAt  *time.Time          `json:"expiresAt,omitempty"` // the new end of validity, with granted and extended
}

// Event returns the event of an issued coupon. Its id does not depend on rows that a restored database numbers anew.
func (i *Issued) Event() *Event {
	return newEvent(IssuedType, i.Coupon, i.User, issuedID(i.User), 0, i.IssuedAt, i)
}

// Event returns the event of the row seq of coupon_log. A MySQL that was put back to an earlier instant gives row ids
// to other users, and seq to other changes: the user and the time keep their events apart.
func (c *Changed) Event(kind coupon.LogKind, seq int, at time.Time) *Event {
	return newEvent(TypeOf(kind), c.Coupon, c.User, changeID(c.User, seq, at), seq, at, c)
}

func key(user coupon.UserID) string { return strconv.FormatUint(uint64(user), 10) }

func issuedID(user coupon.UserID) string { return "issued-" + key(user) }

func changeID(user coupon.UserID, seq int, at time.Time) string {
	return fmt.Sprintf("%d-%d-%d", user, seq, at.UnixMicro())
}

// sourcePath is what a source has before the number of the coupon.
const sourcePath = "/coupons/"

func source(of coupon.CouponID) string { return sourcePath + of.String() }

func newEvent(typ string, of coupon.CouponID, user coupon.UserID, id string, sequence int, at time.Time,
	data any) *Event {
	subject := key(user)
	return &Event{SpecVersion: "1.0", Type: typ, Source: source(of), ID: id, Subject: subject, PartitionKey: subject,
		Sequence: sequence, Time: at.UTC(), DataContentType: "application/json", Data: data}
}

// Message encodes the event.
func (e *Event) Message() (Message, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return Message{}, fmt.Errorf("encode event %s %s: %w", e.Source, e.ID, err)
	}
	return Message{Key: e.PartitionKey, Body: body}, nil
}
