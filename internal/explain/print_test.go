package explain

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

func TestEventsAndActionsAreInBothLanguages(t *testing.T) {
	t.Parallel()
	f := fullFacts()
	for _, l := range []text.Language{text.Korean, text.English} {
		p := phrasing(l)
		for _, k := range EventKinds {
			line := p.Event(f, Event{At: f.At, Kind: k, Run: 5, Settled: &RunFacts{}, Review: &candidates.Reason{}})
			require.NotEmpty(t, line, k)
			require.NotContains(t, line, "%!")
			require.Equal(t, l == text.Korean, hangul.MatchString(line), "%s: %s", k, line)
		}
		for _, action := range audit.Actions {
			require.Equal(t, l == text.Korean, hangul.MatchString(text.Word(l, action)), action)
			require.NotEmpty(t, text.Word(l, action), action)
		}
		require.Equal(t, "FROM_TOMORROW", output.Word(l, "FROM_TOMORROW"))
	}
}
