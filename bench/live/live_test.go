package live

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/load"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	n := night{
		commits: commits{{at(10), 2, 0}, {at(20), 2, 1}, {at(30), 2, 4}},
		winners: []uint64{firstUser + 3, firstUser},
		others:  []uint64{firstUser + 1, firstUser + 2, firstUser + 4, firstUser + 5}, // the last one has no stream
	}
	issued, notSelected := coupon.StandingIssued, coupon.StandingNotSelected
	got := judge(n, []told{{at(15), issued}, {at(29), notSelected}, {at(50), notSelected}, {at(12), notSelected}, {}})
	require.Equal(t, toldAll{
		winners: load.Waits{5 * time.Millisecond}, others: load.Waits{9 * time.Millisecond, 20 * time.Millisecond},
		last: at(50), missing: 1, wrong: 1,
	}, got)
}

// A browser comes back after a cut, with the last id after an outcome, and not again after 204.
func TestCrowd_BehavesLikeAnEventSource(t *testing.T) {
	t.Parallel()
	const users = 20
	publish, asked := make(chan struct{}), make(chan string, 10*users)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header.Get("X-User-ID") + " " + r.Header.Get("Last-Event-ID")
		if r.Header.Get("Last-Event-ID") == "b" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		fmt.Fprint(w, "retry: 10\n\n:\n\nid: a\ndata: {\"status\":\"PENDING\"}\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-publish:
			fmt.Fprint(w, "id: b\ndata: {\"status\":\"ISSUED\"}\n\n")
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	c := openCrowd(t.Context(), server.Listener.Addr().String(), 7, users)
	t.Cleanup(c.close)
	require.NoError(t, c.await(t.Context(), "have an event", func() int { return int(c.open.Load()) }))
	cut := time.Now()
	c.cut()
	require.NoError(t, c.await(t.Context(), "are back", func() int { return c.countSince(cut) }))
	require.Zero(t, countTold(c.tolds()))
	close(publish)
	require.NoError(t, c.await(t.Context(), "are over", func() int { return int(c.over.Load()) }))
	for _, is := range c.tolds() {
		require.Equal(t, coupon.StandingIssued, is.outcome)
	}
	times := map[string]int{}
	for range 3 * users {
		times[<-asked]++
	}
	require.Empty(t, asked)
	for i := range users {
		user := strconv.Itoa(firstUser + i)
		require.Equal(t, []int{1, 1, 1}, []int{times[user+" "], times[user+" a"], times[user+" b"]})
	}
}

func TestPlainStream(t *testing.T) {
	t.Parallel()
	messages := make(chan *redis.Message, 1)
	messages <- &redis.Message{Payload: `{"status":"ISSUED"}`}
	ended := 0
	ask := func(lastID string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.SetPathValue("id", "7")
		r.Header.Set("X-User-ID", "8")
		r.Header.Set("Last-Event-ID", lastID)
		w := httptest.NewRecorder()
		plainStream(w, r, func(_ context.Context, channel string) (<-chan *redis.Message, func(), error) {
			require.Equal(t, "live:7:8", channel)
			return messages, func() { ended++ }, nil
		})
		return w
	}
	first := ask("")
	require.Regexp(t, `^retry: \d{4}\ndata: {"status":"PENDING"}\n\nid: final\ndata: {"status":"ISSUED"}\n\n$`,
		first.Body.String())
	require.True(t, first.Flushed)
	require.Equal(t, 1, ended)
	require.Equal(t, http.StatusNoContent, ask(finalID).Code)
}
