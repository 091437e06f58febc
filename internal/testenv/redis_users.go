package testenv

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// RedisUsers are the users of an ACL file, each under a name of the test's own.
type RedisUsers struct {
	t        testing.TB
	own      string              // behind each name
	password string              // of all
	rules    map[string][]string // by the names in the file
}

// keyPattern matches a pattern of keys up to the place of the prefix, which is inside the braces if there are any. The
// pattern may be the first one of a selector, behind a parenthesis.
var keyPattern = regexp.MustCompile(`^(\(?~[^{]*\{|\(?~)`)

// RedisUsersFor creates the users of an ACL file on the client's server, for keys with a prefix. The client must be
// allowed to create users. On a private server the users survive Kill and Restart. They are removed at the end of the
// test.
func RedisUsersFor(t testing.TB, client redis.UniversalClient, prefix, file string) *RedisUsers {
	t.Helper()
	u := &RedisUsers{t: t, own: "_" + randomName(), password: randomName(), rules: map[string][]string{}}
	for line := range strings.Lines(file) {
		words := strings.Fields(strings.Replace(line, ">…", ">"+u.password, 1))
		for i, word := range words {
			words[i] = keyPattern.ReplaceAllString(word, "${1}"+prefix)
		}
		u.rules[words[1]] = words[2:]
	}
	u.MakeOn(client)
	return u
}

// MakeOn creates the users on one more server.
func (u *RedisUsers) MakeOn(client redis.UniversalClient) {
	u.t.Helper()
	err := onEveryMaster(u.t.Context(), client, func(ctx context.Context, node redis.UniversalClient) error {
		for name, rules := range u.rules {
			if err := node.ACLSetUser(ctx, name+u.own, rules...).Err(); err != nil {
				return err
			}
		}
		return aclSave(ctx, node)
	})
	if err != nil {
		u.t.Fatalf("testenv: make Redis users: %v\n%s", err, RedisHint)
	}
	u.t.Cleanup(func() {
		// A private server may be down by now.
		_ = onEveryMaster(context.Background(), client, func(ctx context.Context, node redis.UniversalClient) error {
			for name := range u.rules {
				if err := node.ACLDelUser(ctx, name+u.own).Err(); err != nil {
					return err
				}
			}
			return aclSave(ctx, node)
		})
	})
}

// As returns the name and the password of a user of the file.
func (u *RedisUsers) As(name string) (username, password string) {
	u.t.Helper()
	if u.rules[name] == nil {
		u.t.Fatalf("testenv: the ACL file names no user %s", name)
	}
	return name + u.own, u.password
}

// SecretFile returns a file with a secret, for settings such as REDIS_PASSWORD_FILE.
func SecretFile(t testing.TB, secret string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
		t.Fatalf("testenv: write a secret: %v", err)
	}
	return path
}

// aclSave keeps users over a restart. A server in TEST_REDIS_ADDRS may have no ACL file.
func aclSave(ctx context.Context, node redis.UniversalClient) error {
	err := node.Do(ctx, "acl", "save").Err()
	if err != nil && strings.Contains(err.Error(), "not configured to use an ACL file") {
		return nil
	}
	return err
}

func onEveryMaster(ctx context.Context, client redis.UniversalClient,
	do func(ctx context.Context, node redis.UniversalClient) error) error {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return do(ctx, node) })
	}
	return do(ctx, client)
}
