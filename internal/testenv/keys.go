package testenv

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// scanCount and unlinkCount block Redis for a fraction of a millisecond.
const (
	scanCount   = 1000
	unlinkCount = 500
)

// removeKeys removes every key with the prefix, at its start or after an opening brace, on every
// master of a Cluster. Prefixes are random: a key that contains the prefix anywhere belongs to this test.
func removeKeys(ctx context.Context, client redis.UniversalClient, prefix string) error {
	return onEveryMaster(ctx, client, func(ctx context.Context, node redis.UniversalClient) error {
		return removeKeysOn(ctx, node, prefix)
	})
}

func removeKeysOn(ctx context.Context, node redis.Cmdable, prefix string) error {
	var found []string
	for keys := node.Scan(ctx, 0, "*"+prefix+"*", scanCount).Iterator(); ; {
		more := keys.Next(ctx)
		if more {
			found = append(found, keys.Val())
		}
		if !more && keys.Err() != nil {
			return fmt.Errorf("scan keys of %s: %w", prefix, keys.Err())
		}
		if len(found) == unlinkCount || !more && len(found) > 0 {
			if err := unlink(ctx, node, found); err != nil {
				return fmt.Errorf("unlink keys of %s: %w", prefix, err)
			}
			found = found[:0]
		}
		if !more {
			return nil
		}
	}
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
