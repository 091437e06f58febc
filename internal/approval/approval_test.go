package approval

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/text"
)

func TestDigest_CoversWhatIsApproved(t *testing.T) {
	t.Parallel()
	plan := Plan{Action: AddSeats, Coupon: 42, Arguments: map[string]string{"seats": "3", "a": "b"}, Changes: []Change{{"total_quantity", "2", "5"}}}
	require.JSONEq(t, `{"action":"add-seats","coupon":42,"arguments":{"a":"b","seats":"3"},"changes":[{"what":"total_quantity","from":"2","to":"5"}]}`, plan.JSON())
	require.Equal(t, plan.Digest(), Plan{Action: AddSeats, Coupon: 42, Arguments: map[string]string{"a": "b", "seats": "3"}, Changes: plan.Changes}.Digest(), "the order of arguments does not matter")
	seen := map[string]bool{plan.Digest(): true}
	for _, change := range []func(*Plan){
		func(p *Plan) { p.Action = Drop }, func(p *Plan) { p.Coupon = 43 }, func(p *Plan) { p.User = 7 }, func(p *Plan) { p.Arguments = map[string]string{"seats": "4"} },
		func(p *Plan) { p.Changes = []Change{{"total_quantity", "3", "6"}} }, func(p *Plan) { p.Changes = nil }, func(p *Plan) { p.Salt = "x" },
	} {
		other := plan
		change(&other)
		require.False(t, seen[other.Digest()], "%+v", other)
		seen[other.Digest()] = true
	}
	require.Empty(t, plan.salted().Salt)
	ofUser := Plan{Action: Grant, User: 7}
	require.NotEqual(t, ofUser.salted().Digest(), ofUser.salted().Digest(), "the digest of a plan about a person cannot be guessed")
	require.Equal(t, "sha256:pin", Plan{Action: Run, Pin: "sha256:pin", Coupon: 1}.Digest())
}

// Two spellings of a person are one person.
func TestMayDecide(t *testing.T) {
	t.Parallel()
	policy := Policy{SharedAccounts: []string{"settle", "ops@10.%"}}
	for name, c := range map[string]struct {
		maker, makerAccount     string
		checker, checkerAccount string
		console                 bool
		want                    text.Message
	}{
		"another person at the console":  {maker: "kim@example.com", checker: "lee@example.com", console: true},
		"the same person":                {maker: "kim@example.com", checker: "kim@example.com", console: true, want: text.ApprovalIsOwn},
		"another spelling":               {maker: "kim@example.com", checker: " KIM@example.org ", console: true, want: text.ApprovalIsOwn},
		"full-width letters":             {maker: "kim", checker: "ｋｉｍ", console: true, want: text.ApprovalIsOwn},
		"console, then terminal":         {maker: "kim@example.com", checker: "lee", checkerAccount: "kim@%", want: text.ApprovalIsOwn},
		"one account, two names":         {maker: "kim", makerAccount: "operator@%", checker: "lee", checkerAccount: "operator@10.0.0.1", want: text.ApprovalIsOwn},
		"two accounts, one name":         {maker: "kim", makerAccount: "kim@%", checker: "kim", checkerAccount: "lee@%", want: text.ApprovalIsOwn},
		"two accounts":                   {maker: "kim", makerAccount: "kim@%", checker: "lee", checkerAccount: "lee@%"},
		"a shared account":               {maker: "kim", makerAccount: "kim@%", checker: "lee", checkerAccount: "settle@%", want: text.AccountIsShared},
		"a shared account with its host": {maker: "kim", makerAccount: "kim@%", checker: "lee", checkerAccount: "ops@10.%", want: text.AccountIsShared},
	} {
		a := Approval{ID: 1, State: Requested, Maker: c.maker, makerAccount: c.makerAccount}
		_, err := mayDecide(a, policy, Person{Name: c.checker, Console: c.console}, c.checkerAccount, true)
		if c.want == (text.Message{}) {
			require.NoError(t, err, name)
		} else {
			require.True(t, text.Is(err, c.want), "%s: %v", name, err)
		}
		_, err = mayDecide(a, policy, Person{Name: c.checker, Console: c.console}, c.checkerAccount, false)
		require.NoError(t, err, "%s: refusing, or taking back, is for everybody who may ask", name)
		a.State = Used
		_, err = mayDecide(a, policy, Person{Name: "choi"}, "choi@%", true)
		require.True(t, text.Is(err, text.ApprovalNotOpen))
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	now := time.Now()
	before, after := now.Add(-time.Hour), now.Add(time.Hour)
	for want, a := range map[State]struct {
		Approval
		approved bool
	}{
		Requested: {Approval{ExpiresAt: after}, false}, Approved: {Approval{ExpiresAt: after, DecidedAt: &before}, true}, Refused: {Approval{ExpiresAt: before, DecidedAt: &before}, false},
		Expired: {Approval{ExpiresAt: now, DecidedAt: &before}, true}, Voided: {Approval{ExpiresAt: after, DecidedAt: &before, VoidedAt: &before}, true},
		Used: {Approval{ExpiresAt: before, DecidedAt: &before, UsedAt: &before}, true},
	} {
		require.Equal(t, want, a.state(a.approved, now))
	}
}

func TestPolicy_Names(t *testing.T) {
	t.Parallel()
	none, run, gap := Policy{}, Policy{Actions: []Action{Run}}, Policy{Actions: []Action{AcceptGap}}
	for _, a := range append([]Action{SetPolicy}, Actions...) {
		require.False(t, none.Names(a), a)
	}
	require.True(t, run.Names(Run) && run.Names(AcceptGap) && run.Names(SetPolicy))
	require.True(t, gap.Names(AcceptGap) && !gap.Names(Run) && !gap.Names(Drop))
}
