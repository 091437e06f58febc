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

// surplus is how many connections above the limit are let in to be told to come again, where there are files enough. What is
// above these, too, is closed without a word.
const surplus = 1024

// leastSurplus is how many are where files are few.
const leastSurplus = 16

// Fit is how many connections of applicants may be open with so many files at most: most of them are served, and more are
// let in to be told to come again. Where not even most fit as asked, they are fewer.
func Fit(files, asked int) (most, more int) {
	if more = min(surplus, files-asked); more >= leastSurplus {
		return asked, more
	}
	more = max(leastSurplus, min(surplus, files/10))
	return min(asked, files-more), more
}

// deadlineSlack is how much earlier than asked a connection may be given up: a deadline that is as good as the last one need
// not be set again.
const deadlineSlack = time.Second

// Connections are those of applicants, as a listener hands them to an http.Server. It must have timeouts for all that it reads
// and writes, longer than deadlineSlack, and its handlers neither hijack a connection nor wait for a client to hang up.
type Connections struct {
	*net.TCPListener
	most, all int64
	open      atomic.Int64
}

// NewConnections registers its metrics. On so many open connections at most people are served, on more they are told to come
// again.
func NewConnections(listener *net.TCPListener, most, more int, metrics prometheus.Registerer) *Connections {
	c := &Connections{TCPListener: listener, most: int64(most), all: int64(most + more)}
	metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "jajeong_connections_open", Help: "Connections of applicants that are open.",
	}, func() float64 { return float64(c.open.Load()) }))
	return c
}

// Accept is for an http.Server.
func (c *Connections) Accept() (net.Conn, error) {
	for {
		tcp, err := c.AcceptTCP()
		if err != nil {
			return nil, err
		}
		open := c.open.Add(1)
		one := &connection{TCPConn: tcp, surplus: open > c.most, closed: sync.OnceFunc(func() { c.open.Add(-1) })}
		if open <= c.all {
			return one, nil
		}
		_ = one.Close()
	}
}

type surplusKey struct{}

// Context is http.Server's ConnContext: it tells a handler that a connection is above the limit.
func (*Connections) Context(ctx context.Context, conn net.Conn) context.Context {
	if one, ok := conn.(*connection); ok && one.surplus {
		return context.WithValue(ctx, surplusKey{}, true)
	}
	return ctx
}

func isSurplus(r *http.Request) bool { return r.Context().Value(surplusKey{}) != nil }

// connection costs less under net/http than a plain one. While a request is answered, net/http reads on in a goroutine of
// its own, to learn that the client has hung up; here nobody wants to know, since what is on its way to Redis is not taken
// back. That read alone has no deadline, and is told at once that there is nothing.
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

// SetWriteDeadline leaves the deadline of an answer that has been written where it is, until the next one sets its own.
func (c *connection) SetWriteDeadline(t time.Time) error {
	if t.IsZero() || !c.writeBy.move(t) {
		return nil
	}
	return c.TCPConn.SetWriteDeadline(t)
}

// deadline is the one that stands.
type deadline struct{ at time.Time }

// move says whether it has to be set to another.
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
