package approval

import (
	"context"
	"slices"
	"strings"

	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// knownAccountsSQL names the accounts of MySQL that have changed something, and those that this account may see: all of
// them for an administrator. A grantee is 'name'@'host'.
const knownAccountsSQL = `
SELECT account COLLATE utf8mb4_bin FROM audit_event UNION SELECT account COLLATE utf8mb4_bin FROM policy
UNION SELECT maker_account COLLATE utf8mb4_bin FROM approval UNION SELECT COALESCE(checker_account,
    '') COLLATE utf8mb4_bin FROM approval
UNION SELECT CONVERT(CURRENT_USER() USING utf8mb4) COLLATE utf8mb4_bin
UNION SELECT CONVERT(REPLACE(grantee, '''', '') USING utf8mb4) COLLATE utf8mb4_bin
    FROM information_schema.user_privileges`

// maxAccounts is the width of the columns shared_accounts and persons, in characters of JSON.
const maxAccounts = 2000

// checkAccounts refuses an account that nobody has, because a misspelt one would protect nothing. It refuses a name or
// an account that stands for two persons.
func checkAccounts(ctx context.Context, q mysqltx.Querier, now Policy, wanted Wanted) error {
	if len([]rune(list(wanted.SharedAccounts))) > maxAccounts || len([]rune(list(wanted.Persons))) > maxAccounts {
		return text.UsageErrorf(text.TooManyAccounts, maxAccounts)
	}
	called := slices.Clone(wanted.SharedAccounts)
	persons, accounts := map[string]bool{}, map[string]bool{}
	for _, person := range wanted.Persons {
		name, account := folded(person.Name), person.Account
		if name == "" || account == "" || strings.Contains(name, ",") || persons[name] || accounts[stem(account)] {
			return text.UsageErrorf(text.WrongPerson, person.String())
		}
		persons[name], accounts[stem(account)] = true, true
		called = append(called, account)
	}
	called = slices.DeleteFunc(called, func(account string) bool {
		return slices.Contains(now.SharedAccounts, account) ||
			slices.ContainsFunc(now.Persons, func(p Mapped) bool { return p.Account == account })
	})
	if len(called) == 0 {
		return nil
	}
	known, err := mysqltx.Column[string](ctx, q, knownAccountsSQL)
	if err != nil {
		return mysqltx.Wrap(err, "read the accounts of MySQL")
	}
	for _, account := range called {
		if account == "" || strings.ContainsAny(account, ", ") ||
			!slices.ContainsFunc(known, func(one string) bool { return names(account, one) }) {
			return text.UsageErrorf(text.UnknownAccount, account)
		}
	}
	return nil
}
