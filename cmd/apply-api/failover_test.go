package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/topology"
)

const masterName = "coupons"

// A pod that gets no answer asks the other nodes for the topology again and again. go-redis itself would ask once a
// minute.
func TestPromotedReplicaIsFound(t *testing.T) {
	t.Parallel()
	nodes := topology.StartCluster(t, 3)
	holder := nodes[redisClient(t, nodes[0].Addr()).ClusterKeySlot(t.Context(), queueKey).Val()*3/16384]
	replica := topology.AddReplica(t, nodes, holder)
	var addrs []string
	var living []*redis.Client
	for _, node := range append(nodes, replica) {
		addrs = append(addrs, node.Addr())
		if node != holder {
			living = append(living, redisClient(t, node.Addr()))
		}
	}
	asked := func() (times int) {
		for _, node := range living {
			said := node.Info(t.Context(), "commandstats").Val()
			for _, calls := range regexp.MustCompile(`cmdstat_cluster\|(?:slots|shards):calls=(\d+)`).
				FindAllStringSubmatch(said, -1) {
				n, err := strconv.Atoi(calls[1])
				require.NoError(t, err)
				times += n
			}
		}
		return times
	}
	p := serving(t, "REDIS_ADDRS="+strings.Join(addrs, ","))
	p.mustApply(http.StatusAccepted, 1, 1)
	onMaster, promoted := redisClient(t, holder.Addr()), redisClient(t, replica.Addr())
	testenv.Eventually(t, "the replica has caught up",
		func() bool { return onMaster.Wait(t.Context(), 1, time.Second).Val() == 1 })

	require.NoError(t, holder.Freeze())
	before, since := asked(), time.Now()
	testenv.Eventually(t, "the pod asks for the topology more than once a minute", func() bool {
		_, _ = p.ask(1, 2) // applications continue
		return asked()-before > 5+2*int(time.Since(since)/time.Minute)
	})
	require.NoError(t, promoted.Do(t.Context(), "cluster", "failover", "takeover").Err())
	testenv.Eventually(t, "the promoted replica accepts applications", func() bool {
		status, _ := p.ask(1, 3)
		return status == http.StatusAccepted || status == http.StatusOK // a response may have been lost
	})
	p.mustApply(http.StatusOK, 1, 1)
}

// While a slot moves, a Cluster answers no script with keys on both nodes. A missing key counts as moved.
func TestReshardingLosesNoApplication(t *testing.T) {
	t.Parallel()
	m := newMove(t)
	_, c := underCrowd(t, m.addrs())
	refused := func() string {
		user := int(c.users.Add(1))
		require.Equal(t, http.StatusServiceUnavailable, c.apply(user).status)
		return strconv.Itoa(user)
	}
	m.begin()
	c.awaitResponses(http.StatusServiceUnavailable, 20)
	users := []string{refused()}
	m.moveKeys()
	c.awaitResponses(http.StatusServiceUnavailable, 20)
	users = append(users, refused())
	c.stop()
	m.end()
	for _, place := range readQueue(t, m.to).queue {
		require.NotContains(t, users, place.user, "a refused application is not queued")
	}
	c.resume()
	c.awaitResponses(http.StatusAccepted, 50)
	c.verify(m.to)
	m.requireNoKeyLeft()

	// The slot moves back. Every key of the coupon exists now: the node that has all of them answers.
	m.from, m.to, m.fromID, m.toID = m.to, m.from, m.toID, m.fromID
	tag := "{" + queueKey + "}"
	require.NoError(t, m.from.ZAdd(t.Context(), "issued:"+tag, redis.Z{Score: 1, Member: "1000001"}).Err())
	require.NoError(t, m.from.SAdd(t.Context(), "rejected:"+tag, "1000002").Err())
	require.NoError(t, m.from.ZAdd(t.Context(), "dlq:"+tag, redis.Z{Score: 1, Member: "1000003"}).Err())
	require.NoError(t, m.from.ZAdd(t.Context(), "returned:"+tag, redis.Z{Score: 1, Member: "1000003"}).Err())
	require.NoError(t, m.from.HSet(t.Context(), "dlq:reason:"+tag, "1000003", "{}").Err())
	require.NoError(t, m.from.HIncrBy(t.Context(), stateKey, "accepted", 1).Err()) // the application under review
	c.resume()
	c.awaitResponses(http.StatusAccepted, 50)
	m.begin()
	c.awaitResponses(http.StatusAccepted, 50)
	m.moveKeys()
	c.awaitResponses(http.StatusAccepted, 50)
	require.NoError(t, m.to.ScriptFlush(t.Context()).Err())
	c.awaitResponses(http.StatusAccepted, 50)
	m.end()
	c.awaitResponses(http.StatusAccepted, 50)
	c.verify(m.to)
	m.requireNoKeyLeft()
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
		require.NoError(m.t, m.from.Migrate(m.t.Context(), host, port, keys[0], 0, time.Hour).Err())
	}
}

func (m *move) end() {
	m.t.Helper()
	m.setSlot(m.to, "node", m.toID)
	m.setSlot(m.from, "node", m.toID)
}

func (m *move) requireNoKeyLeft() {
	m.t.Helper()
	left, err := m.from.ClusterCountKeysInSlot(m.t.Context(), int(m.slot)).Result()
	require.NoError(m.t, err)
	require.Zero(m.t, left)
}

// shards is a Cluster of three masters, and apply-api with coupons on all of them.
type shards struct {
	t              *testing.T
	db             *sql.DB
	any            *redis.Client
	frozen         *testenv.Redis
	hung, healthy  []int // coupons
	api            *program
	client         *http.Client
	ctx            context.Context // of requests
	users          atomic.Int64
	stop           chan struct{}
	end            func()
	applicants     sync.WaitGroup
	healthyAnswers atomic.Int64 // in a row
}

// newShards adds so many coupons. The coupons of the first master are the hung ones.
func newShards(t *testing.T, coupons int) *shards {
	t.Helper()
	nodes := topology.StartCluster(t, 3)
	var addrs []string
	for _, node := range nodes {
		require.NoError(t, redisClient(t, node.Addr()).ConfigSet(t.Context(), "cluster-require-full-coverage",
			"no").Err())
		addrs = append(addrs, node.Addr())
	}
	database, api := withCoupon(t)
	s := &shards{t: t, db: database.DB, any: redisClient(t, nodes[1].Addr()), frozen: nodes[0],
		stop:   make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}, ctx: testenv.Patient(t)}
	s.end = sync.OnceFunc(func() {
		close(s.stop)
		s.applicants.Wait()
		s.client.CloseIdleConnections()
	})
	for id := 2; id < coupons+2; id++ {
		s.add(id)
	}
	s.api = startAt(t, listening, "MYSQL_DSN="+api, "REDIS_ADDRS="+strings.Join(addrs, ","), "USER_RATE=0")
	t.Cleanup(s.end) // before the program is killed
	s.api.awaitReady(http.StatusOK)
	return s
}

// add adds a coupon and reports whether it is on the first master.
func (s *shards) add(id int) (hung bool) {
	s.t.Helper()
	_, err := s.db.ExecContext(s.t.Context(), `INSERT INTO coupon (id, name, total_quantity, apply_opens_at,
		apply_closes_at)
VALUES (?, 'c', 10, UTC_TIMESTAMP(6) - INTERVAL 1 HOUR, UTC_TIMESTAMP(6) + INTERVAL 1 DAY)`, id)
	require.NoError(s.t, err)
	slot := s.any.ClusterKeySlot(s.t.Context(), fmt.Sprintf("candidates:coupon:%d", id)).Val()
	if hung = slot < 16384/3; hung {
		s.hung = append(s.hung, id)
	} else {
		s.healthy = append(s.healthy, id)
	}
	return hung
}

// ask returns the status of a response; 0 without a response.
func (s *shards) ask(method string, couponID int, user int64, path string) int {
	request, err := http.NewRequestWithContext(s.ctx, method,
		fmt.Sprintf("%s/v1/coupons/%d/applications%s", s.api.apply, couponID, path), nil)
	if err != nil {
		return 0
	}
	request.Header.Set("X-User-ID", fmt.Sprint(user))
	response, err := s.client.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// crowd starts so many applicants. Each applies for the coupons in turn and looks up its standing, with pauses, until
// the end.
func (s *shards) crowd(size int, pause time.Duration, coupons []int, healthy bool) {
	for range size {
		s.applicants.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-s.stop:
					return
				case <-time.After(pause):
				}
				user, coupon := s.users.Add(1), coupons[i%len(coupons)]
				applied, standing := s.ask(http.MethodPost, coupon, user, ""),
					s.ask(http.MethodGet, coupon, user, "/me")
				if !healthy {
					continue
				}
				switch {
				case applied == http.StatusAccepted && standing == http.StatusOK:
					s.healthyAnswers.Add(1)
				case applied == http.StatusServiceUnavailable || standing == http.StatusServiceUnavailable:
					s.healthyAnswers.Store(0) // this machine may be slower than a timeout for Redis
				default:
					s.t.Errorf("healthy coupon %d: status %d of applying, status %d of the standing", coupon, applied,
						standing)
				}
			}
		})
	}
}

// lengths are the lengths of queues by coupon, from one scrape.
func (p *program) lengths() map[int]int {
	p.t.Helper()
	_, text := p.get("/metrics")
	lengths := map[int]int{}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "jajeong_queue_length{") {
			continue
		}
		var coupon, length int
		if n, _ := fmt.Sscanf(line, `jajeong_queue_length{coupon_id="%d"} %d`, &coupon, &length); n == 2 {
			lengths[coupon] = length
		}
	}
	return lengths
}

func TestHangingShardAffectsOnlyItsCoupons(t *testing.T) {
	t.Parallel()
	s := newShards(t, 75)
	require.Greater(t, len(s.hung), 16)
	applied := func(couponID int) bool { // 200: an earlier request was accepted, and its response was lost
		status := s.ask(http.MethodPost, couponID, 1, "")
		return status == http.StatusAccepted || status == http.StatusOK
	}
	testenv.Eventually(t, "the user has applied", func() bool { return applied(s.hung[0]) })
	require.NoError(t, s.frozen.Freeze())

	s.crowd(64, 250*time.Millisecond, s.hung, false)
	healthy := s.healthy // without the coupons that follow
	s.crowd(4, 20*time.Millisecond, healthy, true)
	testenv.Eventually(t, "every healthy coupon has had applicants, and none was refused",
		func() bool { return s.healthyAnswers.Load() > int64(4*len(healthy)) })

	id := 1000
	for s.add(id) {
		id++
	}
	testenv.Eventually(t, "a new coupon has its window", func() bool { return applied(id) })
	testenv.Eventually(t, "the metrics have the queues of all healthy coupons", func() bool {
		lengths := s.api.lengths()
		require.NotContains(t, lengths, s.hung[0])
		return !slices.ContainsFunc(healthy, func(coupon int) bool { return lengths[coupon] == 0 })
	})
	s.api.awaitReady(http.StatusOK)

	s.end()
	require.NoError(t, s.frozen.Thaw())
	testenv.Eventually(t, "the hung coupons accept applications again", func() bool {
		return s.ask(http.MethodGet, s.hung[0], 1, "/me") == http.StatusOK &&
			s.ask(http.MethodPost, s.hung[1], s.users.Add(1), "") == http.StatusAccepted
	})
}
