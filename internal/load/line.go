package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// Line is a connection that carries one request at a time.
type Line struct {
	address  string
	deadline time.Time // deadline of all reads and writes
	conn     net.Conn  // nil: not connected
	in       *bufio.Reader
	request  []byte
	user     []byte // the part of request with the user id
	before   []byte // a request up to its token
	bearing  []byte // the last request with a token
}

const (
	// userDigits reserves space for the user id. All user ids have ten digits.
	userDigits  = "0000000000"
	dialTimeout = 5 * time.Second
	// afterFailure is the delay between attempts to connect to a server that is down.
	afterFailure = 10 * time.Millisecond
)

// NewLine returns a line that is not connected. request is method and path.
func NewLine(address, request string, deadline time.Time) *Line {
	l := &Line{address: address, deadline: deadline, in: bufio.NewReader(nil)}
	head := fmt.Sprintf("%s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n", request, address)
	l.request = []byte(head + "X-User-ID: " + userDigits + "\r\n\r\n")
	l.user = l.request[bytes.Index(l.request, []byte(userDigits)):][:len(userDigits)]
	l.before = []byte(head + "Authorization: Bearer ")
	return l
}

// Dial connects.
func (l *Line) Dial() (err error) {
	if l.conn, err = net.DialTimeout("tcp", l.address, dialTimeout); err != nil {
		l.conn = nil
		return err
	}
	l.in.Reset(l.conn)
	return l.conn.SetDeadline(l.deadline)
}

// Close closes the connection. The next call of Ask connects again.
func (l *Line) Close() {
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
}

// Reply is the part of a reply that loads need.
type Reply struct {
	Status     int
	RetryAfter bool
	Closes     bool
	Body       []byte // valid until the next call; nil if it is longer than the buffer
}

// Ask sends the request of a user and reads the reply. After an error, or if the server closes the connection, the
// next call connects again.
func (l *Line) Ask(user uint64) (Reply, error) {
	for i := len(l.user) - 1; i >= 0; i-- {
		l.user[i] = byte('0' + user%10)
		user /= 10
	}
	return l.send(l.request)
}

// AskWith is Ask with a token instead of a user id.
func (l *Line) AskWith(token string) (Reply, error) {
	l.bearing = append(append(append(l.bearing[:0], l.before...), token...), "\r\n\r\n"...)
	return l.send(l.bearing)
}

func (l *Line) send(request []byte) (r Reply, err error) {
	defer func() {
		if err != nil || r.Closes {
			l.Close()
		}
	}()
	if l.conn == nil {
		if err := l.Dial(); err != nil {
			time.Sleep(afterFailure)
			return r, err
		}
	}
	if _, err := l.conn.Write(request); err != nil {
		return r, err
	}
	return read(l.in)
}

var errReply = errors.New("not a reply")

// read reads a reply with Content-Length.
func read(in *bufio.Reader) (r Reply, err error) {
	head, err := in.ReadSlice('\n')
	if err != nil {
		return r, err
	}
	const prefix, digits = len("HTTP/1.1 "), 3
	if len(head) < prefix+digits || !bytes.HasPrefix(head, []byte("HTTP/1.1 ")) {
		return r, errReply
	}
	if r.Status, err = strconv.Atoi(string(head[prefix : prefix+digits])); err != nil {
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
			r.RetryAfter = len(value) > 0
		case bytes.EqualFold(name, []byte("Connection")):
			r.Closes = bytes.EqualFold(value, []byte("close"))
		}
	}
	if length < 0 {
		return r, fmt.Errorf("%w: without Content-Length", errReply)
	}
	if length <= in.Size() {
		if r.Body, err = in.Peek(length); err != nil {
			return r, err
		}
	}
	_, err = in.Discard(length)
	return r, err
}
