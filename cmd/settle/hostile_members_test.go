package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hostile are members that somebody's hand wrote into Redis.
var hostile = []string{"\x1b[2J\x1b[31mowned", "\u009b31mred", "\xff\xfe", "=HYPERLINK(\"http://x\")", strings.Repeat("x", 1<<20), "a\r\nb\u2028c"}

// Everybody else of a cause is dropped although one cannot be: it stays, and is told of.
func TestOneMemberStopsNoDrop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(5)
	w.users(1)
	at := w.now().Add(-time.Minute)
	for i, member := range hostile {
		w.stand(coupon, member, at.Add(time.Duration(i)*time.Millisecond))
	}
	w.stand(coupon, "twin", at.Add(time.Second))
	w.stand(coupon, "of-twin", at.Add(time.Second))
	w.apply(coupon, 1)
	w.settleNow("--accept-gap")
	require.Len(t, w.underReview(coupon), len(hostile)+2)

	code, stdout, stderr := w.dlq("drop", coupon, "--cause=MALFORMED_USER_ID", "--yes", "--lang=en")
	require.Equal(t, exitUse, code, stderr)
	require.Contains(t, stderr, "7 applications of coupon")
	require.Contains(t, stderr, `stays under review: another member that was dropped has its very arrival`)
	require.Less(t, len(stdout+stderr), 10_000)
	left := w.underReview(coupon)
	require.Len(t, left, 1)
	last := slices.Collect(maps.Keys(left))[0]
	require.Contains(t, []string{"twin", "of-twin"}, last)
	require.Len(t, w.ids("SELECT run_id FROM application_outcome WHERE coupon_id = ? AND outcome = 'REJECTED'", coupon), len(hostile)+1)
	require.Len(t, w.ids("SELECT id FROM audit_event WHERE action = 'DLQ_DROPPED'"), len(hostile)+1, "and nothing is said of whom it was not done to")

	code, _, stderr = w.dlq("drop", coupon, "--user="+last)
	require.Equal(t, exitUse, code, stderr)
	require.Len(t, w.underReview(coupon), 1)
	require.NoError(t, w.rdb.ZRem(t.Context(), "dlq:{"+w.queue(coupon)+"}", last).Err())
	code, _, stderr = w.dlq("drop", coupon, "--user=nobody")
	require.Equal(t, exitUse, code)
	require.Contains(t, stderr, `"nobody" is not under review`)
}

// A row that the database refuses is one user's; the others are dropped.
func TestOneRefusedRowStopsNoDrop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(5)
	w.users(1, 2, 3)
	w.exec("UPDATE `user` SET status = 'BLOCKED'")
	w.apply(coupon, 1, 2, 3)
	w.settleNow()
	w.exec("CREATE TRIGGER picky BEFORE INSERT ON application_outcome FOR EACH ROW BEGIN IF NEW.user_id = 2 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'; END IF; END")
	code, _, stderr := w.dlq("drop", coupon, "--cause=INACTIVE_USER", "--yes")
	require.Equal(t, exitUse, code, stderr)
	require.Contains(t, stderr, "2 applications of coupon")
	require.Contains(t, stderr, "not this one")
	require.Equal(t, []uint64{1, 3}, w.outcome(coupon, "REJECTED"))
	require.Len(t, w.underReview(coupon), 1)
	require.False(t, w.reason(coupon, "2").Retryable, "it is held as before")
	w.exec("DROP TRIGGER picky")
	w.verify()
}
