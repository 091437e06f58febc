package cli

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// killable is a server that a test kills and restarts.
type killable interface {
	Kill() error
	Restart(ctx context.Context) error
}

// doomed are worlds with a server of their own each.
type doomed struct {
	wire   int                 // the one to those servers
	byFlag map[string]killable // the flag that leads there
}

func (m *doomed) of(s *scene) killable { return m.byFlag[s.servers[m.wire]] }

// newRedis is a world with a Redis of its own.
func (m *doomed) newRedis(t *testing.T, opts testenv.RedisOptions) *world {
	server := testenv.PrivateRedis(t, opts)
	w := newWorldOf(t, handle(t, server.Addr()), testenv.MySQLFor(t), someShape(t))
	m.byFlag[w.servers[m.wire]] = server
	return w
}

func (m *doomed) newMySQL(t *testing.T) *world {
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	w := newWorldOf(t, handle(t, redis.Addr()), privateDatabase(t, server), someShape(t))
	m.byFlag[w.servers[m.wire]] = server
	return w
}

// restartWithin is generous to a machine that runs many tests at once.
const restartWithin = 90 * time.Second

// strike kills the scene's server at an operation of a run. It comes up again at once, while the run still waits for its
// answer, or only when the run has ended. The exit code of the run is returned.
func (m *doomed) strike(s *scene, b blow, atOnce bool) (code int, step settle.Step, struck bool) {
	s.t.Helper()
	server := m.of(s)
	var failed error
	p := s.start(b.parallel, func(p *process, turn faultproxy.Turn) faultproxy.Action {
		if turn.Number != b.turn {
			return faultproxy.Pass()
		}
		dies := func() {
			struck, step = true, p.step()
			failed = server.Kill()
			if atOnce {
				failed = errors.Join(failed, restart(server))
			}
		}
		switch {
		case turn.Proxy != m.wire: // between two of its operations
			dies()
			return faultproxy.Pass()
		case b.after:
			return faultproxy.DropReply(dies)
		default:
			return faultproxy.DropRequest(dies)
		}
	})
	code, killed := p.wait()
	require.False(s.t, killed)
	require.NoError(s.t, failed)
	if struck && !atOnce {
		require.NoError(s.t, restart(server))
	}
	return code, step, struck
}

// restart is also called in a rule, where the test's context does not end it.
func restart(server killable) error {
	ctx, cancel := context.WithTimeout(context.Background(), restartWithin)
	defer cancel()
	return server.Restart(ctx)
}

// struck is what a test does with one scene at one operation: the step in which its server was killed, if it was.
type struck func(t *testing.T, s *scene, b blow, atOnce bool) (step settle.Step, hit bool)

// play kills the servers of such worlds at so many operations of a run.
func (m *doomed) play(t *testing.T, newWorld func(*testing.T) *world, points int, each struck) {
	st := newStage(t, testenv.Rounds(1, runtime.GOMAXPROCS(0)), newWorld)
	var turns []operation
	t.Run("undisturbed", func(t *testing.T) { turns, _ = st.scene(t).undisturbed() })
	blows := slices.DeleteFunc(append(everyBlow(len(turns), 1, 1), everyBlow(len(turns), 4, 2)...), func(b blow) bool {
		return b.after && turns[b.turn-1].wire != m.wire // the same as before the next one
	})
	blows = spread(blows, points)
	var hits tally
	t.Run("killed", func(t *testing.T) {
		for n, b := range blows {
			t.Run(b.String(), func(t *testing.T) {
				t.Parallel()
				if step, hit := each(t, st.scene(t), b, n%4 > 0); hit {
					hits.count(step)
				}
			})
		}
	})
	t.Logf("killed at %d kill points around the %d operations of a run, by step: %v", hits.total, len(turns), hits.steps)
	require.Greater(t, hits.total, len(blows)*8/10)
}

// spread takes so many, evenly from first to last.
func spread(blows []blow, n int) (taken []blow) {
	n = min(n, len(blows))
	for i := range n {
		taken = append(taken, blows[i*len(blows)/n])
	}
	return taken
}

func TestRedisIsKilledAtAnyOperationAndKeepsWhatItAcknowledged(t *testing.T) {
	t.Parallel()
	m := &doomed{toRedis, map[string]killable{}}
	newWorld := func(t *testing.T) *world {
		return m.newRedis(t, testenv.RedisOptions{AppendOnly: true, Args: []string{"--appendfsync", "always"}})
	}
	m.play(t, newWorld, testenv.Rounds(10, 300), func(t *testing.T, s *scene, b blow, atOnce bool) (settle.Step, bool) {
		code, step, struck := m.strike(s, b, atOnce)
		require.Contains(t, []int{0, 1}, code)
		s.rerun(b.reruns)
		s.mustBeSettled()
		return step, struck
	})
}

func TestMySQLIsKilledAtAnyOperation(t *testing.T) {
	t.Parallel()
	m := &doomed{toMySQL, map[string]killable{}}
	m.play(t, m.newMySQL, testenv.Rounds(4, 200), func(t *testing.T, s *scene, b blow, atOnce bool) (settle.Step, bool) {
		code, step, struck := m.strike(s, b, atOnce)
		require.Contains(t, []int{0, 1}, code)
		s.rerun(b.reruns)
		s.mustBeSettled()
		return step, struck
	})
}

// What was committed stays right, and everything else that was promised is missed: it holds its coupon until somebody
// takes the responsibility.
func TestRedisIsKilledAtAnyOperationAndComesBackEmpty(t *testing.T) {
	t.Parallel()
	m := &doomed{toRedis, map[string]killable{}}
	newWorld := func(t *testing.T) *world { return m.newRedis(t, testenv.RedisOptions{}) }
	m.play(t, newWorld, testenv.Rounds(8, 200), func(t *testing.T, s *scene, b blow, atOnce bool) (settle.Step, bool) {
		code, step, struck := m.strike(s, b, atOnce)
		require.Contains(t, []int{0, 1, 3}, code)
		if !struck {
			s.mustBeSettled()
			return step, false
		}
		s.podsDie()
		s.refresh()
		lost := s.lost()
		committed := s.found()

		code, report := s.settleNowCode()
		for _, c := range report.Coupons {
			place := slices.Index(s.coupons(), c.Coupon)
			require.Equal(t, lost[place], c.Gap, "coupon %d", place)
			require.Equal(t, lost[place] > 0, c.Status == coupon.HeldBack, "coupon %d", place)
		}
		if slices.Max(lost) > 0 {
			require.Equal(t, 3, code)
		} else {
			require.Zero(t, code)
		}
		for i, e := range s.found() {
			if lost[i] > 0 {
				require.Equal(t, committed[i], e, "coupon %d", i)
			}
		}

		code, _ = s.settleNowCode("--accept-gap")
		require.Zero(t, code)
		for i, e := range s.found() {
			want := s.expected()[i]
			require.GreaterOrEqual(t, len(e.Issued), len(committed[i].Issued))
			require.Equal(t, want.Issued[:len(e.Issued)], e.Issued, "the first of the line")
			require.Subset(t, want.NotSelected, e.NotSelected)
			require.Subset(t, want.AlreadyIssued, e.AlreadyIssued)
			require.Empty(t, e.Waiting)
			require.Equal(t, len(e.Issued), e.CountedIssued)
		}
		s.mustVerify()
		return step, true
	})
}

// lost is how many promises of each coupon are neither settled nor standing in Redis.
func (s *scene) lost() (lost []int64) {
	s.t.Helper()
	for _, couponID := range s.coupons() {
		var n int64
		require.NoError(s.t, s.db.QueryRow(`SELECT p.accepted
			- (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = p.coupon_id AND run_id IS NOT NULL)
			- (SELECT COUNT(*) FROM application_outcome WHERE coupon_id = p.coupon_id) FROM promise p WHERE coupon_id = ?`, couponID).Scan(&n))
		lost = append(lost, n-int64(len(s.waiting(couponID))+len(s.underReview(couponID))))
	}
	return lost
}
