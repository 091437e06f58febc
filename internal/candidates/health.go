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
	// NoEviction is the only safe maxmemory-policy. Every other policy may delete keys that have a TTL, such as queues.
	NoEviction = "noeviction"

	// NearlyFull is the used share of maxmemory above which Redis is reported as nearly full.
	NearlyFull = 0.9

	// mastersTimeout limits the search for a Cluster's masters. It leaves time to ask them even if a node hangs.
	mastersTimeout = 300 * time.Millisecond

	// collectTimeout is the time limit of one collection. A Prometheus scrape has a longer one.
	collectTimeout = 2 * time.Second
)

// Memory describes how much memory Redis may use and does use.
type Memory struct {
	Policy string // maxmemory-policy; empty: no server replied
	Used   int64  // bytes that count against maxmemory
	Max    int64  // maxmemory in bytes; 0: unlimited
}

// Share returns the used share of maxmemory. It is 0 if memory is unlimited.
func (m Memory) Share() float64 {
	if m.Max == 0 {
		return 0
	}
	return float64(m.Used) / float64(m.Max)
}

// Memory reads eviction policy and memory usage. For a Cluster it returns an unsafe policy if any master has one, and
// the usage of the fullest master. Masters that do not reply are left out of the result and named in the error.
func (s *Store) Memory(ctx context.Context) (Memory, error) {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return memoryOf(ctx, s.rdb)
	}
	discovery, cancel := context.WithTimeout(ctx, mastersTimeout)
	defer cancel()
	var mu sync.Mutex // guards found and failed
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
		n, _ := strconv.ParseInt(fields[name], 10, 64) // 0 if the field is missing
		return n
	}
	return Memory{Policy: fields["maxmemory_policy"], Used: number("used_memory") - number("mem_not_counted_for_evict"), Max: number("maxmemory")}, nil
}

// Metrics returns a collector that reads Redis at each scrape. It exports no values while Redis does not reply.
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
	memory, _ := c.Memory(ctx) // masters that do not reply are left out
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
