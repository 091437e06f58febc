package candidates

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// NoEviction is the only policy that keeps candidates: every other one evicts keys that have a TTL.
const NoEviction = "noeviction"

// EvictionPolicy is the maxmemory policy, in a Cluster that of a master which has another than NoEviction, if any. An
// error means that Redis, or one master, cannot be reached.
func (s *Store) EvictionPolicy(ctx context.Context) (string, error) {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return evictionPolicy(ctx, s.rdb)
	}
	var mu sync.Mutex
	found := NoEviction
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		policy, err := evictionPolicy(ctx, master)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if policy != NoEviction {
			found = policy
		}
		return nil
	})
	return found, err
}

func evictionPolicy(ctx context.Context, node redis.Cmdable) (string, error) {
	info, err := node.Info(ctx, "memory").Result()
	if err != nil {
		return "", fmt.Errorf("read INFO memory: %w", err)
	}
	for line := range strings.Lines(info) {
		if policy, ok := strings.CutPrefix(line, "maxmemory_policy:"); ok {
			return strings.TrimSpace(policy), nil
		}
	}
	return "", errors.New("INFO memory names no maxmemory_policy")
}
