package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/asyncapi"
)

func (w *world) stream() string { return w.Prefix + "coupon:events" }

// streamed returns the events in the stream, as "<source> <id>".
func (w *world) streamed() (ids []string) {
	w.T.Helper()
	entries, err := w.Redis.XRange(w.T.Context(), w.stream(), "-", "+").Result()
	require.NoError(w.T, err)
	for _, entry := range entries {
		body := entry.Values["event"].(string)
		asyncapi.Check(w.T, []byte(body))
		var event struct{ Source, ID string }
		require.NoError(w.T, json.Unmarshal([]byte(body), &event))
		ids = append(ids, event.Source+" "+event.ID)
	}
	return ids
}

func TestServe_PublishesWhatIsIssued(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 2 {
		r := w.begin("serve", "--tasks=issue,events", "--issue-interval=20ms", "--event-sink=redis")
		t.Cleanup(func() {
			r.stop()
			r.end()
			assert.Zero(t, r.code, r.stderr.String())
			assert.NotContains(t, r.stderr.String(), "not published")
		})
	}
	testenv.Eventually(t, "events are turned on", func() bool {
		return w.Number("SELECT COUNT(*) FROM event_relay WHERE from_at IS NOT NULL") == 1
	})
	night := w.AddQueue(100, between(1, 120)...)
	now := w.AddImmediate(50)
	w.Apply(now, between(1, 50)...)
	w.SettleNow()
	w.awaitEmptyLine(now)
	testenv.Eventually(t, "everything is published", func() bool {
		return len(w.Issued(now)) == 50 && w.Number("SELECT COUNT(*) FROM settlement WHERE issued_count > 0 AND published_at IS NULL") == 0
	})
	got := map[string][]string{}
	for _, id := range w.streamed() {
		source, _, _ := strings.Cut(id, " ")
		got[source] = append(got[source], id)
	}
	want := map[string][]string{}
	for _, couponID := range w.IDs("SELECT id FROM coupon") {
		source := fmt.Sprintf("/coupons/%d", couponID)
		for _, user := range jajeongtest.Column[uint64](w.Deployment, "SELECT user_id FROM user_coupon WHERE coupon_id = ? ORDER BY position", couponID) {
			want[source] = append(want[source], fmt.Sprintf("%s issued-%d", source, user))
		}
	}
	require.Equal(t, want, got)
	require.Len(t, got[fmt.Sprintf("/coupons/%d", night)], 100)
	w.verify()
}

func TestServe_EventsNeedASink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, _, stderr := w.settle("serve", "--tasks=events")
	require.Equal(t, exitUse, code)
	require.Contains(t, stderr, "EVENT_SINK is none")
}
