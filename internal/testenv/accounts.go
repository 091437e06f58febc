package testenv

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// granted matches an account in a script of GRANT statements.
var granted = regexp.MustCompile(`\bTO (\w+);`)

// Accounts creates the accounts that a script of GRANT statements names, each under a name of the test's own, and runs the
// script in the DSN's database. It returns a DSN for each account by its name in the script. The DSN's account must be allowed
// to create accounts and to grant these rights. The accounts are dropped at the end of the test.
func Accounts(t testing.TB, dsn, script string) map[string]string {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal("testenv: parse DSN for accounts") // the cause would quote the password
	}
	inUTC(cfg)
	cfg.MultiStatements = true
	own, password := "_"+randomName(), randomName()+"-Aa1"
	accounts := map[string]string{}
	var create, drop strings.Builder
	for _, found := range granted.FindAllStringSubmatch(script, -1) {
		name := found[1]
		if accounts[name] != "" {
			continue
		}
		account := cfg.Clone()
		account.User, account.Passwd, account.MultiStatements = name+own, password, false
		accounts[name] = account.FormatDSN()
		create.WriteString("CREATE USER " + account.User + " IDENTIFIED BY '" + password + "'; ")
		drop.WriteString("DROP USER IF EXISTS " + account.User + "; ")
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanUpWithin)
		defer cancel()
		// A private server may be down by now.
		var refused *mysql.MySQLError
		if err := execAlone(ctx, cfg, drop.String()); errors.As(err, &refused) {
			t.Errorf("testenv: drop accounts: %v", err)
		}
	})
	if err := execAlone(t.Context(), cfg, create.String()+granted.ReplaceAllString(script, "TO ${1}"+own+";")); err != nil {
		t.Fatalf("testenv: create accounts: %v\n%s", err, mysqlHint)
	}
	return accounts
}
