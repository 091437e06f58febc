package candidates

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

const (
	// NoEviction is the only safe maxmemory-policy. Every other one evicts keys with a TTL.
	NoEviction = "noeviction"

	// NearlyFull is the share of maxmemory above which Redis is reported as nearly full. A full Redis rejects new applications.
	NearlyFull = 0.9

	// mastersTimeout bounds the discovery of masters, so that a node that hangs leaves time for the others.
	mastersTimeout = 300 * time.Millisecond

	// collectTimeout is shorter than that of a scrape.
	collectTimeout = 2 * time.Second
)

// Memory is the memory of a Redis.
type Memory struct {
	Policy string // maxmemory-policy; empty: no server replied
	Used   int64  // bytes that count against maxmemory
	Max    int64  // maxmemory; 0: unlimited
}

// Share is the used share of maxmemory; 0 without a limit.
func (m Memory) Share() float64 {
	if m.Max == 0 {
		return 0
	}
	return float64(m.Used) / float64(m.Max)
}

// Memory reads the memory of Redis. In a Cluster it returns an unsafe policy if any master has one, and the usage of the fullest
// master. The error names masters that did not reply; the result is that of the others.
func (s *Store) Memory(ctx context.Context) (Memory, error) {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return memoryOf(ctx, s.rdb)
	}
	discovery, cancel := context.WithTimeout(ctx, mastersTimeout)
	defer cancel()
	var mu sync.Mutex // guards what follows
	var found Memory
	var failed []error
	err := cluster.ForEachMaster(discovery, func(_ context.Context, master *redis.Client) error {
		memory, err := memoryOf(ctx, master)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", master.Options().Addr, err))
			return nil
		}
		if found.Policy == "" || memory.Policy != NoEviction {
			found.Policy = memory.Policy
		}
		if found.Max == 0 || memory.Share() > found.Share() {
			found.Used, found.Max = memory.Used, memory.Max
		}
		return nil
	})
	return found, errors.Join(append(failed, err)...)
}

func memoryOf(ctx context.Context, node redis.Cmdable) (Memory, error) {
	info, err := node.Info(ctx, "memory").Result()
	if err != nil {
		return Memory{}, fmt.Errorf("read INFO memory: %w", classify(err))
	}
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	if fields["maxmemory_policy"] == "" {
		return Memory{}, errors.New("INFO memory names no maxmemory_policy")
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(fields[name], 10, 64) // 0 without such a field
		return n
	}
	return Memory{Policy: fields["maxmemory_policy"], Used: number("used_memory") - number("mem_not_counted_for_evict"), Max: number("maxmemory")}, nil
}

// Metrics collects the eviction policy and the usage of Redis at each scrape. They are absent while Redis does not reply.
func (s *Store) Metrics() prometheus.Collector { return memoryCollector{s} }

type memoryCollector struct{ *Store }

var (
	evictsDesc = prometheus.NewDesc("jajeong_redis_eviction_policy_wrong",
		"1 if the maxmemory-policy of Redis, or of one master of a Cluster, is not noeviction: it may evict applications.", nil, nil)
	usedDesc = prometheus.NewDesc("jajeong_redis_memory_used_ratio",
		"Used share of maxmemory of Redis, or of the fullest master of a Cluster; 0 without maxmemory.", nil, nil)
)

func (memoryCollector) Describe(to chan<- *prometheus.Desc) {
	to <- evictsDesc
	to <- usedDesc
}

func (c memoryCollector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	memory, _ := c.Memory(ctx) // of the servers that reply
	if memory.Policy == "" {
		return
	}
	wrong := 0.0
	if memory.Policy != NoEviction {
		wrong = 1
	}
	to <- prometheus.MustNewConstMetric(evictsDesc, prometheus.GaugeValue, wrong)
	to <- prometheus.MustNewConstMetric(usedDesc, prometheus.GaugeValue, memory.Share())
}
