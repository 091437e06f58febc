package httpapi

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jajeong/jajeong/internal/ops"
)

const (
	maxSurplus = 1024 // connections above the limit that get 503; further connections are closed without a response
	minSurplus = 16   // the minimum of surplus connections, in a process with few open files
)

// fit divides the available open files. It returns how many connections are served, and how many more get 503.
func fit(files, asked int) (connections, surplus int) {
	if surplus = min(maxSurplus, files-asked); surplus >= minSurplus {
		return asked, surplus
	}
	surplus = max(minSurplus, min(maxSurplus, files/10))
	return min(asked, files-surplus), surplus
}

// deadlineSlack is how much too early a connection may time out. A smaller change of a deadline makes no system call.
const deadlineSlack = time.Second

// Connections is the listener of the public port. The timeouts of the http.Server must be longer than deadlineSlack.
// The handlers must not hijack a connection, and must not wait for a client to hang up.
type Connections struct {
	net.Listener
	max, all int64
	open     atomic.Int64
}

func NewConnections(listener net.Listener, max, surplus int, metrics prometheus.Registerer) *Connections {
	c := &Connections{Listener: listener, max: int64(max), all: int64(max + surplus)}
	metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "jajeong_connections_open", Help: "Open connections of clients.",
	}, func() float64 { return float64(c.open.Load()) }))
	return c
}

func (c *Connections) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		open := c.open.Add(1)
		one := &connection{Conn: conn, surplus: open > c.max, closed: sync.OnceFunc(func() { c.open.Add(-1) })}
		if open <= c.all {
			return one, nil
		}
		_ = one.Close()
	}
}

type surplusKey struct{}

// Context is for http.Server.ConnContext. It marks the requests of surplus connections.
func (*Connections) Context(ctx context.Context, conn net.Conn) context.Context {
	if one, ok := conn.(*connection); ok && one.surplus {
		return context.WithValue(ctx, surplusKey{}, true)
	}
	return ctx
}

// IsSurplus reports whether the request came on a connection above the limit. It gets 503.
func IsSurplus(r *http.Request) bool { return r.Context().Value(surplusKey{}) != nil }

// connection avoids a read: while a handler runs, net/http reads without a deadline to notice that the client hangs up.
// Such a read returns immediately here. No handler needs it: a change on its way to a server is not withdrawn.
type connection struct {
	net.Conn
	surplus         bool
	closed          func()
	unbounded       atomic.Bool // no read deadline is set
	readBy, writeBy deadline
}

func (c *connection) Read(p []byte) (int, error) {
	if c.unbounded.Load() {
		return 0, nil
	}
	return c.Conn.Read(p)
}

func (c *connection) SetReadDeadline(t time.Time) error {
	c.unbounded.Store(t.IsZero())
	if t.IsZero() || !c.readBy.move(t) {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline does not remove a deadline: the next response sets a new one.
func (c *connection) SetWriteDeadline(t time.Time) error {
	if t.IsZero() || !c.writeBy.move(t) {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}

type deadline struct{ at time.Time }

func (d *deadline) move(t time.Time) bool {
	if later := t.Sub(d.at); 0 <= later && later < deadlineSlack {
		return false
	}
	d.at = t
	return true
}

func (c *connection) Close() error {
	c.closed()
	return c.Conn.Close()
}

func (c *connection) CloseWrite() error { return ops.CloseWrite(c.Conn) }
