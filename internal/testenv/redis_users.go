package testenv

import (
	"context"
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

// keyPattern is a pattern of keys up to where a prefix stands: inside the braces where there are some.
var keyPattern = regexp.MustCompile(`^(~[^{]*\{|~)`)

// RedisUsersFor makes the users that an ACL file names on the server of a client, which must be allowed to, for keys with a
// prefix. On a server of the test's own they stay over Kill and Restart. They are gone as the test ends.
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

// MakeOn makes them on one more server.
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
		u.t.Fatalf("testenv: make Redis users: %v\n%s", err, redisHint)
	}
	u.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanUpWithin)
		defer cancel()
		// A server of the test's own may be down by now, and its users with it.
		_ = onEveryMaster(ctx, client, func(ctx context.Context, node redis.UniversalClient) error {
			for name := range u.rules {
				if err := node.ACLDelUser(ctx, name+u.own).Err(); err != nil {
					return err
				}
			}
			return aclSave(ctx, node)
		})
	})
}

// As is a name and a password of one that the file names.
func (u *RedisUsers) As(name string) (username, password string) {
	u.t.Helper()
	if u.rules[name] == nil {
		u.t.Fatalf("testenv: the ACL file names no user %s", name)
	}
	return name + u.own, u.password
}

// aclSave keeps users over a restart; a server that somebody else has started may have no file for it.
func aclSave(ctx context.Context, node redis.UniversalClient) error {
	err := node.Do(ctx, "acl", "save").Err()
	if err != nil && strings.Contains(err.Error(), "not configured to use an ACL file") {
		return nil
	}
	return err
}

func onEveryMaster(ctx context.Context, client redis.UniversalClient, do func(ctx context.Context, node redis.UniversalClient) error) error {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return do(ctx, node) })
	}
	return do(ctx, client)
}
