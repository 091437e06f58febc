package main

import (
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/process"
	"github.com/jajeong/jajeong/internal/testenv/topology"
)

// advised are the Redis settings of docs/deploy.md.
var advised = testenv.RedisOptions{AppendOnly: true, Args: []string{
	"--appendfsync", "everysec", "--min-replicas-to-write", "1", "--min-replicas-max-lag", "10",
	"--repl-diskless-sync-delay", "0",
}}

// fleet is a primary with two replicas and three Sentinels, in the order of joining.
type fleet struct {
	t         *testing.T
	nodes     []*testenv.Redis
	clients   []*redis.Client
	sentinels []*process.Server
	asked     *redis.SentinelClient // of the first Sentinel
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t}
	for i := range 3 {
		node := testenv.PrivateRedis(t, advised)
		f.nodes, f.clients = append(f.nodes, node), append(f.clients, redisClient(t, node.Addr()))
		if i > 0 {
			host, port, err := net.SplitHostPort(f.nodes[0].Addr())
			require.NoError(t, err)
			require.NoError(t, f.clients[i].ReplicaOf(t.Context(), host, port).Err())
		}
	}
	f.follow(0)
	for range 3 {
		s := topology.StartSentinel(t, masterName, f.nodes[0])
		client := redis.NewSentinelClient(&redis.Options{Addr: s.Addr(), DialTimeout: time.Hour, ReadTimeout: -1})
		t.Cleanup(func() { client.Close() })
		// Sentinels look at replicas every ten seconds. More often, they decide the same.
		require.NoError(t, client.Process(t.Context(),
			redis.NewCmd(t.Context(), "sentinel", "debug", "info-period", "500")))
		testenv.Eventually(t, "the sentinel knows the replicas",
			func() bool { return len(client.Replicas(t.Context(), masterName).Val()) == 2 })
		if f.sentinels = append(f.sentinels, s); f.asked == nil {
			f.asked = client
		}
	}
	testenv.Eventually(t, "the sentinels know each other",
		func() bool { return len(f.asked.Sentinels(t.Context(), masterName).Val()) == 2 })
	return f
}

// follow waits until both replicas follow a primary, and it takes writes.
func (f *fleet) follow(primary int) {
	f.t.Helper()
	testenv.Eventually(f.t, "all follow the primary", func() bool {
		info := f.clients[primary].Info(f.t.Context(), "replication").Val()
		return strings.Contains(info, "role:master") && strings.Count(info, "state=online") == 2 &&
			strings.Contains(info, "min_slaves_good_slaves:2")
	})
}

func (f *fleet) named() string {
	return strings.Join(f.asked.GetMasterAddrByName(f.t.Context(), masterName).Val(), ":")
}

// preferred reports whether the Sentinel knows the priority of a node.
func (f *fleet) preferred(node int, priority string) bool {
	for _, replica := range f.asked.Replicas(f.t.Context(), masterName).Val() {
		if replica["ip"]+":"+replica["port"] == f.nodes[node].Addr() {
			return replica["slave-priority"] == priority
		}
	}
	return false
}

// upgradeLines are the commands of the handbook, the same in both languages.
func upgradeLines(t *testing.T) []string {
	t.Helper()
	var all [][]string
	for _, file := range []string{"deploy.md", "deploy.ko.md"} {
		text := testenv.Content(t, "../../docs/"+file)
		const commands = `(?s)\nredis-cli -h "\$NEW" CONFIG SET replica-priority 1\n.*? replica-priority 100\n`
		section := regexp.MustCompile(commands).Find(text)
		require.NotNil(t, section, file)
		var lines []string
		for line := range strings.Lines(string(section)) {
			if strings.HasPrefix(line, "redis-cli ") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		all = append(all, lines)
	}
	require.Equal(t, all[0], all[1])
	return all[0]
}

// runLine runs a line of the handbook with these nodes as old and new primary.
func (f *fleet) runLine(line string, old, new int) {
	f.t.Helper()
	at := func(address string) (host, port string) {
		host, port, err := net.SplitHostPort(address)
		require.NoError(f.t, err)
		return host, port
	}
	oldHost, oldPort := at(f.nodes[old].Addr())
	newHost, newPort := at(f.nodes[new].Addr())
	sentinelHost, sentinelPort := at(f.sentinels[0].Addr())
	line = strings.NewReplacer(
		`-h "$OLD"`, "-h "+oldHost+" -p "+oldPort, `-h "$NEW"`, "-h "+newHost+" -p "+newPort, `"$NEW" 6379`,
		newHost+" "+newPort,
		`-h "$SENTINEL" -p 26379`, "-h "+sentinelHost+" -p "+sentinelPort, "TIMEOUT 3000", "TIMEOUT 3600000",
	).Replace(line)
	require.NotContains(f.t, line, "$")
	testenv.Eventually(f.t, "Sentinel takes "+line, func() bool {
		output, err := exec.CommandContext(f.t.Context(), "/bin/sh", "-c", line).CombinedOutput()
		require.NoError(f.t, err, "%s\n%s", line, output)
		require.NotRegexp(f.t, `(?m)^\(?(error|ERR)`, string(output), line)
		// On a slow machine, what Sentinel knows of the replicas is too old. Then the last command of the line is
		// repeated.
		commands := strings.Split(line, "&&")
		line = commands[len(commands)-1]
		return !notYet.Match(output)
	})
}

// notYet is an answer of Sentinel to FAILOVER.
var notYet = regexp.MustCompile(`(?m)^(NOGOODSLAVE|INPROG)`)

// An upgrade of Redis by the handbook, under load, keeps every acknowledged application and its position. No pod puts
// one back.
func TestRedisUpgradeLosesNoApplication(t *testing.T) {
	t.Parallel()
	lines := upgradeLines(t)
	f := newFleet(t)
	p := serving(t, append(asAPI(t, "", f.nodes[0].Addr(), f.nodes[1].Addr(), f.nodes[2].Addr()),
		"REDIS_MASTER_NAME="+masterName,
		"REDIS_ADDRS="+f.sentinels[0].Addr()+","+f.sentinels[1].Addr()+","+f.sentinels[2].Addr())...)
	c := startCrowd(t, p.apply, crowdSize)
	failovers := testenv.Rounds(1, 6)
	old := 0
	for range failovers {
		new := (old + 1) % 3
		c.awaitResponses(http.StatusAccepted, 100)
		for i, line := range lines {
			f.runLine(line, old, new)
			switch {
			case i == 0:
				testenv.Eventually(t, "the sentinel prefers the new primary",
					func() bool { return f.preferred(new, "1") })
			case strings.Contains(line, "SENTINEL FAILOVER"):
				testenv.Eventually(t, "the sentinel names the new primary",
					func() bool { return f.named() == f.nodes[new].Addr() })
			}
		}
		f.follow(new)
		testenv.Eventually(t, "the new primary has the normal priority again", func() bool {
			info, err := f.clients[new].ConfigGet(t.Context(), "replica-priority").Result()
			return err == nil && info["replica-priority"] == "100"
		})
		c.awaitResponses(http.StatusAccepted, 100)
		old = new
	}
	c.awaitResults()
	require.Zero(t, p.metric("jajeong_promises_handed_over_total"), "no application was handed over")
	stored := readQueue(t, f.clients[old])
	require.Empty(t, c.violations(stored))
	acknowledged := c.firstArrivals()
	require.Len(t, stored.queue, len(acknowledged), "acknowledged and present")
	t.Logf("%d acknowledged over %d failovers", len(acknowledged), failovers)
}
