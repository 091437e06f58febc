package live

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/standing"
)

const (
	// writeTimeout bounds each write. It is set anew before each: a deadline for the whole response would end streams
	// that work.
	writeTimeout = 5 * time.Second
	// heartbeatEvery is shorter than the timeouts of proxies, which start at 30 s.
	heartbeatEvery = 15 * time.Second
	// heartbeatPhase is by how much the first heartbeat is earlier, by chance: streams that begin together do not have
	// all their heartbeats together.
	heartbeatPhase = 10 * time.Second
	// A stream lives from minLife to maxLife by chance, so that streams that began together do not end together, and
	// dead ones go.
	minLife, maxLife = 5 * time.Minute, 10 * time.Minute
	// maxDropped is how many bytes a client may send after its request.
	maxDropped = 4 << 10
)

// stream is one client's connection. Only its room uses the fields from ends on.
type stream struct {
	hub    *Hub
	conn   net.Conn
	coupon coupon.Coupon
	user   coupon.UserID
	brief  bool // the stream ends after the first state
	seat   int  // index in the streams of its room, or noSeat; guarded by hub.mu

	mu      sync.Mutex
	over    bool  // the last frame was pushed, or the stream has ended
	ended   bool  // the connection is closed
	writing bool  // a goroutine writes
	waits   bool  // next is to be written
	next    frame // the newest

	ends        time.Time
	endsBecause reason

	known bool // a lookup has succeeded
	state standing.Conclusion
	place int64     // position plus what had left the queue when the position was looked up
	due   bool      // the next look looks this user up
	lost  bool      // an application that the stream has shown, or may have shown, is found nowhere
	maybe bool      // the user has no application, and applications of the coupon are missing
	again time.Time // no lookup before

	told   told // what was sent last
	moved  bool // the last round found another position, which was not told yet
	toldAt time.Time
	beatAt time.Time // time of the last heartbeat
}

// noSeat is the seat of a stream that has not joined its room.
const noSeat = -1

// told is what decides whether there is something new to tell.
type told struct {
	standing coupon.Standing
	position int64
	seats    int
	delayed  bool
	maybe    bool // see stream.maybe
}

// frame is what is written at once. last is why the stream ends afterwards; "" if it goes on.
type frame struct {
	text []byte
	last reason
}

// push replaces a frame that was not written yet.
func (s *stream) push(f frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.over = f.last != ""
	s.next, s.waits = f, true
	if !s.writing {
		s.writing = true
		go s.writeAll()
	}
}

// idle reports whether every frame was written.
func (s *stream) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.writing
}

// writeAll writes until nothing waits.
func (s *stream) writeAll() {
	for {
		s.mu.Lock()
		f, more := s.next, s.waits
		s.next, s.waits, s.writing = frame{}, false, more
		s.mu.Unlock()
		if !more {
			return
		}
		if why := s.write(f); why != "" {
			s.end(why)
			return
		}
	}
}

// write writes a frame. It returns why the stream has ended; "" if it goes on.
func (s *stream) write(f frame) reason {
	err := s.conn.SetWriteDeadline(s.hub.Now().Add(writeTimeout))
	if err == nil {
		_, err = s.conn.Write(f.text)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return slow
	case err != nil:
		return client
	default:
		return f.last
	}
}

// end closes the connection. Only the first call has an effect.
func (s *stream) end(why reason) {
	s.mu.Lock()
	again := s.ended
	s.ended, s.over = true, true
	s.mu.Unlock()
	if again {
		return
	}
	_ = s.conn.Close()
	s.hub.leave(s)
	s.hub.open.Add(-1)
	s.hub.metrics.ended[why].Inc()
}

// awaitHangUp ends the stream when its client hangs up. What it says after its request is dropped. Too much ends the
// stream, too.
func (s *stream) awaitHangUp() {
	var dropped [16]byte
	for range maxDropped / len(dropped) {
		if _, err := s.conn.Read(dropped[:]); err != nil {
			break
		}
	}
	s.end(client)
}

func retryFrame(after time.Duration) []byte {
	return fmt.Appendf(nil, "retry: %d\n\n", after.Milliseconds())
}

// Clients that lost their stream come back after 2 to 8 s; those for whom there was no room, after 5 to 15 s.
func earlyRetry() time.Duration { return 2*time.Second + rand.N(6*time.Second) }
func lateRetry() time.Duration  { return 5*time.Second + rand.N(10*time.Second) }

var heartbeat = []byte(":\n\n")

// eventID identifies a state. A client sends the last one when it comes back.
func eventID(user coupon.UserID, is coupon.Standing, position int64) string {
	id := user.Member() + "-" + string(is)
	if position > 0 {
		id += "-" + strconv.FormatInt(position, 10)
	}
	return id
}

// outcome reports whether a standing is final: nothing more will happen to the application by itself.
func outcome(is coupon.Standing) bool {
	return is == coupon.StandingIssued || is == coupon.StandingNotSelected || is == coupon.StandingRejected
}

// heardAll reports whether the client has had the outcome already.
func heardAll(r *http.Request, user coupon.UserID) bool {
	id := r.Header.Get("Last-Event-ID")
	for _, is := range []coupon.Standing{coupon.StandingIssued, coupon.StandingNotSelected, coupon.StandingRejected} {
		if id != "" && id == eventID(user, is, 0) {
			return true
		}
	}
	return false
}

// Later answers a client that asks too often: it comes back later, and has to. An EventSource would give up after any
// status but 200.
func (h *Hub) Later(w http.ResponseWriter) {
	h.metrics.refused[userRate].Inc()
	httpapi.SetStreamHeaders(w.Header())
	_, _ = w.Write(retryFrame(lateRetry()))
}

// Serve begins the stream of one user and coupon. It takes the connection away from net/http, which would keep two
// goroutines, two buffers and the request for each stream: several times the memory of all the rest.
func (h *Hub) Serve(w http.ResponseWriter, r *http.Request, of coupon.Coupon, user coupon.UserID) {
	if heardAll(r, user) {
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	httpapi.SetStreamHeaders(w.Header())
	if r.Method == http.MethodHead {
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		h.Logger.Error("a stream did not get its connection", zap.Error(err))
		return // an empty response: the client comes back
	}
	now := h.Now()
	s := &stream{hub: h, conn: conn, user: user, coupon: of, seat: noSeat, due: true,
		beatAt: now.Add(-rand.N(heartbeatPhase)),
		ends:   now.Add(minLife + rand.N(maxLife-minLife)), endsBecause: aged}
	retry := earlyRetry()
	if h.open.Add(1) > int64(h.Max) || h.draining() {
		s.brief, retry = true, lateRetry()
		h.metrics.refused[full].Inc()
	}
	if why := s.write(frame{text: append(head(w.Header(), now), retryFrame(retry)...)}); why != "" {
		s.end(why)
		return
	}
	h.join(s)
	go s.awaitHangUp() // after join: a stream that has ended leaves its room
}

// head returns the status line and the headers of a stream. Its body ends with the connection.
func head(header http.Header, now time.Time) []byte {
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 200 OK\r\n")
	_ = header.Write(&b)
	b.WriteString("Date: " + now.UTC().Format(http.TimeFormat) + "\r\n\r\n")
	return b.Bytes()
}
