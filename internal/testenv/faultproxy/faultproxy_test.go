package faultproxy

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv/process"
)

// echoServer is a server that returns each line.
type echoServer struct {
	listener net.Listener
	heard    chan string
	serving  sync.WaitGroup
}

func newEchoServer(t *testing.T) *echoServer {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &echoServer{listener: listener, heard: make(chan string, 100)}
	p.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.serving.Go(func() { p.serve(conn) })
		}
	})
	// After the proxy, which is started later and closes its connections.
	t.Cleanup(func() { listener.Close(); p.serving.Wait() })
	return p
}

func (p *echoServer) serve(conn net.Conn) {
	defer conn.Close()
	for lines := bufio.NewReader(conn); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		p.heard <- line
		if _, err := io.WriteString(conn, line); err != nil {
			return
		}
	}
}

func (p *echoServer) addr() string { return p.listener.Addr().String() }

// client is a client that waits for each reply.
type client struct {
	net.Conn
	replies *bufio.Reader
}

func connect(t *testing.T, w *Proxy) client {
	t.Helper()
	conn, err := net.Dial("tcp", w.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	deadline, _ := process.Patient(t).Deadline()
	require.NoError(t, conn.SetDeadline(deadline))
	return client{conn, bufio.NewReader(conn)}
}

func (c client) ask(line string) (reply string, err error) {
	if _, err := io.WriteString(c, line); err != nil {
		return "", err
	}
	return c.replies.ReadString('\n')
}

func (c client) mustEcho(t *testing.T, line string) {
	t.Helper()
	reply, err := c.ask(line)
	require.NoError(t, err)
	require.Equal(t, line, reply)
}

func (c client) mustFail(t *testing.T, line string) {
	t.Helper()
	reply, err := c.ask(line)
	require.Error(t, err)
	require.Empty(t, reply)
}

// mustWaitFor demands that a reply comes after the release, and not before.
func (c client) mustWaitFor(t *testing.T, release chan<- struct{}, want string) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	_, err := c.replies.ReadString('\n')
	require.Error(t, err)
	close(release)
	deadline, _ := process.Patient(t).Deadline()
	require.NoError(t, c.SetReadDeadline(deadline))
	reply, err := c.replies.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, want, reply)
}

// script is a rule with an action for some requests. It records the turns.
type script struct {
	of   map[string]Action
	seen []Turn
}

func (f *script) rule(turn Turn) Action {
	f.seen = append(f.seen, Turn{turn.Number, turn.Proxy, nil})
	return f.of[string(turn.Request)]
}

// proxied starts an echo server behind a proxy with actions for some requests.
func proxied(t *testing.T, actions map[string]Action) (*echoServer, *Proxy) {
	p := newEchoServer(t)
	return p, New(t, (&script{of: actions}).rule, p.addr())
}

func TestPassCountsTurns(t *testing.T) {
	t.Parallel()
	f := &script{}
	one, two := newEchoServer(t), newEchoServer(t)
	proxies := NewGroup(t, f.rule, one.addr(), two.addr())
	first, second := connect(t, proxies[0]), connect(t, proxies[1])
	first.mustEcho(t, "a\n")
	first.mustEcho(t, strings.Repeat("b", 1<<20)+"\n") // many pieces, one turn
	second.mustEcho(t, "c\n")
	connect(t, proxies[0]).mustEcho(t, "d\n")
	require.Equal(t, 4, proxies[1].Turns())
	require.Equal(t, []Turn{{1, 0, nil}, {2, 0, nil}, {3, 1, nil}, {4, 0, nil}}, f.seen)
}

func TestDropRequest(t *testing.T) {
	t.Parallel()
	done := false
	p, w := proxied(t, map[string]Action{"b\n": DropRequest(func() { done = true })})
	c := connect(t, w)
	c.mustEcho(t, "a\n")
	c.mustFail(t, "b\n")
	require.Equal(t, 2, w.Turns())
	require.True(t, done)
	require.Equal(t, "a\n", <-p.heard)
	require.Empty(t, p.heard)
}

func TestDropReply(t *testing.T) {
	t.Parallel()
	var p *echoServer
	heard := make(chan string, 1)
	p, w := proxied(t, map[string]Action{"b\n": DropReply(func() { heard <- <-p.heard }), "c\n": DropReply(nil)})
	connect(t, w).mustFail(t, "b\n")
	require.Equal(t, "b\n", <-heard, "the server had heard it at that instant")
	connect(t, w).mustFail(t, "c\n")
	require.Equal(t, "c\n", <-p.heard)
	connect(t, w).mustEcho(t, "d\n")
}

func TestDelayRequest(t *testing.T) {
	t.Parallel()
	later := make(chan struct{})
	p, w := proxied(t, map[string]Action{"b\n": DelayRequest(later)})
	connect(t, w).mustFail(t, "b\n")
	connect(t, w).mustEcho(t, "c\n")
	require.Equal(t, "c\n", <-p.heard)
	require.Empty(t, p.heard)
	close(later)
	require.Equal(t, "b\n", <-p.heard)
}

func TestNoTurnBeginsWhileDoRuns(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(func()) Action{"before": DropRequest, "after": DropReply} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began, release := make(chan struct{}), make(chan struct{})
			_, w := proxied(t, map[string]Action{"a\n": cut(func() { close(began); <-release })})
			broken, other := connect(t, w), connect(t, w)
			_, err := io.WriteString(broken, "a\n")
			require.NoError(t, err)
			<-began
			_, err = io.WriteString(other, "b\n")
			require.NoError(t, err)
			other.mustWaitFor(t, release, "b\n")
		})
	}
}
