package load_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/load"
)

// upTo ends a plan after so many requests.
func upTo(most int, times load.Times) load.Times {
	return func(n int) (time.Duration, bool) {
		due, _ := times(n)
		return due, n < most
	}
}

// One slow answer delays no request: each is due at its time, and its latency includes the stall.
func TestRun_DueTimesIgnoreAnswers(t *testing.T) {
	t.Parallel()
	ctx, lastIsDue := context.WithCancel(t.Context())
	var due []time.Duration
	var late load.Waits
	var began time.Time
	sent := load.Run(t.Context(), upTo(20, func(n int) (time.Duration, bool) {
		if n == 19 {
			lastIsDue() // the first answer comes now
		}
		return time.Duration(n) * time.Millisecond, true
	}), 1, func(_ int, requests iter.Seq[load.Request]) {
		for r := range requests {
			if r.N == 0 {
				began = r.Due
				<-ctx.Done()
			}
			due, late = append(due, r.Due.Sub(began)), append(late, time.Since(r.Due))
		}
	})
	require.Equal(t, []int{20, 20}, []int{sent.Due, sent.Begun})
	for n, at := range due {
		require.Equal(t, time.Duration(n)*time.Millisecond, at)
	}
	require.GreaterOrEqual(t, late[1], 17*time.Millisecond, "request 1 was due long before the answer to request 0")
}

func TestRun_EachRequestGoesToOneWorker(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen, places := map[int]int{}, map[int]bool{}
	ready := make(chan struct{})
	load.Run(t.Context(), upTo(1000, load.Every(1e6)), 4, func(place int, requests iter.Seq[load.Request]) {
		mu.Lock()
		if places[place] = true; len(places) == 4 {
			close(ready)
		}
		mu.Unlock()
		<-ready
		for r := range requests {
			mu.Lock()
			seen[r.N]++
			mu.Unlock()
		}
	})
	require.Len(t, seen, 1000)
	require.Equal(t, 1, seen[0])
	require.Equal(t, 1, seen[999])
}

// Requests that were due at the end of the context and that no worker had begun are counted.
func TestRun_CountsWhatItDidNotSend(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	begun := make(chan struct{})
	sent := load.Run(ctx, func(n int) (time.Duration, bool) {
		if n == 50 {
			<-begun
			stop()
		}
		return 0, true
	}, 1, func(_ int, requests iter.Seq[load.Request]) {
		for range requests {
			close(begun)
			<-ctx.Done()
		}
	})
	require.Equal(t, []int{50, 1}, []int{sent.Due, sent.Begun})
}

func TestRun_ClosedLoopSendsWhenAWorkerIsFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var waits load.Waits
		sent := load.Run(ctx, nil, 1, func(_ int, requests iter.Seq[load.Request]) {
			for r := range requests {
				time.Sleep(time.Second)
				if waits = append(waits, time.Since(r.Due)); r.N == 9 {
					stop()
				}
			}
		})
		require.Equal(t, 10, sent.Begun)
		require.Zero(t, sent.Due)
		require.Equal(t, load.Quantiles{P50: time.Second, P99: time.Second, P999: time.Second, Max: time.Second},
			waits.Quantiles())
	})
}

func TestWaits_Quantiles(t *testing.T) {
	t.Parallel()
	var w load.Waits
	for i := 1000; i > 0; i-- {
		w = append(w, time.Duration(i))
	}
	require.Equal(t, load.Quantiles{P50: 501, P99: 991, P999: 1000, Max: 1000}, w.Quantiles())
	require.EqualValues(t, 501, w.Quantile(0.5))
	require.EqualValues(t, 1000, w[0], "the order is kept")
	require.Zero(t, load.Waits(nil).Quantiles())
}

// A line says who applies, and connects again after the server has closed the connection.
func TestLine(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	connections := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("X-User-ID")+r.Header.Get("Authorization"))
		connections[r.RemoteAddr] = true
		if len(asked) == 2 {
			w.Header().Set("Connection", "close")
		}
		_, _ = w.Write([]byte("ok"))
	}))
	t.Cleanup(server.Close)
	l := load.NewLine(server.Listener.Addr().String(), "POST /x", time.Now().Add(time.Minute))
	t.Cleanup(l.Close)
	for _, token := range []string{"", "abc", ""} {
		ask := func() (load.Reply, error) { return l.Ask(7) }
		if token != "" {
			ask = func() (load.Reply, error) { return l.AskWith(token) }
		}
		r, err := ask()
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, r.Status)
		require.Equal(t, "ok", string(r.Body))
	}
	require.Equal(t, []string{"POST /x 0000000007", "POST /x Bearer abc", "POST /x 0000000007"}, asked)
	require.Len(t, connections, 2)
	_, err := load.NewLine("127.0.0.1:1", "GET /", time.Now().Add(time.Minute)).Ask(1)
	require.Error(t, err)
}
