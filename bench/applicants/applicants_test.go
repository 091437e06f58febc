package applicants

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/load"
)

// Each user applies once, also after a refusal, and the counts of the client and of the server agree.
func TestLoad_CountsAgreeWithServer(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0, 2000} {
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex
		answers, count := map[uint64]int{}, map[int]int{}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, err := strconv.ParseUint(r.Header.Get("X-User-ID"), 10, 64)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || answers[user] != 0 {
				t.Errorf("user %d applied again: %v", user, err)
			}
			status := http.StatusAccepted
			switch user % 10 {
			case 3:
				status = http.StatusServiceUnavailable
				w.Header().Set("Retry-After", "1")
			case 5:
				status = http.StatusTooManyRequests // without Retry-After
			case 7:
				status = http.StatusInternalServerError
			case 9:
				w.Header().Set("Connection", "close")
			}
			answers[user] = status
			count[status]++
			w.WriteHeader(status)
			if len(answers) == 100 {
				stop()
			}
		}))
		t.Cleanup(server.Close)
		l := Load{Address: server.Listener.Addr().String(), Coupon: 7, Connections: 4, Rate: rate, First: FirstUser}
		began := time.Now()
		all, sent, err := l.send(ctx, func() error { return nil })
		require.NoError(t, err)
		o := l.sum(all, sent, began, time.Now())

		require.Len(t, answers, o.Answered)
		refused := count[http.StatusServiceUnavailable] + count[http.StatusTooManyRequests]
		require.Equal(t, []int{count[202], refused, count[429], count[500]},
			[]int{o.Served, o.Refused, o.Bare, o.Failed})
		require.ErrorContains(t, o.Fault(), "status")
		accepted := uint64(0)
		for _, s := range o.Accepted {
			accepted += s.N
			for user := s.First; user < s.First+s.N; user++ {
				require.Equal(t, http.StatusAccepted, answers[user])
			}
		}
		require.EqualValues(t, count[202], accepted)
		require.Positive(t, o.FromDue.P50)
	}
}

func TestLoad_OnlyItsIntervalCounts(t *testing.T) {
	t.Parallel()
	began := time.Unix(1_795_000_000, 0)
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	var l Load
	var all []answered
	for i := range 100 { // the latency falls from 100 ms to 1 ms
		due := at(1000 * i)
		all = append(all, answered{user: uint64(i), due: due, sent: due, read: at(1000*i + 100 - i), status: 202})
	}
	o := l.sum(all, load.Sent{}, at(10_000), at(20_000))
	require.Equal(t, 86*time.Millisecond, o.FromDue.P50) // from 81 to 90 ms
	require.Equal(t, 90*time.Millisecond, o.FromDue.Max)
	require.Equal(t, []any{10, 1.0, []Span{{0, 100}}}, []any{o.Served, o.Rate(), o.Accepted})
	require.NoError(t, o.Fault())

	l.Rate = 10 // requests 1 to 4 were due at 100, 200, 300 and 400 ms, and not sent
	o = l.sum(nil, load.Sent{}, at(200), at(400))
	require.Zero(t, o.Unsent)
	var unsent load.Sent
	unsent.Began, unsent.Due, unsent.Begun = began, 5, 1
	o = l.sum(nil, unsent, at(200), at(400))
	require.Equal(t, []any{2, 200 * time.Millisecond}, []any{o.Unsent, o.FromDue.Max})
}

func TestLoad_FailsWithoutServer(t *testing.T) {
	t.Parallel()
	l := Load{Address: "127.0.0.1:1", Connections: 1}
	_, _, err := l.send(t.Context(), func() error { return nil })
	require.Error(t, err)
}
