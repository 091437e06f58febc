package topology

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Address is where programs find a server: a name or a proxy that an orchestrator moves. Connections to the former
// server stay, until Cut.
type Address struct {
	Addr     string
	listener net.Listener
	over     chan struct{} // closed at the end of the test

	mu     sync.Mutex
	target string
	conns  map[net.Conn]bool
	silent *atomic.Bool // of all connections to target
}

// NewAddress leads to a server until the end of the test.
func NewAddress(t testing.TB, target string) *Address {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("testenv: address: %v", err)
	}
	a := &Address{Addr: listener.Addr().String(), listener: listener, target: target, conns: map[net.Conn]bool{},
		over: make(chan struct{}), silent: new(atomic.Bool)}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { a.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		close(a.over)
		a.Cut()
		serving.Wait()
	})
	return a
}

func (a *Address) serve(client net.Conn) {
	a.mu.Lock()
	target, silent := a.target, a.silent
	a.mu.Unlock()
	if silent.Load() { // nobody answers there
		<-a.over
		_ = client.Close()
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	a.keep(client, server)
	defer a.drop(client, server)
	var copying sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		copying.Go(func() {
			_, _ = io.Copy(audible{way[0], silent, a.over}, way[1])
			if silent.Load() { // the other side is not told of the end
				<-a.over
			}
			_ = way[0].Close()
			_ = way[1].Close()
		})
	}
	copying.Wait()
}

func (a *Address) keep(conns ...net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, conn := range conns {
		a.conns[conn] = true
	}
}

func (a *Address) drop(conns ...net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
		delete(a.conns, conn)
	}
}

// Move leads new connections to another server.
func (a *Address) Move(target string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.target, a.silent = target, new(atomic.Bool)
}

// Silence lets nothing more through to the server, as when its machine has gone. Nobody is told.
func (a *Address) Silence() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.silent.Store(true)
}

// audible is a connection until it is silent.
type audible struct {
	net.Conn
	silent *atomic.Bool
	over   chan struct{}
}

func (a audible) Write(p []byte) (n int, err error) {
	if a.silent.Load() {
		<-a.over
		return 0, net.ErrClosed
	}
	return a.Conn.Write(p)
}

// Cut ends all connections.
func (a *Address) Cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for conn := range a.conns {
		_ = conn.Close()
	}
}
