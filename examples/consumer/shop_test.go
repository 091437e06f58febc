package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	claimSoon  = 300 * time.Millisecond
	claimNever = time.Hour
)

// shopTest is a stream, a DLQ stream and a shop's database.
type shopTest struct {
	*testing.T
	addr, stream, dlq, dsn string
	redis                  redis.UniversalClient
	db                     *sql.DB
}

func newShopTest(t *testing.T) *shopTest {
	t.Parallel()
	r, m := testenv.RedisFor(t), testenv.MySQLFor(t)
	return &shopTest{t, strings.Join(r.Addrs, ","), r.Prefix + "events", r.Prefix + "dlq", m.DSN, r.Client, m.DB}
}

// shopOn has a Redis of its own, which the test may kill.
func shopOn(t *testing.T, r *testenv.Redis, dsn string) *shopTest {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	client := testenv.RedisClient(t, r.Addr())
	return &shopTest{t, r.Addr(), "coupon:events", "coupon:events:dlq", dsn, client, testenv.Opened(t, db, err)}
}

// refuses makes the database refuse some events, until the trigger refuses is dropped.
func (s *shopTest) refuses(ids string) {
	s.Helper()
	shop, err := OpenShop(s.dsn)
	require.NoError(s, err)
	defer shop.Close()
	require.NoError(s, shop.Prepare(s.Context()))
	s.exec("CREATE TRIGGER refuses BEFORE INSERT ON shop_event FOR EACH ROW IF NEW.event_id IN (" + ids +
		") THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'an odd customer'; END IF")
}

// at is the time of every event, but of those of TestHandle_GoesOnAfterMySQLWasPutBack.
var at = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

// changes are what happens to each coupon after it was issued.
var changes = []coupon.LogKind{coupon.LogReserved, coupon.LogUsed, coupon.LogRefunded}

// lives returns the events of users 1 to n: all issued, then all reserved, and so on. So each coupon's own are in
// order.
func lives(n int) (all []*events.Event) {
	for user := range coupon.UserID(n) {
		all = append(all, issued(user+1))
	}
	for i, kind := range changes {
		for user := range coupon.UserID(n) {
			all = append(all, changed(user+1, kind, i+1))
		}
	}
	return all
}

func issued(user coupon.UserID) *events.Event {
	return (&events.Issued{Coupon: 42, User: user, UserCoupon: coupon.UserCouponID(user), Position: int(user),
		AppliedAt: at,
		IssuedAt:  at, ExpiresAt: at, Run: 17}).Event()
}

func changed(user coupon.UserID, kind coupon.LogKind, seq int) *events.Event {
	return (&events.Changed{Coupon: 42, User: user, UserCoupon: coupon.UserCouponID(user)}).Event(kind, seq, at)
}

func (s *shopTest) publish(all ...*events.Event) {
	s.Helper()
	bodies := make([]string, len(all))
	for i, e := range all {
		message, err := e.Message()
		require.NoError(s, err)
		bodies[i] = string(message.Body)
	}
	s.publishRaw(bodies...)
}

func (s *shopTest) publishRaw(bodies ...string) {
	s.Helper()
	_, err := s.redis.Pipelined(s.Context(), func(p redis.Pipeliner) error {
		for _, body := range bodies {
			p.XAdd(s.Context(), &redis.XAddArgs{Stream: s.stream, Values: []string{"event", body}})
		}
		return nil
	})
	require.NoError(s, err)
}

func (s *shopTest) args(verb string, more ...string) []string {
	return append([]string{verb, "--redis", s.addr, "--mysql", s.dsn, "--dlq", s.dlq}, more...)
}

func (s *shopTest) runArgs(name string, claimAfter time.Duration, more ...string) []string {
	return s.args("run", append(more, "--stream", s.stream, "--name", name, "--claim-after", claimAfter.String())...)
}

// call runs the program inside this process. It must end by itself.
func (s *shopTest) call(args ...string) (code int, stdout, stderr string) {
	s.Helper()
	ctx := testenv.Patient(s)
	var out, log bytes.Buffer
	code = run(ctx, args, &out, &log)
	require.NoError(s, ctx.Err(), log.String())
	return code, out.String(), log.String()
}

// drain reads until the stream is empty and returns the counts and the log.
func (s *shopTest) drain(name string, claimAfter time.Duration) (counts map[string]int, log string) {
	s.Helper()
	code, stdout, stderr := s.call(s.runArgs(name, claimAfter, "--until-empty")...)
	require.Zero(s, code, stderr)
	require.NoError(s, json.Unmarshal([]byte(stdout), &counts))
	return counts, stderr
}

// start runs the program as a child process.
func (s *shopTest) start(args ...string) (*testenv.Program, *bytes.Buffer) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), testenv.Build(s, "./examples/consumer"), args...)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	program, err := testenv.StartProgram(s.Context(), cmd)
	require.NoError(s, err)
	return program, &stdout
}

// kill sends SIGKILL and waits.
func (s *shopTest) kill(program *testenv.Program) {
	s.Helper()
	require.NoError(s, program.Process.Kill())
	require.Error(s, program.Stop())
}

func (s *shopTest) exec(statement string, args ...any) {
	s.Helper()
	_, err := s.db.ExecContext(s.Context(), statement, args...)
	require.NoError(s, err)
}

// number is the result of a SELECT, or -1 if it fails.
func (s *shopTest) number(query string, args ...any) (n int) {
	if s.db.QueryRowContext(s.Context(), query, args...).Scan(&n) != nil {
		return -1
	}
	return n
}

func (s *shopTest) handled() int { return s.number("SELECT COUNT(*) FROM shop_event") }

func (s *shopTest) pending() int64 {
	s.Helper()
	pending, err := s.redis.XPending(s.Context(), s.stream, "shop").Result()
	require.NoError(s, err)
	return pending.Count
}

// requireOnce demands that every event was handled once, that every coupon shows its last event, and that nothing is
// left.
func (s *shopTest) requireOnce(all []*events.Event) {
	s.Helper()
	want := map[string]bool{}
	for _, e := range all {
		want[e.Source+" "+e.ID] = true
	}
	got := map[string]bool{}
	rows, err := s.db.QueryContext(s.Context(), "SELECT CONCAT(source, ' ', event_id) FROM shop_event")
	require.NoError(s, err)
	defer rows.Close()
	for rows.Next() {
		var id string
		require.NoError(s, rows.Scan(&id))
		got[id] = true
	}
	require.NoError(s, rows.Err())
	require.True(s, maps.Equal(want, got), "%d events published, %d handled", len(want), len(got))

	users := len(all) / (1 + len(changes))
	require.Equal(s, users, s.number("SELECT COUNT(*) FROM shop_coupon"))
	last := len(changes)
	require.Equal(s, users, s.number(`SELECT COUNT(*) FROM shop_coupon WHERE events = ? AND sequence = ?
		AND state = 'AVAILABLE' AND changed_at = ? AND last_event_id = CONCAT_WS('-', subject, ?, ?)`,
		1+last, last, at, last, at.UnixMicro()))
	require.Zero(s, s.pending())
	require.Zero(s, s.redis.XLen(s.Context(), s.dlq).Val())
}

// The name of every type of internal/events is known, except for one that tells only a part of a state.
func TestStatesOfEveryType(t *testing.T) {
	t.Parallel()
	want := map[string]bool{events.IssuedType: true}
	for _, kind := range []coupon.LogKind{coupon.LogReserved, coupon.LogUsed, coupon.LogReleased, coupon.LogRefunded,
		coupon.LogGranted, coupon.LogRevoked, coupon.LogReissued} {
		want[events.TypeOf(kind)] = true
	}
	for name := range states {
		require.True(t, want[name], name)
	}
	require.Len(t, states, len(want))
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, wrong := range []struct{ args, want string }{
		{"run", "missing flags: --name"},
		{"run --name=", "--name is empty: give a value"},
		{"run --name=a --redis=", "--redis is empty"},
		{"run --name=a --mysql=nonsense", "--mysql: "},
		{"run --name=a --claim-after=0s", "--claim-after must be positive"},
		{"replay --id=", "--id is empty"},
		{"dlq --name=a", "unknown flag --name"},
		{"", "expected one of"},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, 2, run(t.Context(), strings.Fields(wrong.args), &stdout, &stderr), wrong.args)
		require.Contains(t, stderr.String(), wrong.want)
		require.Empty(t, stdout.String())
	}
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"--help"}, &stdout, &stderr))
	require.Contains(t, stdout.String(), "replay")
}

// handler returns a function that handles an event in this process.
func (s *shopTest) handler() func(*events.Event) Outcome {
	s.Helper()
	shop, err := OpenShop(s.dsn)
	require.NoError(s, err)
	s.Cleanup(func() { _ = shop.Close() })
	require.NoError(s, shop.Prepare(s.Context()))
	return func(e *events.Event) Outcome {
		s.Helper()
		message, err := e.Message()
		require.NoError(s, err)
		outcome, err := attempt(s.Context(), shop, string(message.Body))
		require.NoError(s, err)
		return outcome
	}
}

func TestHandle_DropsWhatIsNotNewer(t *testing.T) {
	s := newShopTest(t)
	handle := s.handler()
	require.Equal(t, Applied, handle(issued(7)))
	require.Equal(t, Duplicate, handle(issued(7)))
	require.Equal(t, Applied, handle(changed(7, coupon.LogUsed, 2)))
	require.Equal(t, Superseded, handle(changed(7, coupon.LogReserved, 1)))
	require.Equal(t, Duplicate, handle(changed(7, coupon.LogReserved, 1)))
	require.Equal(t, Ignored, handle(changed(7, coupon.LogExtended, 3)))
	require.Equal(t, Ignored, handle(changed(7, "PAINTED", 4)), "a type of a later version of Jajeong")
	require.Equal(t, 1,
		s.number("SELECT COUNT(*) FROM shop_coupon WHERE state = 'USED' AND sequence = 2 AND events = 3"))
}

// The database of Jajeong goes back to before the first change of user 7. It gives the row of that user's coupon, and
// sequences that the shop knows, to user 8, and then again to user 7.
func TestHandle_GoesOnAfterMySQLWasPutBack(t *testing.T) {
	s := newShopTest(t)
	handle := s.handler()
	row := func(user coupon.UserID, kind coupon.LogKind, seq int, after time.Duration) *events.Event {
		return (&events.Changed{Coupon: 42, User: user, UserCoupon: 9001}).Event(kind, seq, at.Add(after))
	}
	old := row(7, coupon.LogReserved, 1, time.Microsecond)
	require.Equal(t, Applied, handle(issued(7)))
	require.Equal(t, Applied, handle(old))
	require.Equal(t, Applied, handle(row(7, coupon.LogUsed, 2, 2*time.Microsecond)))

	require.Equal(t, Applied, handle(row(8, coupon.LogGranted, 1, time.Second)))
	require.Equal(t, Duplicate, handle(issued(7)), "it has the coupon already")
	require.Equal(t, Applied, handle(row(7, coupon.LogRevoked, 1, 2*time.Second)))
	require.Equal(t, Applied, handle(row(8, coupon.LogReserved, 2, 2*time.Second)))
	require.Equal(t, Duplicate, handle(old))
	require.Equal(t, Superseded, handle(row(7, coupon.LogReleased, 1, time.Millisecond)), "it was lost, and comes late")
	require.Equal(t, 1, s.number("SELECT COUNT(*) FROM shop_coupon WHERE subject = '7' AND state = 'REVOKED' AND "+
		"sequence = 1 AND events = 5"))
	require.Equal(t, 1, s.number("SELECT COUNT(*) FROM shop_coupon WHERE subject = '8' AND state = 'RESERVED' AND "+
		"sequence = 2 AND events = 2"))
	require.Equal(t, 7, s.handled())
}

// The clock of an issue is not that of changes.
func TestHandle_IssuedIsAlwaysTheFirst(t *testing.T) {
	s := newShopTest(t)
	handle := s.handler()
	require.Equal(t, Applied, handle(changed(7, coupon.LogReserved, 1)))
	ahead := (&events.Issued{Coupon: 42, User: 7, Position: 7, IssuedAt: at.Add(time.Second)}).Event()
	require.Equal(t, Superseded, handle(ahead))
}

type brokenHandler struct{ Handler }

func (brokenHandler) Handle(context.Context, *Event) (Outcome, error) { panic("broken") }

func TestAttempt_PanicFailsOneEvent(t *testing.T) {
	t.Parallel()
	message, err := issued(7).Message()
	require.NoError(t, err)
	_, err = attempt(t.Context(), brokenHandler{}, string(message.Body))
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "panic: broken")
}

// A slow event is its own fault only while the database answers others.
func TestRefused_AsksTheDatabase(t *testing.T) {
	t.Parallel()
	config, err := mysql.ParseDSN(testenv.MySQLFor(t).DSN)
	require.NoError(t, err)
	wire := faultproxy.New(t, func(faultproxy.Turn) faultproxy.Action { return faultproxy.Pass() }, config.Addr)
	config.Addr = wire.Addr
	shop, err := OpenShop(config.FormatDSN())
	require.NoError(t, err)
	defer shop.Close()
	slow := fmt.Errorf("apply: %w", context.DeadlineExceeded)
	require.True(t, shop.refused(t.Context(), slow))
	_, missing := shop.ExecContext(t.Context(), "INSERT INTO no_such_table VALUES (1)")
	require.Error(t, missing)
	require.False(t, shop.refused(t.Context(), missing))
	wire.Down()
	require.False(t, shop.refused(t.Context(), slow))
	require.False(t, shop.refused(t.Context(), os.ErrClosed))
}
