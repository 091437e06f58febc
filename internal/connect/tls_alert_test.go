package connect

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/text"
)

// A server that has failed itself has refused no certificate, and may answer the next time.
func TestTLSProblem_LeavesFailuresOfTheServer(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	pair, err := tls.X509KeyPair(authority.Issue())
	require.NoError(t, err)
	for name, test := range map[string]struct {
		server *tls.Config
		wrong  bool
	}{
		"internal error": {&tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return nil, errors.New("out of memory")
		}}, false},
		"another version": {&tls.Config{MaxVersion: tls.VersionTLS11}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.server.Certificates = []tls.Certificate{pair}
			client, server := net.Pipe()
			defer client.Close()
			go func() { _ = tls.Server(server, test.server).Handshake() }()
			config, err := tlsOf("REDIS_TLS_DIR", authority.Folder())
			require.NoError(t, err)
			config.ServerName = "localhost"
			err = tls.Client(client, config).Handshake()
			require.ErrorContains(t, err, remoteAlert)
			err = tlsProblem(err, text.RedisTLSFails, "REDIS_TLS_DIR")
			require.Equal(t, test.wrong, errors.As(err, new(*text.UsageError)), "%v", err)
		})
	}
}
