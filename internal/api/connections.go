package api

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// maxSurplus is how many connections above the limit get a response, which asks the client to come again. Further connections
// are closed without a response.
const maxSurplus = 1024

// minSurplus is maxSurplus for a process with few open files.
const minSurplus = 16

// Fit divides the open files that are left for connections of applicants: connections are served, and further surplus
// connections get a response. connections is lower than asked when the files are too few.
func Fit(files, asked int) (connections, surplus int) {
	if surplus = min(maxSurplus, files-asked); surplus >= minSurplus {
		return asked, surplus
	}
	surplus = max(minSurplus, min(maxSurplus, files/10))
	return min(asked, files-surplus), surplus
}

// deadlineSlack is how much earlier than requested a connection may time out: a deadline within the slack of the last one is
// not set again.
const deadlineSlack = time.Second

// Connections is the listener of the public port. Its http.Server must have timeouts longer than deadlineSlack for reads and
// writes, and handlers that neither hijack a connection nor wait for a client to hang up.
type Connections struct {
	*net.TCPListener
	max, all int64
	open     atomic.Int64
}

// NewConnections registers its metrics. max connections are served, surplus further ones get a response.
func NewConnections(listener *net.TCPListener, max, surplus int, metrics prometheus.Registerer) *Connections {
	c := &Connections{TCPListener: listener, max: int64(max), all: int64(max + surplus)}
	metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "jajeong_connections_open", Help: "Open connections of applicants.",
	}, func() float64 { return float64(c.open.Load()) }))
	return c
}

// Accept implements net.Listener.
func (c *Connections) Accept() (net.Conn, error) {
	for {
		tcp, err := c.AcceptTCP()
		if err != nil {
			return nil, err
		}
		open := c.open.Add(1)
		one := &connection{TCPConn: tcp, surplus: open > c.max, closed: sync.OnceFunc(func() { c.open.Add(-1) })}
		if open <= c.all {
			return one, nil
		}
		_ = one.Close()
	}
}

type surplusKey struct{}

// Context is the ConnContext of the http.Server. It marks the requests of surplus connections.
func (*Connections) Context(ctx context.Context, conn net.Conn) context.Context {
	if one, ok := conn.(*connection); ok && one.surplus {
		return context.WithValue(ctx, surplusKey{}, true)
	}
	return ctx
}

func isSurplus(r *http.Request) bool { return r.Context().Value(surplusKey{}) != nil }

// connection costs less under net/http than a plain one. While a handler runs, net/http reads from the connection in another
// goroutine, to notice a client that hangs up. No handler here needs that, since an application that is on its way to Redis
// is not withdrawn. That read is the only one without a deadline, and returns immediately.
type connection struct {
	*net.TCPConn
	surplus         bool
	closed          func()
	unbounded       atomic.Bool // reads have no deadline
	readBy, writeBy deadline
}

func (c *connection) Read(p []byte) (int, error) {
	if c.unbounded.Load() {
		return 0, nil
	}
	return c.TCPConn.Read(p)
}

func (c *connection) SetReadDeadline(t time.Time) error {
	c.unbounded.Store(t.IsZero())
	if t.IsZero() || !c.readBy.move(t) {
		return nil
	}
	return c.TCPConn.SetReadDeadline(t)
}

// SetWriteDeadline keeps the deadline of a written response until the next response sets its own.
func (c *connection) SetWriteDeadline(t time.Time) error {
	if t.IsZero() || !c.writeBy.move(t) {
		return nil
	}
	return c.TCPConn.SetWriteDeadline(t)
}

// deadline is the current deadline.
type deadline struct{ at time.Time }

// move reports whether the deadline must be set to t.
func (d *deadline) move(t time.Time) bool {
	if later := t.Sub(d.at); 0 <= later && later < deadlineSlack {
		return false
	}
	d.at = t
	return true
}

func (c *connection) Close() error {
	c.closed()
	return c.TCPConn.Close()
}
