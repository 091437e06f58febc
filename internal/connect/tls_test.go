package connect_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/events/redissink"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/text"
)

func write(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o644))
	}
}

func TestTLSDir_Problems(t *testing.T) {
	t.Parallel()
	trusted := testenv.NewAuthority(t)
	certificate, key := trusted.Issue()
	_, otherKey := trusted.Issue()
	for name, test := range map[string]struct {
		files map[string][]byte
		want  string
	}{
		"everything": {files: map[string][]byte{"ca.crt": trusted.PEM(), "tls.crt": certificate,
			"tls.key": key}},
		"authorities alone": {files: map[string][]byte{"ca.crt": trusted.PEM()}},
		"client alone":      {files: map[string][]byte{"tls.crt": certificate, "tls.key": key}},
		"nothing":           {want: "REDIS_TLS_DIR: the folder has neither ca.crt, nor tls.crt and tls.key"},
		"certificate alone": {files: map[string][]byte{"tls.crt": certificate},
			want: "REDIS_TLS_DIR/tls.key cannot be read: no such file or directory"},
		"key alone": {files: map[string][]byte{"tls.key": key},
			want: "REDIS_TLS_DIR/tls.crt cannot be read: no such file or directory"},
		"key of another": {files: map[string][]byte{"tls.crt": certificate, "tls.key": otherKey},
			want: "REDIS_TLS_DIR: tls.crt and tls.key cannot be used: want a certificate and its private key, both " +
				"PEM: tls: private key does not match public key"},
		"authority without PEM": {files: map[string][]byte{"ca.crt": []byte("no certificate")},
			want: "REDIS_TLS_DIR/ca.crt: the file has no certificate in PEM format"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, test.files)
			err := (&connect.RedisSettings{RedisAddrs: []string{"a:1"},
				RedisAccess: connect.RedisAccess{RedisTLSDir: dir}}).Validate()
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, test.want)
			require.ErrorAs(t, err, new(*text.UsageError), "exit code 2")
			err = (&connect.EventSettings{EventRedisAddrs: []string{"a:1"},
				EventRedis: connect.RedisAccess{RedisTLSDir: dir}}).Validate()
			require.EqualError(t, err, "EVENT_"+test.want)
		})
	}
	missing := filepath.Join(t.TempDir(), "nothing")
	require.EqualError(t, (&connect.MySQLSettings{MySQLDSN: "u:p@tcp(a:1)/d", MySQLTLSDir: missing}).Validate(),
		"MYSQL_TLS_DIR: the folder has neither ca.crt, nor tls.crt and tls.key")
	for dsn, right := range map[string]bool{"u:p@tcp(a:1)/d": true, "u:p@tcp(a:1)/d?tls=true": true,
		"u:p@tcp(a:1)/d?tls=skip-verify": false, "u:p@unix(/s)/d": false} {
		err := (&connect.MySQLSettings{MySQLDSN: dsn, MySQLTLSDir: trusted.Folder()}).Validate()
		require.Equal(t, right, err == nil, "%s: %v", dsn, err)
	}
}

// A server that wants certificates gets that of the folder, and a new one as soon as the folder has it. A certificate
// that either side refuses is a wrong setting.
func TestTLSDir_OfRedis(t *testing.T) {
	t.Parallel()
	trusted, foreign := testenv.NewAuthority(t), testenv.NewAuthority(t)
	server := trusted.Folder()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	address := redis.SpeakTLS(t, server)

	for name, test := range map[string]struct {
		dir   string
		right bool
	}{
		"right":                    {trusted.Folder(), true},
		"server of another":        {foreign.Folder(), false},
		"no client":                {onlyAuthority(t, trusted), false},
		"client of another":        {clientOf(t, trusted, foreign), false},
		"no folder, TLS by itself": {"", false},
	} {
		access := connect.RedisAccess{RedisTLS: true, RedisTLSDir: test.dir}
		store := openStore(t, connect.RedisSettings{RedisAddrs: []string{address}, RedisAccess: access})
		client, err := (&connect.EventSettings{EventRedisAddrs: []string{address}, EventRedis: access}).OpenRedis(nil)
		require.NoError(t, err)
		sink, err := redissink.New(client, redissink.Options{Stream: "stream", Retention: time.Hour})
		require.NoError(t, err)
		defer sink.Close()
		for setting, look := range map[string]func() error{
			"REDIS_TLS_DIR":       func() error { _, err := store.Now(t.Context()); return err },
			"EVENT_REDIS_TLS_DIR": func() error { _, err := sink.Look(t.Context(), events.Place{}); return err },
		} {
			if test.right {
				require.NoError(t, look(), name)
				continue
			}
			// By TLS 1.3, a server refuses a certificate after the handshake. It may end the connection before anybody
			// reads why.
			testenv.Eventually(t, name+": the certificate is refused", func() bool {
				err = look()
				require.Error(t, err)
				return mysqltx.ClassOf(err) == coupon.Setup
			})
			require.ErrorContains(t, err, " check "+setting+",", name)
			require.Empty(t, mysqltx.Advice(err), "the user of Redis is right: %s", name)
		}
	}

	dir := clientOf(t, trusted, foreign)
	client, err := (&connect.RedisSettings{RedisAddrs: []string{address},
		RedisAccess: connect.RedisAccess{RedisTLSDir: dir}}).Open()
	require.NoError(t, err)
	defer client.Close()
	require.Error(t, client.Ping(t.Context()).Err())
	certificate, key := trusted.Issue()
	write(t, dir, map[string][]byte{"tls.crt": certificate, "tls.key": key})
	require.NoError(t, client.Ping(t.Context()).Err(), "the certificate was renewed")
}

func onlyAuthority(t *testing.T, of testenv.Authority) string {
	dir := t.TempDir()
	write(t, dir, map[string][]byte{"ca.crt": of.PEM()})
	return dir
}

func clientOf(t *testing.T, server, client testenv.Authority) string {
	dir := onlyAuthority(t, server)
	certificate, key := client.Issue()
	write(t, dir, map[string][]byte{"tls.crt": certificate, "tls.key": key})
	return dir
}

func TestTLSDir_OfMySQL(t *testing.T) {
	t.Parallel()
	trusted, foreign := testenv.NewAuthority(t), testenv.NewAuthority(t)
	server := trusted.Folder()
	m := testenv.PrivateMySQL(t, testenv.MySQLOptions{Args: testenv.MySQLArgs(server)})
	admin, err := sql.Open("mysql", m.DSN(""))
	require.NoError(t, err)
	defer admin.Close()
	for _, statement := range []string{"CREATE DATABASE coupons",
		"CREATE USER x509 IDENTIFIED BY 'secret' REQUIRE X509", "GRANT ALL ON coupons.* TO x509"} {
		_, err := admin.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	for name, test := range map[string]struct {
		dir   string
		right bool
	}{
		"right":             {trusted.Folder(), true},
		"server of another": {foreign.Folder(), false},
		"no client":         {onlyAuthority(t, trusted), false},
		"client of another": {clientOf(t, trusted, foreign), false},
	} {
		settings := connect.MySQLSettings{MySQLDSN: fmt.Sprintf("x509:secret@tcp(%s)/coupons", m.Addr()),
			MySQLTLSDir: test.dir}
		require.NoError(t, settings.Validate())
		db, err := settings.Open(connect.Patient, zap.NewNop())
		require.NoError(t, err)
		err = db.PingContext(t.Context())
		require.Equal(t, test.right, err == nil, "%s: %v", name, err)
		if err != nil {
			require.Equal(t, coupon.Setup, mysqltx.ClassOf(err), "%s: %v", name, err)
		}
		require.NoError(t, db.Close())
	}

	// A server that ends while it looks at the certificate has not refused it.
	for _, refuses := range []bool{false, true} {
		ended := 0
		proxy := faultproxy.New(t, func(turn faultproxy.Turn) faultproxy.Action {
			// By TLS 1.3, the certificate and what follows.
			encrypted := bytes.Contains(turn.Request, []byte{0x17, 0x03, 0x03})
			if !encrypted || ended > 0 && !refuses {
				return faultproxy.Pass()
			}
			ended++
			return faultproxy.DropRequest(nil)
		}, m.Addr())
		settings := connect.MySQLSettings{MySQLDSN: fmt.Sprintf("x509:secret@tcp(%s)/coupons", proxy.Addr),
			MySQLTLSDir: trusted.Folder()}
		db, err := settings.Open(connect.Patient, zap.NewNop())
		require.NoError(t, err)
		err = db.PingContext(t.Context())
		require.NoError(t, db.Close())
		proxy.Turns()
		if refuses {
			require.Equal(t, coupon.Setup, mysqltx.ClassOf(err), "%v", err)
			require.Equal(t, 2, ended)
		} else {
			require.NoError(t, err)
			require.Equal(t, 1, ended)
		}
	}
}
