package httpapi

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// maxLists bounds the lists that a process has in memory.
	maxLists = 4
	// ListArrives is how long a list may take to arrive, and as long may the verb take that previews it.
	ListArrives = 2 * time.Minute
	// rest is enough to send an answer.
	rest = 15 * time.Second
)

// Lists admits the lists that callers send: one of a caller at a time, and few in all. A list is in memory until the
// verb has read it.
type Lists struct {
	mu   sync.Mutex
	from map[string]*Pass
}

// Pass is the admission of a list. It ends when the list was read, or nobody holds it any more. It begins with one
// holder: the request. A nil Pass is that of a request without a list.
type Pass struct {
	lists   *Lists
	caller  string
	holders int
}

// Admit gives the request of a caller the time that a list takes. It returns nil if the list has to wait.
func (l *Lists) Admit(caller string, w http.ResponseWriter, now time.Time) *Pass {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.from[caller] != nil || len(l.from) >= maxLists {
		return nil
	}
	if l.from == nil {
		l.from = map[string]*Pass{}
	}
	p := &Pass{lists: l, caller: caller, holders: 1}
	l.from[caller] = p
	times := http.NewResponseController(w) // without a deadline of its own, the request has less time
	_ = times.SetReadDeadline(now.Add(ListArrives))
	_ = times.SetWriteDeadline(now.Add(2*ListArrives + rest))
	return p
}

// Share adds a holder, such as a job.
func (p *Pass) Share() {
	if p != nil {
		p.hold(1)
	}
}

// Leave takes one away.
func (p *Pass) Leave() {
	if p != nil {
		p.hold(-1)
	}
}

func (p *Pass) hold(n int) {
	p.lists.mu.Lock()
	defer p.lists.mu.Unlock()
	if p.holders += n; p.holders == 0 {
		p.end()
	}
}

func (p *Pass) end() {
	if p.lists.from[p.caller] == p { // not a later one
		delete(p.lists.from, p.caller)
	}
}

// Reader is the list as the verb reads it, once.
func (p *Pass) Reader(list []byte) io.Reader { return &reading{pass: p, list: bytes.NewReader(list)} }

type reading struct {
	pass *Pass
	list *bytes.Reader // nil: it was read, and is not in memory any more
}

func (r *reading) Read(b []byte) (n int, err error) {
	if r.list == nil {
		return 0, io.EOF
	}
	if n, err = r.list.Read(b); err != nil {
		r.list = nil
		r.pass.lists.mu.Lock()
		defer r.pass.lists.mu.Unlock()
		r.pass.end()
	}
	return n, err
}
