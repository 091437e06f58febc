package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/keysfile"
	"github.com/jajeong/jajeong/internal/text"
)

// The files of a folder with certificates, as a Kubernetes Secret of type kubernetes.io/tls mounts them. Their content
// is PEM.
const (
	certificateFile = "tls.crt" // certificate of the client, then those of its issuers
	privateKeyFile  = "tls.key"
	authoritiesFile = "ca.crt" // certificates of the authorities to trust
)

// tlsOf returns how to connect with the certificates of a folder; nil without a folder. A client needs no certificate
// if the server asks for none. Without ca.crt, the authorities of the system are trusted.
func tlsOf(setting, dir string) (*tls.Config, error) {
	if dir == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if exists(dir, authoritiesFile) {
		if config.RootCAs, err = roots(setting+"/"+authoritiesFile, filepath.Join(dir, authoritiesFile)); err != nil {
			return nil, err
		}
	}
	if exists(dir, certificateFile) || exists(dir, privateKeyFile) {
		if _, err := keyPair(setting, dir); err != nil {
			return nil, err
		}
		// The files are read again for each connection: certificates are renewed while a program runs.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return keyPair(setting, dir)
		}
	} else if config.RootCAs == nil {
		return nil, text.UsageErrorf(text.TLSDirEmpty, setting)
	}
	return config, nil
}

func exists(dir, file string) bool {
	_, err := os.Stat(filepath.Join(dir, file))
	return !errors.Is(err, fs.ErrNotExist)
}

func keyPair(setting, dir string) (*tls.Certificate, error) {
	certificate, err := keysfile.Read(setting+"/"+certificateFile, filepath.Join(dir, certificateFile), maxCertificates)
	if err != nil {
		return nil, err
	}
	key, err := keysfile.Read(setting+"/"+privateKeyFile, filepath.Join(dir, privateKeyFile), maxSecret)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, text.UsageErrorf(text.TLSPairWrong, setting, err)
	}
	return &pair, nil
}

// maxCertificates is in bytes. All authorities of a system have some 250 KiB.
const maxCertificates = 4 << 20

// roots returns the authorities of a PEM file.
func roots(setting, file string) (*x509.CertPool, error) {
	content, err := keysfile.Read(setting, file, maxCertificates)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, text.UsageErrorf(text.NoCertificates, setting)
	}
	return pool, nil
}

// remoteAlert is the operation of a net.OpError by which package crypto/tls says that the server refuses the
// connection.
const remoteAlert = "remote error"

// internalError is the alert of a server that has failed itself, and may not fail the next time.
const internalError = tls.AlertError(80)

// tlsProblem returns err as a problem with the settings, of the given text, if either side refuses the TLS of the
// other.
func tlsProblem(err error, problem text.Message, args ...any) error {
	refused, ok := errors.AsType[*net.OpError](err)
	alerted := ok && refused.Op == remoteAlert && refused.Err.Error() != internalError.Error()
	if alerted || errors.As(err, new(*tls.CertificateVerificationError)) {
		return text.UsageErrorf(problem, append(args, err)...)
	}
	return err
}

// tlsHook is for the commands of a Redis client.
type tlsHook struct{ setting string }

func (tlsHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h tlsHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return tlsProblem(next(ctx, cmd), text.RedisTLSFails, h.setting)
	}
}

func (h tlsHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return tlsProblem(next(ctx, cmds), text.RedisTLSFails, h.setting)
	}
}
