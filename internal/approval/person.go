package approval

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/jajeong/jajeong/internal/mysqltx"
)

// Person asks, approves or executes.
type Person struct {
	Name string
	// SignIn is who the sign-in of the console says the person is. It is empty at a terminal: there the account of MySQL says so, and
	// the name is typed.
	SignIn string
}

// identity is a person with the account of MySQL of the session: the person's own at a terminal, the console's at the console.
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

// folded maps the spellings of a name to one.
func folded(name string) string { return strings.ToLower(norm.NFKC.String(strings.TrimSpace(name))) }

// stem is a name or an account without what follows the @.
func stem(name string) string {
	name, _, _ = strings.Cut(folded(name), "@")
	return name
}

// names are what may identify the person elsewhere.
func (i identity) names() (all []string) {
	if i.SignIn == "" {
		all = []string{stem(i.account)}
	}
	return append(all, stem(i.Name))
}

// mayBe reports whether two may be one person, so that one cannot approve what the other asks. At the console full names are compared.
// Elsewhere one name or account in common is enough, without what follows the @.
func (i identity) mayBe(other identity) bool {
	if i.SignIn != "" && other.SignIn != "" {
		return i.SignIn == other.SignIn || folded(i.Name) == folded(other.Name)
	}
	return slices.ContainsFunc(i.names(), func(name string) bool { return name != "" && slices.Contains(other.names(), name) })
}

// is reports whether two are one person as far as anything says so, so that one may execute what the other has asked for.
func (i identity) is(other identity) bool {
	if i.SignIn != "" || other.SignIn != "" {
		return i.SignIn == other.SignIn
	}
	return folded(i.Name) == folded(other.Name) && stem(i.account) == stem(other.account)
}

// shares reports whether the account at a terminal is one of those that several persons use.
func (i identity) shares(accounts []string) bool {
	user, _, _ := strings.Cut(i.account, "@")
	return i.SignIn == "" && slices.ContainsFunc(accounts, func(one string) bool { return one == i.account || one == user })
}

// sharesConsole reports whether one of two is at a terminal with the account of the console where the other one is signed in.
func (i identity) sharesConsole(other identity) bool {
	return (i.SignIn == "") != (other.SignIn == "") && stem(i.account) == stem(other.account)
}
