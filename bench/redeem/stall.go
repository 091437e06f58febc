package redeem

import (
	"bytes"
	"io"
	"net"
	"sync"
	"time"
)

// stall is a TCP proxy to MySQL. The first n statements that write wait there for the pause, like those of a client
// that was stopped after its SELECT.
type stall struct {
	listener net.Listener
	server   string
	pause    time.Duration
	stopped  chan struct{} // closed when all n wait

	mu   sync.Mutex
	left int
}

func newStall(server string, n int, pause time.Duration) (*stall, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &stall{listener: listener, server: server, pause: pause, stopped: make(chan struct{}), left: n}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(client)
		}
	}()
	return s, nil
}

func (s *stall) addr() string { return s.listener.Addr().String() }

func (s *stall) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", s.server)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
	packet := make([]byte, 64<<10)
	for {
		n, err := client.Read(packet)
		if err != nil {
			return
		}
		if writes(packet[:n]) {
			s.wait()
		}
		if _, err := server.Write(packet[:n]); err != nil {
			return
		}
	}
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
