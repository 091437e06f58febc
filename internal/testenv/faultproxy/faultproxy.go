// Package faultproxy is a TCP proxy that injects faults between a program and a server. It knows no protocol, only
// turns: on each connection, a turn begins with the first bytes from the client after bytes from the server. That is
// one request and its reply if the client waits for each reply, as clients of MySQL and Redis do.
package faultproxy

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// pieceBytes is the size of one read: a request up to this size reaches the rule whole.
const pieceBytes = 64 << 10

// Proxy connects a program with one server, and breaks connections when its rule says so.
type Proxy struct {
	Addr   string // the address that the program uses for the server
	server string

	rules    *ruleBook
	listener net.Listener
	pumps    sync.WaitGroup
	up       context.Context // until Down
	end      context.CancelFunc

	mu    sync.Mutex
	conns map[net.Conn]struct{} // nil after Down
}

// Turn is a request that has not been delivered yet.
type Turn struct {
	Number  int    // from 1, over all connections of all proxies of the group
	Proxy   int    // index of the proxy in its group
	Request []byte // the beginning of the request, up to 64 KiB; valid until the rule returns
}

// Rule decides what happens to a turn. It is called for one turn at a time: no other turn of the group begins before it
// returns.
type Rule func(Turn) Action

// Action is what happens to a turn. The zero Action is Pass.
type Action struct {
	end   end
	do    func()
	until <-chan struct{}
}

type end byte

const (
	pass end = iota
	dropRequest
	dropReply
	delayRequest
	delayReply
)

// Pass delivers request and reply.
func Pass() Action { return Action{} }

// DropRequest discards the request, calls do unless it is nil, and closes the connection.
func DropRequest(do func()) Action { return Action{end: dropRequest, do: do} }

// DropReply delivers the request and discards the reply. Once the server has answered or closed the connection,
// DropReply calls do unless it is nil, and closes the connection. No other turn of the group begins while do runs.
func DropReply(do func()) Action { return Action{end: dropReply, do: do} }

// DelayRequest closes the client's connection immediately and delivers the request, of 64 KiB at most, once until is
// closed: a request that the client considers lost still takes effect.
func DelayRequest(until <-chan struct{}) Action { return Action{end: delayRequest, until: until} }

// DelayReply delivers the request and delays the reply until the channel is closed, as a slow server would.
func DelayReply(until <-chan struct{}) Action { return Action{end: delayReply, until: until} }

// ruleBook is the rule of a group with its count of turns.
type ruleBook struct {
	mu    sync.Mutex
	turns int
	rule  Rule
}

func (b *ruleBook) decide(l *link, request []byte) Action {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.proxy.down() {
		return DropRequest(nil)
	}
	b.turns++
	action := b.rule(Turn{Number: b.turns, Proxy: l.place, Request: request})
	if action.end == dropRequest && action.do != nil {
		action.do()
	}
	return action
}

// after runs the do of a DropReply.
func (b *ruleBook) after(l *link, action *Action) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if action.do != nil && !l.proxy.down() {
		action.do()
	}
}

// New starts a proxy to a server. It is closed at the end of the test.
func New(t testing.TB, rule Rule, server string) *Proxy {
	t.Helper()
	return NewGroup(t, rule, server)[0]
}

// NewGroup starts a proxy to each server, in this order, with one rule and one count of turns for all.
func NewGroup(t testing.TB, rule Rule, servers ...string) []*Proxy {
	t.Helper()
	rules := &ruleBook{rule: rule}
	proxies := make([]*Proxy, len(servers))
	for i, server := range servers {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("faultproxy: proxy to %s: %v", server, err)
		}
		p := &Proxy{Addr: listener.Addr().String(), server: server, rules: rules, listener: listener,
			conns: map[net.Conn]struct{}{}}
		p.up, p.end = context.WithCancel(context.Background())
		p.pumps.Go(func() { p.accept(i) })
		t.Cleanup(func() { p.Down(); p.pumps.Wait() })
		proxies[i] = p
	}
	return proxies
}

// Turns returns how many turns of the group have begun. What the rule and its actions have written before may be read
// without a race.
func (p *Proxy) Turns() int {
	p.rules.mu.Lock()
	defer p.rules.mu.Unlock()
	return p.rules.turns
}

// Down closes every connection and refuses new ones, permanently. After the current turn, no rule and no action is
// called any more. A rule and its actions may call Down.
func (p *Proxy) Down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		return
	}
	p.end()
	p.listener.Close()
	for conn := range p.conns {
		conn.Close()
	}
	p.conns = nil
}

func (p *Proxy) down() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conns == nil
}

func (p *Proxy) keep(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		conn.Close()
		return
	}
	p.conns[conn] = struct{}{}
}

func (p *Proxy) drop(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	conn.Close()
	delete(p.conns, conn)
}

func (p *Proxy) accept(place int) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.keep(client)
		p.pumps.Go(func() {
			server, err := (&net.Dialer{}).DialContext(p.up, "tcp", p.server)
			if err != nil { // the server is down: the client sees a closed connection
				p.drop(client)
				return
			}
			p.keep(server)
			l := &link{proxy: p, place: place, client: client, server: server}
			l.answered.Store(true)
			p.pumps.Go(l.requests)
			p.pumps.Go(l.replies)
		})
	}
}

// link is one connection through a proxy.
type link struct {
	proxy          *Proxy
	place          int
	client, server net.Conn
	answered       atomic.Bool            // the next bytes from the client begin a turn
	dropped        atomic.Pointer[Action] // set: the action that discards the next reply
	delayed        atomic.Pointer[Action] // set: the action that delays the next reply
}

// requests forwards requests until one side closes or a turn is dropped.
func (l *link) requests() {
	defer l.proxy.drop(l.client)
	piece := make([]byte, pieceBytes)
	for {
		n, err := l.client.Read(piece)
		if n > 0 && l.answered.Swap(false) {
			switch action := l.proxy.rules.decide(l, piece[:n]); action.end {
			case dropRequest:
				l.proxy.drop(l.server)
				return
			case dropReply:
				l.dropped.Store(&action)
			case delayReply:
				l.delayed.Store(&action)
			case delayRequest:
				l.dropped.Store(&action) // replies closes the connection when the server has answered
				l.delayRequest(piece[:n], action.until)
				return
			}
		}
		if n > 0 {
			if _, failed := l.server.Write(piece[:n]); failed != nil {
				err = failed
			}
		}
		if err != nil {
			l.proxy.drop(l.server)
			return
		}
	}
}

func (l *link) delayRequest(request []byte, until <-chan struct{}) {
	l.proxy.drop(l.client)
	select {
	case <-until:
		if _, err := l.server.Write(request); err != nil {
			l.proxy.drop(l.server)
		}
	case <-l.proxy.up.Done():
	}
}

// replies forwards replies. It sets answered before each write, because the client may begin a new turn immediately
// after it.
func (l *link) replies() {
	defer l.proxy.drop(l.client)
	defer l.proxy.drop(l.server)
	piece := make([]byte, pieceBytes)
	for {
		n, err := l.server.Read(piece)
		if action := l.dropped.Load(); action != nil {
			l.proxy.rules.after(l, action)
			return
		}
		if action := l.delayed.Swap(nil); action != nil {
			select {
			case <-action.until:
			case <-l.proxy.up.Done():
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
