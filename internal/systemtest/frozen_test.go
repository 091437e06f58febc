package systemtest

import (
	"bytes"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// A `settle serve` that freezes in the middle of a transaction keeps a coupon from another one for as long as its
// session may be silent: the server ends it long before this test gives up. One that freezes after it changes nothing
// that another one has done.
func TestServe_FrozenProcessLetsAnotherWork(t *testing.T) {
	t.Parallel()
	at := func(statement string) []request { return []request{toMySQL(statement)} }
	for name, step := range map[string]struct {
		frozenTask
		path []request // with the last of these the process freezes: it sends it, and gets no reply
		slow bool      // takes 20 s, and differs little from another one
	}{
		"journal claims":    {copies, at("SELECT epoch, up_to, written_at"), false},
		"journal writes":    {copies, at("INTO line_journal"), false},
		"journal moves":     {copies, at("UPDATE journal SET epoch"), false},
		"journal deletes":   {clears, at("DELETE FROM line_journal"), false},
		"guard opens again": {guards, at("UPDATE coupon SET finalised_at = NULL"), false},
		"restore locks":     {restores, at("FOR UPDATE NOWAIT"), false},
		"restore reads":     {restores, at("SELECT arrival, user_id FROM line_journal"), false},
		"restore ends":      {restores, at(commit), false},
		"issue locks":       {issues, at("FOR UPDATE NOWAIT"), false},
		"issue inserts":     {issues, at("INTO user_coupon (coupon_id"), false},
		"issue is to end":   {issues, at("INTO settled"), false},
		"issue commits":     {issues, at(commit), false},
		"issue cleans up":   {issues, []request{toMySQL(commit), toRedis}, false},
		"issue sells out":   {sellsOut, []request{toMySQL(commit), toRedis, toRedis}, false},
		"night inserts":     {nights, at("INTO user_coupon (coupon_id"), false},
		"night closes out":  {nights, at("INTO application_outcome"), true},
	} {
		if step.slow && !testenv.Soaking() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := frozen{jajeongtest.New(t), jajeongtest.Between[coupon.UserID](1, 20)}
			f.AddUsers(f.users...)
			id := step.prepare(f)
			thaw := f.freeze(step.name, step.path)
			f.Start(f.Environment(), "./cmd/settle", "serve", "--tasks="+step.name)
			testenv.Eventually(t, "another process does the work", func() bool { return step.done(f, id) })
			thaw()
			f.SettleNow(id)
			seats := f.Number("SELECT total_quantity FROM coupon WHERE id = ?", id)
			require.ElementsMatch(t, f.users[:seats], f.Issued(id))
			f.Verify(id)
		})
	}
}

// frozenTask is what a task of `settle serve` has to do for one coupon.
type frozenTask struct {
	name    string
	prepare func(f frozen) coupon.CouponID
	done    func(f frozen, id coupon.CouponID) bool
}

var (
	copies = frozenTask{"journal", frozen.addLine, func(f frozen, id coupon.CouponID) bool {
		return f.Number("SELECT COUNT(*) FROM line_journal WHERE coupon_id = ?", id) == int64(len(f.users))
	}}
	clears = frozenTask{"journal", func(f frozen) coupon.CouponID {
		id := f.addFinalised()
		f.Exec("UPDATE coupon SET finalised_at = finalised_at - INTERVAL 1 HOUR WHERE id = ?", id)
		return id
	}, func(f frozen, id coupon.CouponID) bool {
		return f.Number("SELECT COUNT(*) FROM line_journal WHERE coupon_id = ?", id) == 0 &&
			f.Number("SELECT COUNT(*) FROM journal WHERE coupon_id = ?", id) == 0
	}}
	guards = frozenTask{"journal", func(f frozen) coupon.CouponID {
		id := f.addFinalised()
		require.NoError(f.T, f.Redis.HDel(f.T.Context(), f.Key("state", id), "final").Err())
		return id
	}, func(f frozen, id coupon.CouponID) bool { return len(f.Payloads(id, audit.CouponUnfinalised)) == 1 }}
	restores = frozenTask{"journal", func(f frozen) coupon.CouponID {
		id := f.addLine()
		f.Journal(id)
		f.Refresh()
		f.PodsDie()
		f.LoseRedis(id)
		return id
	}, func(f frozen, id coupon.CouponID) bool { return len(f.Waiting(id)) == len(f.users) }}
	issues   = frozenTask{"issue", func(f frozen) coupon.CouponID { return f.addImmediate(f.users[1:]...) }, frozen.issues}
	sellsOut = frozenTask{"issue", func(f frozen) coupon.CouponID { return f.addImmediate(f.users...) }, frozen.issues}
	nights   = frozenTask{"nights", func(f frozen) coupon.CouponID {
		yesterday := frozenRun{users: coupon.UserID(len(f.users))}
		yesterday.prepare(f.Deployment)
		f.Refresh()
		return yesterday.id
	}, func(f frozen, id coupon.CouponID) bool {
		return len(f.Issued(id)) == frozenSeats && len(f.Outcome(id, "NOT_SELECTED")) == len(f.users)-frozenSeats &&
			len(f.Waiting(id)) == 0
	}}
)

type frozen struct {
	*jajeongtest.Deployment
	users []coupon.UserID
}

// addLine adds a coupon with a seat for each user. All have applied.
func (f frozen) addLine() coupon.CouponID {
	f.T.Helper()
	id := f.AddCoupon(len(f.users))
	f.Apply(id, f.users...)
	return id
}

// addImmediate adds an immediate coupon with a seat for each user, for which some have applied.
func (f frozen) addImmediate(some ...coupon.UserID) coupon.CouponID {
	f.T.Helper()
	id := f.AddCoupon(len(f.users))
	f.Exec("UPDATE coupon SET cadence = 'IMMEDIATE' WHERE id = ?", id)
	f.Apply(id, some...)
	return id
}

// issues reports whether everybody has the coupon, and Redis knows that it is sold out. Who has not applied before the
// freeze applies now.
func (f frozen) issues(id coupon.CouponID) bool {
	f.T.Helper()
	f.Answer(id, f.users[0])
	return len(f.Issued(id)) == len(f.users) && len(f.Waiting(id)) == 0 && f.Look(id).Sold
}

// addFinalised adds such a coupon, whose end Redis and the journal have.
func (f frozen) addFinalised() coupon.CouponID {
	f.T.Helper()
	id := f.addLine()
	f.Journal(id)
	f.SetWindow(id, f.Now().Add(-time.Hour), f.Now())
	f.SettleNow(id)
	return id
}

// freeze starts a process, and stops it at a step. At the end of the test it must end in order.
func (f frozen) freeze(task string, path []request) (thaw func()) {
	f.T.Helper()
	through, s := stopAt(f.Deployment, path...)
	p := through.Start(through.Environment(), "./cmd/settle",
		append(through.Flags(through.Job), "serve", "--tasks="+task)...)
	s.arm(f.T, p.Process)
	s.await(f.T)
	return s.thaw
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
