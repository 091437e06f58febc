package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

// Every verb reports output that it could not write. Its changes remain.
func TestVerbs_ReportUnwrittenOutput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.AddCoupon(5)
	w.AddUsers(1)
	w.Apply(couponID, 1, 2, 3)
	w.SettleNow()
	person := []string{"--operator=kim", "--reason=test"}
	closes := "--closes=" + w.Now().Add(2*time.Hour).Format(time.RFC3339)
	month := w.month()
	receipts := newReceipts(w)
	token := receipts.sign(couponID, 2, coupon.ArrivalAt(w.Now()))
	spoken := map[string]bool{}
	for _, args := range [][]string{
		{"--help"}, {"run", "--help"}, {"--version"}, {"completion", "bash"},
		{"migrate"}, {"run"}, {"verify"}, {"user", "show", "--user=1"}, {"user", "export", "--user=1"}, {"runs"},
		{"runs", "--output=csv"}, {"show", "1"},
		{"explain", "--coupon=1", "--user=1"}, {"report", month}, {"dlq", "list"}, {"coupon", "list"},
		{"coupon", "show", "1", "--output=json"}, {"coupon", "winners", "1"},
		append([]string{"dlq", "retry", "--coupon=1"}, person...),
		append([]string{"dlq", "drop", "--coupon=1", "--user=3"}, person...),
		append([]string{"coupon", "create", "--name=x", "--seats=1", "--opens=2026-01-01 00:00", closes}, person...),
		append([]string{"coupon", "add-seats", "1", "--seats=1"}, person...),
		append([]string{"coupon", "pause", "1"}, person...),
		append([]string{"coupon", "revoke", "1", "--user=1"}, person...),
		append([]string{"coupon", "reissue", "1", "--user=1", "--output=json"}, person...),
		append([]string{"coupon", "add-seats", "1", "--seats=1", "--ask"}, person...), {"approvals"},
		{"approvals", "1", "--output=json"},
		append([]string{"approve", "1", "--refuse"}, person...), {"policy", "show"},
		append([]string{"policy", "set", "--actions=none", "--output=json"}, person...),
		{"restore", "--coupon=1", "--dry-run"}, append([]string{"restore", "--coupon=1", "--output=json"}, person...),
		{"receipt", "show", token, receipts.flag},
		append([]string{"receipt", "honour", token, receipts.flag, "--output=json"}, person...),
		{"events", "status"}, {"events", "replay", "--coupon=1", "--dry-run"},
		append([]string{"purge", "--before=2026-01-01", "--dry-run"}, person...),
	} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		require.NoError(t, err)
		var stderr bytes.Buffer
		servers := w.serversFor(args)
		if args[0] == "migrate" {
			servers = []string{"--mysql-dsn=" + testenv.MySQLFor(t).DSN}
		}
		code := run(t.Context(), append(args, servers...), full, &stderr)
		require.NoError(t, full.Close())
		require.Equal(t, exitInfrastructure, code, "%v: %s", args, &stderr)
		require.Equal(t, 1, strings.Count(stderr.String(), "no space left on device"), "%v: %s", args, &stderr)
		require.Contains(t, stderr.String(), "the output could not be written", args)
		spoken[args[0]] = true
	}
	for _, format := range []string{"--output=table", "--output=csv", "--output=json", "--output=html"} {
		code, _, stderr := w.settle("report", month, format, "--out=/dev/full", "--lang=en")
		require.Equal(t, exitInfrastructure, code, "%s: %s", format, stderr)
		require.Equal(t, 1, strings.Count(stderr, "no space left on device"), stderr)
		require.NotContains(t, stderr, "written to", format)
	}
	require.Equal(t, []uint64{6}, w.IDs("SELECT total_quantity FROM coupon WHERE id = ?", couponID))

	parser, err := kong.New(new(cli), variables(""))
	require.NoError(t, err)
	for _, verb := range parser.Model.Children {
		// serve and console log.
		require.True(t, spoken[verb.Name] || verb.Name == "serve" || verb.Name == "console" || verb.Hidden,
			"%s prints, too", verb.Name)
	}
	code, _, stderr := w.settle("explain", "--coupon=99", "--user=1")
	require.Equal(t, exitUse, code)
	require.NotContains(t, stderr, "could not be written")
}
