package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Authority issues certificates for 127.0.0.1, for servers and clients.
type Authority struct {
	t           testing.TB
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func NewAuthority(t testing.TB) Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotAfter: time.Now().Add(24 * time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return Authority{t, certificate, key}
}

// PEM is the certificate of the authority.
func (a Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// Issue returns a new certificate and its key, both PEM.
func (a Authority) Issue() (certificate, key []byte) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	of := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "program"},
		NotAfter:    time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, of, a.certificate, &private.PublicKey, a.key)
	require.NoError(a.t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(a.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

// Files are the certificate of the authority and one that it has issued, by the names of a Secret of type
// kubernetes.io/tls.
func (a Authority) Files() map[string][]byte {
	a.t.Helper()
	certificate, key := a.Issue()
	return map[string][]byte{"ca.crt": a.PEM(), "tls.crt": certificate, "tls.key": key}
}

// Folder returns a folder with Files.
func (a Authority) Folder() string {
	a.t.Helper()
	dir := a.t.TempDir()
	for name, content := range a.Files() {
		require.NoError(a.t, os.WriteFile(filepath.Join(dir, name), content, 0o644))
	}
	return dir
}

// MySQLArgs make a database server speak TLS with a certificate of a Folder.
func MySQLArgs(folder string) []string {
	file := func(name string) string { return filepath.Join(folder, name) }
	return []string{"--loose-ssl", "--ssl-ca=" + file("ca.crt"), "--ssl-cert=" + file("tls.crt"), "--ssl-key=" +
		file("tls.key")}
}
