package ops

import (
	"net"
	"net/netip"
	"time"
)

// How long a connection may wait for its next request.
const (
	// idleTimeout is for connections of clients. It is longer than the pauses between the requests of one page, and
	// is not shorter than the time for the rest of a request, which it would end, too.
	idleTimeout = 15 * time.Second
	// proxyIdleTimeout is for connections of proxies. A load balancer that keeps a connection for longer than the
	// server sends a request into it while it ends, and answers 502. No usual one does: nginx and AWS keep theirs for
	// 60 s, AWS lets nobody set more than 4,000 s, Google's have 600 s, and Envoy's an hour.
	proxyIdleTimeout = 4020 * time.Second
)

// Idle ends connections that wait for a request.
type Idle struct {
	IsProxy func(netip.Addr) bool
	Now     func() time.Time
}

// Within returns the timeouts of a server on a listener of Listen.
func (i Idle) Within(within Timeouts) Timeouts {
	within.Idle = proxyIdleTimeout
	return within
}

// Listen returns a listener whose connections end after idleTimeout, unless a proxy opened them.
func (i Idle) Listen(listener net.Listener) net.Listener { return idleListener{listener, i} }

type idleListener struct {
	net.Listener
	idle Idle
}

func (l idleListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if from, ok := conn.RemoteAddr().(*net.TCPAddr); ok && l.idle.IsProxy(from.AddrPort().Addr().Unmap()) {
		return conn, nil
	}
	return &impatient{conn, l.idle}, nil
}

// CloseWrite is for connections that wrap another one. If package net/http finds the method, it ends a connection whose
// request it has not read with a FIN: a reset could take the response from the client.
func CloseWrite(wrapped net.Conn) error {
	if half, ok := wrapped.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// impatient is a connection that no proxy opened. The only wait of package net/http that is longer than idleTimeout
// is that for the next request.
type impatient struct {
	net.Conn
	idle Idle
}

func (c *impatient) SetReadDeadline(t time.Time) error {
	if end := c.idle.Now().Add(idleTimeout); t.After(end) {
		t = end
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *impatient) CloseWrite() error { return CloseWrite(c.Conn) }
