package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/receipt"
)

// The receipt of a DUPLICATE has the first arrival, and the position of now.
func TestApply_SignsReceipts(t *testing.T) {
	t.Parallel()
	keys := api.ReceiptKeys(t, "1")
	arrival := coupon.ArrivalAt(opens)
	s := newSiteOf(t, api.Options{Receipts: keys, Coupons: shelf{42: {ID: 42}}, Applier: applier(
		func(_ context.Context, _ coupon.CouponID, user coupon.UserID) (candidates.Receipt, error) {
			if user == 7 {
				return candidates.Receipt{Code: candidates.Accepted, Arrival: arrival, Position: 12, Now: opens}, nil
			}
			return candidates.Receipt{Code: candidates.Duplicate, Arrival: arrival, Position: 3,
				Now: opens.Add(1500 * time.Millisecond)}, nil
		})})
	for user, want := range map[string]receipt.Receipt{
		"7": {Coupon: 42, User: 7, Arrival: arrival, Position: 12, SignedAt: opens.Unix()},
		"8": {Coupon: 42, User: 8, Arrival: arrival, Position: 3, SignedAt: opens.Unix() + 1},
	} {
		reply := s.apply("42", user)
		got, err := keys.Check(reply.body["receipt"].(string))
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.NotEmpty(t, reply.body["detail"])
	}
}

func TestApply_SignsNoRefusal(t *testing.T) {
	t.Parallel()
	s := newSiteOf(t, api.Options{Receipts: api.ReceiptKeys(t, "1"), Coupons: shelf{1: {ID: 1}}, Applier: everyAnswer})
	for _, user := range []string{"3", "4", "5", "6", "7", "8", "9", "14"} {
		reply := s.apply("1", user)
		require.Equal(t, http.StatusConflict, reply.status)
		require.NotContains(t, reply.body, "receipt")
	}
}
