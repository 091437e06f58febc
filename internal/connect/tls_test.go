package connect_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"database/sql"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/testenv/process"
	"github.com/jajeong/jajeong/internal/text"
)

// authority issues certificates for 127.0.0.1, for servers and clients.
type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{t, certificate, key}
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

func (a authority) issue() (certificate, key []byte) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	of := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "program"}, NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, of, a.certificate, &private.PublicKey, a.key)
	require.NoError(a.t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(a.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

// folder returns a folder with the certificate of this authority, and one that it has issued.
func (a authority) folder() string {
	dir := a.t.TempDir()
	certificate, key := a.issue()
	write(a.t, dir, map[string][]byte{"ca.crt": a.pem(), "tls.crt": certificate, "tls.key": key})
	return dir
}

func write(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o644))
	}
}

func TestTLSDir_Problems(t *testing.T) {
	t.Parallel()
	trusted := newAuthority(t)
	certificate, key := trusted.issue()
	_, otherKey := trusted.issue()
	for name, test := range map[string]struct {
		files map[string][]byte
		want  string
	}{
		"everything":            {files: map[string][]byte{"ca.crt": trusted.pem(), "tls.crt": certificate, "tls.key": key}},
		"authorities alone":     {files: map[string][]byte{"ca.crt": trusted.pem()}},
		"client alone":          {files: map[string][]byte{"tls.crt": certificate, "tls.key": key}},
		"nothing":               {want: "REDIS_TLS_DIR: the folder has neither ca.crt, nor tls.crt and tls.key"},
		"certificate alone":     {files: map[string][]byte{"tls.crt": certificate}, want: "REDIS_TLS_DIR/tls.key cannot be read: no such file or directory"},
		"key alone":             {files: map[string][]byte{"tls.key": key}, want: "REDIS_TLS_DIR/tls.crt cannot be read: no such file or directory"},
		"key of another":        {files: map[string][]byte{"tls.crt": certificate, "tls.key": otherKey}, want: "REDIS_TLS_DIR: tls.crt and tls.key cannot be used: want a certificate and its private key, both PEM: tls: private key does not match public key"},
		"authority without PEM": {files: map[string][]byte{"ca.crt": []byte("no certificate")}, want: "REDIS_TLS_DIR/ca.crt: the file has no certificate in PEM format"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, test.files)
			err := (&connect.RedisSettings{RedisAddrs: []string{"a:1"}, RedisAccess: connect.RedisAccess{RedisTLSDir: dir}}).Validate()
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, test.want)
			require.ErrorAs(t, err, new(*text.UsageError), "exit code 2")
			err = (&connect.EventSettings{EventRetention: time.Hour, EventRedisAddrs: []string{"a:1"}, EventRedis: connect.RedisAccess{RedisTLSDir: dir}}).Validate()
			require.EqualError(t, err, "EVENT_"+test.want)
		})
	}
	missing := filepath.Join(t.TempDir(), "nothing")
	require.EqualError(t, (&connect.MySQLSettings{MySQLDSN: "u:p@tcp(a:1)/d", MySQLTLSDir: missing}).Validate(), "MYSQL_TLS_DIR: the folder has neither ca.crt, nor tls.crt and tls.key")
	for dsn, right := range map[string]bool{"u:p@tcp(a:1)/d": true, "u:p@tcp(a:1)/d?tls=true": true, "u:p@tcp(a:1)/d?tls=skip-verify": false, "u:p@unix(/s)/d": false} {
		err := (&connect.MySQLSettings{MySQLDSN: dsn, MySQLTLSDir: trusted.folder()}).Validate()
		require.Equal(t, right, err == nil, "%s: %v", dsn, err)
	}
}

// A server that wants certificates gets that of the folder, and a new one as soon as the folder has it. A certificate that
// either side refuses is a wrong setting.
func TestTLSDir_OfRedis(t *testing.T) {
	t.Parallel()
	trusted, foreign := newAuthority(t), newAuthority(t)
	server := trusted.folder()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{})
	admin := testenv.RedisClient(t, redis.Addr())
	_, port, err := net.SplitHostPort(redis.Addr())
	require.NoError(t, err)
	plain, err := strconv.Atoi(port)
	require.NoError(t, err)
	require.NoError(t, admin.Do(t.Context(), "config", "set", "tls-cert-file", filepath.Join(server, "tls.crt"), "tls-key-file", filepath.Join(server, "tls.key"),
		"tls-ca-cert-file", filepath.Join(server, "ca.crt"), "tls-port", process.SecondPort(plain)).Err())
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(process.SecondPort(plain)))

	for name, test := range map[string]struct {
		dir   string
		right bool
	}{
		"right":                    {trusted.folder(), true},
		"server of another":        {foreign.folder(), false},
		"no client":                {onlyAuthority(t, trusted), false},
		"client of another":        {clientOf(t, trusted, foreign), false},
		"no folder, TLS by itself": {"", false},
	} {
		access := connect.RedisAccess{RedisTLS: true, RedisTLSDir: test.dir}
		_, err := openStore(t, connect.RedisSettings{RedisAddrs: []string{address}, RedisAccess: access}).Now(t.Context())
		require.Equal(t, test.right, err == nil, "%s: %v", name, err)
		if err != nil {
			require.Equal(t, coupon.Setup, mysqltx.ClassOf(err), "%s: %v", name, err)
			require.ErrorContains(t, err, "check REDIS_TLS_DIR", name)
			stream := connect.EventSettings{EventRedisAddrs: []string{address}, EventRedis: access}
			client, err := stream.OpenRedis(nil)
			require.NoError(t, err)
			require.ErrorContains(t, client.Ping(t.Context()).Err(), "check EVENT_REDIS_TLS_DIR", name)
			require.NoError(t, client.Close())
		}
	}

	dir := clientOf(t, trusted, foreign)
	client, err := (&connect.RedisSettings{RedisAddrs: []string{address}, RedisAccess: connect.RedisAccess{RedisTLSDir: dir}}).Open()
	require.NoError(t, err)
	defer client.Close()
	require.Error(t, client.Ping(t.Context()).Err())
	certificate, key := trusted.issue()
	write(t, dir, map[string][]byte{"tls.crt": certificate, "tls.key": key})
	require.NoError(t, client.Ping(t.Context()).Err(), "the certificate was renewed")
}

func onlyAuthority(t *testing.T, of authority) string {
	dir := t.TempDir()
	write(t, dir, map[string][]byte{"ca.crt": of.pem()})
	return dir
}

func clientOf(t *testing.T, server, client authority) string {
	dir := onlyAuthority(t, server)
	certificate, key := client.issue()
	write(t, dir, map[string][]byte{"tls.crt": certificate, "tls.key": key})
	return dir
}

func TestTLSDir_OfMySQL(t *testing.T) {
	t.Parallel()
	trusted, foreign := newAuthority(t), newAuthority(t)
	server := trusted.folder()
	m := testenv.PrivateMySQL(t, testenv.MySQLOptions{
		Args: []string{"--loose-ssl", "--ssl-ca=" + filepath.Join(server, "ca.crt"), "--ssl-cert=" + filepath.Join(server, "tls.crt"), "--ssl-key=" + filepath.Join(server, "tls.key")},
	})
	admin, err := sql.Open("mysql", m.DSN(""))
	require.NoError(t, err)
	defer admin.Close()
	for _, statement := range []string{"CREATE DATABASE coupons", "CREATE USER x509 IDENTIFIED BY 'secret' REQUIRE X509", "GRANT ALL ON coupons.* TO x509"} {
		_, err := admin.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	for name, test := range map[string]struct {
		dir   string
		right bool
	}{
		"right":             {trusted.folder(), true},
		"server of another": {foreign.folder(), false},
		"no client":         {onlyAuthority(t, trusted), false},
		"client of another": {clientOf(t, trusted, foreign), false},
	} {
		settings := connect.MySQLSettings{MySQLDSN: fmt.Sprintf("x509:secret@tcp(%s)/coupons", m.Addr()), MySQLTLSDir: test.dir}
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
			encrypted := bytes.Contains(turn.Request, []byte{0x17, 0x03, 0x03}) // by TLS 1.3, the certificate and what follows
			if !encrypted || ended > 0 && !refuses {
				return faultproxy.Pass()
			}
			ended++
			return faultproxy.DropRequest(nil)
		}, m.Addr())
		settings := connect.MySQLSettings{MySQLDSN: fmt.Sprintf("x509:secret@tcp(%s)/coupons", proxy.Addr), MySQLTLSDir: trusted.folder()}
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
