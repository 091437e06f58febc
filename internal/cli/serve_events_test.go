package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

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

func TestServe_EventsNeedASink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refused(t, "EVENT_SINK is none")(w.settle("serve", "--tasks=events"))
}
