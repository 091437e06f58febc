package systemtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// The sizes of the shop. Four clients of each user compete for the user's two coupons.
const (
	shopUsers   = 4
	shopClients = 16
	shopPods    = 2
)

// shopTTL is the shortest RESERVE_TTL that wallet-api takes.
const shopTTL = 10 * time.Second

const shopKey = "a service key"

// Clients reserve, confirm, release and refund at two wallet-api while these and MySQL are killed with SIGKILL and
// started again. An operator revokes, reissues and extends coupons. A client repeats each call that was not answered.
// Afterwards the tables say what was answered, and nothing else.
func TestWallet_AddsUpAfterProgramsAndMySQLKilled(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	var working sync.WaitGroup
	over, stop := context.WithCancel(testenv.Patient(t))
	defer stop()
	for i := range shopClients {
		c := s.newClient(i)
		working.Go(func() { c.keepOrdering(over) })
	}
	working.Go(func() { s.keepOperating(over) })
	kills := testenv.Rounds(5, 300)
	for s.kills() < kills && !t.Failed() {
		s.strike()
	}
	testenv.Eventually(t, "an operator changes coupons", func() bool { return s.acts.Load() >= 3 || t.Failed() })
	stop()
	working.Wait()
	require.False(t, t.Failed())

	s.requireTrueAnswers()
	s.requireOneEach()
	s.requireTrueActs()
	s.Verify()
	code, output := s.RunToEnd(func() *exec.Cmd { return s.settle("verify") })
	require.Zero(t, code, output)
	require.NotZero(t, s.unanswered.Load())
	t.Logf("passed: %d kill points (%d wallet-api, %d MySQL), %d calls answered, %d attempts unanswered, %d orders, "+
		"%d operator's changes",
		s.kills(), s.podKills, s.mysqlKills, s.answered.Load(), s.unanswered.Load(), s.orders(), s.acts.Load())
}

// shop is a deployment with programs that are killed, and its clients.
type shop struct {
	*jajeongtest.Deployment
	server  *testenv.MySQL
	coupons []coupon.CouponID
	keys    string // SERVICE_KEYS_FILE
	chance  *rand.Rand
	ctx     context.Context // of calls
	pods    [shopPods]*pod
	clients []*shopClient

	strikes, podKills, mysqlKills int
	answered, unanswered, acts    atomic.Int64
	holders                       map[owned]*ofOperator // of the operator alone
}

type owned struct {
	coupon coupon.CouponID
	user   coupon.UserID
}

// ofOperator is what an operator was told about a coupon of a user.
type ofOperator struct {
	revoked bool
	until   time.Time // zero: never extended
}

// pod is a wallet-api that is killed and started again, each time at another address.
type pod struct {
	program *testenv.Program
	address atomic.Value // string
}

func newShop(t *testing.T) *shop {
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
	s := &shop{server: server, Deployment: jajeongtest.NewWith(t,
		jajeongtest.Options{MySQL: jajeongtest.DatabaseOn(t, server)}),
		keys: filepath.Join(t.TempDir(), "keys"), chance: testenv.Random(t), ctx: testenv.Patient(t),
		holders: map[owned]*ofOperator{}}
	users := jajeongtest.Between[coupon.UserID](1, shopUsers)
	s.AddUsers(users...)
	for range 2 {
		id := s.AddCoupon(shopUsers)
		s.Apply(id, users...)
		s.coupons = append(s.coupons, id)
		for _, user := range users {
			s.holders[owned{id, user}] = new(ofOperator)
		}
	}
	s.Exec("UPDATE coupon SET discount_won = 5000 WHERE id = ?", s.coupons[0])
	s.Exec("UPDATE coupon SET discount_percent = 10, discount_max_won = 3000 WHERE id = ?", s.coupons[1])
	s.SettleNow()
	require.NoError(t, os.WriteFile(s.keys, fmt.Appendf(nil, "checkout %x\n", sha256.Sum256([]byte(shopKey))), 0o600))
	for i := range s.pods {
		s.pods[i] = new(pod)
		s.startPod(s.pods[i])
		t.Cleanup(func() { assert.NoError(t, s.pods[i].program.Stop()) })
	}
	return s
}

func (s *shop) startPod(p *pod) {
	s.T.Helper()
	cmd := exec.Command(testenv.Build(s.T, "./cmd/wallet-api"), "--mysql-dsn="+s.Wallet.MySQLDSN,
		"--service-keys-file="+s.keys, "--reserve-ttl="+shopTTL.String())
	cmd.Env = s.Environment()
	program, err := testenv.StartProgram(testenv.Patient(s.T), cmd)
	require.NoError(s.T, err)
	p.program = program
	p.address.Store(program.Wallet)
}

func (s *shop) kills() int { return s.podKills + s.mysqlKills }

// strike waits until clients got some more answers, then kills a process or all, and starts them again.
func (s *shop) strike() {
	s.T.Helper()
	target := s.answered.Load() + 50 + s.chance.Int64N(150)
	testenv.Eventually(s.T, "clients get answers", func() bool { return s.answered.Load() > target || s.T.Failed() })
	mysql, pods := s.strikes%2 == 0, s.pods[:0]
	switch {
	case s.strikes%5 == 4:
		mysql, pods = true, s.pods[:]
	case !mysql:
		pods = s.pods[s.chance.IntN(shopPods):][:1]
	}
	s.strikes++
	if mysql {
		s.mysqlKills++
		require.NoError(s.T, s.server.Kill())
	}
	for _, p := range pods {
		s.podKills++
		require.NoError(s.T, p.program.Process.Kill())
	}
	for _, p := range pods {
		require.Error(s.T, p.program.Stop(), "the process was killed")
	}
	if mysql {
		require.NoError(s.T, s.server.Restart(s.T.Context()))
	}
	for _, p := range pods {
		s.startPod(p)
	}
}

func (s *shop) settle(args ...string) *exec.Cmd {
	cmd := exec.Command(testenv.Build(s.T, "./cmd/settle"), append(args, s.Flags(s.Operator)...)...)
	cmd.Env = s.Environment()
	return cmd
}

// keepOperating is an operator who takes a coupon from a user, gives it back and extends it, again and again.
func (s *shop) keepOperating(over context.Context) {
	var all []owned
	for h := range s.holders {
		all = append(all, h)
	}
	for n := 1; over.Err() == nil && !s.T.Failed(); n++ {
		h := all[s.chance.IntN(len(all))]
		told := s.holders[h]
		if s.operate("revoke", h, [][]string{nil, {"--free-seat"}}[s.chance.IntN(2)]...) {
			told.revoked = true
			pause(over, s.upTo(200*time.Millisecond))
			if !s.operate("reissue", h) {
				s.T.Errorf("a coupon was not reissued: %+v", h)
				return
			}
			// Some are revoked in the end, if no order has them.
			told.revoked = s.chance.IntN(8) == 0 && s.operate("revoke", h)
			if told.revoked {
				all = slices.DeleteFunc(all, func(other owned) bool { return other == h })
			}
		}
		until := time.Date(2030, 1, n, 0, 0, 0, 0, jajeongtest.Zone)
		if !told.revoked && s.operate("extend-user", h, "--until="+until.AddDate(0, 0, -1).Format(time.DateOnly)) {
			told.until = until
		}
		if len(all) <= shopUsers {
			return // the other half of the coupons is left for the clients
		}
	}
}

// operate repeats a change until it is known whether it was made. A coupon that an order has is refused to the
// operator.
func (s *shop) operate(verb string, h owned, more ...string) (made bool) {
	args := append([]string{"coupon", verb, h.coupon.String(), "--user=" + h.user.Member(), "--operator=lee",
		"--reason=CS-1"}, more...)
	for {
		cmd := s.settle(args...)
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		err := cmd.Run()
		if err == nil {
			s.acts.Add(1)
			return true
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() > 2 || s.ctx.Err() != nil {
			s.T.Errorf("%v: %v\n%s", args, err, &output)
			return false
		}
		if exit.ExitCode() == 2 {
			return false
		}
	}
}

// upTo is a random time.
func (s *shop) upTo(longest time.Duration) time.Duration {
	return time.Duration(s.chance.Int64N(int64(longest)))
}

// pause returns early when the test is over.
func pause(over context.Context, d time.Duration) {
	select {
	case <-over.Done():
	case <-time.After(d):
	}
}

func (s *shop) orders() (n int) {
	for _, c := range s.clients {
		n += len(c.orders)
	}
	return n
}

// logRow is a row of coupon_log.
type logRow struct {
	fact
	order string
}

// requireTrueAnswers compares what clients were told about each order with its rows in coupon_log and coupon_order.
func (s *shop) requireTrueAnswers() {
	s.T.Helper()
	logs, states := map[string][]fact{}, map[string]coupon.OrderState{}
	for _, r := range s.logRows() {
		logs[r.order] = append(logs[r.order], r.fact)
	}
	rows, err := s.DB.Query("SELECT order_id, state FROM coupon_order")
	require.NoError(s.T, err)
	defer rows.Close()
	for rows.Next() {
		var id string
		var state coupon.OrderState
		require.NoError(s.T, rows.Scan(&id, &state))
		states[id] = state
	}
	require.NoError(s.T, rows.Err())
	for _, c := range s.clients {
		for _, o := range c.orders {
			o.check(s.T, logs[o.id], states[o.id])
			delete(logs, o.id)
			delete(states, o.id)
		}
	}
	require.Empty(s.T, logs, "orders that no client placed")
	require.Empty(s.T, states, "orders that no client placed")
}

func (s *shop) logRows() (all []logRow) {
	s.T.Helper()
	rows, err := s.DB.Query(`SELECT l.order_id, l.kind, u.coupon_id, u.user_id, l.amount_won, l.discount_won, l.at
		FROM coupon_log l JOIN user_coupon u ON u.id = l.user_coupon_id WHERE l.order_id IS NOT NULL ORDER BY l.id`)
	require.NoError(s.T, err)
	defer rows.Close()
	for rows.Next() {
		var r logRow
		require.NoError(s.T, rows.Scan(&r.order, &r.kind, &r.coupon, &r.user, &r.amount, &r.discount, &r.at))
		all = append(all, r)
	}
	require.NoError(s.T, rows.Err())
	return all
}

// requireOneEach asks the tables, and what clients were told, whether two orders have one coupon or two coupons one
// order.
func (s *shop) requireOneEach() {
	s.T.Helper()
	require.Empty(s.T,
		s.IDs("SELECT user_coupon_id FROM coupon_order WHERE state IN ('RESERVED', 'USED') GROUP BY 1 HAVING "+
			"COUNT(*) > 1"))
	require.Empty(s.T, jajeongtest.Column[string](s.Deployment,
		"SELECT order_id FROM user_coupon WHERE order_id IS NOT NULL GROUP BY 1 HAVING COUNT(*) > 1"))
	usedBy := map[owned]string{}
	for _, c := range s.clients {
		for _, o := range c.orders {
			if o.state == coupon.OrderUsed {
				require.Empty(s.T, usedBy[owned{o.coupon, o.user}], "a coupon is used by %s too", o.id)
				usedBy[owned{o.coupon, o.user}] = o.id
			}
		}
	}
}

// requireTrueActs compares the coupons with what the operator was told.
func (s *shop) requireTrueActs() {
	s.T.Helper()
	for h, told := range s.holders {
		var status coupon.UserCouponStatus
		var until time.Time
		require.NoError(s.T,
			s.DB.QueryRow("SELECT status, expires_at FROM user_coupon WHERE coupon_id = ? AND user_id = ?", h.coupon,
				h.user).
				Scan(&status, &until))
		require.Equal(s.T, told.revoked, status == coupon.CouponRevoked, "%+v is %s", h, status)
		if !told.until.IsZero() {
			require.True(s.T, told.until.Equal(until), "%+v is valid until %v, want %v", h, until, told.until)
		}
	}
}

func (s *shop) newClient(i int) *shopClient {
	c := &shopClient{shop: s, number: i, user: coupon.UserID(i%shopUsers + 1),
		http: &http.Client{Transport: new(http.Transport)}}
	s.T.Cleanup(c.http.CloseIdleConnections)
	s.clients = append(s.clients, c)
	return c
}
