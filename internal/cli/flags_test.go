package cli

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUse_NoDateBefore1970(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"coupon", "extend-user", "1", "--user=1", "--until=0000-01-01"}, {"purge", "--before=0001-01-01"},
	} {
		refused(t, args[len(args)-1]+" is before 1970")(
			settleBare(t, append(args, "--operator=lee", "--reason=x", "--mysql-dsn=u:p@tcp("+nowhere+")/x",
				"--lang=en")...))
	}
}

func TestServeAndConsole_WarnOfRisks(t *testing.T) {
	t.Parallel()
	told, stop := context.WithCancel(t.Context())
	stop()
	for _, args := range [][]string{{"serve"}, {"console", "--console-dev-user=kim", "--listen=127.0.0.1:0"}} {
		var stdout, stderr bytes.Buffer
		run(told, append(args, "--mysql-dsn=u:p@tcp("+nowhere+")/x?tls=skip-verify", "--redis-addrs="+nowhere), &stdout,
			&stderr)
		require.Contains(t, stderr.String(), "MYSQL_DSN does not verify the certificate of MySQL", "%v", args)
	}
}
