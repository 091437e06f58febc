package settle_test

import (
	"testing"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

// between are the users from first to last.
func between(first, last coupon.UserID) []coupon.UserID { return jajeongtest.Between(first, last) }
