package ops

import (
	"net"
	"sync"
	"sync/atomic"
)

// Limit returns a listener that closes connections above a limit. It counts those that are open.
func Limit(listener net.Listener, max int64, open *atomic.Int64) net.Listener {
	return limited{listener, max, open}
}

type limited struct {
	net.Listener
	max  int64
	open *atomic.Int64
}

func (l limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.max {
			return &counted{conn, sync.OnceFunc(func() { l.open.Add(-1) })}, nil
		}
		l.open.Add(-1)
		_ = conn.Close()
	}
}

type counted struct {
	net.Conn
	closed func()
}

func (c *counted) Close() error {
	c.closed()
	return c.Conn.Close()
}

func (c *counted) CloseWrite() error { return CloseWrite(c.Conn) }
