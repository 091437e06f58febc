package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each wrong flag has one line of its own, which names it.
func TestUse_OneErrorPerFlag(t *testing.T) {
	t.Parallel()
	extend := []string{"coupon", "extend-user", "1", "--user=1", "--operator=lee", "--reason=x", "--until=2030-01-01"}
	purge := []string{"purge", "--operator=lee", "--reason=x", "--before=2020-01-01"}
	for _, c := range []struct {
		verb        []string
		wrong, says string
	}{
		{extend, "--until=0000-01-01", "--until=0000-01-01 is before 1970"},
		{purge, "--before=0001-01-01", "--before=0001-01-01 is before 1970"},
		{extend, "--until=", "--until is empty"},
		{purge, "--before=", "--before is empty"},
		{extend, "--reason=a\tb", "--reason has line breaks or other control characters"},
		{extend, "--reason=  ", "--reason is empty"},
		{extend, "--operator=", "--operator is empty"},
		{purge, "--reason=", "--reason is empty"},
	} {
		flag, _, _ := strings.Cut(c.wrong, "=")
		args := []string{"--mysql-dsn=u:p@tcp(127.0.0.1:1)/x", "--lang=en"}
		for _, a := range c.verb {
			if strings.HasPrefix(a, flag+"=") {
				a = c.wrong
			}
			args = append(args, a)
		}
		code, _, stderr := settleBare(t, args...)
		require.Equal(t, exitUse, code)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		require.Contains(t, stderr, c.says)
	}
}

func TestServeAndConsole_WarnOfRisks(t *testing.T) {
	t.Parallel()
	told, stop := context.WithCancel(t.Context())
	stop()
	for _, args := range [][]string{{"serve"}, {"console", "--console-dev-user=kim", "--listen=127.0.0.1:0"}} {
		var stdout, stderr bytes.Buffer
		run(told, append(args, "--mysql-dsn=u:p@tcp("+nowhere+")/x?tls=skip-verify", "--redis-addrs="+nowhere), &stdout, &stderr)
		require.Contains(t, stderr.String(), "MYSQL_DSN does not verify the certificate of MySQL", "%v", args)
	}
}
