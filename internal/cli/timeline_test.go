package cli

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/explain"
	"github.com/jajeong/jajeong/internal/text"
)

func speaker(l text.Language) *program {
	seoul, err := time.LoadLocation("Asia/Seoul")
	if err != nil {
		panic(err)
	}
	return &program{language: l, zone: seoul}
}

var hangul = regexp.MustCompile(`\p{Hangul}`)

// Every event and every action has a text in both languages.
func TestTimelineInBothLanguages(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 5, 0, 3, 123000000, time.UTC)
	f := &explain.Facts{
		Subject:      explain.Subject{CouponID: 42, UserID: 7, At: at},
		CouponSide:   explain.CouponSide{Coupon: &explain.CouponFacts{}, Door: &explain.DoorFacts{}},
		UserCoupon:   &explain.UserCoupon{Seat: 12, IssuedAt: at, Run: 5, Status: "ISSUED"},
		Applications: []explain.Application{{Arrival: at.UnixMicro(), AppliedAt: at, Position: 3, Order: 212}},
	}
	for _, l := range []text.Language{text.Korean, text.English} {
		p := speaker(l)
		for _, k := range explain.EventKinds {
			said := p.event(f, explain.Event{At: f.At, Kind: k, Run: 5, Settled: &explain.RunFacts{}, Review: &candidates.Reason{}})
			require.NotEmpty(t, said, k)
			require.NotContains(t, said, "%!")
			require.Equal(t, l == text.Korean, hangul.MatchString(said), "%s: %s", k, said)
		}
		require.Len(t, actions, len(audit.Actions))
		for _, action := range audit.Actions {
			require.Equal(t, l == text.Korean, hangul.MatchString(p.action(action)), action)
		}
		require.Equal(t, "FROM_TOMORROW", p.action("FROM_TOMORROW"))
	}
}
