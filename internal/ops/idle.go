package ops

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/jajeong/jajeong/internal/text"
)

// IdleSettings say how long a connection may wait for its next request. A load balancer that keeps a connection for longer
// than the server sends a request into it while it ends, and answers 502. Whoever is no proxy keeps its connection for less.
type IdleSettings struct {
	IdleTimeout      time.Duration `name:"idle-timeout" env:"IDLE_TIMEOUT" default:"15s" placeholder:"DURATION"`
	ProxyIdleTimeout time.Duration `name:"proxy-idle-timeout" env:"PROXY_IDLE_TIMEOUT" default:"620s" placeholder:"DURATION"`
}

// The bounds of both settings. A shorter time would also end the wait for the rest of a request.
const (
	minIdle = 5 * time.Second
	maxIdle = time.Hour
)

func (s *IdleSettings) Validate() error {
	var problems []error
	for _, one := range []struct {
		name string
		is   time.Duration
	}{{"IDLE_TIMEOUT", s.IdleTimeout}, {"PROXY_IDLE_TIMEOUT", s.ProxyIdleTimeout}} {
		if one.is < minIdle || one.is > maxIdle {
			problems = append(problems, text.UsageErrorf(text.WrongIdleTimeout, one.name, one.is, minIdle, maxIdle))
		}
	}
	return errors.Join(problems...)
}

// Idle ends connections that wait for a request.
type Idle struct {
	IdleSettings
	IsProxy func(netip.Addr) bool
	Now     func() time.Time
}

// Within returns the timeouts of a server on a listener of Listen.
func (i Idle) Within(within Timeouts) Timeouts {
	within.Idle = i.ProxyIdleTimeout
	return within
}

// Listen returns a listener whose connections end after IdleTimeout, unless a proxy opened them.
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

// impatient is a connection that no proxy opened. The only wait of package net/http that is longer than IdleTimeout is that
// for the next request.
type impatient struct {
	net.Conn
	idle Idle
}

func (c *impatient) SetReadDeadline(t time.Time) error {
	if end := c.idle.Now().Add(c.idle.IdleTimeout); t.After(end) {
		t = end
	}
	return c.Conn.SetReadDeadline(t)
}
