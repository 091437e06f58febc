package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// commit finds the COMMIT of one transaction on the wire of a run that settles one coupon after another.
type commit struct {
	after  string // a statement that no other transaction has
	coupon int    // of the scene, whose transaction it is

	unknownApplied bool // which of the two that take long is tried where time is short

	said   bool
	passed int
}

var transactions = map[string]commit{
	"those issued":        {after: "INTO user_coupon", unknownApplied: true},
	"a page of the rest":  {after: "INSERT INTO application_outcome"},
	"the end of a coupon": {after: "UPDATE coupon SET finalised_at", coupon: 2, unknownApplied: true},
}

// passes is whether this turn is the COMMIT, the first time.
func (c *commit) passes(turn faultproxy.Turn) bool {
	switch {
	case turn.Proxy != toMySQL:
	case bytes.Contains(turn.Request, []byte("START TRANSACTION")):
		c.said = false
	case bytes.Contains(turn.Request, []byte(c.after)):
		c.said = true
	case bytes.HasSuffix(turn.Request, []byte("\x03COMMIT")) && c.said:
		c.said = false
		c.passed++
		return c.passed == 1
	}
	return false
}

// settleThrough lets the program settle one coupon after the other.
func (w *world) settleThrough(servers []string, extra ...string) (code int, stdout, stderr string) {
	through := *w
	through.servers = servers
	args := []string{"run", "--cutoff=now", "--parallel=1", "--operator=kim", "--reason=test", "--output=json"}
	return through.settle(append(args, extra...)...)
}

// undisturbedTotal is what a run on a scene reports.
var undisturbedTotal = settle.Total{Coupons: 3, Counts: settle.Counts{Read: 3 + 43 + 4 + 3, Issued: 12 + 3 + 2, UnderReview: 7, Rejected: 1, AlreadyIssued: 3, NotSelected: 24 + 1}}

// mustReport demands the counts of an undisturbed run, in the report and in the run's records.
func (s *scene) mustReport(stdout string) {
	s.t.Helper()
	var report settle.Report
	require.NoError(s.t, json.Unmarshal([]byte(stdout), &report))
	report.Total.Millis = 0
	require.Equal(s.t, undisturbedTotal, report.Total)
	var recorded settle.Total
	require.NoError(s.t, s.db.QueryRow(`SELECT COUNT(*), SUM(read_count), SUM(issued_count), SUM(rejected_count),
		SUM(already_issued_count), SUM(not_selected_count), (SELECT COUNT(*) FROM application_outcome WHERE outcome = 'REJECTED' AND run_id = ?)
		FROM settlement WHERE run_id = ? AND cleaned_at IS NOT NULL`, report.Run, report.Run).
		Scan(&recorded.Coupons, &recorded.Read, &recorded.Issued, &recorded.UnderReview, &recorded.AlreadyIssued, &recorded.NotSelected, &recorded.Rejected))
	recorded.UnderReview -= recorded.Rejected // the record counts both
	require.Equal(s.t, undisturbedTotal, recorded)
}

func TestALostReplyToCommit(t *testing.T) {
	t.Parallel()
	st := newStage(t, runtime.GOMAXPROCS(0), newWiredWorld)
	for name, c := range transactions {
		t.Run(name+", applied", func(t *testing.T) {
			t.Parallel()
			goesOn(t, st.scene(t), c, faultproxy.DropReply(nil))
		})
		t.Run(name+", never delivered", func(t *testing.T) {
			t.Parallel()
			goesOn(t, st.scene(t), c, faultproxy.DropRequest(nil))
		})
		t.Run(name+", applied only when the job already looks for it", func(t *testing.T) {
			t.Parallel()
			waitsForTheLost(t, st.scene(t), c)
		})
		if testenv.Soaking() || c.unknownApplied {
			t.Run(name+", applied, and MySQL gone", func(t *testing.T) {
				t.Parallel()
				movesNothing(t, st.scene(t), c, faultproxy.DropReply)
			})
		}
		if testenv.Soaking() || !c.unknownApplied {
			t.Run(name+", never delivered, and MySQL gone", func(t *testing.T) {
				t.Parallel()
				movesNothing(t, st.scene(t), c, faultproxy.DropRequest)
			})
		}
	}
}

// Whether the COMMIT has happened or not: the run finds out, goes on, and counts nothing twice.
func goesOn(t *testing.T, s *scene, c commit, fate faultproxy.Action) {
	wires, servers := s.wiresTo(func(turn faultproxy.Turn) faultproxy.Action {
		if c.passes(turn) {
			return fate
		}
		return faultproxy.Pass()
	})
	code, stdout, stderr := s.settleThrough(servers)
	require.Zero(t, code, stderr)
	require.NotZero(t, wires[toMySQL].Turns())
	require.NotZero(t, c.passed, "a reply was lost")
	s.mustBeSettled()
	s.mustReport(stdout)
}

// The lost transaction is still open when the job looks for what has become of it: its lock makes the job wait until
// the COMMIT that was under way has arrived.
func waitsForTheLost(t *testing.T, s *scene, c commit) {
	late := make(chan struct{})
	_, servers := s.wiresTo(func(turn faultproxy.Turn) faultproxy.Action {
		if c.passes(turn) {
			return faultproxy.DelayRequest(late)
		}
		return faultproxy.Pass()
	})
	var code int
	var stdout, stderr string
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		code, stdout, stderr = s.settleThrough(servers)
	}()
	s.awaitLockWait()
	close(late)
	<-ended
	require.Zero(t, code, stderr)
	s.mustBeSettled()
	s.mustReport(stdout)
}

// As long as nobody can tell whether the COMMIT has happened, nothing of its coupon moves: nobody is taken out of the
// line and nobody is put under review. The next run finds out.
func movesNothing(t *testing.T, s *scene, c commit, fate func(func()) faultproxy.Action) {
	coupon := s.coupons()[c.coupon]
	var wires []*faultproxy.Proxy
	var before standing
	wires, servers := s.wiresTo(func(turn faultproxy.Turn) faultproxy.Action {
		if c.passes(turn) {
			return fate(func() {
				before = s.standing(coupon)
				wires[toMySQL].Down()
			})
		}
		return faultproxy.Pass()
	})
	code, _, stderr := s.settleThrough(servers, fmt.Sprintf("--coupon=%d", coupon))
	require.Equal(t, 1, code, stderr)
	require.NotZero(t, wires[toMySQL].Turns())
	require.NotZero(t, c.passed, "a reply was lost")
	require.NoError(t, before.err)
	require.Equal(t, before, s.standing(coupon))
	s.settleNow()
	s.mustBeSettled()
}

// Not only at COMMIT: whatever a run asks MySQL, it asks again on another connection, and nothing is done or counted
// twice.
func TestALostConnectionToMySQLAtAnyOperation(t *testing.T) {
	t.Parallel()
	st := newStage(t, runtime.GOMAXPROCS(0), newWiredWorld)
	var turns []operation
	t.Run("undisturbed", func(t *testing.T) { turns, _ = st.scene(t).undisturbed() })
	turns = slices.DeleteFunc(turns, func(o operation) bool { return o.wire != toMySQL })
	blows := everyBlow(len(turns), 1, 0)
	blows = spread(blows, testenv.Rounds(12, len(blows)))
	t.Run("lost", func(t *testing.T) {
		for _, b := range blows {
			t.Run(b.String(), func(t *testing.T) {
				t.Parallel()
				s := st.scene(t)
				lose := b.at(func(*process) {})
				asked := 0
				_, servers := s.wiresTo(func(turn faultproxy.Turn) faultproxy.Action {
					if turn.Proxy != toMySQL {
						return faultproxy.Pass()
					}
					asked++
					turn.Number = asked
					return lose(nil, turn)
				})
				code, stdout, stderr := s.settleThrough(servers)
				require.Zero(t, code, "%s%s", stdout, stderr)
				s.mustBeSettled()
				s.mustReport(stdout)
				require.Empty(t, s.ids("SELECT id FROM settlement_run WHERE status = 'RUNNING'"))
			})
		}
	})
	t.Logf("the connection to MySQL was lost at %d of its operations", len(blows))
}

// standing is who stands in Redis, with arrivals.
type standing struct {
	queue, dlq []redis.Z
	err        error
}

func (w *world) standing(coupon uint64) (s standing) {
	ctx := context.Background() // also from a rule, where no test can be failed
	var queueErr, dlqErr error
	s.queue, queueErr = w.rdb.ZRangeWithScores(ctx, w.queue(coupon), 0, -1).Result()
	s.dlq, dlqErr = w.rdb.ZRangeWithScores(ctx, "dlq:{"+w.queue(coupon)+"}", 0, -1).Result()
	s.err = errors.Join(queueErr, dlqErr)
	return s
}
