package candidates

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/rediserr"
)

// SaveCatalog stores the catalog snapshot in Redis, for processes that cannot reach MySQL.
func (s *Store) SaveCatalog(ctx context.Context, snapshot []byte) error {
	if err := s.rdb.Set(ctx, s.names.catalog(), snapshot, 0).Err(); err != nil {
		return fmt.Errorf("save catalog snapshot: %w", rediserr.Classify(err))
	}
	return nil
}

// CatalogHead returns the first bytes of the catalog snapshot. It returns no bytes if there is no snapshot.
func (s *Store) CatalogHead(ctx context.Context, bytes int64) ([]byte, error) {
	head, err := s.rdb.GetRange(ctx, s.names.catalog(), 0, bytes-1).Bytes()
	if err != nil {
		return nil, fmt.Errorf("read head of catalog snapshot: %w", rediserr.Classify(err))
	}
	return head, nil
}

// LoadCatalog returns the catalog snapshot. It returns nil if there is no snapshot.
func (s *Store) LoadCatalog(ctx context.Context) ([]byte, error) {
	snapshot, err := s.rdb.Get(ctx, s.names.catalog()).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load catalog snapshot: %w", rediserr.Classify(err))
	}
	return snapshot, nil
}
