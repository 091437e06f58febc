package cli

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	shop "github.com/jajeong/jajeong/internal/users"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

// run runs the program in this process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return Run(ctx, Process{Args: args, Stdin: os.Stdin, Stdout: stdout, Stderr: stderr, Version: "test", Now: time.Now})
}

// world is a deployment with flags that lead the program to it. Its own methods are those of jajeongtest under other names.
type world struct {
	t        *testing.T
	servers  []string          // flags with the access of the settlement
	accounts map[string]string // DSNs by the names in sql/grants.sql
	redisAs  *testenv.RedisUsers
	db       *sql.DB
	rdb      redis.UniversalClient
	prefix   string
	store    *candidates.Store

	table      *jajeongtest.UserTable
	directory  *shop.Directory
	deployment *jajeongtest.Deployment
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, testenv.RedisFor(t))
}

// newWorldOn has its queues in that Redis.
func newWorldOn(t *testing.T, r testenv.RedisHandle) *world {
	t.Helper()
	return newWorldWith(t, r, testenv.MySQLFor(t))
}

func newWorldWith(t *testing.T, r testenv.RedisHandle, m testenv.MySQLHandle) *world {
	t.Helper()
	return newWorldOf(t, r, m, &jajeongtest.MigratedUsers)
}

// newWorldOf has that table of users.
func newWorldOf(t *testing.T, r testenv.RedisHandle, m testenv.MySQLHandle, table *jajeongtest.UserTable) *world {
	t.Helper()
	d := jajeongtest.NewWith(t, jajeongtest.Options{Redis: &r, MySQL: &m, Users: table})
	return &world{t: t, servers: d.Flags(d.Job), accounts: d.Accounts, redisAs: d.RedisUsers, db: d.DB, rdb: d.Redis, prefix: d.Prefix, store: d.Store,
		table: table, directory: d.Users, deployment: d}
}

// d is the deployment with what the test may have replaced.
func (w *world) d() *jajeongtest.Deployment {
	d := w.deployment.For(w.t)
	d.DB, d.Redis, d.Store = w.db, w.rdb, w.store
	return d
}

// as is a pool with that account.
func (w *world) as(account string) *sql.DB {
	w.t.Helper()
	require.Contains(w.t, w.accounts, account)
	db, err := (&connect.MySQLSettings{MySQLDSN: w.accounts[account]}).Open(zap.NewNop())
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = db.Close() })
	return db
}

// settle runs the program as a person would and returns its exit code and what it printed.
func (w *world) settle(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(context.Background(), append(args, w.serversFor(args)...), &out, &errs)
	return code, out.String(), errs.String()
}

// serversFor are the servers as whoever gives such a command reaches them: people have an account of their own.
func (w *world) serversFor(args []string) []string {
	person := func(arg string) bool { return arg == "coupon" || arg == "dlq" || strings.HasPrefix(arg, "--operator=") }
	asJob := w.servers[0] == "--mysql-dsn="+w.accounts["jajeong_settle"] // and not what a test has put in its place
	if !asJob || !slices.ContainsFunc(args, person) {
		return w.servers
	}
	return append([]string{"--mysql-dsn=" + w.accounts["jajeong_operator"]}, w.servers[1:]...)
}

// settleNow settles everything that has arrived and returns the report.
func (w *world) settleNow(extra ...string) *settle.Report {
	w.t.Helper()
	code, report := w.settleNowCode(extra...)
	require.Zero(w.t, code)
	return report
}

func (w *world) settleNowCode(extra ...string) (int, *settle.Report) {
	w.t.Helper()
	code, stdout, stderr := w.settle(unless(extra, "run", "--cutoff=now", "--operator=kim", "--reason=test", "--output=json")...)
	var report settle.Report
	require.NoError(w.t, json.Unmarshal([]byte(stdout), &report), "%s%s", stdout, stderr)
	return code, &report
}

// unless is a command with extra flags, which stand in place of its own of the same name.
func unless(extra []string, command ...string) []string {
	command = slices.DeleteFunc(command, func(arg string) bool {
		name, _, isFlag := strings.Cut(arg, "=")
		return isFlag && slices.ContainsFunc(extra, func(other string) bool { return strings.HasPrefix(other, name+"=") })
	})
	return append(command, extra...)
}

// verify demands that every invariant holds, without so much as a warning.
func (w *world) verify() {
	w.t.Helper()
	code, report := w.verifyCode()
	require.Zero(w.t, code)
	for _, v := range report.Coupons {
		require.Empty(w.t, v.Findings, "coupon %d", v.Coupon)
	}
}

func (w *world) verifyCode() (int, ledger.Summary) {
	w.t.Helper()
	code, stdout, stderr := w.settle("verify", "--output=json")
	var report ledger.Summary
	require.NoError(w.t, json.Unmarshal([]byte(stdout), &report), "%s%s", stdout, stderr)
	return code, report
}

func (w *world) coupon(seats int) coupon.CouponID { return w.d().AddCoupon(seats) }

func (w *world) couponBetween(seats int, opens, closes time.Time) coupon.CouponID {
	return w.d().AddCouponBetween(seats, opens, closes)
}

func (w *world) now() time.Time                                  { return w.d().Now() }
func (w *world) users(ids ...coupon.UserID)                      { w.d().AddUsers(ids...) }
func (w *world) setStanding(status string, ids ...coupon.UserID) { w.d().SetStatus(status, ids...) }
func (w *world) forget(user coupon.UserID)                       { w.d().RemoveUser(user) }
func (w *world) exec(query string, args ...any)                  { w.d().Exec(query, args...) }
func (w *world) ids(query string, args ...any) []uint64          { return w.d().IDs(query, args...) }
func (w *world) apply(couponID coupon.CouponID, users ...coupon.UserID) {
	w.d().Apply(couponID, users...)
}
func (w *world) answer(couponID coupon.CouponID, user coupon.UserID) candidates.Code {
	return w.d().Answer(couponID, user)
}
func (w *world) queue(couponID coupon.CouponID) string     { return w.d().Queue(couponID) }
func (w *world) waiting(couponID coupon.CouponID) []string { return w.d().Waiting(couponID) }
func (w *world) arrivals(couponID coupon.CouponID) map[string]coupon.Arrival {
	return w.d().Arrivals(couponID)
}
func (w *world) underReview(couponID coupon.CouponID) map[string]coupon.Arrival {
	return w.d().UnderReview(couponID)
}
func (w *world) issued(couponID coupon.CouponID) []coupon.UserID { return w.d().Issued(couponID) }
func (w *world) refuseOddUsers()                                 { w.d().RefuseOddUsers() }
func (w *world) refresh()                                        { w.d().Refresh() }
func (w *world) catalog() *catalog.Catalog                       { return w.d().Catalog() }

func (w *world) stand(couponID coupon.CouponID, member string, arrival time.Time) {
	w.d().ApplyAt(couponID, member, arrival)
}

func (w *world) reason(couponID coupon.CouponID, member string) candidates.Reason {
	return w.d().Reason(couponID, member)
}

func (w *world) outcome(couponID coupon.CouponID, outcome string) []coupon.UserID {
	return w.d().Outcome(couponID, outcome)
}

func (w *world) lock(couponID coupon.CouponID) (release func()) { return w.d().Lock(couponID) }

// podsDie has all pods forget which applications they accepted.
func (w *world) podsDie() {
	d := w.d()
	d.PodsDie()
	w.store = d.Store
}

func between(first, last coupon.UserID) []coupon.UserID { return jajeongtest.Between(first, last) }

// newWiredWorld has a Redis of its own: a wire leads to one server, which TEST_REDIS_ADDRS need not be.
func newWiredWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, *jajeongtest.RedisAt(t, testenv.PrivateRedis(t, testenv.RedisOptions{}).Addr()), testenv.MySQLFor(t), jajeongtest.SomeUserTable(t))
}

// wiresTo puts wires before the MySQL and the Redis of a world and returns the flags that lead through them.
func (w *world) wiresTo(rule faultproxy.Rule) (wires []*faultproxy.Proxy, servers []string) {
	wires, d := w.d().Proxied(rule)
	if w.servers[0] == "--mysql-dsn="+w.accounts["jajeong_operator"] {
		return wires, d.Flags(d.Operator)
	}
	return wires, d.Flags(d.Job)
}

// toMySQL is the place of the wire to MySQL.
const toMySQL = jajeongtest.ToMySQL
