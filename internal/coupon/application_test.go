package coupon

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
)

// Tests of the packages that know causes walk Causes.
func TestCausesHasEveryCause(t *testing.T) {
	t.Parallel()
	source := testenv.Content(t, "application.go")
	constants := regexp.MustCompile(`Cause\s+= "([A-Z_]+)"`).FindAllSubmatch(source, -1)
	require.Len(t, Causes, len(constants))
	for _, c := range constants {
		require.Contains(t, Causes, Cause(c[1]))
	}
}

func TestStoredMember(t *testing.T) {
	t.Parallel()
	require.Equal(t, "kim\x00", StoredMember("kim\x00"))
	require.Equal(t, "\uFFFD", StoredMember("\xff\xfe"))
	require.Equal(t, strings.Repeat("가", 400), StoredMember(strings.Repeat("가", 500)))
}

func TestDelayed(t *testing.T) {
	t.Parallel()
	for interval, limit := range map[time.Duration]time.Duration{
		20 * time.Millisecond:  time.Second,
		100 * time.Millisecond: time.Second,
		200 * time.Millisecond: 2 * time.Second,
		5 * time.Second:        50 * time.Second,
	} {
		require.False(t, Delayed(limit, interval), interval)
		require.True(t, Delayed(limit+time.Microsecond, interval), interval)
	}
	require.False(t, Delayed(-time.Hour, time.Second), "an arrival may be ahead of the clock")
}
