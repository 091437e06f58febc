package candidates

import (
	"context"
	"errors"
	"fmt"
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

// EvictionPolicy is the maxmemory policy, in a Cluster that of a master which has another than NoEviction, if any. An
// error tells who did not answer: whoever did is in the policy all the same, which is empty when nobody did.
func (s *Store) EvictionPolicy(ctx context.Context) (string, error) {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return evictionPolicy(ctx, s.rdb)
	}
	asking, cancel := context.WithTimeout(ctx, mastersTimeout)
	defer cancel()
	var mu sync.Mutex
	var found string
	var away []error
	err := cluster.ForEachMaster(asking, func(_ context.Context, master *redis.Client) error {
		policy, err := evictionPolicy(ctx, master)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			away = append(away, fmt.Errorf("%s: %w", master.Options().Addr, err))
		case found == "" || policy != NoEviction:
			found = policy
		}
		return nil
	})
	return found, errors.Join(append(away, err)...)
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
