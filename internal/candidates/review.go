package candidates

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Reason is the reason why an application is under review.
type Reason struct {
	Cause     string       `json:"cause"`     // stable, in capitals: `dlq list` groups by it
	Message   string       `json:"message"`   // for people
	Retryable bool         `json:"retryable"` // every run tries again; false: held for an operator
	Attempts  int          `json:"attempts"`  // failed attempts, this one included
	Run       coupon.RunID `json:"run"`       // the last settlement_run that failed
	At        time.Time    `json:"at"`

	// Since is the first failure; zero: At.
	Since time.Time `json:"since,omitzero"`
	// Refused is how often the database refused the applicant's row. Callers of Review pass 0 or 1; the script adds up.
	Refused int `json:"refused,omitempty"`
	// Night is the cutoff of the last nightly run whose row was refused, in UTC. The script keeps it.
	Night time.Time `json:"night,omitzero"`
	// Tried are the last five attempts, this one included; empty after the first. The script keeps them.
	Tried []Attempt `json:"tried,omitempty"`
}

// Attempt is a failed attempt.
type Attempt struct {
	At      time.Time    `json:"at"`
	Run     coupon.RunID `json:"run"`
	Cause   string       `json:"cause"`
	Message string       `json:"message"`
}

// maxRefusals is after how many refusals of its row an entry becomes held. Ten nights are enough time to notice the cause.
const maxRefusals = 10

// failed is an application that was not settled, with its reason.
type failed struct {
	coupon.Application
	Keep   bool // coupon.Failure.Keep
	Reason Reason
}

// reasonOf is the reason of one failure. The script adds up the attempts.
func reasonOf(f coupon.Failure, run coupon.RunID, at time.Time) Reason {
	r := Reason{Cause: string(f.Cause), Message: f.Message, Retryable: f.Retryable, Attempts: 1, Run: run, At: at}
	if f.Row {
		r.Refused, r.Night = 1, f.Night
	}
	return r
}

// Review moves applications from the queue to the DLQ with their arrivals, adds those that only MySQL has, and notes one more
// attempt of DLQ entries. It skips an application that has left its source, and a held entry. An entry whose row was refused
// maxRefusals times becomes held. Review returns how many it moved or noted. It is safe to repeat after an error.
func (s *Store) Review(ctx context.Context, couponID coupon.CouponID, run coupon.RunID, at time.Time, failures []coupon.Failure) (reviewed int64, err error) {
	all := make([]failed, len(failures))
	for i, f := range failures {
		all[i] = failed{f.Application, f.Keep, reasonOf(f, run, at)}
	}
	return s.moveToDLQ(ctx, couponID, all)
}

func (s *Store) moveToDLQ(ctx context.Context, couponID coupon.CouponID, all []failed) (moved int64, err error) {
	for chunk := range slices.Chunk(all, reviewMembers) {
		args := append(make([]any, 0, 1+4*len(chunk)), maxRefusals)
		for _, f := range chunk {
			reason, err := json.Marshal(f.Reason)
			if err != nil {
				return moved, fmt.Errorf("encode reason for %q: %w", f.Member, err)
			}
			source, known := reviewLetters[f.Source]
			if !known {
				return moved, fmt.Errorf("move %q to the DLQ of coupon %d: unknown source %d", f.Member, couponID, f.Source)
			}
			if f.Keep {
				source = "K"
			}
			args = append(args, f.Member, f.Arrival, source, reason)
		}
		n, err := s.number(ctx, reviewScript, couponID, args...)
		if err != nil {
			return moved, err
		}
		moved += n
	}
	return moved, nil
}

// reviewLetters are the sources by the letters of the script.
var reviewLetters = map[coupon.Source]string{
	coupon.SourceQueue: "Q", coupon.SourceRetryable: "R", coupon.SourceRowRefused: "R", coupon.SourceTriedTonight: "R",
	coupon.SourceHeld: "H", coupon.SourceNotSelected: "N",
}

// Release makes held DLQ entries retryable. It returns how many it found with this arrival. It is safe to repeat.
func (s *Store) Release(ctx context.Context, couponID coupon.CouponID, entries []coupon.Application) (released int64, err error) {
	for chunk := range slices.Chunk(entries, reviewMembers) {
		args := make([]any, 0, 2*len(chunk))
		for _, e := range chunk {
			args = append(args, e.Member, e.Arrival)
		}
		n, err := s.number(ctx, releaseScript, couponID, args...)
		if err != nil {
			return released, err
		}
		released += n
	}
	return released, nil
}

// Reasons returns the readable reasons of DLQ entries by member.
func (s *Store) Reasons(ctx context.Context, couponID coupon.CouponID, members []string) (map[string]Reason, error) {
	reasons := make(map[string]Reason, len(members))
	for chunk := range slices.Chunk(members, writeMembers) {
		values, err := s.rdb.HMGet(ctx, s.names.coupon(couponID).reason, chunk...).Result()
		if err != nil {
			return nil, fmt.Errorf("read DLQ reasons of coupon %d: %w", couponID, classify(err))
		}
		for i, value := range values {
			if text, ok := value.(string); ok {
				if reason, ok := readReason(text); ok {
					reasons[chunk[i]] = reason
				}
			}
		}
	}
	return reasons, nil
}

func readReason(text string) (reason Reason, ok bool) {
	err := json.Unmarshal([]byte(text), &reason)
	return reason, err == nil
}
