package systemtest

import (
	"bytes"
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// A `settle serve` that freezes in the middle of a transaction keeps a coupon from another one for as long as its
// session may be silent: the server ends it long before this test gives up.
func TestServe_FrozenProcessLetsAnotherWork(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]struct {
		task      string
		statement string // with which the process freezes: it sends it, and never gets the reply
		lost      bool   // Redis has lost the line, which the journal has
	}{
		"journal claims":  {"journal", "SELECT epoch, up_to, written_at", false},
		"journal writes":  {"journal", "INTO line_journal", false},
		"journal moves":   {"journal", "UPDATE journal SET epoch", false},
		"restore locks":   {"journal", "FOR UPDATE NOWAIT", true},
		"restore reads":   {"journal", "SELECT arrival, user_id FROM line_journal", true},
		"restore ends":    {"journal", commit, true},
		"issue locks":     {"issue", "FOR UPDATE NOWAIT", false},
		"issue inserts":   {"issue", "INTO user_coupon (coupon_id", false},
		"issue is to end": {"issue", "INTO settled", false},
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

// freeze starts a process, and stops it at its first statement of that kind. At the end of the test it must end in
// order.
func (f frozen) freeze(task, statement string) (thaw func()) {
	f.T.Helper()
	through, s := stopAt(f.Deployment, toMySQL(statement))
	p := through.Start(through.Environment(), "./cmd/settle",
		append(through.Flags(through.Job), "serve", "--tasks="+task)...)
	s.arm(f.T, p.Process)
	s.await(f.T)
	return s.thaw
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

// commit is a statement of its own: sessions set READ COMMITTED.
const commit = "\x03COMMIT"

// request is a part of a request to MySQL or Redis.
type request struct {
	to   int // ToMySQL or ToRedis
	part string
}

func toMySQL(statement string) request { return request{jajeongtest.ToMySQL, statement} }

// toRedis is a call of any script.
var toRedis = request{jajeongtest.ToRedis, "evalsha"}

// stop freezes a process as it sends the last of some requests, which it sends in this order. It gets the reply when it
// goes on.
type stop struct {
	armed, struck chan struct{}
	process       *os.Process
}

// stopAt returns the deployment as the process must reach it.
func stopAt(d *jajeongtest.Deployment, path ...request) (through *jajeongtest.Deployment, s *stop) {
	d.T.Helper()
	s = &stop{armed: make(chan struct{}), struck: make(chan struct{})}
	_, through = d.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
		if len(path) == 0 || turn.Proxy != path[0].to || !bytes.Contains(turn.Request, []byte(path[0].part)) {
			return faultproxy.Pass()
		}
		if path = path[1:]; len(path) == 0 {
			<-s.armed
			if s.process.Signal(syscall.SIGSTOP) == nil && s.awaitStop() == nil {
				close(s.struck)
			}
		}
		return faultproxy.Pass()
	})
	return through, s
}

// awaitStop returns when the process stands still: the signal takes effect a moment after it was sent.
func (s *stop) awaitStop() error {
	for {
		if _, err := syscall.Wait4(s.process.Pid, nil, syscall.WUNTRACED, nil); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// arm says which process it is. It goes on at the end of the test at the latest.
func (s *stop) arm(t testing.TB, process *os.Process) {
	s.process = process
	t.Cleanup(s.thaw)
	close(s.armed)
}

func (s *stop) await(t testing.TB) {
	t.Helper()
	testenv.Receive(t, "the process reaches the step", s.struck)
}

func (s *stop) thaw() { _ = s.process.Signal(syscall.SIGCONT) }
