package approval

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/text"
)

func TestDigest_CoversWhatIsApproved(t *testing.T) {
	t.Parallel()
	plan := Plan{Action: AddSeats, Coupon: 42, Arguments: map[string]string{"seats": "3", "a": "b"},
		Changes: []Change{{"total_quantity", "2", "5"}}}
	require.JSONEq(t,
		`{"action":"add-seats","coupon":42,"arguments":{"a":"b","seats":"3"},`+
			`"changes":[{"what":"total_quantity","from":"2","to":"5"}]}`, plan.JSON())
	require.Equal(t, plan.Digest(), Plan{Action: AddSeats, Coupon: 42,
		Arguments: map[string]string{"a": "b", "seats": "3"}, Changes: plan.Changes}.Digest(),
		"the order of arguments does not matter")
	seen := map[string]bool{plan.Digest(): true}
	for _, change := range []func(*Plan){
		func(p *Plan) { p.Action = Drop }, func(p *Plan) { p.Coupon = 43 }, func(p *Plan) { p.User = 7 },
		func(p *Plan) { p.Arguments = map[string]string{"seats": "4"} },
		func(p *Plan) { p.Changes = []Change{{"total_quantity", "3", "6"}} }, func(p *Plan) { p.Changes = nil },
		func(p *Plan) { p.Salt = "x" },
	} {
		other := plan
		change(&other)
		require.False(t, seen[other.Digest()], "%+v", other)
		seen[other.Digest()] = true
	}
	require.Empty(t, plan.salted().Salt)
	ofUser := Plan{Action: Grant, User: 7}
	require.NotEqual(t, ofUser.salted().Digest(), ofUser.salted().Digest(),
		"the digest of a plan about a person cannot be guessed")
	require.Equal(t, "sha256:pin", Plan{Action: Run, Pin: "sha256:pin", Coupon: 1}.Digest())
}

func at(name, account string) identity { return identity{Person{Name: name}, account} }

// by is somebody at a console with another account.
func by(account string, who identity) identity { return identity{who.Person, account} }

func signedIn(name, signIn string) identity { return identity{Person{name, signIn}, "console@%"} }

// Two spellings of a person are one person.
func TestMayDecide(t *testing.T) {
	t.Parallel()
	policy := Policy{SharedAccounts: []string{"settle", "ops@10.%", "console"},
		Persons: []Mapped{{"KIM@example.com", "kim"}, {"lee@example.com", "lee@%"}}}
	kim := signedIn("kim@example.com", "https://id 1")
	for name, c := range map[string]struct {
		maker, checker identity
		want           text.Message
	}{
		"another person at the console": {maker: kim,
			checker: signedIn("lee@example.com", "https://id 2")},
		"the same subject": {maker: kim,
			checker: signedIn("minji@example.com", "https://id 1"), want: text.ApprovalIsOwn},
		"the same name": {maker: kim,
			checker: signedIn(" KIM@example.com", "https://id 2"), want: text.ApprovalIsOwn},
		"full-width letters": {maker: kim,
			checker: signedIn("ｋｉｍ@example.com", "https://id 2"), want: text.ApprovalIsOwn},
		"a namesake of another company": {maker: kim,
			checker: signedIn("kim@example.org", "https://id 2")},
		"console, then the own account at a terminal": {maker: kim, checker: at("lee", "kim@%"),
			want: text.PersonNotMapped},
		"the own account at a terminal, then console": {maker: at("lee", "kim@10.%"), checker: kim,
			want: text.PersonNotMapped},
		"console, then another person, who types the name": {maker: kim, checker: at("Kim", "lee@%")},
		"console, then the console's account at a terminal": {maker: kim, checker: at("lee", "console@10.%"),
			want: text.AccountIsShared},
		"the console's account at a terminal, then console": {maker: at("lee", "console@10.%"), checker: kim,
			want: text.PersonNotMapped},
		"console, then another person at a terminal": {maker: kim, checker: at("lee", "lee@%")},
		"console, then an account of nobody": {maker: kim, checker: at("choi", "choi@%"),
			want: text.PersonNotMapped},
		"nobody's account, then console": {maker: at("choi", "choi@%"), checker: kim,
			want: text.PersonNotMapped},
		"a stranger at the console, then terminal": {maker: signedIn("choi@example.com", "https://id 3"),
			checker: at("lee", "lee@%"), want: text.PersonNotMapped},
		"one account, two names": {maker: at("kim", "operator@%"),
			checker: at("lee", "operator@10.0.0.1"), want: text.ApprovalIsOwn},
		"two accounts, one name": {maker: at("kim", "kim@%"), checker: at("kim", "lee@%")},
		"two accounts":           {maker: at("kim", "kim@%"), checker: at("lee", "lee@%")},
		"console, then a console of one's own": {maker: kim,
			checker: by("kim@%", signedIn("lee@example.com", "dev")), want: text.PersonNotMapped},
		"console, then another's own console": {maker: kim,
			checker: by("lee@%", signedIn("choi@example.com", "dev"))},
		"two consoles of one's own": {maker: by("kim@%", kim),
			checker: by("kim@10.%", signedIn("lee@example.com", "dev")), want: text.ConsoleNotShared},
		"a terminal, then a console of one's own": {maker: at("kim", "kim@%"),
			checker: by("kim@%", signedIn("lee@example.com", "dev")), want: text.ApprovalIsOwn},
		"a shared account": {maker: at("kim", "kim@%"), checker: at("lee", "settle@%"),
			want: text.AccountIsShared},
		"a shared account with its host": {maker: at("kim", "kim@%"), checker: at("lee", "ops@10.%"),
			want: text.AccountIsShared},
	} {
		a := Approval{ID: 1, State: Requested, Maker: c.maker.Name, maker: c.maker}
		_, err := mayDecide(a, policy, c.checker, true)
		if c.want == (text.Message{}) {
			require.NoError(t, err, name)
		} else {
			require.True(t, text.Is(err, c.want), "%s: %v", name, err)
		}
		_, err = mayDecide(a, policy, c.checker, false)
		require.NoError(t, err, "%s: refusing, or taking back, is for everybody who may ask", name)
		a.checker, a.State = c.checker, Approved
		repeated, err := mayDecide(a, policy, c.checker, true)
		require.NoError(t, err)
		require.True(t, repeated)
		a.State = Used
		_, err = mayDecide(a, policy, at("choi", "choi@%"), true)
		require.True(t, text.Is(err, text.ApprovalNotOpen))
	}
}

// Only the one who asked executes.
func TestIdentity_Is(t *testing.T) {
	t.Parallel()
	kim, terminal := signedIn("kim@example.com", "https://id 1"), at("kim", "kim@%")
	for name, c := range map[string]struct {
		maker, executor identity
		want            bool
	}{
		"the same session":                     {kim, kim, true},
		"a new name, the same subject":         {kim, signedIn("minji@example.com", "https://id 1"), true},
		"the same name, another subject":       {kim, signedIn("kim@example.com", "https://id 2"), false},
		"a namesake":                           {kim, signedIn("kim@example.org", "https://id 2"), false},
		"the name of the maker at a terminal":  {kim, at("kim@example.com", "lee@%"), false},
		"the console's account at a terminal":  {kim, at("kim@example.com", "console@%"), false},
		"the name of the maker at the console": {terminal, signedIn("kim", "kim"), false},
		"the same account and name":            {terminal, at("KIM", "kim@10.%"), true},
		"the same account, another name":       {terminal, at("lee", "kim@%"), true},
		"another account with the same name":   {terminal, at("kim", "lee@%"), false},
	} {
		require.Equal(t, c.want, c.executor.is(c.maker), name)
		require.Equal(t, c.want && c.executor.SignIn != "", Approval{maker: c.maker}.IsOf(c.executor.Person), name)
	}
	lee := signedIn("lee@example.com", "https://id 2").Person
	require.True(t, Approval{maker: kim}.MayBeOf(kim.Person, Policy{}))
	require.True(t, Approval{maker: terminal}.MayBeOf(kim.Person, Policy{}),
		"kim at a terminal may be the one at the console")
	require.True(t, Approval{maker: terminal}.MayBeOf(lee, Policy{}), "nothing says that they are two")
	require.False(t, Approval{maker: terminal}.MayBeOf(lee,
		Policy{Persons: []Mapped{{"kim@example.com", "kim"}, {"lee@example.com", "lee"}}}))
}

func TestState(t *testing.T) {
	t.Parallel()
	now := time.Now()
	before, after := now.Add(-time.Hour), now.Add(time.Hour)
	for want, a := range map[State]struct {
		Approval
		approved bool
	}{
		Requested: {Approval{ExpiresAt: after}, false},
		Approved:  {Approval{ExpiresAt: after, DecidedAt: &before}, true},
		Refused:   {Approval{ExpiresAt: before, DecidedAt: &before}, false},
		Expired:   {Approval{ExpiresAt: now, DecidedAt: &before}, true},
		Voided:    {Approval{ExpiresAt: after, DecidedAt: &before, VoidedAt: &before}, true},
		Used:      {Approval{ExpiresAt: before, DecidedAt: &before, UsedAt: &before}, true},
	} {
		a.expired = !a.ExpiresAt.After(now)
		require.Equal(t, want, a.state(a.approved))
	}
}

func TestPolicy_Names(t *testing.T) {
	t.Parallel()
	none, run, gap := Policy{}, Policy{Actions: []Rule{"run"}}, Policy{Actions: []Rule{"accept-gap"}}
	for _, a := range append([]Action{SetPolicy}, Actions...) {
		require.False(t, none.Names(a, 1), a)
	}
	require.True(t, run.Names(Run, 0) && run.Names(AcceptGap, 0) && run.Names(SetPolicy, 0))
	require.True(t, gap.Names(AcceptGap, 0) && !gap.Names(Run, 0) && !gap.Names(Drop, 0))

	costly := Policy{Actions: []Rule{"create:1000000", "grant:0", "add-seats"}}
	require.True(t, costly.Names(Create, 1_000_001) && !costly.Names(Create, 1_000_000))
	require.True(t, costly.Names(Grant, 1) && !costly.Names(Grant, 0), "a coupon that gives no discount")
	require.True(t, costly.Names(AddSeats, 0))
}

func TestCheckRules(t *testing.T) {
	t.Parallel()
	require.NoError(t, checkRules([]Rule{"run", "create:0", "add-seats:9223372036854775807", "honour"}))
	for rule, want := range map[Rule]text.Message{
		"sell": text.UnknownAction, "": text.UnknownAction, "policy": text.UnknownAction, "Create": text.UnknownAction,
		"create:": text.WrongAmountOfRule, "create:-1": text.WrongAmountOfRule, "create:1e6": text.WrongAmountOfRule,
		"create:9223372036854775808": text.WrongAmountOfRule,
		"revoke:1":                   text.ActionWithoutCost,
		"run":                        text.ActionNamedTwice,
	} {
		require.True(t, text.Is(checkRules([]Rule{"run", rule}), want), rule)
	}
}
