package decision

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
)

func application(user coupon.UserID, arrival coupon.Arrival, source coupon.Source) coupon.Application {
	return coupon.Application{Member: user.Member(), Arrival: arrival, Source: source}
}

func TestDecide_GivesEachApplicationOneOutcome(t *testing.T) {
	t.Parallel()
	const boundary = 100
	before, behind := coupon.Arrival(50), coupon.Arrival(150)
	for name, c := range map[string]struct {
		Application
		free int
		want string
	}{
		"issued, not cleaned": {Application{application(1, before, coupon.SourceQueue), Settled, true, before, ""}, 0,
			"recorded"},
		"recorded, not cleaned": {Application{application(1, behind, coupon.SourceQueue), Settled, false, 0, ""}, 0,
			"recorded"},
		"held, but issued": {Application{application(1, before, coupon.SourceHeld), Settled, true, before, ""}, 0,
			"recorded"},
		"held": {Application{application(1, before, coupon.SourceHeld), UnknownUser, false, 0, ""}, 0,
			"stays"},
		"holds another": {Application{application(1, behind, coupon.SourceQueue), HoldsAlready, true, 0, ""},
			0, "already"},
		"unknown": {Application{application(1, behind, coupon.SourceQueue), UnknownUser, false, 0, ""},
			0, "review UNKNOWN_USER"},
		"unknown, seats free": {Application{application(1, before, coupon.SourceQueue), UnknownUser, false, 0, ""},
			5, "review UNKNOWN_USER"},
		"inactive, retried": {Application{application(1, behind, coupon.SourceRetryable), InactiveUser, false, 0,
			"BLOCKED"}, 0, "review INACTIVE_USER"},
		"malformed": {Application{coupon.Application{Member: "abc", Arrival: behind,
			Source: coupon.SourceQueue}, MalformedUser, false, 0, ""}, 0, "review MALFORMED_USER_ID"},
		"eligible, seats added": {Application{application(1, behind, coupon.SourceQueue), Eligible, false, 0, ""}, 1,
			"stays"},
		"eligible, behind the last": {Application{application(1, behind, coupon.SourceQueue), Eligible, false, 0, ""},
			0, "not selected"},
		"before, seats free": {Application{application(1, before, coupon.SourceQueue), Eligible, false, 0, ""}, 5,
			"review PASSED_OVER"},
		"retryable, behind": {Application{application(1, behind, coupon.SourceRetryable), Eligible, false, 0, ""},
			0, "not selected"},
		"retryable, in a retry": {Application{application(1, behind, coupon.SourceRetryable), Eligible, false, 0, ""},
			0, "stays"},
		"tried tonight, behind": {Application{application(1, behind, coupon.SourceTriedTonight), Eligible, false, 0,
			""}, 0, "stays"},
		"refused before, behind": {Application{application(1, behind, coupon.SourceRowRefused), Eligible, false, 0, ""},
			0, "not selected"},
		"waiting, in a retry": {Application{application(1, behind, coupon.SourceQueue), Eligible, false, 0, ""}, 0,
			"not selected"},
		"holds, in a retry": {Application{application(1, behind, coupon.SourceRetryable), HoldsAlready, true, 0,
			""}, 0, "already"},
		"eligible, before the last": {Application{application(1, before, coupon.SourceQueue), Eligible, false, 0, ""},
			0, "review PASSED_OVER"},
		"passed over already": {Application{application(1, before, coupon.SourceRetryable), Eligible, false, 0, ""},
			0, "stays"},
	} {
		stays := func(a coupon.Application) bool {
			return a.Source == coupon.SourceTriedTonight || a.Source != coupon.SourceQueue &&
				strings.HasSuffix(name, "in a retry")
		}
		d := Decide([]Application{c.Application}, c.free, boundary, stays)
		got := []string{}
		for fate, n := range map[string]int{"recorded": len(d.RecordedBefore),
			"already": len(d.AlreadyIssued), "not selected": len(d.NotSelected)} {
			if n == 1 {
				got = append(got, fate)
			}
		}
		for _, f := range d.Review {
			got = append(got, "review "+string(f.Cause))
			require.Equal(t, f.Cause == coupon.CausePassedOver, f.Retryable)
		}
		if len(got) == 0 {
			got = append(got, "stays")
		}
		require.Equal(t, []string{c.want}, got, name)
		require.Equal(t, c.Holds, len(d.Holders) == 1, name)
		for _, holder := range d.Holders {
			require.Equal(t, coupon.Application{Member: c.Member, Arrival: c.HeldAt}, holder, name)
		}
	}
}
