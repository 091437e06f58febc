package systemtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/standing"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
)

// watcher is a client of the live port.
type watcher struct {
	t      *testing.T
	status int
	states chan standing.Document // closed when the server ends the stream
	lastID string                 // of the last event; read it after states is closed
	hangUp func()                 // ends the stream
}

// watch opens a stream.
func watch(t *testing.T, address string, id coupon.CouponID, user coupon.UserID, lastEventID string) *watcher {
	t.Helper()
	ctx, hangUp := context.WithCancel(context.Background())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("http://%s/v1/live/coupons/%d/me", address, id), nil)
	require.NoError(t, err)
	request.Header.Set("X-User-ID", user.Member())
	if lastEventID != "" {
		request.Header.Set("Last-Event-ID", lastEventID)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	w := &watcher{t: t, status: response.StatusCode, states: make(chan standing.Document, 1000), hangUp: hangUp}
	read := make(chan struct{})
	t.Cleanup(func() { hangUp(); <-read })
	go func() {
		defer close(read)
		defer close(w.states)
		defer response.Body.Close()
		lines := bufio.NewScanner(response.Body)
		for lines.Scan() {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "id":
				w.lastID = value
			case "data":
				var state standing.Document
				if json.Unmarshal([]byte(value), &state) != nil {
					state.Status = coupon.Standing("unreadable: " + value)
				}
				w.states <- state
			}
		}
	}()
	return w
}

// await reads states until one is as wanted.
func (w *watcher) await(what string, right func(standing.Document) bool) standing.Document {
	w.t.Helper()
	var heard []standing.Document
	over := testenv.Patient(w.t)
	for {
		select {
		case state, open := <-w.states:
			if !open {
				require.FailNow(w.t, "the stream ended", "before %s; heard %+v", what, heard)
			}
			if heard = append(heard, state); right(state) {
				return state
			}
		case <-over.Done():
			require.FailNow(w.t, "no such state", "%s; heard %+v", what, heard)
		}
	}
}

func (w *watcher) awaitStatus(status coupon.Standing) standing.Document {
	w.t.Helper()
	return w.await(string(status), func(d standing.Document) bool { return d.Status == status })
}

// requireEnd demands that the server ends the stream without another state, and returns the id of the last event.
func (w *watcher) requireEnd() string {
	w.t.Helper()
	state, open := <-w.states
	require.False(w.t, open, "%+v", state)
	return w.lastID
}

func TestLive_FromNoApplicationToOutcome(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2)
	d.AddUsers(3, 4)
	d.SetStatus(jajeongtest.Blocked, 1)
	pod := d.Start(d.Environment(), "./cmd/apply-api", d.Flags(d.API)...)

	blocked, second, third, never := watch(t, pod.Live, id, 1, ""), watch(t, pod.Live, id, 2, ""),
		watch(t, pod.Live, id, 3, ""), watch(t, pod.Live, id, 5, "")
	require.EqualValues(t, 1, blocked.awaitStatus(coupon.StandingPending).Position)
	state := second.awaitStatus(coupon.StandingPending)
	require.EqualValues(t, 2, state.Position)
	require.True(t, *state.WithinSeats)
	third.awaitStatus("NOT_APPLIED")
	never.awaitStatus("NOT_APPLIED")
	d.Apply(id, 3, 4)
	state = third.awaitStatus(coupon.StandingPending)
	require.EqualValues(t, 3, state.Position)
	require.False(t, *state.WithinSeats)
	fourth := watch(t, pod.Live, id, 4, "")
	fourth.awaitStatus(coupon.StandingPending)

	d.SettleNow(id)
	for user, w := range map[coupon.UserID]*watcher{2: second, 3: third} {
		w.awaitStatus(coupon.StandingIssued)
		last := w.requireEnd()
		require.Equal(t, fmt.Sprintf("%d-ISSUED", user), last)
		again := watch(t, pod.Live, id, user, last)
		require.Equal(t, http.StatusNoContent, again.status)
		again.requireEnd()
	}
	fourth.awaitStatus(coupon.StandingNotSelected)
	require.Equal(t, "4-NOT_SELECTED", fourth.requireEnd())
	blocked.awaitStatus(coupon.StandingUnderReview)
	d.Drop(id, "1")
	blocked.awaitStatus(coupon.StandingRejected)
	blocked.requireEnd()

	late := watch(t, pod.Live, id, 2, "4-NOT_SELECTED") // somebody else's
	late.awaitStatus(coupon.StandingIssued)
	late.requireEnd()
	conforming := &http.Client{Transport: openapi.Transport(t, nil)} // it reads to the end
	for _, c := range []struct {
		user, lastEventID string
		status            int
	}{{"2", "", http.StatusOK}, {"4", "", http.StatusOK}, {"2", "2-ISSUED", http.StatusNoContent},
		{"01", "", http.StatusBadRequest}} {
		request, err := http.NewRequestWithContext(testenv.Patient(t), http.MethodGet,
			fmt.Sprintf("http://%s/v1/live/coupons/%d/me", pod.Live, id), nil)
		require.NoError(t, err)
		request.Header.Set("X-User-ID", c.user)
		request.Header.Set("Last-Event-ID", c.lastEventID)
		response, err := conforming.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, c.status, response.StatusCode, c.user)
	}
	select {
	case state := <-never.states:
		require.True(t, state.Delayed, "a user who has not applied was told %+v", state) // looks may fail for a while
	default:
	}
}

// After SIGTERM, streams end one after the other, and the pod waits for the last one.
func TestLive_StreamsEndOverTheDrain(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	users := jajeongtest.Between[coupon.UserID](1, 40)
	id := d.AddQueue(1, users...)
	testenv.Eventually(t, "some streams are seen to end before others", func() bool {
		return drain(t, d, id, users)
	})
}

// drain ends a pod with streams. It is false if the test was too slow to see some of them end before others.
func drain(t *testing.T, d *jajeongtest.Deployment, id coupon.CouponID, users []coupon.UserID) bool {
	t.Helper()
	cmd := exec.Command(testenv.Build(t, "./cmd/apply-api"), d.Flags(d.API)...)
	cmd.Env = d.Environment()
	pod, err := testenv.StartProgram(testenv.Patient(t), cmd)
	require.NoError(t, err)
	t.Cleanup(func() { _ = pod.Process.Kill() })
	var streams []*watcher
	for _, user := range users {
		w := watch(t, pod.Live, id, user, "")
		w.awaitStatus(coupon.StandingPending)
		streams = append(streams, w)
	}
	over := make(chan error, 1)
	go func() { over <- pod.Stop() }()
	ended := func() (n int) {
		for _, w := range streams {
			select {
			case state, open := <-w.states:
				require.True(t, !open || state.Delayed, "nothing is told at the end") // looks may fail for a while
				if !open {
					n++
				}
			default:
			}
		}
		return n
	}
	seen := 0
	testenv.Eventually(t, "some streams have ended", func() bool { seen = ended(); return seen > 0 })
	select {
	case err := <-over:
		require.NoError(t, err, "exit code 0")
		return false
	default:
	}
	for _, w := range streams {
		w.hangUp()
	}
	require.NoError(t, <-over, "exit code 0")
	return seen < len(streams)
}
