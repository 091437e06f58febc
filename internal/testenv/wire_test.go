package testenv

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// parrot is a server that repeats each line it hears.
type parrot struct {
	listener net.Listener
	heard    chan string
	serving  sync.WaitGroup
}

func newParrot(t *testing.T) *parrot {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &parrot{listener: listener, heard: make(chan string, 100)}
	p.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.serving.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() { listener.Close(); p.serving.Wait() }) // after the wire, which is put up later and ends its connections
	return p
}

func (p *parrot) serve(conn net.Conn) {
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

func (p *parrot) addr() string { return p.listener.Addr().String() }

// talker is a client that waits for each reply.
type talker struct {
	net.Conn
	replies *bufio.Reader
}

func talkTo(t *testing.T, w *Wire) talker {
	t.Helper()
	conn, err := net.Dial("tcp", w.Addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	return talker{conn, bufio.NewReader(conn)}
}

func (c talker) ask(line string) (reply string, err error) {
	if _, err := io.WriteString(c, line); err != nil {
		return "", err
	}
	return c.replies.ReadString('\n')
}

func (c talker) mustHear(t *testing.T, line string) {
	t.Helper()
	reply, err := c.ask(line)
	require.NoError(t, err)
	require.Equal(t, line, reply)
}

func (c talker) mustBeCut(t *testing.T, line string) {
	t.Helper()
	reply, err := c.ask(line)
	require.Error(t, err)
	require.Empty(t, reply)
}

// fates is a rule that has a fate for some requests and keeps what it saw.
type fates struct {
	of   map[string]Fate
	seen []Turn
}

func (f *fates) rule(turn Turn) Fate {
	f.seen = append(f.seen, Turn{turn.Number, turn.Wire, nil})
	return f.of[string(turn.Request)]
}

func TestAWirePassesTurnsAndCountsThem(t *testing.T) {
	t.Parallel()
	f := &fates{}
	one, two := newParrot(t), newParrot(t)
	wires := WiresTo(t, f.rule, one.addr(), two.addr())
	first, second := talkTo(t, wires[0]), talkTo(t, wires[1])
	first.mustHear(t, "a\n")
	first.mustHear(t, strings.Repeat("b", 1<<20)+"\n") // many pieces, one turn
	second.mustHear(t, "c\n")
	talkTo(t, wires[0]).mustHear(t, "d\n")
	require.Equal(t, 4, wires[1].Turns())
	require.Equal(t, []Turn{{1, 0, nil}, {2, 0, nil}, {3, 1, nil}, {4, 0, nil}}, f.seen)
}

// Some servers speak first.
func TestAGreetingIsNoTurn(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "welcome\n")
		_, _ = io.Copy(conn, conn)
	})
	t.Cleanup(func() { listener.Close(); serving.Wait() })
	f := &fates{}
	w := WireTo(t, f.rule, listener.Addr().String())
	c := talkTo(t, w)
	greeting, err := c.replies.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "welcome\n", greeting)
	c.mustHear(t, "a\n")
	require.Equal(t, 1, w.Turns())
	require.Equal(t, []Turn{{1, 0, nil}}, f.seen)
}

func TestARequestCutBeforeIsNeverDelivered(t *testing.T) {
	t.Parallel()
	p := newParrot(t)
	done := false
	f := &fates{of: map[string]Fate{"b\n": CutBefore(func() { done = true })}}
	w := WireTo(t, f.rule, p.addr())
	c := talkTo(t, w)
	c.mustHear(t, "a\n")
	c.mustBeCut(t, "b\n")
	require.Equal(t, 2, w.Turns())
	require.True(t, done)
	require.Equal(t, "a\n", <-p.heard)
	require.Empty(t, p.heard)
}

func TestAReplyCutAfterIsSwallowed(t *testing.T) {
	t.Parallel()
	p := newParrot(t)
	heard := make(chan string, 1)
	f := &fates{of: map[string]Fate{"b\n": CutAfter(func() { heard <- <-p.heard }), "c\n": CutAfter(nil)}}
	w := WireTo(t, f.rule, p.addr())
	talkTo(t, w).mustBeCut(t, "b\n")
	require.Equal(t, "b\n", <-heard, "the server had heard it at that instant")
	talkTo(t, w).mustBeCut(t, "c\n")
	require.Equal(t, "c\n", <-p.heard)
	talkTo(t, w).mustHear(t, "d\n")
}

// A program that says good-bye does not wait for an answer.
func TestWhatACutSetsOffHappensAlsoWithoutAReply(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { silent.Close() })
	done := make(chan struct{})
	f := &fates{of: map[string]Fate{"bye\n": CutAfter(func() { close(done) })}}
	c := talkTo(t, WireTo(t, f.rule, silent.Addr().String()))
	_, err = io.WriteString(c, "bye\n")
	require.NoError(t, err)
	require.NoError(t, c.Close())
	<-done
}

func TestARequestIsDeliveredLater(t *testing.T) {
	t.Parallel()
	p := newParrot(t)
	later := make(chan struct{})
	f := &fates{of: map[string]Fate{"b\n": DeliverLater(later)}}
	w := WireTo(t, f.rule, p.addr())
	talkTo(t, w).mustBeCut(t, "b\n")
	talkTo(t, w).mustHear(t, "c\n")
	require.Equal(t, "c\n", <-p.heard)
	require.Empty(t, p.heard)
	close(later)
	require.Equal(t, "b\n", <-p.heard)
}

func TestAReplyIsHeldBack(t *testing.T) {
	t.Parallel()
	p := newParrot(t)
	later := make(chan struct{})
	f := &fates{of: map[string]Fate{"b\n": ReplyLater(later)}}
	w := WireTo(t, f.rule, p.addr())
	slow := talkTo(t, w)
	_, err := io.WriteString(slow, "b\n")
	require.NoError(t, err)
	require.Equal(t, "b\n", <-p.heard)
	talkTo(t, w).mustHear(t, "c\n")
	require.NoError(t, slow.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = slow.replies.ReadString('\n')
	require.Error(t, err)
	close(later)
	require.NoError(t, slow.SetReadDeadline(time.Now().Add(20*time.Second)))
	reply, err := slow.replies.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "b\n", reply)
	slow.mustHear(t, "d\n")
}

func TestNoTurnBeginsWhileACutIsAtWork(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(func()) Fate{"before": CutBefore, "after": CutAfter} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newParrot(t)
			began, release := make(chan struct{}), make(chan struct{})
			f := &fates{of: map[string]Fate{"a\n": cut(func() { close(began); <-release })}}
			w := WireTo(t, f.rule, p.addr())
			broken, other := talkTo(t, w), talkTo(t, w)
			_, err := io.WriteString(broken, "a\n")
			require.NoError(t, err)
			<-began
			_, err = io.WriteString(other, "b\n")
			require.NoError(t, err)
			require.NoError(t, other.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
			_, err = other.replies.ReadString('\n')
			require.Error(t, err)
			close(release)
			require.NoError(t, other.SetReadDeadline(time.Now().Add(20*time.Second)))
			reply, err := other.replies.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "b\n", reply)
		})
	}
}

func TestAWireThatIsDownRefuses(t *testing.T) {
	t.Parallel()
	p := newParrot(t)
	var w *Wire
	f := &fates{of: map[string]Fate{"b\n": CutBefore(func() { w.Down() })}}
	w = WireTo(t, f.rule, p.addr())
	open, c := talkTo(t, w), talkTo(t, w)
	open.mustHear(t, "a\n")
	c.mustBeCut(t, "b\n")
	open.mustBeCut(t, "c\n")
	requireRefuses(t, w)
	w.Down() // again
}

func TestAWireToNobodyClosesItsConnections(t *testing.T) {
	t.Parallel()
	talkTo(t, WireTo(t, (&fates{}).rule, "127.0.0.1:1")).mustBeCut(t, "a\n")
}

// requireRefuses asks the listener, not its port: a process that is just being started by another test holds a copy of the
// socket until it has become its program, and the port may be somebody else's by now.
func requireRefuses(t *testing.T, w *Wire) {
	t.Helper()
	_, err := w.listener.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

// Whatever its connections are in the middle of, a wire leaves nothing behind.
func TestAWireEndsWithItsTest(t *testing.T) {
	t.Parallel()
	p := newParrot(t)
	var w *Wire
	t.Run("inner", func(t *testing.T) {
		f := &fates{of: map[string]Fate{"b\n": DeliverLater(nil), "no end": CutAfter(nil)}}
		w = WireTo(t, f.rule, p.addr())
		talkTo(t, w).mustHear(t, "a\n")
		talkTo(t, w).mustBeCut(t, "b\n") // and is never delivered
		_, err := io.WriteString(talkTo(t, w), "no end")
		require.NoError(t, err)
	})
	w.pumps.Wait()
	requireRefuses(t, w)
	require.Equal(t, "a\n", <-p.heard)
	require.Empty(t, p.heard)
}

func TestRounds(t *testing.T) {
	t.Setenv("SOAK", "")
	require.Equal(t, 1, Rounds(1, 2))
	t.Setenv("SOAK", "1")
	require.Equal(t, 2, Rounds(1, 2))
}
