package candidates

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/testenv/topology"
)

// Redis executes the application once. Applying again returns its first arrival.
func TestLostReplyIsNotRepeated(t *testing.T) {
	t.Parallel()
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		server := newClient(t, testenv.PrivateRedis(t, testenv.RedisOptions{}).Addr())
		proxy := newLosing(t, server.Options().Addr)
		loseReplies(t, server, proxy, []string{proxy.addr})
	})
	// The client ignores MaxRetries and also tries other nodes.
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		server := clusterNode(t)
		proxy := newLosing(t, server.Options().Addr)
		announce(t, server, proxy.addr)
		_, port, err := net.SplitHostPort(proxy.addr)
		require.NoError(t, err)
		loseReplies(t, server, proxy, []string{proxy.addr, "localhost:" + port})
	})
}

func loseReplies(t *testing.T, server *redis.Client, proxy *losing, addrs []string) {
	settings := connect.RedisSettings{RedisAddrs: addrs}
	rdb, err := settings.Open()
	require.NoError(t, err)
	t.Cleanup(func() { rdb.Close() })
	c := couponOn(t, rdb, "", 42)
	c.openNow(t)
	c.accept(t, 1)

	user := coupon.UserID(1)
	for _, verb := range []string{"evalsha", "eval"} {
		for range 10 {
			user++
			if verb == "eval" {
				require.NoError(t, server.ScriptFlush(t.Context()).Err())
			}
			calls := callsOf(t, server, verb)
			dropped := proxy.dropNext(verb)
			receipt, err := c.Apply(t.Context(), c.id, user)
			require.Error(t, err)
			require.Zero(t, receipt)
			require.EqualValues(t, 1, dropped(), "the reply was lost")
			require.Equal(t, calls+1, callsOf(t, server, verb), "executed once")

			member := user.Member()
			arrival := coupon.Arrival(server.ZScore(t.Context(), c.queue, member).Val())
			require.NotZero(t, arrival)
			require.Equal(t, member, server.HGet(t.Context(), c.state, "accepted").Val())

			again := c.apply(t, user)
			require.Equal(t, Duplicate, again.Code)
			require.Equal(t, arrival, again.Arrival)
			require.EqualValues(t, user, again.Position)
		}
	}
	require.Equal(t, user.Member(), server.HGet(t.Context(), c.state, "accepted").Val())
}

// callsOf counts the executions of a command.
func callsOf(t *testing.T, server *redis.Client, verb string) int {
	t.Helper()
	info, err := server.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	_, rest, found := strings.Cut(info, "cmdstat_"+verb+":calls=")
	if !found {
		return 0
	}
	number, _, _ := strings.Cut(rest, ",")
	calls, err := strconv.Atoi(number)
	require.NoError(t, err)
	return calls
}

// losing is a proxy that drops the replies to one verb at a time.
type losing struct {
	addr    string
	verb    atomic.Pointer[string] // nil: every reply is delivered
	dropped atomic.Int64
}

func newLosing(t *testing.T, backend string) *losing {
	t.Helper()
	l := &losing{}
	l.addr = faultproxy.New(t, func(turn faultproxy.Turn) faultproxy.Action {
		verb := l.verb.Load()
		if verb == nil || !bytes.Contains(turn.Request, []byte("$"+strconv.Itoa(len(*verb))+"\r\n"+*verb+"\r\n")) {
			return faultproxy.Pass()
		}
		l.dropped.Add(1)
		return faultproxy.DropReply(nil)
	}, backend).Addr
	return l
}

// dropNext drops the replies to a verb until the returned function is called, which returns how many were dropped.
func (l *losing) dropNext(verb string) (dropped func() int64) {
	l.dropped.Store(0)
	l.verb.Store(&verb)
	return func() int64 {
		l.verb.Store(nil)
		return l.dropped.Load()
	}
}

// clusterNode is a Cluster of one private node, which has every slot.
func clusterNode(t *testing.T) *redis.Client {
	t.Helper()
	return newClient(t, topology.StartCluster(t, 1)[0].Addr())
}

// announce changes the port that the node announces to clients.
func announce(t *testing.T, node *redis.Client, addr string) {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	require.NoError(t, node.ConfigSet(t.Context(), "cluster-announce-port", port).Err())
	testenv.Eventually(t, "address announced", func() bool {
		shards, err := node.ClusterShards(t.Context()).Result()
		return err == nil && len(shards) == 1 && fmt.Sprint(shards[0].Nodes[0].Port) == port
	})
}

func newCluster(t *testing.T, node *redis.Client) *redis.ClusterClient {
	t.Helper()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{node.Options().Addr}, MaxRedirects: -1})
	t.Cleanup(func() { cluster.Close() })
	return cluster
}

// A Cluster refuses a script whose keys are in several slots.
func TestEveryOperationWorksInACluster(t *testing.T) {
	t.Parallel()
	node := clusterNode(t)
	keysShareASlot(t, node)
	c := couponOn(t, newCluster(t, node), "shop:", 42)
	ctx := context.WithoutCancel(t.Context())
	w := c.open(t)
	at := c.accept(t, 1, 2, 3)
	epoch := c.fence(t, noon).Epoch
	require.NoError(t, c.Renew(ctx, c.id, w.Closes))
	require.EqualValues(t, 1, c.review(t, failed{Application: entry("2", at[1].Arrival, coupon.SourceQueue),
		Reason: because(1)}))
	all, _ := c.pages(t, w.Closes)
	require.Equal(t, []coupon.Application{entry("1", at[0].Arrival, coupon.SourceQueue),
		entry("2", at[1].Arrival, coupon.SourceRetryable), entry("3", at[2].Arrival, coupon.SourceQueue)}, all)
	require.Equal(t, map[string]Reason{"2": because(1)}, c.reasons(t, "1", "2"))
	require.NoError(t, c.SetSold(ctx, c.id, true))
	require.EqualValues(t, 2, c.remove(t, w.Closes, coupon.MarkIssued, all[:2]...))
	require.EqualValues(t, 1, c.remove(t, w.Closes, coupon.MarkRejected, all[2:]...))
	_, handed, err := c.HandOver(ctx, c.id, epoch, false, []coupon.Answer{{User: 4, Arrival: at[2].Arrival + 1}})
	require.NoError(t, err)
	require.Equal(t, []int{0}, handed)
	returned, _, err := c.Returned(ctx, c.id, 0)
	require.NoError(t, err)
	require.Equal(t, []coupon.Application{{Member: "4", Arrival: at[2].Arrival + 1}}, returned)
	entered, err := c.Enter(ctx, c.id, epoch, []Entry{{Answer: coupon.Answer{User: 4, Arrival: at[2].Arrival + 1}}})
	require.NoError(t, err)
	require.EqualValues(t, 1, entered.Entered)
	require.NoError(t, c.TakeReturned(ctx, c.id, returned))
	done, err := c.AddExcess(ctx, c.id, epoch, 3)
	require.NoError(t, err)
	require.True(t, done)
	ended, err := c.EndRestore(ctx, c.id, Ending{Compare: true, Epoch: epoch, Settled: 3})
	require.NoError(t, err)
	require.Equal(t, Ended{Done: true, Accepted: 4}, ended)
	require.EqualValues(t, 1, c.remove(t, w.Closes, coupon.MarkNone, returned...))
	looks, err := c.Looks(ctx, map[coupon.CouponID]coupon.Known{c.id: {}, 43: {}})
	require.NoError(t, err)
	require.Len(t, looks, 2)
	look := c.observe(t)
	require.Equal(t, coupon.Line{Epoch: epoch, Since: µs(noon), Restored: true, Restores: 1, Accepted: 4,
		Last: at[2].Arrival + 1, Issued: 2}, look.Line)
	require.Equal(t, []any{noon, int64(1), true, int64(2)}, []any{look.Now, look.Rejected, look.Sold, look.DLQChanges})
	marked, _, err := c.Marked(ctx, c.id, coupon.MarkIssued, 0)
	require.NoError(t, err)
	require.ElementsMatch(t, []coupon.Application{{Member: "1", Arrival: at[0].Arrival},
		{Member: "2", Arrival: at[1].Arrival}}, marked)
	c.freeze(w.Closes)
	c.sweep(t, true, w.Closes)
	require.NoError(t, c.SaveCatalog(ctx, []byte("[]")))
}
