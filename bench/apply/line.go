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

// line is a connection that carries one request at a time. The client of net/http would use more CPU time than the
// measured servers.
type line struct {
	address  string
	deadline time.Time // of all reads and writes
	conn     net.Conn  // nil: not connected
	in       *bufio.Reader
	request  []byte
	user     []byte // the part of request with the user id
}

const (
	couponID = 1
	// userDigits reserves space for the user id. All user ids have ten digits.
	userDigits  = "0000000000"
	dialTimeout = 5 * time.Second
	// afterFailure is the delay between attempts to connect to a server that is down.
	afterFailure = 10 * time.Millisecond
)

func newLine(address string, deadline time.Time) *line {
	l := &line{address: address, deadline: deadline, in: bufio.NewReader(nil)}
	l.request = fmt.Appendf(nil, "POST /v1/coupons/%d/applications HTTP/1.1\r\nHost: %s\r\nX-User-ID: %s\r\nContent-Length: 0\r\n\r\n",
		couponID, address, userDigits)
	l.user = l.request[bytes.Index(l.request, []byte(userDigits)):][:len(userDigits)]
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

// reply is the part of a reply that the generator needs.
type reply struct {
	status     int
	retryAfter bool
	closes     bool
}

// ask sends the request of a user and reads the reply. After an error, or if the server closes the connection, the next call
// connects again.
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

// readReply reads a reply with Content-Length and drops its body.
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
