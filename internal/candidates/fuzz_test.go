package candidates

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/jajeong/jajeong/internal/coupon"
)

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
