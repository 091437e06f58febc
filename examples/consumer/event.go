package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Event is a CloudEvent 1.0. Source and ID together are unique.
type Event struct {
	SpecVersion string          `json:"specversion"`
	Type        string          `json:"type"` // such as kr.jajeong.coupon.issued.v1
	Source      string          `json:"source"`
	ID          string          `json:"id"`
	Subject     string          `json:"subject"`  // the user
	Sequence    int             `json:"sequence"` // grows with the events of one source and subject
	Time        time.Time       `json:"time"`     // when it happened
	Data        json.RawMessage `json:"data"`     // by type; this shop needs nothing of it
}

// Outcome says what became of an event that did not fail.
type Outcome string

const (
	Applied   Outcome = "applied"
	Duplicate Outcome = "duplicate" // it was handled before
	// It was counted, but a later event of the same coupon and user was handled before.
	Superseded Outcome = "superseded"
	Ignored    Outcome = "ignored" // this shop has no use for its type
)

// Handler applies events to the shop. Handle gives an event its effect once, however often it is called. ErrRefused
// concerns this event alone. After any other error, no event can be handled now.
type Handler interface {
	Prepare(context.Context) error
	Handle(context.Context, *Event) (Outcome, error)
}

var (
	ErrRefused   = errors.New("the event was refused")
	ErrMalformed = fmt.Errorf("%w: malformed", ErrRefused) // another try would not help
)

// body returns the event of a stream entry. An entry of another shape is kept whole.
func body(entry redis.XMessage) string {
	if event, ok := entry.Values["event"].(string); ok {
		return event
	}
	fields, _ := json.Marshal(entry.Values) // strings
	return string(fields)
}

// parse refuses what this program does not understand. It skips unknown fields, because v1 may get more of them.
func parse(body string) (*Event, error) {
	var e Event
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if e.SpecVersion != "1.0" || e.Type == "" || e.Source == "" || e.ID == "" || e.Subject == "" || e.Sequence < 0 ||
		e.Time.IsZero() {
		return nil, fmt.Errorf("%w: want a CloudEvent 1.0 with type, source, id, subject, sequence and time",
			ErrMalformed)
	}
	if !strings.HasSuffix(e.Type, ".v1") {
		return nil, fmt.Errorf("%w: this program knows only version v1, not type %s", ErrMalformed, e.Type)
	}
	return &e, nil
}

// attempt handles an event once. A panic is a failure of this event, so that the others go on.
func attempt(ctx context.Context, handler Handler, body string) (outcome Outcome, err error) {
	e, err := parse(body)
	if err != nil {
		return "", err
	}
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%w: panic: %v", ErrRefused, cause)
		}
	}()
	return handler.Handle(ctx, e)
}
