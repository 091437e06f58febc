package live

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/coupon"
)

const (
	// addresses is the number of local addresses of the streams, from 127.0.0.2 on. Each has ports of its own: those of
	// connections that were cut stay in use for a minute.
	addresses = 16
	// dialers is how many streams connect at the same time.
	dialers = 256
	// lineBytes is the longest line of a stream.
	lineBytes = 1024
	// longestRetry is more than servers ask for.
	longestRetry  = 20 * time.Second
	connectWithin = 30 * time.Second
	answerWithin  = 30 * time.Second
	changeWithin  = 30 * time.Second // all streams
)

// crowd is the users with their streams. Each behaves like a browser's EventSource: it connects again after the time
// that the server named, with the id of the last event, until a 204 ends it for good.
type crowd struct {
	address string
	request string // path
	streams []*stream
	dialing chan struct{}
	ctx     context.Context
	end     context.CancelFunc
	all     sync.WaitGroup

	open     atomic.Int64 // streams that have got their first event
	again    atomic.Int64 // streams that the server ended before an outcome, or that failed
	over     atomic.Int64 // streams that a 204 ended
	failures atomic.Int64
	failure  atomic.Pointer[string] // the last
}

// stream is one user. Its goroutine writes all fields, except that cut closes conn.
type stream struct {
	*crowd
	user   uint64
	place  int
	lastID string
	retry  time.Duration

	mu    sync.Mutex
	conn  net.Conn  // nil: not connected
	asked time.Time // when it began to connect
	since time.Time // of the first event of this connection; zero: none
	told  told
}

// told is the outcome that a user was told first.
type told struct {
	at      time.Time
	outcome coupon.Standing
}

func openCrowd(ctx context.Context, address string, id, users int) *crowd {
	c := &crowd{address: address, request: fmt.Sprintf("/v1/live/coupons/%d/me", id), dialing: make(chan struct{},
		dialers)}
	c.ctx, c.end = context.WithCancel(ctx)
	for i := range users {
		v := &stream{crowd: c, user: firstUser + uint64(i), place: i}
		c.streams = append(c.streams, v)
		c.all.Go(v.run)
	}
	return c
}

func (c *crowd) close() {
	c.end()
	c.cut()
	c.all.Wait()
}

// each calls do with each stream, which is locked.
func (c *crowd) each(do func(*stream)) {
	for _, v := range c.streams {
		v.mu.Lock()
		do(v)
		v.mu.Unlock()
	}
}

// cut closes every connection, like a failed network.
func (c *crowd) cut() {
	c.each(func(v *stream) {
		if v.conn != nil {
			_ = v.conn.Close()
		}
	})
}

// await waits until count, which returns how many streams fulfil a condition, returns all of them.
func (c *crowd) await(ctx context.Context, what string, count func() int) error {
	err := stage.Until(ctx, "all streams "+what, changeWithin, func() (bool, error) {
		return count() >= len(c.streams), nil
	})
	if failure := c.failure.Load(); err != nil && failure != nil {
		err = fmt.Errorf("%w; %d failures, the last: %s", err, c.failures.Load(), *failure)
	}
	if err != nil {
		err = fmt.Errorf("%w; %d of %d do", err, count(), len(c.streams))
	}
	return err
}

// tolds returns what each user was told.
func (c *crowd) tolds() (all []told) {
	c.each(func(v *stream) { all = append(all, v.told) })
	return all
}

// countSince returns how many connections have had an event since then.
func (c *crowd) countSince(from time.Time) (n int) {
	c.each(func(v *stream) {
		if v.since.After(from) {
			n++
		}
	})
	return n
}

func countTold(all []told) (n int) {
	for _, t := range all {
		if !t.at.IsZero() {
			n++
		}
	}
	return n
}

var errOver = errors.New("204")

func (v *stream) run() {
	v.retry = 3 * time.Second
	for v.ctx.Err() == nil {
		err := v.listen()
		if errors.Is(err, errOver) {
			v.over.Add(1)
			return
		}
		if v.ctx.Err() != nil {
			return
		}
		v.mu.Lock()
		known := !v.told.at.IsZero()
		v.mu.Unlock()
		if !known {
			v.again.Add(1)
		}
		if stage.Wait(v.ctx, v.retry) != nil {
			return
		}
	}
}

// listen connects once and reads the stream to its end.
func (v *stream) listen() error {
	conn, err := v.dial()
	if err != nil {
		return v.fail(err)
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, lineBytes)
	if err := conn.SetReadDeadline(time.Now().Add(answerWithin)); err != nil {
		return err
	}
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		return v.fail(err)
	}
	switch response.StatusCode {
	case http.StatusNoContent:
		return errOver
	case http.StatusOK:
	default:
		return v.fail(errors.New(response.Status))
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	return v.read(bufio.NewReaderSize(response.Body, lineBytes))
}

func (v *stream) fail(err error) error {
	if v.ctx.Err() == nil {
		text := err.Error()
		v.failure.Store(&text)
		v.failures.Add(1)
	}
	return err
}

// dial connects and sends the request.
func (v *stream) dial() (net.Conn, error) {
	select {
	case v.dialing <- struct{}{}:
	case <-v.ctx.Done():
		return nil, v.ctx.Err()
	}
	defer func() { <-v.dialing }()
	asked := time.Now()
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+v.place%addresses))}
	dialer := net.Dialer{LocalAddr: from, Timeout: connectWithin, KeepAlive: -1}
	conn, err := dialer.DialContext(v.ctx, "tcp", v.address)
	if err != nil {
		return nil, err
	}
	request := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nX-User-ID: %d\r\nAccept: text/event-stream\r\n",
		v.request, v.address, v.user)
	if v.lastID != "" {
		request = fmt.Appendf(request, "Last-Event-ID: %s\r\n", v.lastID)
	}
	v.mu.Lock()
	v.conn, v.asked, v.since = conn, asked, time.Time{}
	v.mu.Unlock()
	_, err = conn.Write(append(request, "\r\n"...))
	if err != nil {
		conn.Close()
	}
	return conn, err
}

// read reads the lines of a stream. The counted time is the one at which the line of the status was read.
func (v *stream) read(in *bufio.Reader) error {
	for {
		text, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		field, value, _ := bytes.Cut(bytes.TrimRight(text, "\r\n"), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "id":
			v.lastID = string(value)
		case "retry":
			if n, err := strconv.Atoi(string(value)); err == nil {
				v.retry = min(time.Duration(n)*time.Millisecond, longestRetry)
			}
		case "data":
			v.note(status(value))
		}
	}
}

// status returns the status in the JSON of an application.
func status(document []byte) coupon.Standing {
	_, after, _ := bytes.Cut(document, []byte(`"status":"`))
	name, _, _ := bytes.Cut(after, []byte(`"`))
	return coupon.Standing(name)
}

// isOutcome reports whether nothing follows a status.
func isOutcome(s coupon.Standing) bool {
	return s == coupon.StandingIssued || s == coupon.StandingNotSelected || s == coupon.StandingRejected
}

func (v *stream) note(s coupon.Standing) {
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.since.IsZero() {
		v.since = now
		v.open.Add(1)
	}
	if v.told.at.IsZero() && isOutcome(s) {
		v.told = told{now, s}
	}
}

// someRetry is what the plain server asks for.
func someRetry() time.Duration { return 2*time.Second + rand.N(6*time.Second) }
