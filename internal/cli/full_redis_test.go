package cli

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
)

// fullRedis leaves the Redis of a scene no memory until the test ends.
func (s *scene) fullRedis() {
	s.t.Helper()
	require.NoError(s.t, s.rdb.ConfigSet(s.t.Context(), "maxmemory", "1").Err())
	s.t.Cleanup(func() { require.NoError(s.t, s.rdb.ConfigSet(context.Background(), "maxmemory", "0").Err()) })
}

// A settlement is what frees the memory of a Redis that is full: it goes through without any, also where one before it was
// killed at any instant.
func TestARunOverAFullRedis(t *testing.T) {
	t.Parallel()
	st := newStage(t, runtime.GOMAXPROCS(0), newWiredWorld)
	var turns []operation
	t.Run("undisturbed", func(t *testing.T) {
		s := st.scene(t)
		s.fullRedis()
		turns, _ = s.undisturbed()
	})
	blows := someBlows(turns, 2)
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

// What people do about a full Redis they can do: shut a door, and decide about who is under review.
func TestPeopleWorkOverAFullRedis(t *testing.T) {
	t.Parallel()
	w := newWiredWorld(t)
	w.populate()
	s := w.setScene()
	s.fullRedis()
	for _, change := range []string{"pause", "resume", "close"} {
		w.mustChange(change, s.roomy)
	}
	s.settleNow()
	for _, args := range [][]string{{"retry", "--cutoff=now"}, {"drop", "--user=abc", "--user=9"}} {
		code, _, stderr := w.dlq(args[0], s.full, args[1:]...)
		require.Zero(t, code, stderr)
	}
	s.mustVerify()
}
