package systemtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// keptAlive is a connection that has had an answer.
type keptAlive struct {
	net.Conn
	read *bufio.Reader
}

// ask sends a request without an identity, and reads the answer.
func (k keptAlive) ask() error {
	if _, err := fmt.Fprint(k, "GET /v1/live/coupons/1/me HTTP/1.1\r\nHost: shop\r\n\r\n"); err != nil {
		return err
	}
	answer, err := http.ReadResponse(k.read, nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// A program ends idle connections, but those of proxies: a request that a balancer sends into the end is a 502. So it
// is at each public port.
func TestIdle_ProxiesKeepTheirConnections(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	open := func(proxies string) map[string]keptAlive {
		environment := append(d.Environment(), "TRUSTED_PROXIES="+proxies)
		apply := d.Start(environment, "./cmd/apply-api", d.Flags(d.API)...)
		wallet := d.Start(environment, "./cmd/wallet-api", "--mysql-dsn="+d.Wallet.MySQLDSN)
		console := d.Start(environment, "./cmd/settle", append([]string{"console", "--listen=127.0.0.1:0",
			"--console-trusted-proxies=" + proxies, "--console-roles=all=viewer"}, d.Flags(d.Operator)...)...)
		all := map[string]keptAlive{}
		for port, at := range map[string]string{"apply": apply.Apply, "live": apply.Live, "wallet": wallet.Wallet,
			"console": console.Console} {
			conn, err := net.Dial("tcp", at)
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			all[port] = keptAlive{conn, bufio.NewReader(conn)}
			require.NoError(t, all[port].ask(), port)
		}
		return all
	}
	proxy, stranger := open("127.0.0.0/8"), open("192.0.2.0/24")
	for port, one := range stranger {
		ended := make(chan error, 1)
		go func() {
			_, err := one.read.ReadByte()
			ended <- err
		}()
		require.ErrorIs(t, testenv.Receive(t, port+" ends the connection of a stranger", ended), io.EOF)
	}
	for port, one := range proxy {
		require.NoError(t, one.ask(), "%s: it was idle for longer", port)
	}
}
