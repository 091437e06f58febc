package cli

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/explain"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verify"
	"github.com/jajeong/jajeong/internal/wallet"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

var hangul = regexp.MustCompile(`\p{Hangul}`)

// run runs the program in this process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return Run(ctx, Process{Args: args, Stdin: os.Stdin, Stdout: stdout, Stderr: stderr, Version: "test", Now: time.Now,
		Grace:        Grace,
		HandOverTime: jajeongtest.HandOverTime})
}

// world is a deployment with the flags that lead the program to it.
type world struct {
	*jajeongtest.Deployment
	servers []string // flags with the access of the settlement
	noon    bool     // see atNoon
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, jajeongtest.Options{})
}

func newWorldWith(t *testing.T, o jajeongtest.Options) *world {
	t.Helper()
	d := jajeongtest.NewWith(t, o)
	return &world{Deployment: d, servers: d.Flags(d.Job)}
}

// phrasing words answers in English, with times in the program's zone.
func (w *world) phrasing() explain.Phrasing {
	zone := jajeongtest.Zone
	if w.noon {
		zone = w.Noon()
	}
	return explain.Phrasing{Locale: output.Locale{Language: text.English, Zone: zone}}
}

// atNoon has the deployment settle in a time zone in which it is about noon, so that no midnight strikes during the
// test.
func (w *world) atNoon() *time.Location {
	zone := w.Noon()
	if !w.noon {
		w.SetZone(zone.String())
		w.noon = true
	}
	return zone
}

// date is the flag for today, at noon.
func (w *world) date() string { return "--date=" + w.Now().In(w.atNoon()).Format(time.DateOnly) }

// month is the flag for this month, at noon.
func (w *world) month() string { return "--month=" + w.Now().In(w.atNoon()).Format("2006-01") }

// as is a pool of an account.
func (w *world) as(account string) *sql.DB {
	w.T.Helper()
	require.Contains(w.T, w.Accounts, account)
	return opened(w.T, w.Accounts[account])
}

// opened is a pool with the sessions of the programs. MySQL ends none while a test waits.
func opened(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := (&connect.MySQLSettings{MySQLDSN: dsn}).Open(connect.Patient, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// allTables returns the names of all tables of a database.
func allTables(t testing.TB, db *sql.DB) []string {
	t.Helper()
	tables, err := mysqltx.Column[string](t.Context(), db,
		"SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()")
	require.NoError(t, err)
	return tables
}

// settle runs the program and returns its exit code and its output.
func (w *world) settle(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(context.Background(), append(args, w.serversFor(args)...), &out, &errs)
	return code, out.String(), errs.String()
}

// reads returns what a command prints that only reads. On a slow machine a server answers too late: then it runs again.
func (w *world) reads(args ...string) string {
	w.T.Helper()
	code, stdout, stderr := w.settle(args...)
	for code == exitInfrastructure && testenv.Patient(w.T).Err() == nil {
		code, stdout, stderr = w.settle(args...)
	}
	return succeeds(w.T)(code, stdout, stderr)
}

// succeeds requires that a command has succeeded, and returns what it printed.
func succeeds(t testing.TB) func(code int, stdout, stderr string) string {
	return func(code int, stdout, stderr string) string {
		t.Helper()
		require.Zero(t, code, "%s%s", stdout, stderr)
		return stdout
	}
}

// refused requires that a command was refused with this text.
func refused(t testing.TB, want string) func(code int, stdout, stderr string) {
	return func(code int, stdout, stderr string) {
		t.Helper()
		require.Equal(t, exitUse, code, "%s%s", stdout, stderr)
		require.Contains(t, stderr, want)
	}
}

// serversFor are the flags with the account for a command: operators have an account of their own.
func (w *world) serversFor(args []string) []string {
	manual := func(arg string) bool { return arg == "coupon" || arg == "dlq" || strings.HasPrefix(arg, "--operator=") }
	asJob := w.servers[0] == "--mysql-dsn="+w.Accounts["jajeong_settle"] // unless the test has replaced it
	if !asJob || !slices.ContainsFunc(args, manual) {
		return w.servers
	}
	return append([]string{"--mysql-dsn=" + w.Accounts["jajeong_operator"]}, w.servers[1:]...)
}

// settleNow settles everything that has arrived and returns the report.
func (w *world) settleNow(extra ...string) *settle.Report {
	w.T.Helper()
	code, report := w.settleNowCode(extra...)
	require.Zero(w.T, code)
	return report
}

func (w *world) settleNowCode(extra ...string) (int, *settle.Report) {
	w.T.Helper()
	code, stdout, stderr := w.settle(unless(extra, "run", "--cutoff=now", "--operator=kim", "--reason=test",
		"--output=json")...)
	var report settle.Report
	require.NoError(w.T, json.Unmarshal([]byte(stdout), &report), "%s%s", stdout, stderr)
	return code, &report
}

// unless is a command with extra flags. They replace its own flags of the same name.
func unless(extra []string, command ...string) []string {
	command = slices.DeleteFunc(command, func(arg string) bool {
		name, _, isFlag := strings.Cut(arg, "=")
		return isFlag && slices.ContainsFunc(extra,
			func(other string) bool { return strings.HasPrefix(other, name+"=") })
	})
	return append(command, extra...)
}

// verify requires that no coupon has findings, including warnings, except that SQL has created it.
func (w *world) verify() {
	w.T.Helper()
	code, report := w.verifyCode()
	require.Zero(w.T, code)
	for _, v := range report.Coupons {
		require.Empty(w.T, slices.DeleteFunc(v.Findings, verify.Finding.OfCreation), "coupon %d", v.Coupon)
	}
}

func (w *world) verifyCode() (int, verify.Summary) {
	w.T.Helper()
	code, stdout, stderr := w.settle("verify", "--output=json")
	var report verify.Summary
	require.NoError(w.T, json.Unmarshal([]byte(stdout), &report), "%s%s", stdout, stderr)
	return code, report
}

func between(first, last coupon.UserID) []coupon.UserID { return jajeongtest.Between(first, last) }

// checkout makes calls of a checkout for an order of 12,000 won, and returns the last answer.
func (w *world) checkout(couponID coupon.CouponID, user coupon.UserID, order string,
	verbs ...wallet.Verb) (last wallet.Code) {
	w.T.Helper()
	pool, err := w.Wallet.Open(connect.Patient, zap.NewNop())
	require.NoError(w.T, err)
	defer pool.Close()
	for _, verb := range verbs {
		d, err := wallet.Redeem(w.T.Context(), mysqltx.NewBrief(pool), couponID,
			wallet.Call{Verb: verb, Actor: "checkout", OrderID: order, User: user, AmountWon: 12_000,
				TTL: 15 * time.Minute})
		require.NoError(w.T, err)
		last = d.Code
	}
	return last
}

// newWorldBehindProxies has a Redis of its own: a proxy leads to one server, which TEST_REDIS_ADDRS need not be.
func newWorldBehindProxies(t *testing.T) *world {
	t.Helper()
	d := jajeongtest.NewOnPrivateRedis(t)
	return &world{Deployment: d, servers: d.Flags(d.Job)}
}

// proxied puts fault proxies in front of MySQL and Redis, and returns the flags that lead through them.
func (w *world) proxied(rule faultproxy.Rule) (proxies []*faultproxy.Proxy, servers []string) {
	proxies, d := w.Proxied(rule)
	if w.servers[0] == "--mysql-dsn="+w.Accounts["jajeong_operator"] {
		return proxies, d.Flags(d.Operator)
	}
	return proxies, d.Flags(d.Job)
}
