package job

import (
	"context"
	"database/sql"
	"time"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/mysqltx"
)

// old are the statements that delete rows of the days before. A key of a request is kept as long as its job.
var old = []string{
	"DELETE FROM idempotency WHERE at < UTC_TIMESTAMP(6) - INTERVAL 24 HOUR ORDER BY at LIMIT ?",
	"DELETE FROM job WHERE at < UTC_TIMESTAMP(6) - INTERVAL 24 HOUR ORDER BY at LIMIT ?",
}

const (
	maxDeleted = 1000 // by one statement
	cleanEvery = 10 * time.Minute
)

// Clean deletes old rows until ctx ends.
func Clean(ctx context.Context, db *sql.DB, logger *zap.Logger) {
	tick := time.NewTicker(cleanEvery)
	defer tick.Stop()
	for {
		if err := clean(ctx, db); err != nil && ctx.Err() == nil {
			logger.Warn("old jobs not deleted", zap.Error(err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func clean(ctx context.Context, db *sql.DB) error {
	for _, statement := range old {
		for deleted := maxDeleted; deleted == maxDeleted; {
			var err error
			if deleted, err = mysqltx.Affected(db.ExecContext(ctx, statement, maxDeleted)); err != nil {
				return err
			}
		}
	}
	return nil
}
