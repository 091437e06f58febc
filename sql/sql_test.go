package migrations_test

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	migrations "github.com/jajeong/jajeong/sql"
)

var (
	comments = regexp.MustCompile(`(?ms)--[^\n]*|/\*.*?\*/`)
	changes  = regexp.MustCompile(`(?is)^\s*(ALTER\s+(ONLINE\s+|IGNORE\s+)*TABLE|OPTIMIZE|` +
		`(CREATE|DROP)\s+(OR\s+REPLACE\s+)?(UNIQUE\s+|FULLTEXT\s+|SPATIAL\s+)?INDEX)\b`)
	online = regexp.MustCompile(`(?is)\bALGORITHM\s*=\s*INSTANT\b|\bALGORITHM\s*=\s*INPLACE\s*,?\s*LOCK\s*=\s*NONE\b`)
)

// statements returns the statements of a migration.
func statements(text string) (all []string) {
	for statement := range strings.SplitSeq(comments.ReplaceAllString(text, ""), ";") {
		if statement = strings.TrimSpace(statement); statement != "" {
			all = append(all, statement)
		}
	}
	return all
}

// copying returns the statements that may copy a table, or lock it while they work: those that change one and do not
// say that the server has to refuse this.
func copying(text string) []string {
	return slices.DeleteFunc(statements(text), func(statement string) bool {
		return !changes.MatchString(statement) || online.MatchString(statement)
	})
}

func TestMigrations_CopyNoTable(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(migrations.Files, "*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		text, err := migrations.Files.ReadFile(name)
		require.NoError(t, err)
		require.Empty(t, copying(string(text)),
			"%s: say ALGORITHM=INSTANT, or ALGORITHM=INPLACE, LOCK=NONE", name)
		all := statements(string(text))
		require.False(t, len(all) > 1 && slices.ContainsFunc(all, changes.MatchString),
			"%s: a change of a table stands alone, so that it can be tried again", name)
	}
}

func TestCopying(t *testing.T) {
	t.Parallel()
	for statement, copies := range map[string]bool{
		"CREATE TABLE a (id INT)":                                                         false,
		"ALTER TABLE a ADD b INT":                                                         true,
		"alter table a add b int, algorithm=copy":                                         true,
		"ALTER TABLE a ADD b INT, ALGORITHM=INPLACE":                                      true,
		"ALTER TABLE a ADD b INT -- ALGORITHM=INSTANT":                                    true,
		"ALTER TABLE a ADD b INT, ALGORITHM=INSTANT":                                      false,
		"ALTER TABLE a\n    ADD KEY b (b),\n    ALGORITHM = INPLACE, LOCK = NONE":         false,
		"-- a key\nCREATE UNIQUE INDEX b ON a (b)":                                        true,
		"CREATE INDEX b ON a (b) ALGORITHM=INPLACE LOCK=NONE":                             false,
		"ALTER TABLE a ADD b INT /* ALGORITHM=INSTANT */":                                 true,
		"ALTER IGNORE TABLE a ADD b INT":                                                  true,
		"OPTIMIZE TABLE a":                                                                true,
		"DROP INDEX b ON a":                                                               true,
		"CREATE TABLE a (id INT); ALTER TABLE a ADD b INT; UPDATE a SET b = 1 WHERE id=1": true,
	} {
		require.Equal(t, copies, len(copying(statement)) > 0, statement)
	}
}
