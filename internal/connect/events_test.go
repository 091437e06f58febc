package connect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/testenv"
)

type eventCommand struct {
	Redis     connect.RedisSettings     `embed:""`
	Events    connect.EventSettings     `embed:""`
	Retention connect.RetentionSettings `embed:""`
}

func parseEvents(t *testing.T, args ...string) (c eventCommand, problems []string) {
	t.Helper()
	problems = problemsOf(&c, args)
	return c, problems
}

func TestEventSettings_Defaults(t *testing.T) {
	c, problems := parseEvents(t)
	require.Empty(t, problems)
	require.Equal(t, connect.EventSettings{EventSink: connect.NoSink}, c.Events)
	require.Equal(t, 24*time.Hour, c.Retention.EventRetention)
}

func TestEventSettings_Problems(t *testing.T) {
	for name, test := range map[string]struct {
		environment map[string]string
		args        []string
		want        []string
	}{
		"unknown sink": {args: []string{"--event-sink=nats"},
			want: []string{`EVENT_SINK (--event-sink) is "nats": want one of none, redis, kafka`}},
		"empty address": {environment: map[string]string{"EVENT_REDIS_ADDRS": ""},
			want: []string{"EVENT_REDIS_ADDRS (--event-redis-addrs) is empty: want a value"}},
		"retention below its bound": {args: []string{"--event-retention=9m"},
			want: []string{"EVENT_RETENTION is 9m0s: want 10m0s to 720h0m0s, such as 24h"}},
		"retention above its bound": {args: []string{"--event-retention=721h"},
			want: []string{"EVENT_RETENTION is 721h0m0s: want 10m0s to 720h0m0s, such as 24h"}},
		"wrong address": {args: []string{"--event-redis-addrs=nowhere"},
			want: []string{wrongAddress("EVENT_REDIS_ADDRS", 1)}},
		"settings of another Redis without its address": {
			environment: map[string]string{"EVENT_REDIS_MASTER_NAME": "m", "EVENT_REDIS_USERNAME": "u",
				"EVENT_REDIS_PASSWORD_FILE": "/nowhere", "EVENT_REDIS_TLS": "true", "EVENT_REDIS_TLS_DIR": "/nowhere",
				"EVENT_REDIS_SENTINEL_USERNAME": "u"},
			want: []string{needsAddrs("MASTER_NAME"), needsAddrs("USERNAME"), needsAddrs("PASSWORD_FILE"),
				needsAddrs("TLS"), needsAddrs("TLS_DIR"), needsAddrs("SENTINEL_USERNAME")},
		},
		"login of Sentinels without a master's name": {args: []string{"--event-redis-addrs=a:1",
			"--event-redis-sentinel-username=u"},
			want: []string{
				"EVENT_REDIS_SENTINEL_USERNAME needs EVENT_REDIS_MASTER_NAME, too: without it, there are no " +
					"Sentinels to log in to"}},
		"mistyped environment": {environment: map[string]string{"EVENT_REDIS_ADDR": "a:1"},
			want: []string{
				"EVENT_REDIS_ADDR is not a setting, but EVENT_REDIS_ADDRS is: correct the name, or remove the " +
					"variable from the environment of this program"}},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range test.environment {
				t.Setenv(name, value)
			}
			_, problems := parseEvents(t, test.args...)
			require.ElementsMatch(t, test.want, problems)
			require.NotContains(t, strings.Join(problems, "\n"), "secret")
		})
	}
}

func needsAddrs(name string) string {
	return "EVENT_REDIS_" + name +
		" needs EVENT_REDIS_ADDRS, too: without it, events go to the Redis of the applications by REDIS_ADDRS and " +
		"its other settings"
}

func TestEventSettings_OpenRedis(t *testing.T) {
	file := testenv.SecretFile(t, "event-secret\n")
	line := []string{"--redis-addrs=line:1", "--redis-username=settle", "--redis-password-file=" +
		testenv.SecretFile(t, "line-secret")}
	open := func(args ...string) redis.UniversalClient {
		c, problems := parseEvents(t, append(line, args...)...)
		require.Empty(t, problems)
		client, err := c.Events.OpenRedis(&c.Redis)
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	options := open().(*redis.ClusterClient).Options()
	require.Equal(t, []string{"line:1", "settle", "line-secret"},
		append(options.Addrs, options.Username, options.Password))

	options = open("--event-redis-addrs=events:2", "--event-redis-password-file="+file,
		"--event-redis-tls").(*redis.ClusterClient).Options()
	require.Equal(t, []string{"events:2", "", "event-secret"},
		append(options.Addrs, options.Username, options.Password), "nothing is the line's")
	require.NotNil(t, options.TLSConfig)
	require.Equal(t, -1, options.MaxRetries, "no hidden repeats")
	require.True(t, options.ContextTimeoutEnabled)

	cluster := open("--event-redis-addrs=events:2,events:3",
		"--event-redis-username=u").(*redis.ClusterClient).Options()
	require.Equal(t, []string{"events:2", "events:3", "u", ""},
		append(cluster.Addrs, cluster.Username, cluster.Password))

	sentinel := open("--event-redis-addrs=events:4", "--event-redis-master-name=m").(*redis.Client).Options()
	require.Equal(t, "FailoverClient", sentinel.Addr)
}
