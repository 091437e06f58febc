package redissink

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/testenv/topology"
	"github.com/jajeong/jajeong/internal/text"
)

// A page whose reply is lost was appended, and the client does not append it again by itself.
func TestPublish_AppendsPageOnceWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		server := testenv.PrivateRedis(t, testenv.RedisOptions{})
		var left atomic.Int32
		proxy := faultproxy.New(t, func(turn faultproxy.Turn) faultproxy.Action {
			if bytes.Contains(turn.Request, []byte(sha)) && left.Add(-1) == 0 {
				return faultproxy.DropReply(nil)
			}
			return faultproxy.Pass()
		}, server.Addr())
		f := fixtureAt(t, connect.RedisSettings{RedisAddrs: []string{server.Addr()}}, server)
		f.Sink = newSink(t, open(t, connect.RedisSettings{RedisAddrs: []string{proxy.Addr}}))
		f.losesSecondReply(func() { left.Store(2) })
	})
	// The Cluster client ignores MaxRetries.
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		f := clusterFixture(t, topology.StartCluster(t, 1))
		var left atomic.Int32
		f.rdb.(*redis.ClusterClient).OnNewNode(func(node *redis.Client) { node.AddHook(losing{&left}) })
		f.losesSecondReply(func() { left.Store(2) })
	})
}

func (f *fixture) losesSecondReply(arm func()) {
	f.t.Helper()
	server := f.server()
	arm()
	delivered, err := f.deliver(f.t.Context(), server, f.messages(3*pageSize))
	require.Error(f.t, err)
	require.Equal(f.t, coupon.Infrastructure, mysqltx.ClassOf(err), "%v", err)
	require.Equal(f.t, pageSize, delivered)
	require.Equal(f.t, upTo(2*pageSize), f.users())
}

// losing loses the reply to the last script that is left.
type losing struct{ left *atomic.Int32 }

func (losing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (losing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l losing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "evalsha" && l.left.Add(-1) == 0 {
			return io.EOF
		}
		return err
	}
}

// The restarted server has loaded its file and has the stream. Only its run_id says that acknowledged events may be
// missing.
func TestPublish_NoticesRestartBeforeAnythingIsAppended(t *testing.T) {
	t.Parallel()
	f, redisServer := newFixture(t, testenv.RedisOptions{AppendOnly: true})
	server := f.server()
	f.rdb.AddHook(&hook{after: func(page int) {
		if page == 2 {
			require.NoError(t, redisServer.Kill())
		}
	}})
	all := f.messages(4 * pageSize)
	delivered, err := f.deliver(t.Context(), server, all)
	require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(err), "%v", err)
	require.Equal(t, 2*pageSize, delivered)

	require.NoError(t, redisServer.Restart(t.Context()))
	require.Equal(t, upTo(2*pageSize), f.users())
	f.refuses(server, all[delivered:], events.ErrMayHaveLost)
	next := f.server()
	require.NotEqual(t, server, next)
	f.publish(next, all[delivered:])
	require.Equal(t, upTo(f.next), f.users())
}

// A server that was a replica for a while has lost what its master did not have, though its run_id stays.
func TestPublish_NoticesPromotionOfTheSameServer(t *testing.T) {
	t.Parallel()
	f, _ := newFixture(t, testenv.RedisOptions{})
	other := testenv.PrivateRedis(t, testenv.RedisOptions{})
	server := f.server()
	f.publish(server, f.messages(10))
	host, port, err := net.SplitHostPort(other.Addr())
	require.NoError(t, err)
	require.NoError(t, f.admin.Do(t.Context(), "REPLICAOF", host, port).Err())
	testenv.Eventually(t, "the replica follows", func() bool {
		return strings.Contains(f.admin.Do(t.Context(), "INFO", "replication").String(), "master_link_status:up")
	})
	require.NoError(t, f.admin.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	f.refuses(server, f.messages(10), events.ErrMayHaveLost)
	require.NotEqual(t, server, f.server())
}

// Redis is killed while it appends a page. After it has loaded its file, it has the whole page or nothing of it.
func TestPublish_PageSurvivesKillAsAWhole(t *testing.T) {
	t.Parallel()
	f, redisServer := newFixture(t, testenv.RedisOptions{AppendOnly: true})
	random := testenv.Random(t)
	for range testenv.Rounds(3, 200) {
		server, before := f.server(), f.length()
		killAt := 1 + random.IntN(5)
		killed := make(chan error, 1)
		kill := &hook{before: func(page int, _ redis.Cmder) error {
			if page == killAt {
				go func() { killed <- redisServer.Kill() }()
			}
			return nil
		}}
		f.Sink = newSink(t, open(t, f.settings))
		f.rdb.AddHook(kill)
		acknowledged := 0
		var err error
		for err == nil {
			var delivered int
			delivered, err = f.deliver(t.Context(), server, f.messages(10*pageSize))
			acknowledged += delivered
		}
		require.NoError(t, <-killed)
		require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(err), "%v", err)
		require.NoError(t, redisServer.Restart(t.Context()))
		// A kill in the middle of a write leaves the begin of a transaction in the file. Redis does not execute it
		// now, but would after another restart, because what follows in the file ends it.
		require.NoError(t, f.admin.BgRewriteAOF(t.Context()).Err())
		testenv.Eventually(t, "the file is written anew", func() bool {
			return strings.Contains(f.admin.Info(t.Context(), "persistence").Val(), "aof_rewrite_in_progress:0")
		})

		appended := f.length() - before
		require.Zero(t, appended%pageSize)
		require.GreaterOrEqual(t, appended, int64(acknowledged), "no acknowledged event is lost")
		require.LessOrEqual(t, appended, int64(acknowledged+pageSize))
		f.next = coupon.UserID(f.length())
		f.refuses(server, f.messages(1), events.ErrMayHaveLost)
		f.next = coupon.UserID(f.length())
	}
	require.Equal(t, upTo(f.next), f.users())
}

// A demoted master that is still reachable takes no events.
func TestPublish_RefusedByReplica(t *testing.T) {
	t.Parallel()
	f, _ := newFixture(t, testenv.RedisOptions{})
	server := f.server()
	f.publish(server, f.messages(1))
	require.NoError(t, f.admin.SlaveOf(t.Context(), "127.0.0.1", "1").Err())
	delivered, err := f.deliver(t.Context(), server, f.messages(1))
	require.ErrorContains(t, err, "READONLY")
	require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(err))
	require.Zero(t, delivered)
	_, err = f.Look(t.Context(), events.Place{})
	require.ErrorContains(t, err, "READONLY", "the name of a replica says nothing")
}

func clusterFixture(t *testing.T, nodes []*testenv.Redis) *fixture {
	t.Helper()
	return fixtureAt(t, connect.RedisSettings{RedisAddrs: []string{nodes[0].Addr()}}, nodes...)
}

// The stream's slot moves to the other node, which is another server.
func TestPublish_Cluster(t *testing.T) {
	t.Parallel()
	nodes := topology.StartCluster(t, 2)
	f := clusterFixture(t, nodes)
	server := f.server()
	f.publish(server, f.messages(2*pageSize+1))
	require.Equal(t, upTo(f.next), f.users())
	lags, err := f.Lags(t.Context())
	require.NoError(t, err)
	require.Empty(t, lags)

	require.NoError(t, f.admin.Del(t.Context(), stream).Err())
	slot := f.admin.ClusterKeySlot(t.Context(), stream).Val()
	f.moveSlot(int(slot), nodes)
	first := f.next
	f.refuses(server, f.messages(1), events.ErrMayHaveLost)
	next := f.server()
	require.NotEqual(t, server, next)
	f.publish(next, f.messages(pageSize+1))
	require.Equal(t, upTo(f.next)[first+1:], f.users())
}

// moveSlot gives a slot without keys to the node that does not have it.
func (f *fixture) moveSlot(slot int, nodes []*testenv.Redis) {
	f.t.Helper()
	clients := make([]*redis.Client, len(nodes))
	for i, node := range nodes {
		clients[i] = testenv.RedisClient(f.t, node.Addr())
	}
	to := 0
	if slot < 8192 {
		to = 1
	}
	id := clients[to].ClusterMyID(f.t.Context()).Val()
	for _, client := range []*redis.Client{clients[to], clients[1-to]} {
		require.NoError(f.t, client.Do(f.t.Context(), "cluster", "setslot", slot, "node", id).Err())
	}
}

// Every missing right, and a key of another kind, is a matter of setup: a repetition cannot cure it.
func TestErrorsOfSetup(t *testing.T) {
	t.Parallel()
	f, redisServer := newFixture(t, testenv.RedisOptions{})
	server := f.server()
	for name, rules := range map[string][]string{
		"NOPERM":    {"-evalsha"},
		"time":      {"-time"},
		"info":      {"-info"},
		"xtrim":     {"-xtrim"},
		"xadd":      {"-xadd"},
		"xrange":    {"-xrange"},
		"xinfo":     {"-xinfo|stream"},
		"keys":      {"resetkeys", "~coupon:other"},
		"WRONGPASS": {"resetpass", ">other"},
		"off":       {"off"},
	} {
		require.NoError(t, f.admin.ACLSetUser(t.Context(), name,
			append([]string{"on", ">secret", "~" + stream, "+@all"}, rules...)...).Err())
		s := newSink(t, open(t, connect.RedisSettings{RedisAddrs: []string{redisServer.Addr()},
			RedisAccess: connect.RedisAccess{RedisUsername: name, RedisPasswordFile: testenv.SecretFile(t, "secret")}}))
		delivered, _, err := s.Publish(t.Context(), events.Place{Server: server}, f.messages(1))
		requireSetup(t, err, name)
		require.Zero(t, delivered)
		if name != "xadd" {
			_, err = s.Look(t.Context(), events.Place{})
			requireSetup(t, err, name)
		}
	}
	require.Zero(t, f.length())

	require.NoError(t, f.admin.ACLSetUser(t.Context(), "lags", "on", ">secret", "~"+stream, "+@all",
		"-xinfo|groups").Err())
	s := newSink(t, open(t, connect.RedisSettings{RedisAddrs: []string{redisServer.Addr()},
		RedisAccess: connect.RedisAccess{RedisUsername: "lags", RedisPasswordFile: testenv.SecretFile(t, "secret")}}))
	_, err := s.Lags(t.Context())
	requireSetup(t, err, "xinfo")

	require.NoError(t, f.admin.Set(t.Context(), stream, "x", 0).Err())
	_, err = f.deliver(t.Context(), server, f.messages(1))
	requireSetup(t, err, "WRONGTYPE")
	_, err = f.Look(t.Context(), events.Place{})
	requireSetup(t, err, "WRONGTYPE")
	_, err = f.Lags(t.Context())
	requireSetup(t, err, "WRONGTYPE")
}

func requireSetup(t *testing.T, err error, name string) {
	t.Helper()
	require.Error(t, err, name)
	require.ErrorContains(t, err, "stream "+stream, name)
	require.Equal(t, coupon.Setup, mysqltx.ClassOf(err), "%s: %v", name, err)
	require.Equal(t, text.AdviseRedis, mysqltx.Advice(err), name)
}
