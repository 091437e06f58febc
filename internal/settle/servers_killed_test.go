package settle_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/verify"
)

// killable is a server that a test kills and restarts.
type killable interface {
	Kill() error
	Restart(ctx context.Context) error
}

// doomed are deployments with a server of their own each.
type doomed struct {
	proxy   int                  // in front of those servers
	servers map[*sql.DB]killable // by the pool of the deployment
}

// newRedis is a deployment with a Redis of its own.
func (m *doomed) newRedis(opts testenv.RedisOptions) func(testing.TB) *jajeongtest.Deployment {
	return func(t testing.TB) *jajeongtest.Deployment {
		server := testenv.PrivateRedis(t, opts)
		d := jajeongtest.NewWith(t, jajeongtest.Options{Redis: jajeongtest.RedisAt(t, server.Addr()),
			Users: jajeongtest.SomeUserTable(t)})
		m.servers[d.DB] = server
		return d
	}
}

func (m *doomed) newMySQL(t testing.TB) *jajeongtest.Deployment {
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	d := jajeongtest.NewWith(t, jajeongtest.Options{Redis: jajeongtest.RedisAt(t, redis.Addr()),
		MySQL: jajeongtest.DatabaseOn(t, server), Users: jajeongtest.SomeUserTable(t)})
	m.servers[d.DB] = server
	return d
}

// strike kills the scene's server at an operation of a run. The server restarts immediately, while the run waits for
// its answer, or after the run has ended. It returns the exit code of the run.
func (m *doomed) strike(s *scene, b blow, atOnce bool) (code int, step settle.Step, struck bool) {
	s.T.Helper()
	server := m.servers[s.DB]
	var failed error
	p := s.start(b.parallel, func(p *process, turn faultproxy.Turn) faultproxy.Action {
		if turn.Number != b.turn {
			return faultproxy.Pass()
		}
		dies := func() {
			struck, step = true, p.step()
			failed = server.Kill()
			if atOnce {
				// In a rule, the test's context does not end it.
				failed = errors.Join(failed, server.Restart(context.Background()))
			}
		}
		switch {
		case turn.Proxy != m.proxy: // between two of its operations
			dies()
			return faultproxy.Pass()
		case b.after:
			return faultproxy.DropReply(dies)
		default:
			return faultproxy.DropRequest(dies)
		}
	})
	code, killed := p.wait()
	require.False(s.T, killed)
	require.NoError(s.T, failed)
	if struck && !atOnce {
		require.NoError(s.T, server.Restart(testenv.Patient(s.T)))
	}
	return code, step, struck
}

// struck is a test of one scene at one operation. It returns the step in which the server was killed, if it was.
type struck func(t *testing.T, s *scene, b blow, atOnce bool) (step settle.Step, hit bool)

// turnsOfRun are the operations of an undisturbed run. All servers that are killed see about the same.
var (
	turnsOnce  sync.Once
	turnsOfRun []operation
)

// play kills the servers at that many operations of a run.
func (m *doomed) play(t *testing.T, newDeployment func(testing.TB) *jajeongtest.Deployment, points int, each struck) {
	st := newStage(t, testenv.Rounds(1, runtime.GOMAXPROCS(0)), newDeployment)
	t.Run("undisturbed", func(t *testing.T) {
		turnsOnce.Do(func() { turnsOfRun, _ = st.scene(t).undisturbed() })
	})
	turns := turnsOfRun
	different := func(blows []blow) []blow {
		return slices.DeleteFunc(blows, func(b blow) bool {
			return b.after && turns[b.turn-1].proxy != m.proxy // the same as before the next one
		})
	}
	blows := append(spread(different(everyBlow(len(turns), 1, 1)), points-points/2),
		spread(different(everyBlow(len(turns), 4, 2)), points/2)...)
	var hits tally
	t.Run("killed", func(t *testing.T) {
		for n, b := range blows {
			t.Run(b.String(), func(t *testing.T) {
				t.Parallel()
				d := st.free(t)
				step, hit := each(t, newScene(d), b, n%4 > 0)
				for ; !hit; step, hit = each(t, newScene(d), b, n%4 > 0) {
					b = b.earlier()
				}
				hits.count(step)
			})
		}
	})
	t.Logf("killed at %d kill points around the %d operations of a run, by step: %v", hits.total, len(turns),
		hits.steps)
	require.Equal(t, len(blows), hits.total)
}

// completes is a test in which repetitions of the run complete it.
func (m *doomed) completes(t *testing.T, s *scene, b blow, atOnce bool) (settle.Step, bool) {
	code, step, struck := m.strike(s, b, atOnce)
	require.Contains(t, []int{0, 1}, code)
	s.rerun(b.reruns)
	s.mustBeSettled()
	return step, struck
}

// spread takes n, each from the middle of its part of them all.
func spread(blows []blow, n int) (taken []blow) {
	n = min(n, len(blows))
	for i := range n {
		taken = append(taken, blows[(2*i+1)*len(blows)/(2*n)])
	}
	return taken
}

func TestSettle_CompletesAfterRedisKilledAndRestoredFromAOF(t *testing.T) {
	t.Parallel()
	m := &doomed{jajeongtest.ToRedis, map[*sql.DB]killable{}}
	newDeployment := m.newRedis(testenv.RedisOptions{AppendOnly: true, Args: []string{"--appendfsync", "always"}})
	m.play(t, newDeployment, testenv.Rounds(3, 300), m.completes)
}

func TestSettle_CompletesAfterMySQLKilled(t *testing.T) {
	t.Parallel()
	m := &doomed{jajeongtest.ToMySQL, map[*sql.DB]killable{}}
	m.play(t, m.newMySQL, testenv.Rounds(2, 200), m.completes)
}

// traces are traces of the coupons of a scene. Everybody has applied before.
func (s *scene) traces() (all []*jajeongtest.Trace) {
	for _, couponID := range s.coupons() {
		trace := s.Trace(couponID, jajeongtest.HandOverTime)
		trace.Unanswered(between(1, 72)...)
		trace.Look()
		all = append(all, trace)
	}
	return all
}

// Committed settlements stay. The journal has all other applications: the next run enters them again, and decides them.
func TestSettle_CompletesAfterRedisKilledAndEmptied(t *testing.T) {
	t.Parallel()
	m := &doomed{jajeongtest.ToRedis, map[*sql.DB]killable{}}
	newDeployment := m.newRedis(testenv.RedisOptions{})
	m.play(t, newDeployment, testenv.Rounds(2, 200),
		func(t *testing.T, s *scene, b blow, atOnce bool) (settle.Step, bool) {
			s.Journal(s.coupons()...)
			traces := s.traces()
			code, step, struck := m.strike(s, b, atOnce)
			for _, trace := range traces { // the server is empty, or a restore has entered everybody
				trace.Look()
			}
			require.Contains(t, []int{0, 1}, code)
			if !struck {
				s.rerun(1)
				s.mustBeSettled()
				return step, false
			}
			s.PodsDie()
			committed := s.found()
			s.SettleNow()
			for _, trace := range traces {
				trace.Check()
			}
			for i, e := range s.found() {
				require.Subset(t, e.Issued, committed[i].Issued)
				require.Empty(t, e.Waiting)
				require.Equal(t, len(e.Issued), e.CountedIssued)
			}
			for _, code := range s.Findings(s.coupons()...) { // members that are no users are not in the journal
				require.Equal(t, verify.PromiseUnknown, code)
			}
			return step, true
		})
}
