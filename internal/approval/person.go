package approval

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Person asks, approves or executes. At a console whose account the policy calls shared, SignIn is the person.
// Everywhere else the account of MySQL alone is, because its owner can start a console with any sign-in: the name is a
// note beside it.
type Person struct {
	Name   string
	SignIn string // who the sign-in of the console says the person is; empty at a terminal
}

// identity is a person with the account of MySQL of the session: the person's own at a terminal, the console's at the
// console.
type identity struct {
	Person
	account string
}

const accountSQL = "SELECT CURRENT_USER()"

func (p Person) identify(ctx context.Context, q mysqltx.Querier) (i identity, err error) {
	i.Person = p
	err = q.QueryRowContext(ctx, accountSQL).Scan(&i.account)
	return i, mysqltx.Wrap(err, "read the account of this session")
}

// atTerminal is the account of somebody at a terminal; empty at the console.
func (i identity) atTerminal() string {
	if i.SignIn != "" {
		return ""
	}
	return i.account
}

// under is the identity that a policy sees: without a sign-in by an account that it does not call shared.
func (i identity) under(p Policy) identity {
	if !slices.ContainsFunc(p.SharedAccounts, func(one string) bool { return names(one, i.account) }) {
		i.SignIn = ""
	}
	return i
}

// folded maps the spellings of a name to one.
func folded(name string) string { return strings.ToLower(norm.NFKC.String(strings.TrimSpace(name))) }

// stem is a name or an account without what follows the @.
func stem(name string) string {
	name, _, _ = strings.Cut(folded(name), "@")
	return name
}

// mayBe reports whether two may be one person. If so, one cannot approve what the other asks. A person at the console
// and one at a terminal may be one unless the policy tells them apart.
func (i identity) mayBe(other identity, policy Policy) bool {
	switch {
	case i.SignIn != "" && other.SignIn != "":
		return i.SignIn == other.SignIn || folded(i.Name) == folded(other.Name)
	case stem(i.account) == stem(other.account): // the console's own account is no person's
		return true
	case i.SignIn != "":
		return !policy.apart(i.Name, other.account)
	case other.SignIn != "":
		return !policy.apart(other.Name, i.account)
	default:
		return false
	}
}

// is reports whether two are one person for certain. If so, one may execute what the other has asked for.
func (i identity) is(other identity) bool {
	if i.SignIn != "" || other.SignIn != "" {
		return i.SignIn == other.SignIn
	}
	return stem(i.account) == stem(other.account)
}

// names reports whether what a policy calls an account is this account: with its host, or without.
func names(called, account string) bool {
	user, _, _ := strings.Cut(account, "@")
	return called == account || called == user
}

// shares reports whether the account at a terminal is one of those that several persons use.
func (i identity) shares(accounts []string) bool {
	return i.SignIn == "" && slices.ContainsFunc(accounts, func(one string) bool { return names(one, i.account) })
}
