package main

import (
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/topology"
)

// shards is a Cluster of three masters, and apply-api with coupons on all of them.
type shards struct {
	t              *testing.T
	db             *sql.DB
	any            *redis.Client
	frozen         *testenv.Redis
	hung, healthy  []int // coupons
	api            *program
	client         *http.Client
	users          atomic.Int64
	stop           chan struct{}
	end            func()
	asking         sync.WaitGroup
	healthyAnswers atomic.Int64
}

// newShards has so many coupons; those of one master are the hung ones.
func newShards(t *testing.T, coupons int) *shards {
	t.Helper()
	nodes := topology.StartCluster(t, 3)
	var addrs []string
	for _, node := range nodes {
		require.NoError(t, redisClient(t, node.Addr()).ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
		addrs = append(addrs, node.Addr())
	}
	dsn := testenv.MySQLFor(t).DSN
	api := migrated(t, dsn)
	db, err := (&connect.MySQLSettings{MySQLDSN: dsn}).Open(zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	s := &shards{t: t, db: db, any: redisClient(t, nodes[1].Addr()), frozen: nodes[0], stop: make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: answeredWithin}}
	s.end = sync.OnceFunc(func() {
		close(s.stop)
		s.asking.Wait()
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

// add makes one more coupon and says whether it is on the first master.
func (s *shards) add(id int) (hung bool) {
	s.t.Helper()
	_, err := s.db.ExecContext(s.t.Context(), `INSERT INTO coupon (id, name, total_quantity, apply_opens_at, apply_closes_at)
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

// ask returns the status of an answer; 0 when there was none.
func (s *shards) ask(method string, coupon int, user int64, path string) int {
	request, err := http.NewRequest(method, fmt.Sprintf("%s/v1/coupons/%d/applications%s", s.api.apply, coupon, path), nil)
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

// crowd has so many ask for coupons, one after the other, and look where they stand, until the end.
func (s *shards) crowd(size int, coupons []int, healthy bool) {
	for range size {
		s.asking.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-s.stop:
					return
				default:
				}
				user, coupon := s.users.Add(1), coupons[i%len(coupons)]
				applied, told := s.ask(http.MethodPost, coupon, user, ""), s.ask(http.MethodGet, coupon, user, "/me")
				if !healthy {
					continue
				}
				s.healthyAnswers.Add(1)
				if applied != http.StatusAccepted || told != http.StatusOK {
					s.t.Errorf("healthy coupon %d: applied %d, told %d", coupon, applied, told)
				}
			}
		})
	}
}

// lengths are the lengths of queues, by coupon, as one scrape has them.
func (p *program) lengths() map[int]int {
	p.t.Helper()
	_, text := p.get("/metrics")
	lengths := map[int]int{}
	for line := range strings.Lines(text) {
		var coupon, length int
		if n, _ := fmt.Sscanf(line, `jajeong_queue_length{coupon_id="%d"} %d`, &coupon, &length); n == 2 {
			lengths[coupon] = length
		}
	}
	return lengths
}

// promised is how many healthy coupons MySQL has as many promises of as were asked for.
func (s *shards) promised(least int64) (coupons int) {
	s.t.Helper()
	for _, id := range s.healthy {
		var accepted int64
		if err := s.db.QueryRowContext(s.t.Context(), "SELECT accepted FROM promise WHERE coupon_id = ?", id).Scan(&accepted); err == nil && accepted >= least {
			coupons++
		}
	}
	return coupons
}

func TestAShardThatHangsCostsOnlyItsCoupons(t *testing.T) {
	t.Parallel()
	s := newShards(t, 150)
	require.Greater(t, len(s.hung), 20)
	require.Equal(t, http.StatusAccepted, s.ask(http.MethodPost, s.hung[0], 1, ""))
	require.NoError(t, s.frozen.Freeze())

	s.crowd(64, s.hung, false)
	healthy := s.healthy // without the coupons that follow
	s.crowd(4, healthy, true)
	first := s.healthyAnswers.Load()
	testenv.Eventually(t, soon, "everybody has been asked for", func() bool { return s.healthyAnswers.Load() > first+int64(4*len(healthy)) })
	testenv.Eventually(t, soon, "MySQL knows the promises of all healthy coupons", func() bool { return s.promised(4) == len(healthy) })

	id := 1000
	for s.add(id) {
		id++
	}
	testenv.Eventually(t, soon, "a new coupon has its window", func() bool {
		return s.ask(http.MethodPost, id, 1, "") == http.StatusAccepted
	})
	lengths := s.api.lengths()
	for _, coupon := range healthy {
		require.Positive(t, lengths[coupon])
	}
	require.NotContains(t, lengths, s.hung[0])
	require.Equal(t, http.StatusOK, s.api.ready())

	s.end()
	require.NoError(t, s.frozen.Thaw())
	testenv.Eventually(t, soon, "the others are well again", func() bool {
		return s.ask(http.MethodGet, s.hung[0], 1, "/me") == http.StatusOK && s.ask(http.MethodPost, s.hung[1], s.users.Add(1), "") == http.StatusAccepted
	})
}
