package candidates

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

// replyOf reads lines as the values of a reply: ":1" is a whole number, ",1.5" a double, "_" nil, "#" true, "*2" an
// array of the two values that follow, anything else text.
func replyOf(text string) []any {
	lines := strings.Split(text, "\n")
	var read func(count, depth int) []any
	read = func(count, depth int) (values []any) {
		for ; count > 0 && len(lines) > 0; count-- {
			line := lines[0]
			lines = lines[1:]
			number, err := strconv.ParseInt(strings.TrimLeft(line, ":*"), 10, 64)
			switch {
			case strings.HasPrefix(line, ":") && err == nil:
				values = append(values, number)
			case strings.HasPrefix(line, "*") && err == nil && depth < 3:
				values = append(values, read(int(min(number, int64(len(lines)))), depth+1))
			case line == "_":
				values = append(values, nil)
			case line == "#":
				values = append(values, true)
			case strings.HasPrefix(line, ","):
				double, _ := strconv.ParseFloat(line[1:], 64)
				values = append(values, double)
			default:
				values = append(values, line)
			}
		}
		return values
	}
	return read(len(lines), 0)
}

// A valid reply has a known code and two whole numbers per user. Only accepted applications raise LastArrival.
func FuzzReadReceipts(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string, users byte) {
		reply := replyOf(text)
		receipts, promises, err := readReceipts(reply, make([]coupon.UserID, users))
		if err != nil {
			if receipts != nil || !reflect.DeepEqual(promises, Reply{}) {
				t.Errorf("an error with %d receipts and %+v", len(receipts), promises)
			}
			return
		}
		if len(receipts) != int(users) || len(reply) != 5+3*int(users) {
			t.Fatalf("%d values about %d users gave %d receipts", len(reply), users, len(receipts))
		}
		highest := coupon.Arrival(0)
		for i, r := range receipts {
			if values := reply[5+3*i:][:3]; !slices.Equal(values, []any{string(r.Code), int64(r.Arrival), r.Position}) || !codes[r.Code] {
				t.Errorf("%v was read as %+v", values, r)
			}
			if r.Code == Accepted {
				highest = max(highest, r.Arrival)
			}
			if r.OpensAt.IsZero() != (r.Code == NoWindow) && reply[1] != int64(math.MinInt64) {
				t.Errorf("%s opens at %s", r.Code, r.OpensAt)
			}
		}
		want := Seen{LastArrival: highest, Epoch: reply[4].(string), Accepted: reply[2].(int64), Twice: reply[3].(int64)}
		if promises.Seen != want || promises.Now != reply[0].(int64) {
			t.Errorf("%+v from %v", promises, reply)
		}
	})
}

func FuzzReadWatch(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string, users byte) {
		reply := replyOf(text)
		members := make([]string, users)
		for i := range members {
			members[i] = fmt.Sprint(i + 1)
		}
		w, err := readWatch(reply, members)
		if err != nil {
			if !reflect.DeepEqual(w, Watch{}) {
				t.Errorf("an error with %+v", w)
			}
			return
		}
		head := []any{w.Now.UnixMicro(), reply[1], w.DLQChanges, int64(w.Since), w.Waiting, int64(w.Lowest), int64(w.Highest), w.UpTo, int64(w.Last), reply[9],
			w.Accepted, w.Twice, w.Base, int64(w.Restored), w.Missing, int64(w.Opens), int64(w.Closes), reply[17], w.DLQ}
		if len(w.Users) != int(users) || !slices.Equal(reply[:watchHead], head) || w.Sold != (reply[1] == int64(1)) || w.Window != (reply[9] == int64(1)) || w.Paused != (reply[17] != int64(1)) {
			t.Fatalf("%v was read as %+v", reply, w)
		}
		for i, u := range w.Users {
			values := reply[watchHead+watchFound*i:][:watchFound]
			marks, arrivals := int64(0), map[bool]any{}
			if u.MarkedIssued {
				marks++
			}
			if u.MarkedRejected {
				marks += 2
			}
			for _, e := range u.Entries {
				arrivals[e.Source == coupon.SourceQueue] = int64(e.Arrival)
			}
			for n, queue := range map[int]bool{1: true, 3: false} {
				if at := values[n].(int64); (at >= 0) != (arrivals[queue] != nil) || at >= 0 && arrivals[queue] != at {
					t.Errorf("%v was read as %+v", values, u)
				}
			}
			if values[0] != marks || values[2] != u.Position {
				t.Errorf("%v was read as %+v", values, u)
			}
		}
	})
}

func FuzzReadCounts(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		reply := replyOf(text)
		n, err := readCounts(reply)
		if err != nil {
			if n != (Counts{}) {
				t.Errorf("an error with %+v", n)
			}
			return
		}
		sold := reply[7]
		if (sold == int64(1)) != n.Sold {
			t.Errorf("sold %v was read as %v", sold, n.Sold)
		}
		// Apart from the clock, every value is that of the reply.
		read := []any{n.Accepted, int64(n.LastArrival), n.Waiting, n.DLQ, n.Issued, n.Rejected, sold, int64(n.Highest), n.WaitingAfter, n.DLQAfter, n.Twice, int64(n.Since),
			int64(n.PutBackWait / time.Microsecond)}
		if !slices.Equal(reply[1:], read) {
			t.Errorf("%v was read as %+v", reply, n)
		}
	})
}

// An entry has a known source and an arrival that a double holds exactly, and a page before the last has a next cursor.
func FuzzParsePage(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		reply := replyOf(text)
		entries, next, err := parsePage(reply)
		if err != nil {
			if entries != nil || next != (coupon.Cursor{}) {
				t.Errorf("an error with %d entries and cursor %+v", len(entries), next)
			}
			return
		}
		if len(reply) != 5 || fmt.Sprint(reply[0]) != next.Score || fmt.Sprint(reply[1]) != next.Member || next.End != (reply[2] == "0") {
			t.Errorf("%v leads to %+v", reply, next)
		}
		for i, e := range entries {
			if e.Arrival < 0 || e.Arrival > coupon.MaxArrival || e.Source == 0 {
				t.Errorf("%v has entry %+v", reply, e)
			}
			if reply[4].([]any)[2*i] != e.Member {
				t.Errorf("%v was read as %+v", reply[4], e)
			}
		}
	})
}

// A whole number of µs that a score can hold is read to the letter, a fraction is rounded down, and order is kept.
func FuzzArrivalOf(f *testing.F) {
	f.Fuzz(func(t *testing.T, score string) {
		arrival, err := arrivalOf(score)
		number, parseErr := strconv.ParseFloat(score, 64)
		if err != nil {
			if parseErr == nil && !math.IsNaN(number) {
				t.Errorf("%q is %v and was refused: %v", score, number, err)
			}
			return
		}
		want := math.Floor(max(0, min(number, float64(coupon.MaxArrival))))
		if float64(arrival) != want {
			t.Errorf("%q was read as %d, want %v", score, arrival, want)
		}
	})
}

// What can be read of a reason can be written again and is the same: a retry does so.
func FuzzReadReason(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		reason, ok := readReason(text)
		if !ok {
			return
		}
		written, err := json.Marshal(reason)
		if err != nil {
			t.Fatalf("%q cannot be written again: %v", text, err)
		}
		again, ok := readReason(string(written))
		if !ok || !again.At.Equal(reason.At) {
			t.Fatalf("%q came back as %q", text, written)
		}
		again.At = reason.At
		if len(again.Tried) != len(reason.Tried) {
			t.Fatalf("%q came back as %q", text, written)
		}
		for i := range again.Tried {
			if !again.Tried[i].At.Equal(reason.Tried[i].At) {
				t.Errorf("%q came back as %q", text, written)
			}
			again.Tried[i].At = reason.Tried[i].At
		}
		if !slices.Equal(again.Tried, reason.Tried) {
			t.Errorf("%q came back as %q", text, written)
		}
		again.Tried = reason.Tried
		if !reflect.DeepEqual(again, reason) {
			t.Errorf("%q came back as %q", text, written)
		}
	})
}
