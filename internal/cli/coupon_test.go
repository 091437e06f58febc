package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// changes runs `settle coupon VERB ID`.
func (w *world) changes(verb string, couponID coupon.CouponID, extra ...string) (code int, stdout, stderr string) {
	w.T.Helper()
	return w.settle(unless(extra, "coupon", verb, fmt.Sprint(couponID), "--operator=park", "--reason=TICKET-9")...)
}

// mustChange also demands success.
func (w *world) mustChange(verb string, couponID coupon.CouponID, extra ...string) (stdout string) {
	w.T.Helper()
	code, stdout, stderr := w.changes(verb, couponID, extra...)
	require.Zero(w.T, code, stderr)
	require.Empty(w.T, stderr)
	return stdout
}

func (w *world) create(extra ...string) (code int, stdout, stderr string) {
	w.T.Helper()
	now := w.Now().UTC()
	return w.settle(unless(extra, "coupon", "create", "--name=심야", "--seats=2",
		"--opens="+now.Add(-time.Hour).Format(time.RFC3339),
		"--closes="+now.Add(time.Hour).Format(time.RFC3339), "--operator=park", "--reason=TICKET-9")...)
}

func TestCouponRecount_PrintsBothCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.AddCoupon(2)
	w.Exec("INSERT INTO user_coupon (coupon_id, user_id, expires_at) VALUES (?, 1, '2038-01-01'), (?, 2, "+
		"'2038-01-01'), (?, 3, '2038-01-01')", couponID, couponID, couponID)
	code, _, korean := w.settle("run", "--cutoff=now", "--dry-run", "--lang=ko", "--output=json")
	require.Equal(t, exitInvariant, code, "the count is wrong")
	require.NotContains(t, korean, "%!")
	refused(t, "add-seats")(w.changes("recount", couponID))
	w.mustChange("add-seats", couponID, "--seats=1")
	require.Contains(t, w.mustChange("recount", couponID), "3 issued (before: 0)")
	require.Contains(t, w.mustChange("recount", couponID), "nothing was changed")
}

func TestCouponChange_Refusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	opened := w.AddCoupon(3)
	for _, c := range []struct {
		verb  string
		extra []string
		want  string
	}{
		{"add-seats", nil, "--seats"},
		{"add-seats", []string{"--seats=-1"}, "--seats"},
		{"add-seats", []string{"--seats=1", "--total=9"}, "--total"},
		{"extend", []string{"--closes=tomorrow"}, "tomorrow"},
		{"extend", nil, "--closes"},
		{"cadence", nil, "<cadence>"},
		{"cadence", []string{"hourly"}, "hourly"},
	} {
		code, stdout, stderr := w.changes(c.verb, opened, c.extra...)
		requireWrongUse(t, c.want, code, stdout, stderr)
	}
	code, stdout, stderr := w.changes("add-seats", 999, "--seats=1")
	requireWrongUse(t, "coupon 999 does not exist", code, stdout, stderr)
	code, stdout, stderr = w.create("--opens=noon", "--seats=4294967296", "--line-limit=-1")
	requireWrongUse(t, "noon", code, stdout, stderr)
	requireWrongUse(t, "4294967296 seats", code, stdout, stderr)
	requireWrongUse(t, "want 1 to 4294967295", code, stdout, stderr)
	require.Empty(t, w.IDs("SELECT id FROM audit_event"), "a refused change records nothing")
	require.Len(t, w.IDs("SELECT id FROM coupon"), 1)
}

// The clocks of New York skip an hour in March, and show one twice in November.
func TestLocalTimes_OfNewYork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.SetZone("America/New_York")
	opened := w.AddCoupon(3)
	code, stdout, stderr := w.changes("extend", opened, "--closes=2030-03-10 02:30")
	requireWrongUse(t, `--closes="2030-03-10 02:30" does not exist in America/New_York`, code, stdout, stderr)
	code, stdout, stderr = w.create("--opens=2030-03-10 02:30", "--closes=2030-03-10T02:59:59")
	requireWrongUse(t, `--opens="2030-03-10 02:30" does not exist in America/New_York`, code, stdout, stderr)
	code, stdout, stderr = w.settle("events", "replay", "--from=2026-03-08T02:30", "--event-sink=redis")
	requireWrongUse(t, `--from="2026-03-08T02:30" does not exist in America/New_York`, code, stdout, stderr)
	require.Empty(t, w.IDs("SELECT id FROM audit_event"), "a refused change records nothing")

	code, _, stderr = w.create("--opens=2030-11-03 01:30", "--closes=2030-11-03 02:00")
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "from 2030-11-03 01:30:00-04:00 to 2030-11-03 02:00:00-05:00",
		"the first of the hour that comes twice")
}

// MySQL refuses a pause or a close before Redis knows of it: nobody is turned away by a change that is not made.
func TestCouponChange_IsMadeByRedisOnlyIfMySQLTakesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	as := func(access jajeongtest.Access, verb string, id coupon.CouponID) (code int, stderr string) {
		var errs bytes.Buffer
		code = run(t.Context(), append([]string{"coupon", verb, id.String(), "--operator=kim", "--reason=x"},
			w.Flags(access)...), io.Discard, &errs)
		return code, errs.String()
	}
	for n, verb := range []string{"pause", "close"} {
		id := w.AddCoupon(9)
		w.Refresh()
		code, stderr := as(w.Job, verb, id)
		require.Equal(t, exitUse, code, stderr)
		require.Contains(t, stderr, "denied", "this account may not change coupons")
		w.Apply(id, coupon.UserID(10+n))

		w.Exec("CREATE TRIGGER refuses BEFORE INSERT ON audit_event FOR EACH ROW SIGNAL SQLSTATE '45000' SET " +
			"MESSAGE_TEXT = 'no more events'")
		code, stderr = as(w.Operator, verb, id)
		require.NotZero(t, code)
		require.Contains(t, stderr, "no more events")
		w.Apply(id, coupon.UserID(20+n))
		w.Exec("DROP TRIGGER refuses")

		code, stderr = as(w.Operator, verb, id)
		require.Zero(t, code, stderr)
		w.Refresh()
		w.Verify(id)
	}
}

func TestCouponChange_UnknownOutcome(t *testing.T) {
	t.Parallel()
	w := newWorldBehindProxies(t)
	w.servers[0] = "--mysql-dsn=" + w.Accounts["jajeong_operator"]
	couponID := w.AddCoupon(1)
	for name, c := range map[string]struct {
		change func(*world) (code int, stdout, stderr string)
		look   string
	}{
		"seats": {func(w *world) (int, string, string) { return w.changes("add-seats", couponID, "--seats=5") },
			fmt.Sprintf("settle coupon show %d", couponID)},
		"new": {func(w *world) (int, string, string) { return w.create() }, "settle coupon list"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inChange := false
			var proxies []*faultproxy.Proxy
			through := *w
			proxies, through.servers = w.proxied(func(turn faultproxy.Turn) faultproxy.Action {
				inChange = inChange || bytes.Contains(turn.Request, []byte("INTO audit_event"))
				if inChange && bytes.HasSuffix(turn.Request, []byte("\x03COMMIT")) {
					return faultproxy.DropReply(proxies[jajeongtest.ToMySQL].Down)
				}
				return faultproxy.Pass()
			})
			code, stdout, stderr := c.change(&through)
			require.Equal(t, 1, code, stdout)
			require.True(t, inChange)
			require.Contains(t, stderr, c.look)
			require.NotContains(t, stderr, "safe to run again")
			require.NotContains(t, stderr, "the next run")
		})
	}
}

func TestCouponList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.Now()
	opened := w.AddCoupon(2)
	ahead := w.AddCouponBetween(1, now.Add(time.Hour), now.Add(2*time.Hour))
	closed := w.AddCouponBetween(1, now.Add(-2*time.Hour), now.Add(-time.Hour))
	paused := w.AddCoupon(1)
	over := w.AddCoupon(1)
	w.mustChange("pause", paused)
	w.Exec("UPDATE coupon SET finalised_at = NOW(6) WHERE id = ?", over)
	w.Apply(opened, 1, 2)
	w.settleNow("--coupon=" + fmt.Sprint(opened)) // no such users
	w.Apply(opened, 3)
	listed := func(want int, extra ...string) (lines []history.CouponFigures) {
		t.Helper()
		code, stdout, stderr := w.settle(append([]string{"coupon", "list", "--output=json"}, extra...)...)
		require.Equal(t, want, code, stderr)
		require.NoError(t, json.Unmarshal([]byte(stdout), &lines))
		return lines
	}
	for status, id := range map[string]coupon.CouponID{"open": opened, "scheduled": ahead, "closed": closed,
		"paused": paused, "finalised": over} {
		lines := listed(exitDone, "--status="+status)
		require.Len(t, lines, 1, status)
		require.Equal(t, id, lines[0].ID, status)
	}
	all := listed(exitDone)
	require.Len(t, all, 5)
	require.Equal(t, []int64{1, 2, 2}, []int64{*all[0].Waiting, *all[0].DLQ, int64(all[0].Left)})
	require.Equal(t, all[2:4], listed(exitDone, "--after="+fmt.Sprint(ahead), "--limit=2"))
	for _, wrong := range []string{"--limit=0", "--limit=1001", "--status=lost"} {
		code, _, stderr := w.settle("coupon", "list", wrong)
		require.Equal(t, exitUse, code, stderr)
	}

	w.servers[1] = "--redis-addrs=" + nowhere
	require.Nil(t, listed(exitInfrastructure)[0].Waiting, "MySQL alone is enough to list")
	code, stdout, stderr := w.settle("coupon", "show", fmt.Sprint(opened), "--output=json")
	require.Equal(t, exitInfrastructure, code, "counts in Redis are missing")
	require.Contains(t, stderr, "Redis cannot be reached")
	for _, figure := range []string{"accepted", "waiting", "dlq", "soldOut", "review"} {
		require.Contains(t, stdout, `"`+figure+`": null`, "what Redis knows is not known")
	}
	_, stdout, _ = w.settle("coupon", "show", fmt.Sprint(over), "--output=json")
	require.Contains(t, stdout, `"accepted": 0`, "MySQL knows everything of a finalised coupon")
	w.servers[0] = "--mysql-dsn=root@tcp(" + nowhere + ")/x"
	for _, verb := range [][]string{{"coupon", "list"}, {"coupon", "show", "1"}, {"dlq", "list"}} {
		code, _, _ = w.settle(verb...)
		require.Equal(t, exitInfrastructure, code, verb)
	}
}
