package candidates

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// NoEviction is the only policy that keeps candidates: every other one evicts keys that have a TTL.
const NoEviction = "noeviction"

// mastersTimeout is for asking who the masters are. One that hangs, asked first, must leave time to ask the others for their
// policy.
const mastersTimeout = 300 * time.Millisecond

// NearlyFull is the share of maxmemory from which on a Redis is said to be: without memory it refuses newcomers.
const NearlyFull = 0.9

// Memory is how a Redis deals with its memory.
type Memory struct {
	Policy string // the maxmemory-policy; empty when nobody answered
	Used   int64  // bytes that count against maxmemory
	Max    int64  // maxmemory; 0: no limit of its own
}

// Share is how much of maxmemory is used; 0 where there is no limit.
func (m Memory) Share() float64 {
	if m.Max == 0 {
		return 0
	}
	return float64(m.Used) / float64(m.Max)
}

// Memory is that of Redis; in a Cluster the policy of a master that has another than NoEviction, if any, and the use of the
// fullest. An error tells who did not answer: whoever did is told of all the same.
func (s *Store) Memory(ctx context.Context) (Memory, error) {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return memoryOf(ctx, s.rdb)
	}
	asking, cancel := context.WithTimeout(ctx, mastersTimeout)
	defer cancel()
	var mu sync.Mutex
	var found Memory
	var away []error
	err := cluster.ForEachMaster(asking, func(_ context.Context, master *redis.Client) error {
		memory, err := memoryOf(ctx, master)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			away = append(away, fmt.Errorf("%s: %w", master.Options().Addr, err))
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
	return found, errors.Join(append(away, err)...)
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
	m := Memory{Policy: fields["maxmemory_policy"]}
	if m.Policy == "" {
		return Memory{}, errors.New("INFO memory names no maxmemory_policy")
	}
	numbers := map[string]int64{"used_memory": 0, "mem_not_counted_for_evict": 0, "maxmemory": 0} // 0 where it is not told
	for name := range numbers {
		numbers[name], _ = strconv.ParseInt(fields[name], 10, 64)
	}
	m.Used, m.Max = numbers["used_memory"]-numbers["mem_not_counted_for_evict"], numbers["maxmemory"]
	return m, nil
}
