package verify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

// However the looks follow each other, `settle serve` has had its time when the wait ends, and the waits of many coupons
// do not add up.
func TestWaitUntil(t *testing.T) {
	t.Parallel()
	const hands, restores = 10 * time.Second, 5 * time.Second
	began := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	type look struct{ at, in, want time.Duration } // since began; in below 0: the server has no state of the coupon
	for name, looks := range map[string][]look{
		"pods have had their time":         {{0, 0, restores}, {restores, 0, restores}, {time.Hour, 0, restores}},
		"pods have some":                   {{0, 4 * time.Second, 9 * time.Second}, {9 * time.Second, 0, 9 * time.Second}},
		"nobody has met the server":        {{0, -1, 15 * time.Second}, {time.Second, hands, 16 * time.Second}},
		"another server while one waits":   {{0, 0, restores}, {4 * time.Second, hands, 19 * time.Second}},
		"a second coupon that nobody met":  {{0, 0, restores}, {time.Second, -1, restores}},
		"a third one whose pods have time": {{0, 0, restores}, {time.Second, time.Second, 7 * time.Second}},
	} {
		r := &Verifier{HandOverTime: hands, RestoreTime: restores}
		for _, l := range looks {
			is := coupon.Look{Now: began.Add(l.at), RestoresIn: max(l.in, 0)}
			if l.in >= 0 {
				is.Since = 1
			}
			require.Equal(t, began.Add(l.want), r.waitUntil(is), name)
		}
	}
}
