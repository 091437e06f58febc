package testenv

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// pieceBytes are read at once: a request up to this size reaches the rule whole.
	pieceBytes = 64 << 10
	// wireDialWithin bounds reaching a server on this machine.
	wireDialWithin = 10 * time.Second
)

// Wire stands between a program and one server, and breaks what passes when its rule says so. It knows no protocol, only
// turns: on each connection, a turn begins with the first bytes from the client after bytes from the server. That is
// one request and its reply wherever the client waits for each reply, as with MySQL and Redis.
type Wire struct {
	Addr   string // what the program is to take for the server
	server string

	book     *ruleBook
	listener net.Listener
	pumps    sync.WaitGroup
	isDown   chan struct{}

	mu    sync.Mutex
	conns map[net.Conn]struct{} // nil once down
}

// Turn is what a rule sees: a request that has not been delivered yet.
type Turn struct {
	Number  int    // from 1, over all connections of all wires under the same rule
	Wire    int    // the place of the wire among those under the same rule, from 0
	Request []byte // its beginning, all of it up to 64 KiB as far as the client wrote it at once; not to be kept
}

// Rule decides what becomes of a turn. It is called for one turn at a time, and no other turn under the same rule
// begins before it has returned.
type Rule func(Turn) Fate

// Fate is what becomes of a turn. The zero Fate lets it pass.
type Fate struct {
	end   end
	do    func()
	until <-chan struct{}
}

type end byte

const (
	pass end = iota
	cutBefore
	cutAfter
	deliverLater
	replyLater
)

// Pass lets request and reply through.
func Pass() Fate { return Fate{} }

// CutBefore never delivers the request: do is called, unless it is nil, then the connection is closed.
func CutBefore(do func()) Fate { return Fate{end: cutBefore, do: do} }

// CutAfter delivers the request and swallows the reply: once the server has answered, or has closed the connection, do is
// called, unless it is nil, then the connection is closed. No other turn under the same rule begins while do runs.
func CutAfter(do func()) Fate { return Fate{end: cutAfter, do: do} }

// DeliverLater cuts the client off now and delivers the request, which must not exceed one piece, once until is
// closed: what a client has taken for lost still happens. The server does not notice before.
func DeliverLater(until <-chan struct{}) Fate { return Fate{end: deliverLater, until: until} }

// ReplyLater delivers the request, and holds the reply back until until is closed: a server that is slow.
func ReplyLater(until <-chan struct{}) Fate { return Fate{end: replyLater, until: until} }

// ruleBook is a rule and what its wires count together.
type ruleBook struct {
	mu    sync.Mutex
	turns int
	rule  Rule
}

func (b *ruleBook) decide(l *link, request []byte) Fate {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.wire.down() {
		return CutBefore(nil)
	}
	b.turns++
	fate := b.rule(Turn{Number: b.turns, Wire: l.place, Request: request})
	if fate.end == cutBefore && fate.do != nil {
		fate.do()
	}
	return fate
}

// after calls what a swallowed reply has set off.
func (b *ruleBook) after(l *link, fate *Fate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if fate.do != nil && !l.wire.down() {
		fate.do()
	}
}

// WireTo puts a wire before a server. It is down as the test ends.
func WireTo(t testing.TB, rule Rule, server string) *Wire {
	t.Helper()
	return WiresTo(t, rule, server)[0]
}

// WiresTo puts a wire before each server, in this order, under one rule that counts their turns together.
func WiresTo(t testing.TB, rule Rule, servers ...string) []*Wire {
	t.Helper()
	book := &ruleBook{rule: rule}
	wires := make([]*Wire, len(servers))
	for i, server := range servers {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("testenv: wire to %s: %v", server, err)
		}
		w := &Wire{Addr: listener.Addr().String(), server: server, book: book, listener: listener,
			isDown: make(chan struct{}), conns: map[net.Conn]struct{}{}}
		w.pumps.Go(func() { w.accept(i) })
		t.Cleanup(func() { w.Down(); w.pumps.Wait() })
		wires[i] = w
	}
	return wires
}

// Turns is how many turns have begun under the wire's rule. What the rule and its fates have done until then may be read
// without a race.
func (w *Wire) Turns() int {
	w.book.mu.Lock()
	defer w.book.mu.Unlock()
	return w.book.turns
}

// Down closes every connection and refuses new ones, for good; after the turn that is being decided, no rule is asked
// and no fate does anything any more. A rule and its fates may call it.
func (w *Wire) Down() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conns == nil {
		return
	}
	close(w.isDown)
	w.listener.Close()
	for conn := range w.conns {
		conn.Close()
	}
	w.conns = nil
}

func (w *Wire) down() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.conns == nil
}

func (w *Wire) keep(conn net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conns == nil {
		conn.Close()
		return
	}
	w.conns[conn] = struct{}{}
}

func (w *Wire) drop(conn net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	conn.Close()
	delete(w.conns, conn)
}

func (w *Wire) accept(place int) {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.keep(client)
		w.pumps.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), wireDialWithin)
			defer cancel()
			server, err := (&net.Dialer{}).DialContext(ctx, "tcp", w.server)
			if err != nil { // a server that is down: the client sees its connection closed
				w.drop(client)
				return
			}
			w.keep(server)
			l := &link{wire: w, place: place, client: client, server: server}
			l.answered.Store(true)
			w.pumps.Go(l.requests)
			w.pumps.Go(l.replies)
		})
	}
}

// link is one connection through a wire.
type link struct {
	wire           *Wire
	place          int
	client, server net.Conn
	answered       atomic.Bool          // the next bytes of the client begin a turn
	doomed         atomic.Pointer[Fate] // what the reply to come is lost to
	held           atomic.Pointer[Fate] // what it waits for
}

// requests passes on what the client says until one side ends or a turn is cut.
func (l *link) requests() {
	defer l.wire.drop(l.client)
	piece := make([]byte, pieceBytes)
	for {
		n, err := l.client.Read(piece)
		if n > 0 && l.answered.Swap(false) {
			switch fate := l.wire.book.decide(l, piece[:n]); fate.end {
			case cutBefore:
				l.wire.drop(l.server)
				return
			case cutAfter:
				l.doomed.Store(&fate)
			case replyLater:
				l.held.Store(&fate)
			case deliverLater:
				l.doomed.Store(&fate) // replies ends the connection when the server has answered
				l.deliverLater(piece[:n], fate.until)
				return
			}
		}
		if n > 0 {
			if _, failed := l.server.Write(piece[:n]); failed != nil {
				err = failed
			}
		}
		if err != nil {
			l.wire.drop(l.server)
			return
		}
	}
}

func (l *link) deliverLater(request []byte, until <-chan struct{}) {
	l.wire.drop(l.client)
	select {
	case <-until:
		if _, err := l.server.Write(request); err != nil {
			l.wire.drop(l.server)
		}
	case <-l.wire.isDown:
	}
}

// replies passes on what the server says. What the client may answer with a new turn is marked first.
func (l *link) replies() {
	defer l.wire.drop(l.client)
	defer l.wire.drop(l.server)
	piece := make([]byte, pieceBytes)
	for {
		n, err := l.server.Read(piece)
		if fate := l.doomed.Load(); fate != nil {
			l.wire.book.after(l, fate)
			return
		}
		if fate := l.held.Swap(nil); fate != nil {
			select {
			case <-fate.until:
			case <-l.wire.isDown:
				return
			}
		}
		if n > 0 {
			l.answered.Store(true)
			if _, failed := l.client.Write(piece[:n]); failed != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
