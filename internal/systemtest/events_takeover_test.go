package systemtest

import (
	"context"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
)

// A relay and its sink freeze in the middle of a publication. A nightly run settles all the same. The sink goes on, the
// session of the relay ends, and another relay publishes everything. The first relay changes nothing when it goes on.
func TestEvents_AnotherRelayTakesOver(t *testing.T) {
	t.Parallel()
	m, sink := newQuietMall(t)
	stop := m.consume()
	require.NoError(t, sink.server.Freeze())
	m.settleLine(500)
	testenv.Eventually(t, "a publication hangs", m.relayWorks)
	id := m.settleLine(500)
	require.Len(t, m.Issued(id), 500)
	require.Positive(t, m.unpublished())
	require.Zero(t, m.heard.all.Load())

	first := m.relays[0]
	testenv.Eventually(t, "the relay is frozen in the middle of a round", func() bool {
		require.NoError(t, first.Process.Signal(syscall.SIGSTOP))
		if m.relayWorks() {
			return true
		}
		require.NoError(t, first.Process.Signal(syscall.SIGCONT))
		return false
	})
	m.relays = append(m.relays, nil)
	m.startRelay(1)
	t.Cleanup(func() { _ = m.relays[1].Process.Kill() })
	require.NoError(t, sink.server.Thaw())
	m.awaitPublished()
	require.NoError(t, first.Process.Signal(syscall.SIGCONT))
	m.settleLine(100)
	m.awaitPublished()
	stop()
	want := m.rows()
	m.heard.require(t, want)
	m.requireContents(want)
	m.requireRelayAtRest()
	m.Verify()
}

// newQuietMall has one relay. Nothing is killed.
func newQuietMall(t *testing.T) (*mall, *streamSink) {
	t.Helper()
	sink := newStreamSink(t, testenv.PrivateRedis(t, testenv.RedisOptions{}), false)
	return newMall(t, jajeongtest.Options{}, sink, 1), sink
}

// consume reads until stop is called, which also stops the relays.
func (m *mall) consume() (stop func()) {
	over, cancel := context.WithCancel(m.T.Context())
	var reading sync.WaitGroup
	reading.Go(func() { m.sink.consume(over, m.heard) })
	end := sync.OnceFunc(func() {
		cancel()
		reading.Wait()
	})
	m.T.Cleanup(end)
	return func() {
		m.T.Helper()
		for _, p := range m.relays {
			assert.NoError(m.T, p.Stop(), p.LastWarning())
		}
		end()
	}
}

// settleLine issues a coupon to so many users in a run of its own.
func (m *mall) settleLine(seats int) coupon.CouponID {
	m.T.Helper()
	if seats > len(m.users) {
		more := jajeongtest.Between(coupon.UserID(len(m.users)+1), coupon.UserID(seats))
		m.AddUsers(more...)
		m.users = append(m.users, more...)
	}
	id := m.AddCoupon(seats)
	m.ApplyLine(id, m.users[:seats]...)
	code, output := m.RunToEnd(func() *exec.Cmd {
		return m.settle("run", "--cutoff=now", "--coupon="+id.String(), "--operator=kim", "--reason=test")
	})
	require.Zero(m.T, code, output)
	return id
}

// relayWorks reports whether a relay is in the middle of a round.
func (m *mall) relayWorks() bool {
	m.T.Helper()
	tx, err := m.DB.BeginTx(m.T.Context(), nil)
	require.NoError(m.T, err)
	defer func() { _ = tx.Rollback() }()
	var sink string
	err = tx.QueryRow("SELECT sink FROM event_relay WHERE sink = ? FOR UPDATE NOWAIT", m.sink.name()).Scan(&sink)
	if mysqltx.IsLockWait(err) {
		return true
	}
	require.NoError(m.T, err)
	return false
}
