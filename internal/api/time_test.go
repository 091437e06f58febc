package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTimesAreRFC3339WithMicroseconds(t *testing.T) {
	t.Parallel()
	const microseconds = "2006-01-02T15:04:05.000000Z07:00"
	zones := []*time.Location{time.UTC, time.FixedZone("KST", 9*3600), time.FixedZone("", -3*3600-1800)}
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMicro(rapid.Int64Range(-62000000000000000, 253400000000000000).Draw(t, "µs"))
		at = at.In(rapid.SampledFrom(zones).Draw(t, "zone"))
		require.Equal(t, "at "+at.Format(microseconds), string(appendTime([]byte("at "), at)))
	})
}
