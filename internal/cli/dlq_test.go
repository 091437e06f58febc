package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// dlq runs `settle dlq VERB` for a coupon.
func (w *world) dlq(verb string, couponID coupon.CouponID, extra ...string) (code int, stdout, stderr string) {
	w.T.Helper()
	return w.settle(append([]string{"dlq", verb, fmt.Sprintf("--coupon=%d", couponID), "--operator=lee",
		"--reason=TICKET-7"}, extra...)...)
}

func TestDLQRetry_TriesCanariesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1, 2, 3, 4)
	w.SetStatus("BLOCKED")
	couponID := w.couponFor(9, 3, 1, 2, 4, 99)
	w.SettleNow()
	w.SetStatus("ACTIVE", 2, 3, 4)
	runs := len(w.IDs("SELECT id FROM settlement_run"))
	retry := func(flags ...string) (code int, stdout, stderr string) {
		return w.dlq("retry", couponID, append(flags, "--cause=INACTIVE_USER", "--output=json")...)
	}

	code, _, stderr := retry("--cutoff=now", "--canary=2")
	require.Equal(t, exitInfrastructure, code, stderr)
	require.Contains(t, stderr, "Of 2 applications tried first, 1 was not settled, so the other 2 were not tried.")
	require.Equal(t, []coupon.UserID{3}, w.Issued(couponID), "the first two of that cause by arrival are 3 and 1")
	for _, untried := range []string{"2", "4", "99"} {
		require.False(t, w.Reason(couponID, untried).Retryable, untried)
		require.Equal(t, 1, w.Reason(couponID, untried).Attempts, untried)
	}
	w.verify()

	w.SetStatus("ACTIVE")
	code, stdout, stderr := retry("--cutoff=now", "--canary=1")
	require.Zero(t, code, stderr)
	var done struct{ Runs []settle.Report }
	require.NoError(t, json.Unmarshal([]byte(stdout), &done), "one document")
	require.Len(t, done.Runs, 2)
	require.Contains(t, stderr, "The 1 application tried first was settled; the other 2 are tried now.")
	require.Equal(t, []coupon.UserID{3, 1, 2, 4}, w.Issued(couponID))
	require.Equal(t, 1, w.Reason(couponID, "99").Attempts, "it has another cause")
	w.verify()

	_, _, stderr = w.dlq("retry", couponID, "--cause=INACTIVE_USER")
	require.Contains(t, stderr, "No application is under review for this cause")
	for want, args := range map[string][]string{
		`"trigger": "DLQ_RETRY"`: {"retry"}, `"runs": []`: {"retry", "--canary=1"},
		`"trigger": "MANUAL"`: {"drop", "--yes"},
	} {
		stdout := succeeds(t)(w.dlq(args[0], couponID, append(args[1:], "--cause=INACTIVE_USER", "--output=json")...))
		require.True(t, json.Valid([]byte(stdout)), stdout)
		require.Contains(t, stdout, want)
		require.NotContains(t, stdout, "null")
	}
	for want, wrong := range map[string][]string{
		"--canary": {"--canary=-1"}, "--user": {"--cause=BAD_ROW", "--user=99"},
		"7": {"--user=99", "--user=7", "--canary=1"},
	} {
		refused(t, want)(w.dlq("retry", couponID, wrong...))
	}
	require.Len(t, w.IDs("SELECT id FROM settlement_run"), runs+3)
}

func TestDLQList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddCoupon(1) // without DLQ entries
	couponID, other := w.AddCoupon(9), w.AddCoupon(9)
	w.AddUsers(1, 2)
	w.SetStatus("BLOCKED")
	w.Apply(couponID, 1, 98, 2, 99)
	w.ApplyAt(couponID, "=HYPERLINK(1)", w.Now())
	w.Apply(other, 99)
	began := w.Now()
	w.SettleNow()
	listed := func(extra ...string) (list reviewList) {
		t.Helper()
		stdout := succeeds(t)(w.settle(append([]string{"dlq", "list", "--output=json"}, extra...)...))
		require.NoError(t, json.Unmarshal([]byte(stdout), &list))
		return list
	}
	all := listed()
	require.Equal(t, []int{6, 4}, []int{all.Total, len(all.Groups)})
	arrivals := w.UnderReview(couponID)
	blocked := all.Groups[slices.IndexFunc(all.Groups,
		func(g history.DLQGroup) bool { return g.Cause == "INACTIVE_USER" })]
	require.Equal(t, couponID, blocked.Coupon)
	require.Equal(t, []int{2, 0, 2, 1, 1}, []int{blocked.Count, blocked.Retryable, blocked.Held, blocked.MinAttempts,
		blocked.MaxAttempts})
	require.Equal(t, arrivals["1"], coupon.ArrivalAt(blocked.OldestArrival))
	require.Equal(t, arrivals["2"], coupon.ArrivalAt(blocked.NewestArrival))
	require.WithinRange(t, blocked.OldestReview, began.Truncate(time.Second), w.Now())
	require.Equal(t, 2, listed("--cause=UNKNOWN_USER", fmt.Sprintf("--coupon=%d", couponID)).Total)
	require.Equal(t, 3, listed("--cause=UNKNOWN_USER").Total)

	ones := listed("--user=99").Entries
	require.Equal(t, []coupon.CouponID{couponID, other}, []coupon.CouponID{ones[0].Coupon, ones[1].Coupon})
	require.Empty(t, ones[0].Note, "the cause says it")
	require.NotZero(t, ones[0].Run)
	var members []string
	for _, e := range listed("--list", fmt.Sprintf("--coupon=%d", couponID)).Entries {
		members = append(members, e.User)
	}
	require.Equal(t, []string{"1", "98", "2", "99", "=HYPERLINK(1)"}, members, "by arrival")
	stdout := succeeds(t)(w.settle("dlq", "list", "--list", "--output=csv"))
	require.Contains(t, stdout, ",'=HYPERLINK(1),", "text in a spreadsheet")
	refused(t, "coupon 999")(w.settle("dlq", "list", "--coupon=999"))

	// Entries written by hand have no known time.
	arrival := float64(w.Now().UnixMicro())
	require.NoError(t, w.Redis.ZAdd(t.Context(), w.Key("dlq", other),
		redis.Z{Score: arrival, Member: "7"}, redis.Z{Score: arrival, Member: "8"}).Err())
	require.NoError(t, w.Redis.HSet(t.Context(), w.Key("dlq:reason", other), "8", `{"cause":"BY_HAND"}`).Err())
	for _, args := range [][]string{{"--output=json"}, {"--output=json", "--list"}, {"--output=table"},
		{"--output=csv"}, {"--output=csv", "--list"}} {
		stdout := succeeds(t)(w.settle(append([]string{"dlq", "list"}, args...)...))
		require.NotRegexp(t, "0001-01-01|1970-01-01", stdout, args)
	}
}

func TestDLQRetry_CanaryBehindEarlierEntryHasNotFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.RefuseOddUsers()
	w.AddUsers(between(1, 3)...)
	w.Exec("INSERT INTO odd_user (id) VALUES (1), (2), (3)")
	couponID := w.AddCoupon(1)
	w.Apply(couponID, between(1, 3)...)
	w.SettleNow()
	w.Exec("DELETE FROM odd_user")
	code, _, stderr := w.dlq("retry", couponID, "--user=3", "--user=2", "--canary=1", "--cutoff=now", "--lang=en")
	require.Equal(t, 1, code, stderr)
	require.Contains(t, stderr, "belong to earlier applications: 1 was not tried")
	require.NotContains(t, stderr, "failed again")
	require.Empty(t, w.Issued(couponID), "the seat is kept for 1")
	w.SettleNow()
	require.Equal(t, []coupon.UserID{1}, w.Issued(couponID))
	w.verify()
}

// A member is named as it is written: one with a blank is another one than the user's.
func TestDLQ_MembersKeepTheirBlanks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.couponFor(2, 7)
	w.ApplyAt(id, " 7", w.Now())
	for _, member := range []string{"7", " 7"} {
		w.MoveToReview(id, member, coupon.Failure{Cause: coupon.CauseBadRow})
	}
	succeeds(t)(w.dlq("drop", id, "--user= 7", "--yes"))
	require.Equal(t, []string{"7"}, slices.Collect(maps.Keys(w.UnderReview(id))))
}

// A retry and a drop take the entries that their previews showed, or none.
func TestDLQ_IsPinnedToItsPreview(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1, 2, 3, 4)
	couponID := w.couponFor(9, 1, 2, 3, 4)
	for _, user := range []string{"1", "2", "4"} {
		w.MoveToReview(couponID, user, coupon.Failure{Cause: coupon.CauseBadRow, Note: "test"})
	}
	coupons := "--coupon=" + couponID.String()
	for _, selected := range [][]string{{"--cause=BAD_ROW"}, {"--user=1", "--user=2"}} {
		list := succeeds(t)(w.settle(append([]string{"dlq", "list", coupons}, selected...)...))
		for _, verb := range []string{"retry", "drop"} {
			preview := succeeds(t)(w.settle(append([]string{"dlq", verb, coupons, "--dry-run"}, selected...)...))
			rows := strings.TrimSuffix(preview, "  "+w.digestOf(append([]string{"dlq", verb, coupons},
				selected...)...)+"\n")
			require.Equal(t, strings.Count(list, "\n"), strings.Count(rows, "\n"),
				"the preview is the list and its digest")
		}
	}
	require.Empty(t, w.Issued(couponID))
	retry, drop := w.digestOf("dlq", "retry", coupons, "--cause=BAD_ROW"),
		w.digestOf("dlq", "drop", coupons, "--cause=BAD_ROW")
	require.NotEqual(t, retry, drop)
	w.MoveToReview(couponID, "3", coupon.Failure{Cause: coupon.CauseBadRow, Note: "test"})
	for _, flags := range [][]string{{"drop", "--yes", "--expect-digest=" + drop},
		{"retry", "--cutoff=now", "--expect-digest=" + retry},
		{"retry", "--cutoff=now", "--canary=1", "--expect-digest=" + retry},
		{"retry", "--cutoff=now", "--expect-digest=" + drop}} {
		refused(t, "no longer the one that the preview showed")(
			w.dlq(flags[0], couponID, append(flags[1:], "--cause=BAD_ROW", "--lang=en")...))
	}
	require.Empty(t, w.Issued(couponID))
	require.Empty(t, w.Outcome(couponID, "REJECTED"))

	all := w.digestOf("dlq", "retry", coupons)
	require.Equal(t, all, w.digestOf("dlq", "retry", coupons, "--cause=BAD_ROW"), "of four entries")
	succeeds(t)(w.dlq("drop", couponID, "--user=4", "--expect-digest="+w.digestOf("dlq", "drop", coupons, "--user=4")))
	require.Equal(t, []coupon.UserID{4}, w.Outcome(couponID, "REJECTED"))
	code, _, stderr := w.dlq("retry", couponID, "--cutoff=now", "--expect-digest="+all)
	require.Equal(t, exitUse, code, stderr)
	succeeds(t)(w.dlq("retry", couponID, "--cutoff=now", "--expect-digest="+w.digestOf("dlq", "retry", coupons)))
	require.Equal(t, []coupon.UserID{1, 2, 3}, w.Issued(couponID))
	refused(t, "--expect-digest is \"sha256:1\"")(
		w.dlq("drop", couponID, "--user=4", "--expect-digest=sha256:1", "--lang=en"))
	w.verify()
}

// Another operator ends an entry while this one connects to settle the chosen entries, or begins the run.
func TestDLQ_LeavesOutEntriesGoneMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorldBehindProxies(t)
	for before, occurrence := range map[string]int{"binlog_format": 2, "INTO settlement_run": 1} {
		for verb, want := range map[string]struct {
			flags    []string
			rejected []coupon.UserID
		}{"retry": {nil, []coupon.UserID{98}}, "drop": {[]string{"--yes"}, []coupon.UserID{98, 99}}} {
			t.Run(verb+" before "+before, func(t *testing.T) {
				couponID := w.couponFor(9, 98, 99)
				w.SettleNow(couponID)
				seen := 0
				_, servers := w.proxied(func(turn faultproxy.Turn) faultproxy.Action {
					if bytes.Contains(turn.Request, []byte(before)) {
						if seen++; seen == occurrence {
							w.Drop(couponID, "98")
						}
					}
					return faultproxy.Pass()
				})
				through := *w
				through.servers = servers
				code, stdout, stderr := through.dlq(verb, couponID, append(want.flags, "--cause=UNKNOWN_USER")...)
				require.Zero(t, code, "%s%s", stdout, stderr)
				require.GreaterOrEqual(t, seen, occurrence)
				require.Equal(t, want.rejected, w.Outcome(couponID, "REJECTED"))
			})
		}
	}
	w.verify()
}

// The entries of chosen users are looked up, however long the DLQ is. Only the run of a retry reads the line, as every
// run does.
func TestDLQ_CallsForOneUserDoNotGrowWithTheDLQ(t *testing.T) {
	t.Parallel()
	w := newWorldBehindProxies(t)
	var calls, pages atomic.Int64
	_, w.servers = w.proxied(func(turn faultproxy.Turn) faultproxy.Action {
		text := strings.ToLower(string(turn.Request))
		switch {
		// EVAL: Redis did not have the script yet. HELLO: calls at the same time need another connection.
		case turn.Proxy != jajeongtest.ToRedis || strings.Contains(text, "\r\neval\r\n") ||
			strings.Contains(text, "\r\nhello\r\n"):
		// 500 entries of the queue and 125 of the DLQ: a page of the line.
		case strings.Contains(text, "\r\n500\r\n$3\r\n125\r\n"):
			pages.Add(1)
		default:
			calls.Add(1)
		}
		return faultproxy.Pass()
	})
	counted := map[string]int64{}
	for n, entries := range []coupon.UserID{10, 300} {
		users := between(coupon.UserID(n*1000+1), coupon.UserID(n*1000)+entries)
		w.AddUsers(users...)
		id := w.couponFor(5, users...)
		for _, user := range users {
			w.MoveToReview(id, user.Member(), coupon.Failure{Cause: coupon.CauseBadRow, Note: "test"})
		}
		for i, verb := range [][]string{{"list"}, {"drop"}, {"retry", "--cutoff=now"},
			{"retry", "--cutoff=now", "--canary=1"}} {
			calls.Store(0)
			pages.Store(0)
			flags := append([]string{"--coupon=" + id.String(), "--user=" + users[i].Member()}, verb[1:]...)
			if verb[0] != "list" {
				flags = append(flags, "--operator=lee", "--reason=TICKET-7")
			}
			succeeds(t)(w.settle(append([]string{"dlq", verb[0]}, flags...)...))
			key := strings.Join(verb, " ")
			if n > 0 {
				require.Equal(t, counted[key], calls.Load(), key)
				require.LessOrEqual(t, pages.Load(), int64(3*(entries/125+1)), "%s: to count, to issue, to close out",
					key)
			}
			counted[key] = calls.Load()
			require.True(t, verb[0] == "retry" || pages.Load() == 0, key)
		}
		require.Equal(t, users[2:4], w.Issued(id))
		require.Equal(t, users[1:2], w.Outcome(id, "REJECTED"))
	}
	w.verify()
}

// A file names the users, however Excel has saved it. Who is not under review is named, and nobody is touched then.
func TestDLQ_ByFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1, 2, 3, 4)
	id := w.couponFor(9, 1, 2, 3, 4)
	for _, user := range []string{"1", "2", "3"} {
		w.MoveToReview(id, user, coupon.Failure{Cause: coupon.CauseBadRow})
	}
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "list.csv")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return "--file=" + path
	}
	dlq := func(verb string, more ...string) []string {
		return append([]string{"dlq", verb, "--coupon=" + id.String()}, more...)
	}
	by := func(args ...string) []string { return append(args, "--operator=kim", "--reason=CS-1", "--lang=en") }
	for content, want := range map[string]string{"user_id\r\nx\r\n": `line 2: "x" is no user id`, "": "the list has no user"} {
		refused(t, want)(w.settle(by(dlq("drop", file(content), "--yes")...)...))
	}
	refused(t, "no such file")(w.settle(by(dlq("drop", "--file="+t.TempDir()+"/none", "--yes")...)...))
	refused(t, "give one of")(w.settle(by(dlq("drop", file("1"), "--user=1", "--yes")...)...))
	refused(t, `"4" is not under review`)(w.settle(by(dlq("drop", file("1\n4\n"), "--yes")...)...))
	require.Len(t, w.UnderReview(id), 3)

	list := file("\ufeffname,user_id\r\nKim,2\r\nLee,1\r\nKim,2\r\n\r\n")
	preview := succeeds(t)(w.settle(dlq("drop", list, "--dry-run", "--lang=en")...))
	require.Contains(t, preview, "BAD_ROW")
	digest := regexp.MustCompile("sha256:[0-9a-f]{64}").FindString(preview)
	other := "--expect-digest=sha256:" + strings.Repeat("0", 64)
	code, _, _ := w.settle(by(dlq("drop", list, "--yes", other)...)...)
	require.NotZero(t, code)
	code, _, stderr := w.settle(by(dlq("drop", list, "--yes", "--expect-digest="+digest)...)...)
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "1 line with a user of another line left out")
	require.Len(t, w.Outcome(id, "REJECTED"), 2)
	succeeds(t)(w.settle(by(dlq("retry", file(`{"user_id": 3}`), "--cutoff=now")...)...))
	require.Equal(t, []coupon.UserID{3, 4}, w.Issued(id), "by arrival")
	w.Verify(id)
}

// A policy that names drop has a list approved by its digest.
func TestDLQ_ByFileWithApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1, 2)
	id := w.couponFor(9, 1, 2)
	for _, user := range []string{"1", "2"} {
		w.MoveToReview(id, user, coupon.Failure{Cause: coupon.CauseBadRow})
	}
	w.setPolicy("drop")
	path := filepath.Join(t.TempDir(), "list.csv")
	require.NoError(t, os.WriteFile(path, []byte("2\n1\n"), 0o600))
	drop := []string{"dlq", "drop", "--coupon=" + id.String(), "--file=" + path}
	a := w.ask(drop...)
	w.approve(a)
	require.NoError(t, os.WriteFile(path, []byte("1\n"), 0o600))
	code, _, _ := w.kim(append(drop, "--yes", a.flag())...)
	require.NotZero(t, code, "another list")
	require.Len(t, w.UnderReview(id), 2)
	require.NoError(t, os.WriteFile(path, []byte("1\n2\n2\n"), 0o600))
	succeeds(t)(w.kim(append(drop, "--yes", a.flag())...))
	require.Len(t, w.Outcome(id, "REJECTED"), 2)
	w.Verify(id)
}
