package coupon

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseUserID_AcceptsCanonicalIDsOnly(t *testing.T) {
	t.Parallel()
	for member, want := range map[string]UserID{
		"1": 1, "42": 42, "18446744073709551615": math.MaxUint64,
		"0": 0, "": 0, "01": 0, "+1": 0, "-1": 0, " 1": 0, "1 ": 0, "1.0": 0, "1e3": 0, "abc": 0,
		"18446744073709551616": 0, "１": 0, "1\x00": 0,
	} {
		require.Equal(t, want, ParseUserID(member), "%q", member)
	}
}

func FuzzParseUserID(f *testing.F) {
	for _, seed := range []string{"1", "01", "abc", "18446744073709551616", "", "１"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, member string) {
		if user := ParseUserID(member); user != 0 && user.Member() != member {
			t.Errorf("%q was read as %d", member, user)
		}
	})
}
