package cli

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// hostileMembers are members written into Redis by hand.
var hostileMembers = []string{"\x1b[2J\x1b[31mowned", "\u009b31mred", "\xff\xfe", "=HYPERLINK(\"http://x\")",
	strings.Repeat("x", 8_000), "a\r\nb\u2028c"}

// Foreign texts in Redis and MySQL are printed without control characters and do not widen tables.
func TestOutput_EscapesForeignTexts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.AddCoupon(5)
	w.AddUsers(1, 2)
	at := w.Now().Add(-time.Minute)
	for i, member := range hostileMembers {
		w.ApplyAt(couponID, member, at.Add(time.Duration(i)*time.Millisecond))
	}
	w.Apply(couponID, 1)
	esc := "\x1b[2J\u009b31m\x7f\r\nnext"
	w.Exec("UPDATE coupon SET name = ?", esc)
	w.Exec("CREATE TRIGGER rude BEFORE INSERT ON user_coupon FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = " +
		"'" + esc + "'")
	printed := func(args ...string) {
		t.Helper()
		_, stdout, stderr := w.settle(args...)
		if slices.Contains(args, "--output=csv") {
			stdout = strings.ReplaceAll(stdout, "\r\n", "\n")
		} else {
			for line := range strings.Lines(stdout + stderr) {
				require.Less(t, utf8.RuneCountInString(line), 5000, "%v", args)
			}
		}
		require.True(t, utf8.ValidString(stdout+stderr))
		for _, r := range stdout + stderr {
			require.False(t, unicode.IsControl(r) && r != '\n', "%v printed %q", args, r)
		}
	}
	printed("run", "--dry-run", "--list", "--cutoff=now", "--accept-gap")
	printed("run", "--cutoff=now", "--accept-gap", "--operator=kim", "--reason=test")
	w.Exec("UPDATE settlement_run SET operator = ?, reason = ?", esc, esc)
	w.Exec("UPDATE run_coupon SET error = ?", esc)
	w.Exec("UPDATE audit_event SET actor = ?, reason = ?, detail = ?", esc, esc, esc+strings.Repeat("y", 1900))
	day := w.Now().In(time.FixedZone("KST", 9*60*60)).Format(time.DateOnly)
	for _, args := range [][]string{
		{"runs"}, {"runs", "--output=csv"}, {"show", "1"}, {"coupon", "list"}, {"coupon", "show", "1"}, {"verify"},
		{"explain", "--coupon=1", "--user=1"}, {"explain", "--coupon=1", "--user=1", "--lang=ko"},
		{"dlq", "list"}, {"dlq", "list", "--list"}, {"dlq", "list", "--output=csv"},
		{"dlq", "list", "--list", "--output=csv"},
		{"report", "--date=" + day}, {"report", "--date=" + day, "--output=csv"},
		{"report", "--date=" + day, "--output=html"},
		{"dlq", "retry", "--coupon=1", "--user=" + hostileMembers[0], "--operator=kim", "--reason=test"},
		{"dlq", "drop", "--coupon=1", "--user=" + esc, "--operator=kim", "--reason=test"},
		{"dlq", "drop", "--coupon=1", "--cause=MALFORMED_USER_ID", "--yes", "--operator=kim", "--reason=test"},
		{"run", "--bogus=" + esc}, {esc}, {"show", esc}, {"coupon", "pause", "1", "--operator=kim", "--reason=test"},
	} {
		printed(args...)
	}
	for _, args := range [][]string{{"runs"}, {"coupon", "list"}, {"coupon", "show", "1"}} {
		_, stdout, _ := w.settle(append(args, "--output=json")...)
		require.Contains(t, stdout, `\u001b[2J\u009b31m\u007f\r\nnext`, "programs get all of it, escaped")
		printed(append(args, "--output=json")...)
	}
}
