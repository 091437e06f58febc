package systemtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/testenv/topology"
	"github.com/jajeong/jajeong/internal/wallet"
)

// All programs use the first node of three, until it leaves.
func TestGalera(t *testing.T) {
	t.Parallel()
	g := topology.StartGalera(t, 3)
	g.Exec(t, 0, "CREATE DATABASE jajeong CHARACTER SET utf8mb4")
	d := jajeongtest.NewWith(t, jajeongtest.Options{MySQL: &testenv.MySQLHandle{DSN: g.DSN("jajeong")}, Galera: true})
	c := &cluster{Galera: g, Deployment: d, users: 1}
	t.Run("another node commits first", c.testConflicts)
	t.Run("a large settlement", c.testLargeSettlement)
	t.Run("a node that applies late takes over", c.testLateNode)
	t.Run("nodes leave under load", c.testNodesLeave)
	d.Verify()
}

type cluster struct {
	*topology.Galera
	*jajeongtest.Deployment
	users coupon.UserID // the next one
}

// newUsers returns users of whom no other test knows.
func (c *cluster) newUsers(n int) []coupon.UserID {
	c.users += coupon.UserID(n)
	return jajeongtest.Between(c.users-coupon.UserID(n), c.users-1)
}

// The transaction gives way, and is repeated.
func (c *cluster) testConflicts(t *testing.T) {
	for name, one := range map[string]struct {
		prepare func(d *jajeongtest.Deployment, users []coupon.UserID) coupon.CouponID
		writes  string // the transaction, before its COMMIT
		change  string // of a row that it has locked; the sign changes it back
		act     func(d *jajeongtest.Deployment, id coupon.CouponID, users []coupon.UserID)
	}{
		"settlement": {nightly, "INTO user_coupon (coupon_id", "coupon SET version = version %s 1 WHERE id = ?",
			func(d *jajeongtest.Deployment, id coupon.CouponID, users []coupon.UserID) {
				d.SettleNow(id)
				require.Equal(d.T, users[:2], d.Issued(id))
			}},
		"immediate run": {immediate, "INTO user_coupon (coupon_id", "coupon SET version = version %s 1 WHERE id = ?",
			func(d *jajeongtest.Deployment, id coupon.CouponID, users []coupon.UserID) {
				require.Equal(d.T, 2, d.IssueNow(id).Issued)
				require.Equal(d.T, users[:2], d.Issued(id))
			}},
		"checkout": {issuedToAll, "INTO coupon_log", "user_coupon SET seq = seq %s 1 WHERE coupon_id = ?",
			func(d *jajeongtest.Deployment, id coupon.CouponID, users []coupon.UserID) {
				done, err := wallet.NewStore(d.WalletPool()).Redeem(d.T.Context(), id, wallet.Call{Verb: wallet.Reserve,
					Actor: "checkout", OrderID: "conflict", User: users[0], AmountWon: 1, TTL: time.Hour})
				require.NoError(d.T, err)
				require.Equal(d.T, wallet.Done, done.Code)
			}},
		"journal": {nightly, "INTO line_journal", "journal SET accepted = accepted %s 1 WHERE coupon_id = ?",
			func(d *jajeongtest.Deployment, id coupon.CouponID, users []coupon.UserID) {
				d.Journal(id)
				require.Equal(d.T, users, jajeongtest.Column[coupon.UserID](d,
					"SELECT user_id FROM line_journal WHERE coupon_id = ? ORDER BY arrival", id))
			}},
	} {
		t.Run(name, func(t *testing.T) {
			users := c.newUsers(3)
			id := one.prepare(c.For(t), users)
			writing, conflicts := false, 0
			_, through := c.For(t).Proxied(func(turn faultproxy.Turn) faultproxy.Action {
				writing = writing || bytes.Contains(turn.Request, []byte(one.writes))
				if writing && conflicts == 0 && bytes.Contains(turn.Request, []byte(commit)) {
					conflicts++
					c.changeElsewhere(t, one.change, id)
				}
				return faultproxy.Pass()
			})
			before := c.Aborts(t, 0)
			one.act(through, id, users)
			require.Greater(t, c.Aborts(t, 0), before)
			c.For(t).Verify(id)
		})
	}
}

func nightly(d *jajeongtest.Deployment, users []coupon.UserID) coupon.CouponID {
	return d.AddQueue(2, users...)
}

func immediate(d *jajeongtest.Deployment, users []coupon.UserID) coupon.CouponID {
	return d.AddImmediate(2, users...)
}

func issuedToAll(d *jajeongtest.Deployment, users []coupon.UserID) coupon.CouponID {
	id := d.AddQueue(len(users), users...)
	d.SettleNow(id)
	return id
}

// changeElsewhere changes a row on the second node, and changes it back.
func (c *cluster) changeElsewhere(t *testing.T, change string, id coupon.CouponID) {
	conn, err := c.On(1).Conn(t.Context())
	if !assert.NoError(t, err) {
		return
	}
	defer conn.Close()
	forth := fmt.Sprintf("UPDATE jajeong."+change, "+")
	back := fmt.Sprintf("UPDATE jajeong."+change, "-")
	for _, one := range [][]any{{"SET SESSION wsrep_sync_wait = 15"}, {"BEGIN"}, {forth, id}, {back, id}, {"COMMIT"}} {
		_, err := conn.ExecContext(t.Context(), one[0].(string), one[1:]...)
		assert.NoError(t, err, one)
	}
}

// One transaction has all rows.
func (c *cluster) testLargeSettlement(t *testing.T) {
	d, n := c.For(t), testenv.Rounds(5_000, 200_000)
	users := c.newUsers(n)
	d.AddUsers(users...)
	id := d.AddCoupon(n)
	d.ApplyLine(id, users...)
	began := time.Now()
	d.SettleNow(id)
	t.Logf("%d rows: %v", n, time.Since(began))
	require.Equal(t, users, d.Issued(id))
}

// The second node has not applied yet what the first one has committed. Readers wait for it.
func (c *cluster) testLateNode(t *testing.T) {
	d, users := c.For(t), c.newUsers(2)
	id := d.AddQueue(2, users...)
	late, err := c.On(1).Conn(t.Context())
	require.NoError(t, err)
	defer late.Close()
	exec := func(statement string) {
		_, err := late.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	exec("LOCK TABLES jajeong.user_coupon READ") // applying waits for it
	defer exec("UNLOCK TABLES")
	d.SettleNow(id)
	c.Address.Move(c.Nodes[1].Addr())
	list := make(chan int, 1)
	pool := d.WalletPool()
	go func() {
		items, _, err := wallet.NewStore(pool).List(t.Context(), users[0], wallet.MaxID, 10)
		assert.NoError(t, err)
		list <- len(items)
	}()
	testenv.Eventually(t, "the reader waits", func() bool {
		return len(list) > 0 || c.sessions(t, 1, "wallet", "%FROM user_coupon%") == 1
	})
	require.Zero(t, len(list), "listed before the node has applied all")
	exec("UNLOCK TABLES")
	require.Equal(t, 1, testenv.Receive(t, "the coupons are listed", list))
	before := c.Aborts(t, 1)
	require.Zero(t, d.SettleNow(id).Total.Issued)
	require.Equal(t, before, c.Aborts(t, 1))
	c.Address.Move(c.Nodes[0].Addr())
}

// Nodes leave while customers apply and order. Whatever these were told is so, and the programs go on by themselves.
func (c *cluster) testNodesLeave(t *testing.T) {
	l := newLeaving(t, c)
	over, stop := context.WithCancel(testenv.Patient(t))
	defer stop()
	var working sync.WaitGroup
	working.Go(func() { l.keepApplying(over) })
	working.Go(func() { l.keepOrdering(over) })
	l.awaitMore(t)

	settled := c.startCommit(t)
	l.takeOver(t, "isolated", 1, func() {
		c.Isolate(t, 0, 1)
		require.NoError(t, c.Nodes[2].Thaw())
	})
	settled()
	c.Isolate(t, 0, 0)
	c.AwaitAll(t)
	l.takeOver(t, "frozen", 2, func() { require.NoError(t, c.Nodes[1].Freeze()) })
	require.NoError(t, c.Nodes[1].Thaw())
	c.AwaitAll(t)
	l.takeOver(t, "killed", 0, func() { require.NoError(t, c.Nodes[2].Kill()) })
	stop()
	working.Wait()
	l.requireTold(t)
}

// startCommit lets an operator settle a coupon, until the first node waits for the others to have the transaction: the
// last one is frozen. When the first one leaves, it cannot say what became of the transaction. The others have it:
// settled checks that the run finds it there, and issues nothing again.
func (c *cluster) startCommit(t *testing.T) (settled func()) {
	d, users := c.For(t), c.newUsers(3)
	id := d.AddQueue(2, users...)
	inserts, committing := false, make(chan struct{})
	freeze := sync.OnceFunc(func() {
		assert.NoError(t, c.Nodes[2].Freeze())
		close(committing)
	})
	_, through := d.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
		inserts = inserts || bytes.Contains(turn.Request, []byte("INTO user_coupon (coupon_id"))
		if inserts && bytes.Contains(turn.Request, []byte(commit)) {
			freeze()
		}
		return faultproxy.Pass()
	})
	through.Job = through.Operator
	settler, reports := through.Settler(), make(chan *settle.Report, 1)
	go func() {
		report, err := settler.RunOnce(t.Context(), jajeongtest.Manual(id))
		assert.NoError(t, err)
		reports <- report
	}()
	testenv.Receive(t, "the run commits", committing)
	testenv.Eventually(t, "the node waits for the others", func() bool { // until it has gone on without them
		return c.sessions(t, 0, "operator", "COMMIT") == 1 || len(reports) > 0
	})
	return func() {
		require.Equal(t, 2, c.count(t, 1, "SELECT COUNT(*) FROM jajeong.user_coupon WHERE coupon_id = ?", id))
		report := testenv.Receive(t, "the run ends", reports)
		require.Equal(t, coupon.RunSucceeded, report.Status, "%+v", report.Coupons)
		require.Equal(t, 2, report.Total.Issued)
		d.Verify(id)
	}
}

// sessions is how many sessions of an account execute such a statement on a node.
func (c *cluster) sessions(t *testing.T, node int, account, statement string) int {
	t.Helper()
	return c.count(t, node, "SELECT COUNT(*) FROM information_schema.processlist WHERE user LIKE ? AND info LIKE ?",
		"jajeong_"+account+"%", statement)
}

func (c *cluster) count(t *testing.T, node int, query string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, c.On(node).QueryRowContext(t.Context(), query, args...).Scan(&n))
	return n
}

// leaving is what customers do while nodes leave.
type leaving struct {
	*cluster
	apply, wallet string          // addresses of programs
	open          coupon.CouponID // immediate
	issued        coupon.CouponID // all of the users have it
	users         []coupon.UserID

	mu      sync.Mutex
	applied int // the first of the users were told so
	ordered int // the first of the users were told that their order has the coupon
	refused map[string]int
}

func newLeaving(t *testing.T, c *cluster) *leaving {
	d := c.For(t)
	l := &leaving{cluster: c, users: c.newUsers(5_000), refused: map[string]int{}}
	d.AddUsers(l.users...)
	l.issued = d.AddCoupon(len(l.users))
	d.ApplyLine(l.issued, l.users...)
	d.SettleNow(l.issued)
	l.open = d.AddImmediate(len(l.users))
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, fmt.Appendf(nil, "checkout %x\n", sha256.Sum256([]byte(shopKey))), 0o600))
	l.apply = d.Start(append(d.Environment(), "ACCEPT_AFTER=journal"), "./cmd/apply-api", d.Flags(d.API)...).Apply
	l.wallet = d.Start(d.Environment(), "./cmd/wallet-api", "--mysql-dsn="+d.Wallet.MySQLDSN,
		"--service-keys-file="+keys).Wallet
	d.Start(d.Environment(), "./cmd/settle", append(d.Flags(d.Job), "serve", "--tasks=issue,journal")...)
	return l
}

// perCustomer keeps customers from running out before the last node has left.
const perCustomer = 20 * time.Millisecond

// keepApplying lets one user after the other apply until told. Who was not told may have got the coupon meanwhile.
func (l *leaving) keepApplying(over context.Context) {
	for n := 0; n < len(l.users) && over.Err() == nil; {
		pause(over, perCustomer)
		a := jajeongtest.Ask(nil, l.apply, http.MethodPost, "", l.open, l.users[n])
		if a.Code == "ALREADY_ISSUED" {
			a.HTTP = http.StatusOK
		}
		if l.note(&l.applied, "apply", a.HTTP) {
			n++
		}
	}
}

func (l *leaving) keepOrdering(over context.Context) {
	for n := 0; n < len(l.users) && over.Err() == nil; {
		pause(over, perCustomer)
		status := reserve(l.T.Context(), l.wallet, fmt.Sprint("O-", n), l.issued, l.users[n])
		if l.note(&l.ordered, "order", status) {
			n++
		}
	}
}

// note notes an answer. It reports whether the customer was told.
func (l *leaving) note(told *int, call string, status int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch status {
	case http.StatusOK, http.StatusCreated, http.StatusAccepted:
		*told++
		return true
	case http.StatusServiceUnavailable:
	default:
		l.refused[fmt.Sprint(call, " ", status)]++
	}
	return false
}

func (l *leaving) counts() (applied, ordered int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.applied, l.ordered
}

// takeOver moves the address from a node that leaves to another one. A proxy ends the sessions of a server that does
// not answer; the others stay.
func (l *leaving) takeOver(t *testing.T, how string, to int, leave func()) {
	t.Helper()
	began := time.Now()
	leave()
	l.AwaitWithout(t, to)
	l.Address.Move(l.Nodes[to].Addr())
	if how == "frozen" {
		l.Address.Cut()
	}
	moved := time.Now()
	l.awaitMore(t)
	t.Logf("%s: the address moves after %v, all go on after %v more", how, moved.Sub(began), time.Since(moved))
}

// awaitMore waits until customers are told more, and more coupons are issued.
func (l *leaving) awaitMore(t *testing.T) {
	t.Helper()
	applied, ordered := l.counts()
	testenv.Eventually(t, "customers are told more", func() bool {
		a, o := l.counts()
		return a >= applied+20 && o >= ordered+20
	})
	testenv.Eventually(t, "they get their coupons", func() bool {
		var n int
		err := l.DB.QueryRowContext(t.Context(), "SELECT issued_count FROM coupon WHERE id = ?", l.open).Scan(&n)
		return err == nil && n >= applied+20
	})
}

func (l *leaving) requireTold(t *testing.T) {
	t.Helper()
	require.Empty(t, l.refused)
	d := l.For(t)
	applied, ordered := l.counts()
	testenv.Eventually(t, "all get their coupons", func() bool { return len(d.Issued(l.open)) >= applied })
	require.Subset(t, d.Issued(l.open), l.users[:applied])
	require.Subset(t, jajeongtest.Column[coupon.UserID](d, "SELECT user_id FROM coupon_order WHERE state = 'RESERVED'"),
		l.users[:ordered])
}
