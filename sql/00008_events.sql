-- Events: `settle serve` publishes what was issued, and what happened to it afterwards. Portable SQL has no ADD COLUMN IF NOT
-- EXISTS, so each step reads the schema first: a migration that was killed half way can be run again.

-- +goose Up

-- published_at: when the relay had published the events of the settlement. NULL: not yet, or there are no events.
-- 1970-01-01: settled before the events were turned on. first_user_coupon_id is not above the id of any user_coupon row of the
-- settlement, so that its rows are found without an index; NULL: it issued nothing, or an earlier version settled it.
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE settlement
    ADD COLUMN first_user_coupon_id BIGINT UNSIGNED NULL,
    ADD COLUMN published_at         DATETIME(6)     NULL,
    ADD KEY settlement_published (published_at, first_user_coupon_id)')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'settlement' AND column_name = 'published_at');
PREPARE step FROM @ddl;
EXECUTE step;
DEALLOCATE PREPARE step;

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE coupon_log
    ADD KEY coupon_log_published (published_at)')
    FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'coupon_log' AND index_name = 'coupon_log_published');
PREPARE step FROM @ddl;
EXECUTE step;
DEALLOCATE PREPARE step;

-- How far the relay came, one row for each sink. The relay that works holds the lock on its row. from_at: when the events were
-- turned on; NULL: the settlements before that are being marked. run_id, coupon_id: the settlement whose events are published
-- up to position; unpublished events of it remain, and row_id is not above the id of any of their user_coupon rows. log_id: the
-- last row of coupon_log before the events were turned on. server: the server of the sink that has the last event. claimed_at:
-- when a process last began to publish to this sink; the latest one is the sink of the deployment.
CREATE TABLE IF NOT EXISTS event_relay (
    sink        VARCHAR(20)     NOT NULL,
    from_at     DATETIME(6)     NULL,
    run_id      BIGINT UNSIGNED NULL,
    coupon_id   BIGINT UNSIGNED NULL,
    position    INT UNSIGNED    NOT NULL DEFAULT 0,
    unpublished INT UNSIGNED    NOT NULL DEFAULT 0,
    row_id      BIGINT UNSIGNED NOT NULL DEFAULT 0,
    log_id      BIGINT UNSIGNED NOT NULL DEFAULT 0,
    server      VARCHAR(100)    NOT NULL DEFAULT '',
    claimed_at  DATETIME(6)     NULL,
    PRIMARY KEY (sink)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
