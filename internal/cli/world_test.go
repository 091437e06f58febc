package cli

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/docs"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
	shop "github.com/jajeong/jajeong/internal/users"
	migrations "github.com/jajeong/jajeong/sql"
)

// The defaults of the database server are hostile to every session that does not force its own.
func TestMain(m *testing.M) {
	candidates.PutBackTime = 100 * time.Millisecond // many tests take servers away; failover_test.go waits as long as people do
	testenv.MainHostile(m)
}

// run runs the program in this process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return Run(ctx, Process{Args: args, Stdin: os.Stdin, Stdout: stdout, Stderr: stderr, Version: "test", Now: time.Now})
}

// world is one deployment on real servers: a database and a key prefix of its own, migrated by `settle migrate`. The
// program works under the grants of sql/grants.sql and the users of docs/redis-users.acl; what the test does itself, it does as an administrator.
type world struct {
	t        *testing.T
	servers  []string          // the flags that lead there, with the account of the job
	accounts map[string]string // DSNs by the names of the grants
	redisAs  *testenv.RedisUsers
	db       *sql.DB
	rdb      redis.UniversalClient
	prefix   string
	store    *candidates.Store

	shape     userShape       // of the table of users
	directory *shop.Directory // of users, as in the program
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, testenv.RedisFor(t))
}

// newWorldOn has its line on that Redis.
func newWorldOn(t *testing.T, r testenv.RedisHandle) *world {
	t.Helper()
	return newWorldWith(t, r, testenv.MySQLFor(t))
}

func newWorldWith(t *testing.T, r testenv.RedisHandle, m testenv.MySQLHandle) *world {
	t.Helper()
	return newWorldOf(t, r, m, migratedUsers)
}

// newWorldOf has users of that shape.
func newWorldOf(t *testing.T, r testenv.RedisHandle, m testenv.MySQLHandle, shape userShape) *world {
	t.Helper()
	w := &world{t: t, rdb: r.Client, prefix: r.Prefix, shape: shape, directory: shape.settings(t).Directory(), servers: append([]string{
		"--mysql-dsn=" + m.DSN, "--redis-addrs=" + strings.Join(r.Addrs, ","),
	}, shape.flags...)}
	if r.Prefix != "" {
		w.servers = append(w.servers, "--redis-key-prefix="+r.Prefix)
	}
	var err error
	w.db, err = (&connect.MySQLSettings{MySQLDSN: m.DSN}).Open(zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.db.Close() })
	w.store, err = candidates.NewStore(r.Client, candidates.Options{KeyPrefix: r.Prefix, TTL: candidates.MinTTL})
	require.NoError(t, err)
	if shape.ddl != "" {
		w.exec(shape.ddl)
	}
	code, _, stderr := w.settle("migrate")
	require.Zero(t, code, stderr)
	w.accounts = testenv.Accounts(t, m.DSN, shape.grants(migrations.Grants))
	settings := testenv.MySQLHandle{DB: w.db}.Hostile(t)
	for name, dsn := range w.accounts {
		w.accounts[name] = testenv.HostileDSN(t, dsn, settings)
	}
	w.servers[0] = "--mysql-dsn=" + w.accounts["jajeong_settle"]
	w.redisAs = testenv.RedisUsersFor(t, r.Client, r.Prefix, docs.RedisUsers)
	username, password := w.redisAs.As("jajeong_settle")
	w.servers = append(w.servers, "--redis-username="+username, "--redis-password="+password)
	return w
}

// as is a pool of an account's.
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

func (w *world) verifyCode() (int, verifyReport) {
	w.t.Helper()
	code, stdout, stderr := w.settle("verify", "--output=json")
	var report verifyReport
	require.NoError(w.t, json.Unmarshal([]byte(stdout), &report), "%s%s", stdout, stderr)
	return code, report
}

// coupon makes a coupon that is open from an hour ago to in an hour.
func (w *world) coupon(seats int) uint64 {
	now := w.now()
	return w.couponBetween(seats, now.Add(-time.Hour), now.Add(time.Hour))
}

func (w *world) couponBetween(seats int, opens, closes time.Time) uint64 {
	w.t.Helper()
	done, err := w.db.Exec("INSERT INTO coupon (name, total_quantity, apply_opens_at, apply_closes_at) VALUES (?, ?, ?, ?)",
		"심야 쿠폰", seats, opens.UTC(), closes.UTC())
	require.NoError(w.t, err)
	id, err := done.LastInsertId()
	require.NoError(w.t, err)
	w.publish(uint64(id), opens, closes)
	return uint64(id)
}

func (w *world) publish(couponID uint64, opens, closes time.Time) {
	w.t.Helper()
	_, _, err := w.store.Publish(w.t.Context(), coupon.Window{Coupon: couponID, Version: 1, Opens: opens, Closes: closes}, coupon.Promise{})
	require.NoError(w.t, err)
}

func (w *world) now() time.Time {
	w.t.Helper()
	now, err := w.store.Now(w.t.Context())
	require.NoError(w.t, err)
	return now
}

// users makes active users.
func (w *world) users(ids ...uint64) {
	w.t.Helper()
	for len(ids) > 0 {
		chunk := ids[:min(len(ids), 1000)]
		ids = ids[len(chunk):]
		rows := strings.TrimSuffix(strings.Repeat("(?, "+w.shape.words[active]+"),", len(chunk)), ",")
		args := make([]any, len(chunk))
		for i, id := range chunk {
			args[i] = id
		}
		w.exec("INSERT INTO "+w.shape.table+" ("+w.shape.id+", "+w.shape.status+") VALUES "+rows, args...)
	}
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	_, err := w.db.Exec(query, args...)
	require.NoError(w.t, err)
}

// apply lets users apply in this order; every one must be accepted.
func (w *world) apply(couponID uint64, users ...uint64) {
	w.t.Helper()
	for _, user := range users {
		receipt, err := w.store.Apply(w.t.Context(), couponID, user)
		require.NoError(w.t, err)
		require.Equal(w.t, candidates.Accepted, receipt.Code)
	}
}

// stand writes an application into Redis with an arrival of its own, as if it had been accepted then.
func (w *world) stand(couponID uint64, member string, arrival time.Time) {
	w.t.Helper()
	ctx := w.t.Context()
	require.NoError(w.t, w.rdb.ZAdd(ctx, w.queue(couponID), redis.Z{Score: float64(arrival.UnixMicro()), Member: member}).Err())
	require.NoError(w.t, w.rdb.HIncrBy(ctx, "state:{"+w.queue(couponID)+"}", "accepted", 1).Err())
}

func (w *world) queue(couponID uint64) string {
	return fmt.Sprintf("%scandidates:coupon:%d", w.prefix, couponID)
}

// waiting is who stands in the queue, in order.
func (w *world) waiting(couponID uint64) []string {
	w.t.Helper()
	members, err := w.rdb.ZRange(w.t.Context(), w.queue(couponID), 0, -1).Result()
	require.NoError(w.t, err)
	return members
}

// underReview is who stands in the DLQ: member → arrival in µs.
func (w *world) underReview(couponID uint64) map[string]int64 {
	w.t.Helper()
	entries, err := w.rdb.ZRangeWithScores(w.t.Context(), "dlq:{"+w.queue(couponID)+"}", 0, -1).Result()
	require.NoError(w.t, err)
	found := map[string]int64{}
	for _, e := range entries {
		found[e.Member.(string)] = int64(e.Score)
	}
	return found
}

func (w *world) reason(couponID uint64, member string) candidates.Reason {
	w.t.Helper()
	reasons, err := w.store.Reasons(w.t.Context(), couponID, []string{member})
	require.NoError(w.t, err)
	require.Contains(w.t, reasons, member)
	return reasons[member]
}

// issued is who holds the coupon, in order of position.
func (w *world) issued(couponID uint64) []uint64 {
	w.t.Helper()
	return w.ids("SELECT user_id FROM user_coupon WHERE coupon_id = ? ORDER BY position", couponID)
}

// outcome is who has that outcome, in order of arrival.
func (w *world) outcome(couponID uint64, outcome string) []uint64 {
	w.t.Helper()
	return w.ids("SELECT user_id FROM application_outcome WHERE coupon_id = ? AND outcome = ? ORDER BY applied_at", couponID, outcome)
}

func (w *world) ids(query string, args ...any) []uint64 {
	w.t.Helper()
	rows, err := w.db.Query(query, args...)
	require.NoError(w.t, err)
	defer rows.Close()
	ids := []uint64{}
	for rows.Next() {
		var id uint64
		require.NoError(w.t, rows.Scan(&id))
		ids = append(ids, id)
	}
	require.NoError(w.t, rows.Err())
	return ids
}

// between is the ids from first to last.
func between(first, last uint64) []uint64 {
	ids := make([]uint64, 0, last-first+1)
	for id := first; id <= last; id++ {
		ids = append(ids, id)
	}
	return ids
}

func reversed(ids []uint64) []uint64 {
	back := make([]uint64, len(ids))
	for i, id := range ids {
		back[len(ids)-1-i] = id
	}
	return back
}

// awaitLockWait returns when some session of this database waits for a row lock. A test that holds the row itself takes
// it with lock, whose statement is none of those that wait.
func (w *world) awaitLockWait() {
	w.t.Helper()
	testenv.Eventually(w.t, 20*time.Second, "a session waits for the lock", func() bool {
		return testenv.Sessions(w.t, w.db, func(s testenv.Session) bool {
			return s.Command == "Query" && strings.HasSuffix(s.Statement, "FOR UPDATE")
		}) > 0
	})
}

// podsDie lets nobody remember whom they told.
func (w *world) podsDie() {
	w.t.Helper()
	fresh, err := candidates.NewStore(w.rdb, candidates.Options{KeyPrefix: w.prefix, TTL: candidates.MinTTL})
	require.NoError(w.t, err)
	w.store = fresh
}
