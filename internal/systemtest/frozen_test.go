package systemtest

import (
	"bytes"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// A `settle serve` that freezes in the middle of a transaction keeps a coupon from another one for as long as its session may
// be silent: the server ends it long before this test gives up.
func TestServe_FrozenProcessLetsAnotherWork(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]struct {
		task      string
		statement string // with which the process freezes: it sends it, and never gets the reply
		lost      bool   // Redis has lost the line, which the journal has
	}{
		"journal claims":  {"journal", "SELECT up_to FROM journal", false},
		"journal writes":  {"journal", "INSERT INTO line_journal", false},
		"journal moves":   {"journal", "UPDATE journal SET up_to", false},
		"restore locks":   {"journal", "FOR UPDATE NOWAIT", true},
		"restore reads":   {"journal", "SELECT arrival, user_id FROM line_journal", true},
		"restore ends":    {"journal", "COMMIT", true},
		"issue locks":     {"issue", "FOR UPDATE NOWAIT", false},
		"issue inserts":   {"issue", "INTO user_coupon (coupon_id", false},
		"issue is to end": {"issue", "COMMIT", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := frozen{jajeongtest.New(t), jajeongtest.Between[coupon.UserID](1, 20)}
			f.AddUsers(f.users...)
			id := f.AddImmediate(len(f.users))
			if step.task == "journal" {
				f.Exec("UPDATE coupon SET cadence = 'NIGHTLY' WHERE id = ?", id)
			}
			f.Apply(id, f.users...)
			if step.lost {
				f.Journal(id)
				f.Refresh()
				f.PodsDie()
				f.LoseRedis(id)
			}
			thaw := f.freeze(step.task, step.statement)
			f.Start(f.Environment(), "./cmd/settle", "serve", "--tasks="+step.task)
			f.awaitDone(id, step.task, step.lost)
			thaw()
			f.SettleNow(id)
			require.ElementsMatch(t, f.users, f.Issued(id))
			f.Verify(id)
		})
	}
}

type frozen struct {
	*jajeongtest.Deployment
	users []coupon.UserID
}

// freeze starts a process, and stops it at its first statement of that kind. At the end of the test it must end in order.
func (f frozen) freeze(task, statement string) (thaw func()) {
	f.T.Helper()
	var p *testenv.Program
	var once sync.Once
	started, struck := make(chan struct{}), make(chan struct{})
	_, through := f.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
		if bytes.Contains(turn.Request, []byte(statement)) {
			once.Do(func() {
				<-started
				if err := p.Process.Signal(syscall.SIGSTOP); err == nil {
					close(struck)
				}
			})
		}
		return faultproxy.Pass()
	})
	p = through.Start(through.Environment(), "./cmd/settle", append(through.Flags(through.Job), "serve", "--tasks="+task)...)
	close(started)
	thaw = func() { _ = p.Process.Signal(syscall.SIGCONT) }
	f.T.Cleanup(thaw)
	testenv.Receive(f.T, "the process reaches the step", struck)
	return thaw
}

func (f frozen) awaitDone(id coupon.CouponID, task string, lost bool) {
	f.T.Helper()
	testenv.Eventually(f.T, "another process does the work", func() bool {
		switch {
		case task == "issue":
			return len(f.Issued(id)) == len(f.users)
		case lost:
			return len(f.Waiting(id)) == len(f.users)
		default:
			return f.Number("SELECT COUNT(*) FROM line_journal WHERE coupon_id = ?", id) == int64(len(f.users))
		}
	})
}
