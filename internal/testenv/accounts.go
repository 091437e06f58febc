package testenv

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/jajeong/jajeong/internal/testenv/process"
)

// granted matches an account in a script of GRANT statements.
var granted = regexp.MustCompile(`\bTO (\w+);`)

// Accounts creates the accounts that a script of GRANT statements names, each under a name of the test's own, and runs
// the script in the DSN's database. It returns a DSN for each account by its name in the script. The DSN's account must
// be allowed to create accounts and to grant these rights. The accounts are dropped at the end of the test.
func Accounts(t testing.TB, dsn, script string) map[string]string {
	t.Helper()
	at, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal("testenv: parse DSN for accounts") // the cause would quote the password
	}
	inUTC(at)
	accounts, err := makeAccounts(t.Context(), at, script)
	t.Cleanup(func() {
		// A private server may be down by now.
		var refused *mysql.MySQLError
		if err := dropAccounts(process.PatientCleanUp(t), at, accounts); errors.As(err, &refused) {
			t.Errorf("testenv: %v", err)
		}
	})
	if err != nil {
		t.Fatalf("testenv: %v\n%s", err, mysqlHint)
	}
	return dsns(accounts)
}

// makeAccounts returns the accounts that it tried to create even with an error.
func makeAccounts(ctx context.Context, at *mysql.Config, script string) (accounts map[string]*mysql.Config, err error) {
	own, password := "_"+randomName(), randomName()+"-Aa1"
	accounts = map[string]*mysql.Config{}
	var create strings.Builder
	for _, found := range granted.FindAllStringSubmatch(script, -1) {
		name := found[1]
		if accounts[name] != nil {
			continue
		}
		accounts[name] = at.Clone()
		accounts[name].User, accounts[name].Passwd = name+own, password
		create.WriteString("CREATE USER " + name + own + " IDENTIFIED BY '" + password + "'; ")
	}
	if err := execScript(ctx, at, create.String()+granted.ReplaceAllString(script, "TO ${1}"+own+";")); err != nil {
		return accounts, fmt.Errorf("create accounts: %w", err)
	}
	return accounts, nil
}

func dropAccounts(ctx context.Context, at *mysql.Config, accounts map[string]*mysql.Config) error {
	server := at.Clone()
	server.DBName = "" // it may be gone
	var drop strings.Builder
	for _, account := range accounts {
		drop.WriteString("DROP USER IF EXISTS " + account.User + "; ")
	}
	if err := execScript(ctx, server, drop.String()); err != nil {
		return fmt.Errorf("drop accounts: %w", err)
	}
	return nil
}

// execScript runs several statements on a connection of its own.
func execScript(ctx context.Context, at *mysql.Config, script string) error {
	cfg := at.Clone()
	cfg.MultiStatements = true
	return execAlone(ctx, cfg, script)
}

func dsns(accounts map[string]*mysql.Config) map[string]string {
	all := map[string]string{}
	for name, account := range accounts {
		all[name] = account.FormatDSN()
	}
	return all
}
