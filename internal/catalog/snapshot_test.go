package catalog

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// An accepted snapshot has a time, all its coupons are found, and saving it again gives the same bytes.
func FuzzSnapshot(f *testing.F) {
	f.Fuzz(func(t *testing.T, snapshot []byte) {
		r, err := decodeSnapshot(snapshot)
		if err != nil {
			if r != nil {
				t.Errorf("an error with %+v", r)
			}
			return
		}
		if r.At.IsZero() {
			t.Errorf("%q has no time", snapshot)
		}
		c := New(Options{})
		c.replace(r, time.Time{})
		for _, coupon := range r.Coupons {
			held, ok := c.Lookup(coupon.ID)
			if !ok || held.Free() > held.TotalQuantity {
				t.Errorf("coupon %d of %q is %+v", coupon.ID, snapshot, held)
			}
		}
		saved, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("%q cannot be saved again: %v", snapshot, err)
		}
		again, err := decodeSnapshot(saved)
		if err != nil || !again.At.Equal(r.At) || len(again.Coupons) != len(r.Coupons) {
			t.Fatalf("%q came back as %q: %v", snapshot, saved, err)
		}
		for i, coupon := range r.Coupons {
			other := again.Coupons[i]
			if !other.OpensAt.Equal(coupon.OpensAt) || !other.ClosesAt.Equal(coupon.ClosesAt) {
				t.Errorf("the window of %+v came back as that of %+v", coupon, other)
			}
			other.OpensAt, other.ClosesAt = coupon.OpensAt, coupon.ClosesAt
			if !reflect.DeepEqual(coupon, other) {
				t.Errorf("%+v came back as %+v", coupon, other)
			}
		}
	})
}
