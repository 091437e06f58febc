package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVerify_NeverSettledInBothLanguages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.AddQueue(3, 1, 2)
	w.Exec("DELETE FROM coupon WHERE id = ?", couponID)
	for lang, want := range map[string]string{"ko": "위반 NEVER_SETTLED", "en": "VIOLATED NEVER_SETTLED"} {
		code, stdout, _ := w.settle("verify", "--lang="+lang)
		require.Equal(t, exitInvariant, code)
		require.Contains(t, stdout, want)
	}
}

// The printed account adds up when two Redis servers counted the same applications.
func TestVerify_PrintsCountedTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, user := range between(1, 2) {
		couponID := w.AddQueue(1, user)
		w.Exec("INSERT INTO promise (coupon_id, accepted, last_arrival, twice, seen_at) VALUES (?, 3, 0, 2, UTC_TIMESTAMP(6))"+
			" ON DUPLICATE KEY UPDATE accepted = 3, twice = 2", couponID)
	}
	code, total := w.verifyCode()
	require.Zero(t, code)
	require.EqualValues(t, 4, total.Total.Account.AskedAgain)
	require.Equal(t, total.Total.Gap, total.Total.Account.Gap())
	for lang, want := range map[string]string{"en": "written off 0, accepted again after a failover 4: gap 0", "ko": "유실 인정 0, 페일오버 후 재접수 4: 유실 0"} {
		_, text, _ := w.settle("verify", "--lang="+lang)
		require.Contains(t, text, want)
	}
}
