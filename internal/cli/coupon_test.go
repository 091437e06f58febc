package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// changes runs `settle coupon VERB ID`.
func (w *world) changes(verb string, couponID uint64, extra ...string) (code int, stdout, stderr string) {
	w.t.Helper()
	return w.settle(unless(extra, "coupon", verb, fmt.Sprint(couponID), "--operator=park", "--reason=TICKET-9")...)
}

// mustChange also demands that it was done.
func (w *world) mustChange(verb string, couponID uint64, extra ...string) (stdout string) {
	w.t.Helper()
	code, stdout, stderr := w.changes(verb, couponID, extra...)
	require.Zero(w.t, code, stderr)
	require.Empty(w.t, stderr)
	return stdout
}

// audited is what is kept of this kind about a coupon, in order.
func (w *world) audited(couponID uint64, action string) (details []string) {
	w.t.Helper()
	w.each(func(scan func(...any) error) error {
		var detail string
		err := scan(&detail)
		details = append(details, detail)
		return err
	}, "SELECT detail FROM audit_event WHERE coupon_id = ? AND action = ? AND actor = 'park' AND reason = 'TICKET-9' ORDER BY id", couponID, action)
	return details
}

func (w *world) create(extra ...string) (code int, stdout, stderr string) {
	w.t.Helper()
	now := w.now().UTC()
	return w.settle(unless(extra, "coupon", "create", "--name=심야", "--seats=2", "--opens="+now.Add(-time.Hour).Format(time.RFC3339),
		"--closes="+now.Add(time.Hour).Format(time.RFC3339), "--operator=park", "--reason=TICKET-9")...)
}

func TestACouponFromItsCreationToItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, stdout, stderr := w.create("--validity-days=7", "--discount-won=5000", "--campaign=3")
	require.Zero(t, code, stderr)
	id, err := strconv.ParseUint(strings.TrimSpace(stdout), 10, 64)
	require.NoError(t, err)
	require.Equal(t, []uint64{2, 7, 5000, 3}, w.ids(`SELECT total_quantity FROM coupon WHERE id = ? UNION ALL SELECT validity_days FROM coupon
		UNION ALL SELECT discount_won FROM coupon UNION ALL SELECT campaign_id FROM coupon`, id))
	require.Len(t, w.audited(id, "COUPON_CREATED"), 1)
	w.refresh()
	w.users(1, 2, 3)
	w.apply(id, 1)

	w.mustChange("pause", id)
	require.Equal(t, candidates.Paused, w.answer(id, 2), "at once, without a refresh of the catalog")
	require.Contains(t, w.mustChange("pause", id), "nothing was changed")
	paused := w.audited(id, "COUPON_PAUSED")
	require.Len(t, paused, 1, "once")
	require.Contains(t, paused[0], "status OPEN → PAUSED")
	w.mustChange("resume", id)
	require.Equal(t, []string{"status PAUSED → OPEN"}, w.audited(id, "COUPON_RESUMED"))
	w.apply(id, 2)

	w.mustChange("close", id)
	require.Equal(t, candidates.Closed, w.answer(id, 3))
	require.Len(t, w.audited(id, "COUPON_CLOSED"), 1)
	require.Contains(t, w.mustChange("close", id), "nothing was changed")
	w.refresh()
	require.Equal(t, candidates.Closed, w.answer(id, 3), "the catalog does not put the old window back")

	later := w.now().Add(24 * time.Hour).UTC().Truncate(time.Second)
	require.Contains(t, w.mustChange("extend", id, "--closes="+later.Format(time.RFC3339)), "open again")
	require.Len(t, w.audited(id, "COUPON_EXTENDED"), 1)
	require.Contains(t, w.audited(id, "COUPON_EXTENDED")[0], "→ "+later.Format(time.RFC3339))
	w.apply(id, 3)
	w.settleNow()
	require.Equal(t, []uint64{1, 2}, w.issued(id))
	require.Equal(t, []uint64{3}, w.outcome(id, "NOT_SELECTED"))

	w.mustChange("add-seats", id, "--seats=2")
	require.Equal(t, candidates.SoldOut, w.answer(id, 9), "until those in line have theirs")
	w.settleNow()
	require.Equal(t, []uint64{1, 2, 3}, w.issued(id))
	w.mustChange("add-seats", id, "--total=3")
	require.Equal(t, []string{"total_quantity 2 → 4", "total_quantity 4 → 3"}, w.audited(id, "COUPON_SEATS_CHANGED"))
	w.verify()
}

// A coupon that has closed after a settlement and opens again: nobody comes before those who were settled.
func TestAReopenedCouponGoesOnBehindTheFence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(3)
	w.users(1, 2)
	w.apply(couponID, 1, 99) // under review, so that it is not finalised
	w.mustChange("close", couponID)
	report := w.settleNow()
	require.NoError(t, w.rdb.Del(t.Context(), "state:{"+w.queue(couponID)+"}").Err(), "even a door that has lost its state")
	w.mustChange("extend", couponID, "--closes="+w.now().Add(time.Hour).Format(time.RFC3339Nano))
	fresh, err := candidates.NewStore(w.rdb, candidates.Options{KeyPrefix: w.prefix, TTL: candidates.MinTTL}) // a pod that has seen nothing
	require.NoError(t, err)
	receipt, err := fresh.Apply(t.Context(), couponID, 2)
	require.NoError(t, err)
	require.Equal(t, candidates.Accepted, receipt.Code)
	require.GreaterOrEqual(t, receipt.Arrival, report.Cutoff.UnixMicro())
	w.settleNow()
	require.Equal(t, []uint64{1, 2}, w.issued(couponID))
	w.verify()
}

// Seats added after everything was finalised and swept go to those in line, by the nightly run itself.
func TestSeatsAddedToAFinalisedCouponGoToThoseInLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.now()
	couponID := w.couponBetween(2, now.Add(-96*time.Hour), now.Add(-72*time.Hour))
	w.users(between(1, 6)...)
	for user := range 6 {
		w.stand(couponID, fmt.Sprint(6-user), now.Add(-80*time.Hour).Add(time.Duration(user)*time.Second))
	}
	night := func() {
		code, stdout, stderr := w.settle("run", "--output=json")
		require.Zero(t, code, "%s%s", stdout, stderr)
	}
	night()
	require.Equal(t, []uint64{6, 5}, w.issued(couponID))
	finalised := func() int { return len(w.ids("SELECT id FROM coupon WHERE finalised_at IS NOT NULL")) }
	require.Equal(t, 1, finalised())
	require.NoError(t, w.rdb.Del(t.Context(), "state:{"+w.queue(couponID)+"}").Err(), "its ten minutes are over")

	for verb, extra := range map[string][]string{"close": nil, "pause": nil, "resume": nil, "extend": {"--closes=2249-01-01 00:00"}} {
		code, stdout, stderr := w.changes(verb, couponID, extra...)
		require.Equal(t, 2, code, verb)
		require.Contains(t, stderr, "finalised", verb)
		require.Empty(t, stdout)
	}
	said := w.mustChange("add-seats", couponID, "--seats=2")
	require.Contains(t, said, "The 4 NOT_SELECTED users are considered")
	require.Contains(t, said, "00:00:00 KST")
	require.Zero(t, finalised())
	require.Len(t, w.audited(couponID, "COUPON_UNFINALISED"), 1)
	code, _, stderr := w.changes("extend", couponID, "--closes=2249-01-01 00:00")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "rejected")
	w.refresh()
	require.Equal(t, candidates.Closed, w.answer(couponID, 9))

	night()
	require.Equal(t, []uint64{6, 5, 4, 3}, w.issued(couponID), "by arrival, without applying again")
	require.Equal(t, []uint64{2, 1}, w.outcome(couponID, "NOT_SELECTED"))
	require.Equal(t, 1, finalised(), "over once more")
	w.verify()

	w.mustChange("add-seats", couponID, "--total=4")
	require.Equal(t, 1, finalised(), "no seat, no run")
	w.mustChange("add-seats", couponID, "--total=9")
	night()
	require.Equal(t, []uint64{6, 5, 4, 3, 2, 1}, w.issued(couponID))
	require.Equal(t, 1, finalised())
	said = w.mustChange("add-seats", couponID, "--seats=1")
	require.Contains(t, said, "no user is NOT_SELECTED")
	require.Equal(t, 1, finalised(), "nobody is in line: nothing is due")
	w.verify()
}

// A run sweeps Redis and dies before it is committed that the coupon is finalised: whoever was issued or rejected would be
// let in again. One of which Redis knows all may be opened again.
func TestACouponOfWhichRedisHasForgottenIsNotOpenedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users(1, 2)
	now := w.now()
	for name, lost := range map[string][]string{"issued": {"issued"}, "rejected": {"rejected"}, "all": {"issued", "rejected"}} {
		couponID := w.couponBetween(5, now.Add(-2*time.Hour), now.Add(-time.Hour))
		w.stand(couponID, "1", now.Add(-90*time.Minute))
		w.stand(couponID, "99", now.Add(-80*time.Minute)) // there is no such user
		w.settleNow(fmt.Sprintf("--coupon=%d", couponID))
		code, _, stderr := w.dlq("drop", couponID, "--user=99")
		require.Zero(t, code, stderr)
		closes := "--closes=" + now.Add(time.Hour).UTC().Format(time.RFC3339)
		for _, kind := range lost {
			require.NoError(t, w.rdb.Del(t.Context(), kind+":{"+w.queue(couponID)+"}").Err())
		}
		code, stdout, stderr := w.changes("extend", couponID, closes)
		require.Equal(t, exitUse, code, name)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "Redis has lost the record")
		require.Equal(t, candidates.Closed, w.answer(couponID, 2))
	}
	untold := w.couponBetween(5, now.Add(-2*time.Hour), now.Add(-time.Hour))
	w.stand(untold, "1", now.Add(-90*time.Minute))
	w.stand(untold, "97", now.Add(-80*time.Minute))
	w.settleNow(fmt.Sprintf("--coupon=%d", untold))
	w.exec("UPDATE settlement SET cleaned_at = NULL WHERE coupon_id = ?", untold)
	require.NoError(t, w.rdb.Del(t.Context(), "issued:{"+w.queue(untold)+"}").Err(), "as if the run had died before it told Redis")
	code, _, stderr := w.changes("extend", untold, "--closes="+now.Add(time.Hour).UTC().Format(time.RFC3339))
	require.Equal(t, exitUse, code)
	require.Contains(t, stderr, "is not finished")
	require.NotContains(t, stderr, "forgotten")

	whole := w.couponBetween(5, now.Add(-2*time.Hour), now.Add(-time.Hour))
	w.stand(whole, "1", now.Add(-90*time.Minute))
	w.stand(whole, "98", now.Add(-80*time.Minute)) // under review, which keeps it from being finalised
	w.settleNow(fmt.Sprintf("--coupon=%d", whole))
	w.mustChange("extend", whole, "--closes="+now.Add(time.Hour).UTC().Format(time.RFC3339))
	require.Equal(t, candidates.AlreadyIssued, w.answer(whole, 1))
	require.Equal(t, candidates.Accepted, w.answer(whole, 2))
}

func TestRefusedChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.now()
	opened, ahead := w.coupon(3), w.couponBetween(1, now.Add(time.Hour), now.Add(2*time.Hour))
	closed := w.couponBetween(1, now.Add(-2*time.Hour), now.Add(-time.Hour))
	w.users(1, 2)
	w.apply(opened, 1, 2)
	w.settleNow(fmt.Sprintf("--coupon=%d", opened))
	before := w.ids("SELECT id FROM audit_event")
	stamp := func(d time.Duration) string { return now.Add(d).UTC().Format(time.RFC3339) }
	for name, c := range map[string]struct {
		verb     string
		couponID uint64
		extra    []string
		want     string
	}{
		"fewer seats than issued":  {"add-seats", opened, []string{"--total=1"}, "has 2 issued already"},
		"more seats than there be": {"add-seats", opened, []string{"--seats=4294967295"}, "want 1 to 4294967295"},
		"far more":                 {"add-seats", opened, []string{"--seats=9223372036854775807"}, "1 to 4294967295"},
		"no seats":                 {"add-seats", opened, nil, "--seats"},
		"seats taken":              {"add-seats", opened, []string{"--seats=-1"}, "--seats"},
		"seats in two ways":        {"add-seats", opened, []string{"--seats=1", "--total=9"}, "--total"},
		"seats of no coupon":       {"add-seats", 999, []string{"--seats=1"}, "coupon 999 does not exist"},
		"closed before it opens":   {"close", ahead, nil, "end before it opens"},
		"close of no coupon":       {"close", 999, nil, "coupon 999 does not exist"},
		"pause of no coupon":       {"pause", 999, nil, "coupon 999 does not exist"},
		"ends before it opens":     {"extend", ahead, []string{"--closes=" + stamp(30*time.Minute)}, "would end before it opens"},
		"ends as it opens":         {"extend", ahead, []string{"--closes=" + now.Add(time.Hour).UTC().Format(time.RFC3339Nano)}, "would end before it opens"},
		"ends in the past":         {"extend", closed, []string{"--closes=" + stamp(-time.Minute)}, "which is past"},
		"ends earlier":             {"extend", opened, []string{"--closes=" + stamp(time.Minute)}, "extend only makes it later"},
		"ends too far off":         {"extend", opened, []string{"--closes=2250-06-01 00:00"}, "too far off"},
		"ends at no time":          {"extend", opened, []string{"--closes=tomorrow"}, "tomorrow"},
		"ends never":               {"extend", opened, nil, "--closes"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := w.changes(c.verb, c.couponID, c.extra...)
			require.Equal(t, 2, code, stderr)
			require.Empty(t, stdout)
			require.Contains(t, stderr, c.want)
			require.NotContains(t, stderr, "%!")
		})
	}
	for name, c := range map[string]struct {
		extra []string
		want  string
	}{
		"no name":            {[]string{"--name=  "}, "name"},
		"long name":          {[]string{"--name=" + strings.Repeat("쿠", 201)}, "1 to 200 letters"},
		"name of two lines":  {[]string{"--name=a\nb"}, "line breaks"},
		"no seats":           {[]string{"--seats=0"}, "0 seats"},
		"seats below zero":   {[]string{"--seats=-5"}, "-5 seats"},
		"absurd seats":       {[]string{"--seats=4294967296"}, "4294967296 seats"},
		"valid for no day":   {[]string{"--validity-days=0"}, "0 days"},
		"valid for ages":     {[]string{"--validity-days=36501"}, "36501 days"},
		"discount below 0":   {[]string{"--discount-won=-1"}, "-1 won"},
		"ends before opens":  {[]string{"--opens=" + stamp(2*time.Hour)}, "would end before it opens"},
		"ended before it is": {[]string{"--closes=" + stamp(-time.Minute)}, "which is past"},
		"ends in ages":       {[]string{"--closes=2251-01-01 00:00"}, "too far off"},
		"opens at no time":   {[]string{"--opens=noon"}, "noon"},
		"nobody's":           {[]string{"--operator="}, "--operator"},
		"for no reason":      {[]string{"--reason="}, "--reason"},
	} {
		t.Run("new: "+name, func(t *testing.T) {
			code, stdout, stderr := w.create(c.extra...)
			require.Equal(t, 2, code, stderr)
			require.Empty(t, stdout)
			require.Contains(t, stderr, c.want)
		})
	}
	require.Equal(t, before, w.ids("SELECT id FROM audit_event"), "what is refused leaves nothing behind")
	require.Len(t, w.ids("SELECT id FROM coupon"), 3)
}

// The door of a coupon that was sold out lets nobody in before a run has ended, and nobody is told otherwise.
func TestAChangeSaysWhatNewcomersAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.users(1)
	couponID := w.coupon(1)
	w.apply(couponID, 1)
	w.settleNow()
	later := func(d time.Duration) string { return "--closes=" + w.now().Add(d).UTC().Format(time.RFC3339) }

	w.mustChange("pause", couponID)
	require.Contains(t, w.mustChange("resume", couponID), "Every seat is taken: new applications are answered SOLD_OUT.")
	w.mustChange("close", couponID)
	said := w.mustChange("extend", couponID, later(time.Hour))
	require.Contains(t, said, "Every seat is taken: new applications are answered SOLD_OUT.")
	require.NotContains(t, said, "is open again")

	said = w.mustChange("add-seats", couponID, "--seats=1")
	require.Contains(t, said, "new applications are answered SOLD_OUT until a run has ended")
	require.Contains(t, said, fmt.Sprintf("settle run --coupon %d --cutoff now", couponID))
	require.NotContains(t, said, "applies gets them")
	require.Equal(t, candidates.SoldOut, w.answer(couponID, 2))
	w.mustChange("pause", couponID)
	require.Contains(t, w.mustChange("extend", couponID, later(2*time.Hour)), "answered PAUSED")
	said = w.mustChange("resume", couponID)
	require.Contains(t, said, "SOLD_OUT until a run has ended")
	require.NotContains(t, said, "takes applications")
	_, stdout, _ := w.changes("resume", couponID, "--output=json")
	require.Contains(t, stdout, `"soldOut": true`)

	w.settleNow()
	require.Equal(t, candidates.Accepted, w.answer(couponID, 2))
	require.Contains(t, w.mustChange("add-seats", couponID, "--seats=1"), "considers the waiting applications, and those that arrive before then, by arrival")
	w.mustChange("pause", couponID)
	require.Contains(t, w.mustChange("resume", couponID), "takes applications")
	w.mustChange("pause", couponID)
	w.mustChange("close", couponID)
	require.Contains(t, w.mustChange("resume", couponID), "answered CLOSED")
}

// A reply to COMMIT that is lost must not add seats twice, nor make two coupons.
func TestAChangeWhoseCommitGotNoReply(t *testing.T) {
	t.Parallel()
	w := newWiredWorld(t)
	w.servers[0] = "--mysql-dsn=" + w.accounts["jajeong_operator"]
	couponID := w.coupon(1)
	for name, applied := range map[string]bool{"done": true, "not done": false} {
		t.Run(name, func(t *testing.T) {
			var lost, inChange atomic.Bool // the wire goes on when the program has ended
			rule := func(turn faultproxy.Turn) faultproxy.Action {
				if bytes.Contains(turn.Request, []byte("INTO audit_event")) {
					inChange.Store(true)
				}
				if inChange.Load() && bytes.HasSuffix(turn.Request, []byte("\x03COMMIT")) && !lost.Swap(true) {
					if applied {
						return faultproxy.DropReply(nil)
					}
					return faultproxy.DropRequest(nil)
				}
				return faultproxy.Pass()
			}
			through := *w
			_, through.servers = w.wiresTo(rule)
			seats := w.ids("SELECT total_quantity FROM coupon WHERE id = ?", couponID)[0]
			code, _, stderr := through.changes("add-seats", couponID, "--seats=5")
			require.Zero(t, code, stderr)
			require.True(t, lost.Load())
			require.Equal(t, []uint64{seats + 5}, w.ids("SELECT total_quantity FROM coupon WHERE id = ?", couponID))

			lost.Store(false)
			inChange.Store(false)
			coupons := len(w.ids("SELECT id FROM coupon"))
			code, stdout, stderr := through.create()
			require.Equal(t, 1, code, stdout)
			require.Contains(t, stderr, "settle coupon list")
			more := 0
			if applied {
				more = 1
			}
			require.Len(t, w.ids("SELECT id FROM coupon"), coupons+more, "never two")
		})
	}
}

// Nor may whoever made it be told that it is safe to repeat, when MySQL is gone since: no run finds out about a change.
func TestAChangeThatNobodyCanTellOfIsNotSaidToBeSafeToRepeat(t *testing.T) {
	t.Parallel()
	w := newWiredWorld(t)
	w.servers[0] = "--mysql-dsn=" + w.accounts["jajeong_operator"]
	couponID := w.coupon(1)
	for name, c := range map[string]struct {
		change func(*world) (code int, stdout, stderr string)
		look   string
	}{
		"seats": {func(w *world) (int, string, string) { return w.changes("add-seats", couponID, "--seats=5") }, fmt.Sprintf("settle coupon show %d", couponID)},
		"new":   {func(w *world) (int, string, string) { return w.create() }, "settle coupon list"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inChange := false
			var wires []*faultproxy.Proxy
			through := *w
			wires, through.servers = w.wiresTo(func(turn faultproxy.Turn) faultproxy.Action {
				inChange = inChange || bytes.Contains(turn.Request, []byte("INTO audit_event"))
				if inChange && bytes.HasSuffix(turn.Request, []byte("\x03COMMIT")) {
					return faultproxy.DropReply(wires[toMySQL].Down)
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

func TestCouponsAreListed(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	w := newWorldOn(t, handle(t, server.Addr()))
	now := w.now()
	opened := w.coupon(2)
	ahead := w.couponBetween(1, now.Add(time.Hour), now.Add(2*time.Hour))
	closed := w.couponBetween(1, now.Add(-2*time.Hour), now.Add(-time.Hour))
	paused := w.coupon(1)
	over := w.coupon(1)
	w.mustChange("pause", paused)
	w.exec("UPDATE coupon SET finalised_at = NOW(6) WHERE id = ?", over)
	w.apply(opened, 1, 2)
	w.settleNow("--coupon=" + fmt.Sprint(opened)) // no such users
	w.apply(opened, 3)
	redisAway := false
	listed := func(extra ...string) (lines []couponLine) {
		t.Helper()
		code, stdout, stderr := w.settle(append([]string{"coupon", "list", "--output=json"}, extra...)...)
		require.Equal(t, redisAway, code == exitInfrastructure, stderr)
		require.LessOrEqual(t, code, exitInfrastructure, stderr)
		require.NoError(t, json.Unmarshal([]byte(stdout), &lines))
		return lines
	}
	for status, id := range map[string]uint64{"open": opened, "scheduled": ahead, "closed": closed, "paused": paused, "finalised": over} {
		lines := listed("--status=" + status)
		require.Len(t, lines, 1, status)
		require.Equal(t, id, lines[0].ID, status)
	}
	all := listed()
	require.Len(t, all, 5)
	require.EqualValues(t, 1, *all[0].Waiting)
	require.EqualValues(t, 2, *all[0].DLQ)
	require.EqualValues(t, 2, all[0].Left)
	require.Equal(t, all[2:4], listed("--after="+fmt.Sprint(ahead), "--limit=2"))

	for _, wrong := range []string{"--limit=0", "--limit=1001", "--status=lost"} {
		code, _, stderr := w.settle("coupon", "list", wrong)
		require.Equal(t, 2, code, stderr)
	}
	code, _, stderr := w.settle("coupon", "show", "999")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "coupon 999")

	require.NoError(t, server.Kill())
	redisAway = true
	require.Nil(t, listed()[0].Waiting, "MySQL alone is enough to list")
	code, stdout, stderr := w.settle("coupon", "show", fmt.Sprint(opened))
	require.Equal(t, exitInfrastructure, code, "what is shown is not all")
	require.Contains(t, stdout, "?")
	require.Contains(t, stderr, "Redis cannot be reached")
	_, stdout, _ = w.settle("coupon", "show", fmt.Sprint(opened), "--output=json")
	require.Contains(t, stdout, `"soldOut": null`)
	code, _, stderr = w.changes("add-seats", opened, "--seats=1")
	require.Equal(t, 1, code, "the clock that decides is Redis's")
	require.Contains(t, stderr, "safe to run again")
	require.Equal(t, []uint64{2}, w.ids("SELECT total_quantity FROM coupon WHERE id = ?", opened))
	code, _, _ = w.settle("dlq", "list")
	require.Equal(t, 1, code)
	w.servers[0] = "--mysql-dsn=root@tcp(127.0.0.1:1)/x"
	for _, verb := range [][]string{{"coupon", "list"}, {"coupon", "show", "1"}, {"dlq", "list"}} {
		code, _, _ = w.settle(verb...)
		require.Equal(t, 1, code, verb)
	}
}
