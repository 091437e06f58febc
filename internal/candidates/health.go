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

	"github.com/jajeong/jajeong/internal/rediserr"
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

// Health is what Redis says about its memory and its files.
type Health struct {
	Policy string // maxmemory-policy; empty: no server replied
	Used   int64  // bytes that count against maxmemory
	Max    int64  // maxmemory in bytes; 0: unlimited

	// SnapshotFailed reports that the last snapshot has failed. Redis refuses writes only if it has save points, and
	// stop-writes-on-bgsave-error, which is the default.
	SnapshotFailed bool
	// AppendFailed reports that the last write to the append-only file has failed. Redis refuses writes. With
	// appendfsync always it exits instead.
	AppendFailed bool
}

// Share returns the used share of maxmemory. It is 0 if memory is unlimited.
func (h Health) Share() float64 {
	if h.Max == 0 {
		return 0
	}
	return float64(h.Used) / float64(h.Max)
}

// Health asks Redis. For a Cluster it returns an unsafe policy if any master has one, the usage of the fullest master,
// and whether any could not write a file. Masters that do not reply are left out of the result and named in the error.
func (s *Store) Health(ctx context.Context) (Health, error) {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return healthOf(ctx, s.rdb)
	}
	discovery, cancel := context.WithTimeout(ctx, mastersTimeout)
	defer cancel()
	var mu sync.Mutex // guards found and failed
	var found Health
	var failed []error
	err := cluster.ForEachMaster(discovery, func(_ context.Context, master *redis.Client) error {
		health, err := healthOf(ctx, master)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", master.Options().Addr, err))
			return nil
		}
		if found.Policy == "" || health.Policy != NoEviction {
			found.Policy = health.Policy
		}
		if found.Max == 0 || health.Share() > found.Share() {
			found.Used, found.Max = health.Used, health.Max
		}
		found.SnapshotFailed = found.SnapshotFailed || health.SnapshotFailed
		found.AppendFailed = found.AppendFailed || health.AppendFailed
		return nil
	})
	return found, errors.Join(append(failed, err)...)
}

func healthOf(ctx context.Context, node redis.Cmdable) (Health, error) {
	info, err := node.Info(ctx, "memory", "persistence").Result()
	if err != nil {
		return Health{}, fmt.Errorf("read INFO memory persistence: %w", rediserr.Classify(err))
	}
	return parseHealth(info)
}

// parseHealth reads the sections memory and persistence of INFO.
func parseHealth(info string) (Health, error) {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	if fields["maxmemory_policy"] == "" {
		return Health{}, errors.New("INFO memory names no maxmemory_policy")
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(fields[name], 10, 64) // 0 if the field is missing
		return n
	}
	return Health{
		Policy: fields["maxmemory_policy"],
		Used:   number("used_memory") - number("mem_not_counted_for_evict"), Max: number("maxmemory"),
		SnapshotFailed: fields["rdb_last_bgsave_status"] == "err",
		AppendFailed:   fields["aof_last_write_status"] == "err",
	}, nil
}

// Metrics returns a collector that reads Redis at each scrape. It exports no values while Redis does not reply.
func (s *Store) Metrics() prometheus.Collector { return healthCollector{s} }

type healthCollector struct{ *Store }

var (
	evictsDesc = prometheus.NewDesc("jajeong_redis_eviction_policy_wrong",
		"1 if the maxmemory-policy of Redis, or of one master of a Cluster, is not noeviction: it may evict "+
			"applications.", nil, nil)
	usedDesc = prometheus.NewDesc("jajeong_redis_memory_used_ratio",
		"Used share of maxmemory of Redis, or of the fullest master of a Cluster; 0 without maxmemory.", nil, nil)
	notSavingDesc = prometheus.NewDesc("jajeong_redis_not_saving",
		"1 if the last snapshot of Redis or the last write to its append-only file failed, or that of one master of "+
			"a Cluster.",
		[]string{"file"}, nil)
)

func (healthCollector) Describe(to chan<- *prometheus.Desc) {
	to <- evictsDesc
	to <- usedDesc
	to <- notSavingDesc
}

func (c healthCollector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	health, _ := c.Health(ctx) // masters that do not reply are left out
	if health.Policy == "" {
		return
	}
	to <- prometheus.MustNewConstMetric(evictsDesc, prometheus.GaugeValue, oneIf(health.Policy != NoEviction))
	to <- prometheus.MustNewConstMetric(usedDesc, prometheus.GaugeValue, health.Share())
	to <- prometheus.MustNewConstMetric(notSavingDesc, prometheus.GaugeValue, oneIf(health.SnapshotFailed), "snapshot")
	to <- prometheus.MustNewConstMetric(notSavingDesc, prometheus.GaugeValue, oneIf(health.AppendFailed), "append_only")
}

func oneIf(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}
