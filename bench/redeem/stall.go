package redeem

import (
	"bytes"
	"context"
	"net"
	"sync"
	"time"
)

// stall pauses the first statements that write, like those of clients that were stopped after their SELECT.
type stall struct {
	pause   time.Duration
	stopped chan struct{} // closed when all wait

	mu   sync.Mutex
	left int // statements that will wait
}

// dial is how a pool of stopped clients connects.
func (s *stall) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	return stalled{conn, s}, err
}

type stalled struct {
	net.Conn
	*stall
}

func (c stalled) Write(packet []byte) (int, error) {
	if writes(packet) {
		c.wait()
	}
	return c.Conn.Write(packet)
}

// writes reports whether a packet is a statement that writes.
func writes(packet []byte) bool {
	const header, query = 4, 3 // bytes before the command, and the command COM_QUERY
	if len(packet) <= header || packet[header] != query {
		return false
	}
	text := bytes.TrimSpace(packet[header+1:])
	return bytes.HasPrefix(text, []byte("UPDATE")) || bytes.HasPrefix(text, []byte("INSERT"))
}

func (s *stall) wait() {
	s.mu.Lock()
	stops := s.left > 0
	if stops {
		s.left--
		if s.left == 0 {
			close(s.stopped)
		}
	}
	s.mu.Unlock()
	if stops {
		time.Sleep(s.pause)
	}
}
