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

// echoServer is a server that writes a greeting and then returns each line.
type echoServer struct {
	listener net.Listener
	greeting string
	heard    chan string
	serving  sync.WaitGroup
}

func newEchoServer(t *testing.T, greeting string) *echoServer {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &echoServer{listener: listener, greeting: greeting, heard: make(chan string, 100)}
	p.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.serving.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() { listener.Close(); p.serving.Wait() }) // after the proxy, which is started later and closes its connections
	return p
}

func (p *echoServer) serve(conn net.Conn) {
	defer conn.Close()
	_, _ = io.WriteString(conn, p.greeting)
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
	p := newEchoServer(t, "")
	return p, New(t, (&script{of: actions}).rule, p.addr())
}

func TestPassCountsTurns(t *testing.T) {
	t.Parallel()
	f := &script{}
	one, two := newEchoServer(t, ""), newEchoServer(t, "")
	proxies := NewGroup(t, f.rule, one.addr(), two.addr())
	first, second := connect(t, proxies[0]), connect(t, proxies[1])
	first.mustEcho(t, "a\n")
	first.mustEcho(t, strings.Repeat("b", 1<<20)+"\n") // many pieces, one turn
	second.mustEcho(t, "c\n")
	connect(t, proxies[0]).mustEcho(t, "d\n")
	require.Equal(t, 4, proxies[1].Turns())
	require.Equal(t, []Turn{{1, 0, nil}, {2, 0, nil}, {3, 1, nil}, {4, 0, nil}}, f.seen)
}

func TestGreetingOfServerIsNoTurn(t *testing.T) {
	t.Parallel()
	f := &script{}
	w := New(t, f.rule, newEchoServer(t, "welcome\n").addr())
	c := connect(t, w)
	greeting, err := c.replies.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "welcome\n", greeting)
	c.mustEcho(t, "a\n")
	require.Equal(t, 1, w.Turns())
	require.Equal(t, []Turn{{1, 0, nil}}, f.seen)
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

// A client that closes its connection does not wait for a reply.
func TestDropReplyRunsDoWithoutReply(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { silent.Close() })
	done := make(chan struct{})
	f := &script{of: map[string]Action{"bye\n": DropReply(func() { close(done) })}}
	c := connect(t, New(t, f.rule, silent.Addr().String()))
	_, err = io.WriteString(c, "bye\n")
	require.NoError(t, err)
	require.NoError(t, c.Close())
	<-done
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

func TestDelayReply(t *testing.T) {
	t.Parallel()
	later := make(chan struct{})
	p, w := proxied(t, map[string]Action{"b\n": DelayReply(later)})
	slow := connect(t, w)
	_, err := io.WriteString(slow, "b\n")
	require.NoError(t, err)
	require.Equal(t, "b\n", <-p.heard)
	connect(t, w).mustEcho(t, "c\n")
	slow.mustWaitFor(t, later, "b\n")
	slow.mustEcho(t, "d\n")
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

func TestDownRefusesConnections(t *testing.T) {
	t.Parallel()
	var w *Proxy
	_, w = proxied(t, map[string]Action{"b\n": DropRequest(func() { w.Down() })})
	open, c := connect(t, w), connect(t, w)
	open.mustEcho(t, "a\n")
	c.mustFail(t, "b\n")
	open.mustFail(t, "c\n")
	requireRefuses(t, w)
	w.Down() // again
}

func TestUnreachableServerClosesConnections(t *testing.T) {
	t.Parallel()
	connect(t, New(t, (&script{}).rule, "127.0.0.1:1")).mustFail(t, "a\n")
}

// requireRefuses checks the listener, not its port: a process that another test is starting has a copy of the socket until its
// exec, and another process may have the port by now.
func requireRefuses(t *testing.T, w *Proxy) {
	t.Helper()
	_, err := w.listener.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

// A proxy leaves nothing behind, in any state of its connections.
func TestProxyEndsWithItsTest(t *testing.T) {
	t.Parallel()
	p := newEchoServer(t, "")
	var w *Proxy
	t.Run("inner", func(t *testing.T) {
		f := &script{of: map[string]Action{"b\n": DelayRequest(nil), "no end": DropReply(nil)}}
		w = New(t, f.rule, p.addr())
		connect(t, w).mustEcho(t, "a\n")
		connect(t, w).mustFail(t, "b\n") // and is never delivered
		_, err := io.WriteString(connect(t, w), "no end")
		require.NoError(t, err)
	})
	w.pumps.Wait()
	requireRefuses(t, w)
	require.Equal(t, "a\n", <-p.heard)
	require.Empty(t, p.heard)
}
