package events

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/coupon"

	"github.com/jajeong/jajeong/internal/records"
)

func TestStatementRowsAreThoseOfSettlements(t *testing.T) {
	t.Parallel()
	require.Equal(t, records.MaxSeatRows, statementRows)
}

func TestMessage_IsAsEncodedByTheStandardLibrary(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := func(name string) time.Time {
			return time.UnixMicro(rapid.Int64Range(0, 253402300799_999999).Draw(t, name)).UTC()
		}
		id := func(name string) uint64 { return rapid.Uint64Min(1).Draw(t, name) }
		issued := &Issued{Coupon: coupon.CouponID(id("coupon")), User: coupon.UserID(id("user")),
			UserCoupon: coupon.UserCouponID(id("row")),
			Position:   rapid.IntMin(0).Draw(t, "position"), AppliedAt: at("applied"), IssuedAt: at("issued"),
			ExpiresAt: at("ends"), Run: coupon.RunID(id("run"))}
		want, err := issued.Event().Message()
		require.NoError(t, err)
		require.Equal(t, string(want.Body), string(issued.Message().Body))
		require.Equal(t, want.Key, issued.Message().Key)
	})
}
