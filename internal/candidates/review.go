package candidates

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/rediserr"
)

// Reason is the reason why an application is under review.
type Reason struct {
	Cause string `json:"cause"`          // a fixed code in capitals; `settle dlq list` groups entries by it
	Note  string `json:"note,omitempty"` // what somebody else says about it, see coupon.Failure
	// True: every run tries again; false: the entry waits for an operator.
	Retryable bool         `json:"retryable"`
	Attempts  int          `json:"attempts"`    // number of failed attempts, including the latest
	Run       coupon.RunID `json:"run"`         // the run that made the latest attempt
	At        time.Time    `json:"at,omitzero"` // time of the latest attempt; zero: a person wrote the entry

	// Since is the time of the first failure. It is zero if At is the first failure.
	Since time.Time `json:"since,omitzero"`
	// Refused is how often MySQL refused to store the applicant's row. Review passes 0 or 1, and the script adds up.
	Refused int `json:"refused,omitempty"`
	// Night is the cutoff (UTC) of the last nightly run in which MySQL refused the row. Later reasons keep it.
	Night time.Time `json:"night,omitzero"`
	// Tried holds the last five attempts. It is empty after a single attempt. Only the script writes it.
	Tried []Attempt `json:"tried,omitempty"`
}

// Attempt is a failed attempt to settle an application.
type Attempt struct {
	At    time.Time    `json:"at,omitzero"`
	Run   coupon.RunID `json:"run"`
	Cause string       `json:"cause"`
	Note  string       `json:"note,omitempty"`
}

// maxRefusals is how many refused rows make a DLQ entry held: ten nights are enough for operators to notice the cause.
const maxRefusals = 10

// failed is an application that was not settled, with its reason.
type failed struct {
	coupon.Application
	Keep   bool // keep cause and note of the existing DLQ entry
	Reason Reason
}

// reasonOf returns the reason for one failure. It counts one attempt; the script adds the earlier ones.
func reasonOf(f coupon.Failure, run coupon.RunID, at time.Time) Reason {
	r := Reason{Cause: string(f.Cause), Note: f.Note, Retryable: f.Retryable, Attempts: 1, Run: run, At: at}
	if f.Row {
		r.Refused, r.Night = 1, f.Night
	}
	return r
}

// Review records failed applications in the DLQ: it moves them from the queue, adds those that only MySQL has, and
// counts one more attempt of those already there. It skips held entries, and applications that have left their source.
func (s *Store) Review(ctx context.Context, couponID coupon.CouponID, run coupon.RunID, at time.Time,
	failures []coupon.Failure) (reviewed int64, err error) {
	all := make([]failed, len(failures))
	for i, f := range failures {
		all[i] = failed{f.Application, f.Keep, reasonOf(f, run, at)}
	}
	return s.moveToDLQ(ctx, couponID, all)
}

// moveToDLQ expects reasons of one run.
func (s *Store) moveToDLQ(ctx context.Context, couponID coupon.CouponID, all []failed) (moved int64, err error) {
	for chunk := range slices.Chunk(all, reviewMembers) {
		args := append(make([]any, 0, 2+4*len(chunk)), maxRefusals, runOf(chunk[0].Reason.Run, chunk[0].Reason.At))
		for _, f := range chunk {
			reason, err := json.Marshal(f.Reason)
			if err != nil {
				return moved, fmt.Errorf("encode reason for %q: %w", f.Member, err)
			}
			source, known := reviewLetters[f.Source]
			if !known {
				return moved, fmt.Errorf("move %q to the DLQ of coupon %d: unknown source %d", f.Member, couponID,
					f.Source)
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

// Moved returns how many applications a run has moved to the DLQ or tried again there. The script that moves
// them also counts them: the count of a killed run is right.
func (s *Store) Moved(ctx context.Context, couponID coupon.CouponID, run coupon.RunID, at time.Time) (int, error) {
	n, err := s.rdb.HGet(ctx, s.names.coupon(couponID).state, "moved:"+runOf(run, at)).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("read what run %d moved to the DLQ of coupon %d: %w", run, couponID,
			rediserr.Classify(err))
	}
	return n, nil
}

// runOf names a run by its id and its time: MySQL gives an id again if it has lost the run.
func runOf(run coupon.RunID, at time.Time) string { return fmt.Sprintf("%d:%d", run, at.UnixMicro()) }

// reviewLetters maps a source to its letter in lua/review.lua.
var reviewLetters = map[coupon.Source]string{
	coupon.SourceQueue: "Q", coupon.SourceRetryable: "R", coupon.SourceRowRefused: "R", coupon.SourceTriedTonight: "R",
	coupon.SourceHeld: "H", coupon.SourceNotSelected: "N",
}

// Release makes held DLQ entries retryable, and returns their number. It skips entries whose arrival differs.
func (s *Store) Release(ctx context.Context, couponID coupon.CouponID,
	entries []coupon.Application) (released int64, err error) {
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

// Reasons returns the reasons of DLQ entries by member. Unreadable reasons are left out.
func (s *Store) Reasons(ctx context.Context, couponID coupon.CouponID, members []string) (map[string]Reason, error) {
	reasons := make(map[string]Reason, len(members))
	for chunk := range slices.Chunk(members, writeMembers) {
		values, err := s.rdb.HMGet(ctx, s.names.coupon(couponID).reason, chunk...).Result()
		if err != nil {
			return nil, fmt.Errorf("read DLQ reasons of coupon %d: %w", couponID, rediserr.Classify(err))
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
