package testenv

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// scanCount blocks Redis for a fraction of a millisecond.
const scanCount = 500

// removeKeys removes every key that contains the prefix, on every master of a Cluster. Prefixes are random, so all
// these keys belong to this test.
func removeKeys(ctx context.Context, client redis.UniversalClient, prefix string) error {
	return onEveryMaster(ctx, client, func(ctx context.Context, node redis.UniversalClient) error {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, "*"+prefix+"*", scanCount).Result()
			if err == nil {
				err = unlink(ctx, node, keys)
			}
			if err != nil {
				return fmt.Errorf("remove the keys of %s: %w", prefix, err)
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	})
}

// unlink sends a command for each key: in a Cluster, one command's keys must share a slot.
func unlink(ctx context.Context, node redis.Cmdable, keys []string) error {
	_, err := node.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.Unlink(ctx, key)
		}
		return nil
	})
	return err
}
