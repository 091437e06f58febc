package candidates

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Reason says why an application is under review.
type Reason struct {
	Cause     string       `json:"cause"`     // stable, in capitals: what `dlq list` groups by
	Message   string       `json:"message"`   // for people
	Retryable bool         `json:"retryable"` // whether every run tries again by itself
	Attempts  int          `json:"attempts"`  // how often it failed, this time included
	Run       coupon.RunID `json:"run"`       // the settlement_run that said so last
	At        time.Time    `json:"at"`

	// Since is when it first failed; zero: then At is.
	Since time.Time `json:"since,omitzero"`
	// Refused is how often the applicant's own row was refused: 1 to Review, which counts.
	Refused int `json:"refused,omitempty"`
	// Night is the cutoff of the last nightly run to which the row was refused, in UTC. Review keeps it.
	Night time.Time `json:"night,omitzero"`
	// Tried are the last attempts, five at most, with this one; none after the first. Review keeps them.
	Tried []Attempt `json:"tried,omitempty"`
}

// Attempt is one that failed.
type Attempt struct {
	At      time.Time    `json:"at"`
	Run     coupon.RunID `json:"run"`
	Cause   string       `json:"cause"`
	Message string       `json:"message"`
}

// maxRefusals of an entry's own row hold it for a person. Ten, one a night, leave a week and a half to find out about it.
const maxRefusals = 10

// failed is an application that could not be settled, with its reason as the DLQ keeps it.
type failed struct {
	coupon.Application
	Keep   bool // coupon.Failure.Keep
	Reason Reason
}

// reasonOf is the reason that the DLQ keeps of a failure. The script adds up the attempts.
func reasonOf(f coupon.Failure, run coupon.RunID, at time.Time) Reason {
	r := Reason{Cause: string(f.Cause), Message: f.Message, Retryable: f.Retryable, Attempts: 1, Run: run, At: at}
	if f.Row {
		r.Refused, r.Night = 1, f.Night
	}
	return r
}

// Review moves applications from the queue to the DLQ with their arrivals, puts those there that stand in MySQL alone,
// and notes one more attempt of those whose source is the DLQ. One that no longer stands in its source with that arrival
// is left alone, and so is one that a person holds. One whose row has been refused too often is held. It returns how many were moved or noted. After an error some may have
// been; repeating it moves none twice.
func (s *Store) Review(ctx context.Context, couponID coupon.CouponID, run coupon.RunID, at time.Time, failures []coupon.Failure) (reviewed int64, err error) {
	all := make([]failed, len(failures))
	for i, f := range failures {
		all[i] = failed{f.Application, f.Keep, reasonOf(f, run, at)}
	}
	return s.moveToDLQ(ctx, couponID, all)
}

func (s *Store) moveToDLQ(ctx context.Context, couponID coupon.CouponID, all []failed) (moved int64, err error) {
	k := s.names.coupon(couponID)
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
		n, err := reviewScript.count(ctx, s.rdb, []string{k.queue, k.dlq, k.reason}, args...)
		if err != nil {
			return moved, fmt.Errorf("move applications of coupon %d to the DLQ: %w", couponID, err)
		}
		moved += n
	}
	return moved, nil
}

// reviewLetters are the sources as the script knows them: it looks up by itself what happened to an entry of the DLQ before.
var reviewLetters = map[coupon.Source]string{
	coupon.SourceQueue: "Q", coupon.SourceRetryable: "R", coupon.SourceRowRefused: "R", coupon.SourceTriedTonight: "R",
	coupon.SourceHeld: "H", coupon.SourceNotSelected: "N",
}

// Release lets every run try entries of the DLQ again that were held there. It returns how many still stood there with
// that arrival. Safe to repeat.
func (s *Store) Release(ctx context.Context, couponID coupon.CouponID, entries []coupon.Application) (released int64, err error) {
	k := s.names.coupon(couponID)
	for len(entries) > 0 {
		chunk := entries[:min(len(entries), reviewMembers)]
		entries = entries[len(chunk):]
		args := make([]any, 0, 2*len(chunk))
		for _, e := range chunk {
			args = append(args, e.Member, e.Arrival)
		}
		n, err := releaseScript.count(ctx, s.rdb, []string{k.dlq, k.reason}, args...)
		if err != nil {
			return released, fmt.Errorf("release applications of coupon %d from review: %w", couponID, err)
		}
		released += n
	}
	return released, nil
}

// Reasons returns why the given members are under review; one without a readable reason is absent.
func (s *Store) Reasons(ctx context.Context, couponID coupon.CouponID, members []string) (map[string]Reason, error) {
	reasons := make(map[string]Reason, len(members))
	for len(members) > 0 {
		chunk := members[:min(len(members), writeMembers)]
		members = members[len(chunk):]
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
