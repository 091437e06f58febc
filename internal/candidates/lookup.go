package candidates

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// UserLookup are everything that Redis holds of one user and one coupon, at one instant.
type UserLookup struct {
	Now      time.Time // the shard's clock
	Window   WindowState
	Entries  []coupon.Application // in the queue, in the DLQ; in both only after Redis lost data or by somebody's hand
	Position int64                // place among those waiting, from 1; 0 when not waiting
	Waiting  int64                // how many wait
	Reason   *Reason              // of the entry in the DLQ; nil where none can be read

	MarkedIssued, MarkedRejected bool // what the door answers at once
}

// WindowState is what lets applications of a coupon in, as Redis knows it.
type WindowState struct {
	Known         bool // false: Redis holds no window, since it was swept, was lost, or never came
	Opens, Closes time.Time
	Paused, Sold  bool
	Accepted      int64          // promises ever made, as far as this Redis remembers
	LastArrival   coupon.Arrival // highest ever given, µs since 1970
}

// LookupUser reads everything of one user and one coupon in one script.
func (s *Store) LookupUser(ctx context.Context, couponID coupon.CouponID, user coupon.UserID) (UserLookup, error) {
	k := s.names.coupon(couponID)
	reply, err := lookupUserScript.run(ctx, s.rdb, []string{k.queue, k.state, k.issued, k.rejected, k.dlq, k.reason}, strconv.FormatUint(user, 10))
	if err != nil {
		return UserLookup{}, fmt.Errorf("traces of user %d with coupon %d: %w", user, couponID, err)
	}
	t, err := parseTraces(reply, strconv.FormatUint(user, 10))
	if err != nil {
		return UserLookup{}, fmt.Errorf("traces of user %d with coupon %d: %w", user, couponID, err)
	}
	return t, nil
}

func parseTraces(reply []any, member string) (t UserLookup, err error) {
	var body []any
	if len(reply) == 8 {
		body, _ = reply[7].([]any)
		reply = reply[:7]
	}
	n, err := lookupUserScript.integers(reply, 7)
	if err != nil {
		return UserLookup{}, err
	}
	texts, err := lookupUserScript.texts(body, 7)
	if err != nil {
		return UserLookup{}, err
	}
	t = UserLookup{Now: time.UnixMicro(n[0]).UTC(), MarkedIssued: n[1] == 1, MarkedRejected: n[2] == 1, Waiting: n[3], Position: n[4],
		Window: WindowState{Paused: texts[2] != "OPEN", Sold: texts[3] == "1", Accepted: n[5], LastArrival: n[6]}}
	if texts[0] != "" && texts[1] != "" {
		t.Window.Known = true
		if t.Window.Opens, err = instantOf(texts[0]); err == nil {
			t.Window.Closes, err = instantOf(texts[1])
		}
		if err != nil {
			return UserLookup{}, fmt.Errorf("window of the door: %w", err)
		}
	}
	if reason := new(Reason); texts[6] != "" && json.Unmarshal([]byte(texts[6]), reason) == nil {
		t.Reason = reason
	}
	if err := t.stand(coupon.SourceQueue, member, texts[4]); err != nil {
		return UserLookup{}, err
	}
	reviewed := coupon.SourceHeld // also where no reason can be read
	if t.Reason != nil && t.Reason.Retryable {
		reviewed = coupon.SourceRetryable
	}
	return t, t.stand(reviewed, member, texts[5])
}

func (t *UserLookup) stand(source coupon.Source, member, score string) error {
	if score == "" {
		return nil
	}
	arrival, err := arrivalOf(score)
	if err != nil {
		return fmt.Errorf("entry %q has score %q", member, score)
	}
	t.Entries = append(t.Entries, coupon.Application{Member: member, Arrival: arrival, Source: source})
	return nil
}

func instantOf(text string) (time.Time, error) {
	µs, err := arrivalOf(text)
	return time.UnixMicro(µs).UTC(), err
}
