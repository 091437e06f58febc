package settle_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// fullRedis leaves Redis no memory until the test ends.
func (s *scene) fullRedis() {
	s.T.Helper()
	require.NoError(s.T, s.Redis.ConfigSet(s.T.Context(), "maxmemory", "1").Err())
	s.T.Cleanup(func() { require.NoError(s.T, s.Redis.ConfigSet(context.Background(), "maxmemory", "0").Err()) })
}

// A settlement frees memory. It needs none, also after a run that was killed.
func TestSettle_NeedsNoMemoryOfFullRedis(t *testing.T) {
	t.Parallel()
	st := newStage(t, runtime.GOMAXPROCS(0), jajeongtest.NewOnPrivateRedis)
	var turns []operation
	t.Run("undisturbed", func(t *testing.T) {
		s := st.scene(t)
		s.fullRedis()
		turns, _ = s.undisturbed()
	})
	blows := someBlows(turns, 1)
	if testenv.Soaking() {
		blows = everyBlow(len(turns), 1, 1)
	}
	var struck tally
	t.Run("killed", func(t *testing.T) {
		for _, b := range blows {
			t.Run(b.String(), func(t *testing.T) {
				t.Parallel()
				s := st.scene(t)
				s.fullRedis()
				if _, killed := s.start(b.parallel, b.at((*process).kill)).wait(); killed {
					struck.count(turns[b.turn-1].step)
				}
				s.rerun(b.reruns)
				s.mustBeSettled()
			})
		}
	})
	require.Empty(t, struck.missed())
}

// Operators can change windows and decide about the DLQ.
func TestOperators_NeedNoMemoryOfFullRedis(t *testing.T) {
	t.Parallel()
	s := oneScene(t)
	s.fullRedis()
	admin := s.CouponAdmin()
	for _, change := range []func(context.Context, coupon.CouponID) (*couponadmin.Change, error){admin.Pause, admin.Resume, admin.Close} {
		changed, err := change(t.Context(), s.roomy)
		require.NoError(t, err)
		require.NoError(t, changed.PublishErr)
	}
	s.SettleNow()
	s.Retry(s.full)
	s.Drop(s.full, "abc", "9")
	s.Verify(s.coupons()...)
}
