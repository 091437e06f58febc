package httpapi

import (
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// Connections is the listener of a Front, whose timeouts must be longer than deadlineSlack.
type Connections struct {
	*net.TCPListener
	served int // so many connections are served
	limit  int // so many connections are accepted; those above served get 503

	mu   sync.Mutex
	open map[*connection]struct{}
}

func NewConnections(listener *net.TCPListener, max, surplus int, metrics prometheus.Registerer) *Connections {
	c := &Connections{TCPListener: listener, served: max, limit: max + surplus, open: map[*connection]struct{}{}}
	metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "jajeong_connections_open", Help: "Open connections of clients.",
	}, func() float64 { return float64(len(c.all())) }))
	return c
}

func (c *Connections) Accept() (net.Conn, error) {
	for {
		tcp, err := c.AcceptTCP()
		if err != nil {
			return nil, err
		}
		one := &connection{TCPConn: tcp, of: c, remote: tcp.RemoteAddr().String()}
		if c.add(one) {
			return one, nil
		}
		_ = tcp.Close()
	}
}

// add reports whether there was room for the connection.
func (c *Connections) add(one *connection) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= c.limit {
		return false
	}
	one.surplus = len(c.open) >= c.served
	c.open[one] = struct{}{}
	return true
}

func (c *Connections) remove(one *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, one)
}

func (c *Connections) all() []*connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.open))
}

func (c *Connections) closeAll() {
	for _, one := range c.all() {
		_ = one.Close()
	}
}

// limited is the listener of a port with streams. It closes connections above a limit.
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

type surplusKey struct{}

// IsSurplus reports whether the request came on a connection above the limit. It gets 503.
func IsSurplus(r *http.Request) bool { return r.Context().Value(surplusKey{}) != nil }

// connection is used by one goroutine, which may also close it. Another one may close it, too.
type connection struct {
	*net.TCPConn
	of              *Connections
	remote          string // address of the client
	surplus         bool
	asked           bool // the client has sent something, and may get an answer
	readBy, writeBy deadline
}

func (c *connection) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	c.asked = c.asked || n > 0
	return n, err
}

// Write says nothing to a client that has not asked: it may have opened the connection in advance.
func (c *connection) Write(p []byte) (int, error) {
	if !c.asked {
		return len(p), nil
	}
	return c.TCPConn.Write(p)
}

func (c *connection) SetReadDeadline(t time.Time) error {
	if !c.readBy.move(t) {
		return nil
	}
	return c.TCPConn.SetReadDeadline(t)
}

// SetWriteDeadline does not remove a deadline: the next response sets a new one.
func (c *connection) SetWriteDeadline(t time.Time) error {
	if t.IsZero() || !c.writeBy.move(t) {
		return nil
	}
	return c.TCPConn.SetWriteDeadline(t)
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
	c.of.remove(c)
	return c.TCPConn.Close()
}
