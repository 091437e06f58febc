package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv/badinput"
)

// Nothing that was given is taken for not given: of no verb, and no flag, argument or setting of it.
func TestWhatIsGivenAmissIsRefusedEverywhere(t *testing.T) {
	parser, err := kong.New(new(cli), kong.Vars{"version": "", "log_level": "warn"}, kong.Exit(func(int) {}))
	require.NoError(t, err)
	told, stop := context.WithCancel(t.Context())
	stop() // so that no verb stays that should not have begun
	t.Setenv("LC_ALL", "C")
	badinput.CheckAll(t, parser.Model, func(args ...string) (int, string) {
		var stdout, stderr bytes.Buffer
		code := run(told, args, &stdout, &stderr)
		require.Empty(t, stdout.String(), "%v", args)
		return code, stderr.String()
	})
}

// Each of these settled, issued, tried or read something that nobody had asked for.
func TestAnEmptyValueSwitchesNoSafetyOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(5)
	w.users(1, 2)
	w.apply(coupon, 1, 2)
	person := []string{"--operator=kim", "--reason=test"}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no digest":           {append([]string{"run", "--coupon=1", "--date=2026-11-20", "--expect-digest", ""}, person...), "--expect-digest is given empty"},
		"no coupon":           {append([]string{"run", "--coupon", "", "--cutoff=now"}, person...), "--coupon is given empty"},
		"coupon 0":            {append([]string{"run", "--coupon=0", "--cutoff=now"}, person...), "--coupon is 0"},
		"no date":             {append([]string{"run", "--date", ""}, person...), "--date is given empty"},
		"nobody's night":      {append([]string{"run"}, person...), "--operator and --reason belong to a manual run"},
		"preview of that":     {append([]string{"run", "--dry-run"}, person...), "--operator and --reason belong to a manual run"},
		"retry of nobody":     {append([]string{"dlq", "retry", "--coupon=1", "--user", ""}, person...), "--user is given empty"},
		"retry for no cause":  {append([]string{"dlq", "retry", "--coupon=1", "--cause", ""}, person...), "--cause is given empty"},
		"no canary":           {append([]string{"dlq", "retry", "--coupon=1", "--canary=0"}, person...), "--canary is 0"},
		"of two users one":    {[]string{"explain", "--coupon=1", "--user=1", "--user=2"}, "--user is given more than once"},
		"of two coupons one":  {append([]string{"dlq", "drop", "--coupon=1", "--coupon=2", "--user=1"}, person...), "--coupon is given more than once"},
		"a reason in latin-1": {[]string{"coupon", "pause", "1", "--operator=kim", "--reason=caf\xe9"}, "--reason has line breaks"},
		"a name with ESC":     {[]string{"coupon", "pause", "1", "--operator=\x1b[2Jkim", "--reason=test"}, "--operator has line breaks"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := w.settle(c.args...)
			require.Equal(t, 2, code, stdout+stderr)
			require.Contains(t, stderr, c.want)
			require.NotContains(t, stderr, "\x1b")
			require.Equal(t, []string{"1", "2"}, w.waiting(coupon), "nothing was done")
		})
	}
}

// A password file that is there and empty is no password forgone.
func TestAnEmptySecretFileIsRefused(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for _, flag := range []string{"redis-password", "mysql-dsn"} {
		code, _, stderr := settleBare(t, "runs", "--"+flag+"-file="+empty)
		require.Equal(t, 2, code, stderr)
		require.Contains(t, stderr, empty+" is empty")
	}
}

func TestProblemsAreToldInKorean(t *testing.T) {
	t.Parallel()
	_, _, stderr := settleBare(t, "run", "--lang=ko", "--date=", "--mysql-dsn=nobody@tcp(127.0.0.1:1)/none")
	require.Contains(t, stderr, "--date: 값이 비어 있습니다")
}
