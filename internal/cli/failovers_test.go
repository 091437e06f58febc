package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// Redis is replaced more often than a restore can bear. Every verb that restores ends with 1 and says why.
func TestFailovers_EndWithOne(t *testing.T) {
	t.Parallel()
	w := newWorldBehindProxies(t)
	w.AddUsers(1, 2)
	id := w.AddCouponBetween(1, w.Now().Add(-72*time.Hour), w.Now().Add(time.Hour)) // due every night
	w.Apply(id, 1, 2)
	direct := w.servers
	_, w.servers = w.proxied(func(turn faultproxy.Turn) faultproxy.Action {
		if turn.Proxy == jajeongtest.ToRedis {
			w.FailOver(id)
		}
		return faultproxy.Pass()
	})
	for _, verb := range [][]string{
		{"run"},
		{"run", "--cutoff=now", "--operator=kim", "--reason=test"},
		{"restore", "--coupon=1", "--operator=kim", "--reason=test"},
	} {
		for lang, why := range map[string]string{
			"en": "run again when Redis is stable: nothing is lost by that", "ko": "다시 실행해도 유실되는 신청은 없습니다"} {
			code, stdout, stderr := w.settle(append(verb[:len(verb):len(verb)], "--lang="+lang)...)
			require.Equal(t, exitInfrastructure, code, "%v: %s%s", verb, stdout, stderr)
			require.Contains(t, stdout+stderr, why, verb)
		}
	}
	require.Empty(t, w.Issued(id))
	w.servers = direct
	w.settleNow()
	require.Equal(t, []coupon.UserID{1}, w.Issued(id))
}
