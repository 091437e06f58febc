package main

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each user applies once, also after a refusal, and the counts of the client and the server agree.
func TestSend_CountsAgreeWithServer(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	accepted := map[uint64]bool{}
	answers := map[uint64]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, err := strconv.ParseUint(r.Header.Get("X-User-ID"), 10, 64)
		mu.Lock()
		defer mu.Unlock()
		if err != nil || answers[user] != 0 {
			t.Errorf("user %d applied again: %v", user, err)
		}
		answers[user] = http.StatusAccepted
		switch user % 10 {
		case 3:
			answers[user] = http.StatusServiceUnavailable
			w.Header().Set("Retry-After", "1")
		case 5:
			answers[user] = http.StatusTooManyRequests // without Retry-After
		case 7:
			answers[user] = http.StatusInternalServerError
		case 9:
			w.Header().Set("Connection", "close")
		}
		accepted[user] = answers[user] == http.StatusAccepted
		w.WriteHeader(answers[user])
		_, _ = w.Write([]byte("body"))
	}))
	t.Cleanup(server.Close)

	for _, rate := range []float64{0, 2000} {
		l := load{Address: server.Listener.Addr().String(), Connections: 4, Rate: rate, Length: 300 * time.Millisecond, FirstUser: usersPerLoad}
		var o outcome
		for count := 0; count < 100; count = len(answers) { // each kind of answer
			clear(accepted)
			clear(answers)
			var err error
			o, err = l.send()
			require.NoError(t, err)
			l.Length *= 2
		}

		require.Len(t, answers, o.Answered)
		count := map[int]int{}
		for _, status := range answers {
			count[status]++
		}
		require.Equal(t, "status 500", o.Failure)
		require.Equal(t, count[http.StatusInternalServerError], o.Failed)
		last := l.Connections // answers after the end do not count
		require.InDelta(t, count[http.StatusServiceUnavailable]+count[http.StatusTooManyRequests], o.Refused, float64(last))
		require.InDelta(t, count[http.StatusTooManyRequests], o.Bare, float64(last))
		require.InDelta(t, count[http.StatusAccepted], o.Served, float64(last))
		acknowledged := map[uint64]bool{}
		for _, s := range o.Accepted {
			for user := s.First; user < s.First+s.Users; user++ {
				acknowledged[user] = true
			}
		}
		for user, was := range accepted {
			require.Equal(t, was, acknowledged[user], "user %d", user)
		}
		require.Len(t, acknowledged, count[http.StatusAccepted])
	}
}

// One slow answer delays the requests that are due during it, and FromDue includes their delay.
func TestSend_FromDueIncludesStall(t *testing.T) {
	t.Parallel()
	const pause = 200 * time.Millisecond
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		once.Do(func() { <-time.After(pause) })
	}))
	t.Cleanup(server.Close)
	l := load{Address: server.Listener.Addr().String(), Connections: 1, Rate: 100, Length: pause + pause/4, FirstUser: usersPerLoad}
	o, err := l.send()
	require.NoError(t, err)
	require.GreaterOrEqual(t, o.FromDue.Max, pause)
	require.GreaterOrEqual(t, o.FromDue.P50, 2*pause/5, "13 of 25 requests were due 80 ms before the end of the stall, or earlier")
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	var w waits
	for i := 1000; i > 0; i-- {
		w.note(time.Duration(i) * time.Millisecond)
	}
	require.Equal(t, quantiles{501 * time.Millisecond, 991 * time.Millisecond, 1000 * time.Millisecond, 1000 * time.Millisecond}, w.quantiles())
	require.Zero(t, waits(nil).quantiles())
}

func TestSend_FailsWithoutServer(t *testing.T) {
	t.Parallel()
	_, err := load{Address: "127.0.0.1:1", Connections: 1, Length: time.Second}.send()
	require.Error(t, err)
}
