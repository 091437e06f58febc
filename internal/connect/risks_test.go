package connect_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/text"
)

func TestWarnOfRisks(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	const secretFile,
		unverified = "every account of this machine can read a file with a secret; take this right away (chmod o-r)",
		"MYSQL_DSN does not verify the certificate of MySQL: an attacker in the network can read and change " +
			"everything; use tls=true"
	open, closed := file("open", "secret", 0o644), file("closed", "secret", 0o640)
	for name, c := range map[string]struct{ args, want []string }{
		"nothing": {args: []string{"--mysql-dsn=" + dsn, "--redis-password-file=" + closed}},
		"a file for everybody": {args: []string{"--mysql-dsn=" + dsn, "--redis-password-file=" + open},
			want: []string{secretFile + " REDIS_PASSWORD_FILE"}},
		"a DSN for everybody": {args: []string{"--mysql-dsn-file=" + file("dsn", dsn, 0o604)},
			want: []string{secretFile + " MYSQL_DSN_FILE"}},
		"certificates": {args: []string{"--mysql-dsn=" + dsn, "--kafka-brokers=a:1", "--kafka-tls",
			"--kafka-tls-ca-file=" + open}},
		"a server of anybody": {args: []string{"--mysql-dsn=" + dsn + "?tls=skip-verify"},
			want: []string{unverified + " skip-verify"}},
		"a server of anybody, too": {args: []string{"--mysql-dsn=" + dsn + "?tls=preferred"},
			want: []string{unverified + " preferred"}},
		"a known server": {args: []string{"--mysql-dsn=" + dsn + "?tls=true"}},
	} {
		var program struct {
			MySQL connect.MySQLSettings `embed:""`
			Redis connect.RedisSettings `embed:""`
			Kafka connect.KafkaSettings `embed:""`
		}
		parsed, err := connect.Parse(&program, connect.Program{Name: "program", Language: text.English}, c.args,
			new(bytes.Buffer), new(bytes.Buffer))
		require.NoError(t, err, name)
		core, logs := observer.New(zap.WarnLevel)
		connect.WarnOfRisks(parsed, &program.MySQL, zap.New(core))
		var warned []string
		for _, entry := range logs.All() {
			warned = append(warned, entry.Message+" "+entry.Context[0].String)
		}
		require.Equal(t, c.want, warned, name)
	}
}
