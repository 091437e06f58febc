package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// line is a connection that carries one request at a time. net/http's client would take more of the cores than the
// servers that are measured.
type line struct {
	address  string
	deadline time.Time // of everything
	conn     net.Conn  // nil: to be dialled
	in       *bufio.Reader
	request  []byte
	user     []byte // where the user id stands in it
}

const (
	couponID = 1
	// anyUser has as many digits as all users.
	anyUser     = "0000000000"
	dialTimeout = 5 * time.Second
	// afterFailure keeps a server that is away from being dialled without pause.
	afterFailure = 10 * time.Millisecond
)

func newLine(address string, deadline time.Time) *line {
	l := &line{address: address, deadline: deadline, in: bufio.NewReader(nil)}
	l.request = fmt.Appendf(nil, "POST /v1/coupons/%d/applications HTTP/1.1\r\nHost: %s\r\nX-User-ID: %s\r\nContent-Length: 0\r\n\r\n",
		couponID, address, anyUser)
	l.user = l.request[bytes.Index(l.request, []byte(anyUser)):][:len(anyUser)]
	return l
}

func (l *line) dial() (err error) {
	if l.conn, err = net.DialTimeout("tcp", l.address, dialTimeout); err != nil {
		l.conn = nil
		return err
	}
	l.in.Reset(l.conn)
	return l.conn.SetDeadline(l.deadline)
}

func (l *line) close() {
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
}

// reply is what the generator wants to know of one.
type reply struct {
	status     int
	retryAfter bool
	closes     bool
}

// ask sends the request of a user and reads the reply. After an error, or when the server closes, the next one dials.
func (l *line) ask(user uint64) (r reply, err error) {
	defer func() {
		if err != nil || r.closes {
			l.close()
		}
	}()
	if l.conn == nil {
		if err := l.dial(); err != nil {
			time.Sleep(afterFailure)
			return r, err
		}
	}
	for i := len(l.user) - 1; i >= 0; i-- {
		l.user[i] = byte('0' + user%10)
		user /= 10
	}
	if _, err := l.conn.Write(l.request); err != nil {
		return r, err
	}
	return readReply(l.in)
}

var errReply = errors.New("not a reply")

// readReply reads a reply whose body has its length told, and drops the body.
func readReply(in *bufio.Reader) (r reply, err error) {
	head, err := in.ReadSlice('\n')
	if err != nil {
		return r, err
	}
	const prefix, digits = len("HTTP/1.1 "), 3
	if len(head) < prefix+digits || !bytes.HasPrefix(head, []byte("HTTP/1.1 ")) {
		return r, errReply
	}
	if r.status, err = strconv.Atoi(string(head[prefix : prefix+digits])); err != nil {
		return r, errReply
	}
	length := -1
	for {
		field, err := in.ReadSlice('\n')
		if err != nil {
			return r, err
		}
		field = bytes.TrimRight(field, "\r\n")
		if len(field) == 0 {
			break
		}
		name, value, _ := bytes.Cut(field, []byte(": "))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return r, errReply
			}
		case bytes.EqualFold(name, []byte("Retry-After")):
			r.retryAfter = len(value) > 0
		case bytes.EqualFold(name, []byte("Connection")):
			r.closes = bytes.EqualFold(value, []byte("close"))
		}
	}
	if length < 0 {
		return r, fmt.Errorf("%w: without Content-Length", errReply)
	}
	_, err = in.Discard(length)
	return r, err
}
