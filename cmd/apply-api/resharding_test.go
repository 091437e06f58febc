package main

import (
	"net"
	"net/http"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv/topology"
)

// While a slot moves, a Cluster answers no script with keys on both nodes. A missing key counts as moved.
func TestReshardingUnderACrowd(t *testing.T) {
	t.Parallel()
	t.Run("with keys that do not exist", func(t *testing.T) {
		t.Parallel()
		m := newMove(t)
		_, c := underCrowd(t, m.addrs())
		m.begin()
		c.hears(http.StatusServiceUnavailable, 20)
		m.moveKeys()
		c.hears(http.StatusServiceUnavailable, 20)
		m.end()
		c.hears(http.StatusAccepted, 50)
		c.end(m.to)
		require.Zero(t, c.clearedUp(), "who was not told did not stand in line")
		m.nothingStaysBehind()
	})
	// With every key there is, the node that has them all answers, asked in the way that a move wants.
	t.Run("with all keys", func(t *testing.T) {
		t.Parallel()
		m := newMove(t)
		tag := "{" + queueKey + "}"
		require.NoError(t, m.from.SAdd(t.Context(), "issued:"+tag, "1000001").Err())
		require.NoError(t, m.from.SAdd(t.Context(), "rejected:"+tag, "1000002").Err())
		require.NoError(t, m.from.ZAdd(t.Context(), "dlq:"+tag, redis.Z{Score: 1, Member: "1000003"}).Err())
		p := serving(t, "REDIS_ADDRS="+m.addrs())
		require.NoError(t, m.from.HIncrBy(t.Context(), stateKey, "accepted", 1).Err()) // who is under review
		c := gather(t, p.apply, someAtOnce)
		c.hears(http.StatusAccepted, 50)
		m.begin()
		c.hears(http.StatusAccepted, 50)
		m.moveKeys()
		c.hears(http.StatusAccepted, 50)
		require.NoError(t, m.to.ScriptFlush(t.Context()).Err())
		c.hears(http.StatusAccepted, 50)
		m.end()
		c.hears(http.StatusAccepted, 50)
		c.end(m.to)
		m.nothingStaysBehind()
	})
}

// move is a slot on its way from one node of a Cluster to the other.
type move struct {
	t            *testing.T
	from, to     *redis.Client
	fromID, toID string
	slot         int64
}

func newMove(t *testing.T) *move {
	t.Helper()
	nodes := topology.StartCluster(t, 2)
	m := &move{t: t, from: redisClient(t, nodes[0].Addr()), to: redisClient(t, nodes[1].Addr())}
	m.slot = m.from.ClusterKeySlot(t.Context(), queueKey).Val()
	if m.slot >= 8192 { // the second node's
		m.from, m.to = m.to, m.from
	}
	m.fromID, m.toID = m.from.ClusterMyID(t.Context()).Val(), m.to.ClusterMyID(t.Context()).Val()
	return m
}

func (m *move) addrs() string { return m.from.Options().Addr + "," + m.to.Options().Addr }

func (m *move) setSlot(node *redis.Client, state, id string) {
	m.t.Helper()
	require.NoError(m.t, node.Do(m.t.Context(), "cluster", "setslot", m.slot, state, id).Err())
}

func (m *move) begin() {
	m.t.Helper()
	m.setSlot(m.to, "importing", m.fromID)
	m.setSlot(m.from, "migrating", m.toID)
}

func (m *move) moveKeys() {
	m.t.Helper()
	host, port, err := net.SplitHostPort(m.to.Options().Addr)
	require.NoError(m.t, err)
	for {
		keys, err := m.from.ClusterGetKeysInSlot(m.t.Context(), int(m.slot), 1).Result()
		require.NoError(m.t, err)
		if len(keys) == 0 {
			return
		}
		require.NoError(m.t, m.from.Migrate(m.t.Context(), host, port, keys[0], 0, soon).Err())
	}
}

func (m *move) end() {
	m.t.Helper()
	m.setSlot(m.to, "node", m.toID)
	m.setSlot(m.from, "node", m.toID)
}

func (m *move) nothingStaysBehind() {
	m.t.Helper()
	left, err := m.from.ClusterCountKeysInSlot(m.t.Context(), int(m.slot)).Result()
	require.NoError(m.t, err)
	require.Zero(m.t, left)
}

func TestAClusterNodeIsFrozenUnderACrowd(t *testing.T) {
	t.Parallel()
	nodes := topology.StartCluster(t, 2)
	holder := nodes[redisClient(t, nodes[0].Addr()).ClusterKeySlot(t.Context(), queueKey).Val()*2/16384]
	p, c := underCrowd(t, nodes[0].Addr()+","+nodes[1].Addr())
	require.NoError(t, holder.Freeze())
	c.hears(http.StatusServiceUnavailable, 20)
	p.awaitReady(http.StatusOK) // for the coupons of the other node
	require.NoError(t, holder.Thaw())
	c.hears(http.StatusAccepted, 50)
	c.end(redisClient(t, holder.Addr()))
	require.Positive(t, c.clearedUp(), "who was not told stood in line")
}
