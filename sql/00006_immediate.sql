-- Immediate coupons: `settle serve` settles them many times a second. So that a run does not count rows, table settled keeps
-- sums. A run is found again by its nonce. Portable SQL has no ADD COLUMN IF NOT EXISTS, so each step reads the schema first:
-- a migration that was killed half way can be run again.

-- +goose Up

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE coupon
    ADD COLUMN cadence    ENUM(''NIGHTLY'',''IMMEDIATE'') NOT NULL DEFAULT ''NIGHTLY'',
    ADD COLUMN line_limit INT UNSIGNED NULL,
    ADD COLUMN frozen     BOOLEAN NOT NULL DEFAULT FALSE')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'coupon' AND column_name = 'cadence');
PREPARE step FROM @ddl;
EXECUTE step;
DEALLOCATE PREPARE step;

-- The nonce is made by the process, because an auto-increment id can be given twice after a crash. An immediate run inserts
-- its row in the transaction of its first change.
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE settlement_run
    MODIFY COLUMN trigger_kind ENUM(''CRON'',''MANUAL'',''DLQ_RETRY'',''IMMEDIATE'') NOT NULL DEFAULT ''CRON'',
    ADD COLUMN nonce BINARY(16) NULL,
    ADD UNIQUE KEY settlement_run_nonce (nonce),
    ADD KEY settlement_run_trigger (trigger_kind, cutoff)')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'settlement_run' AND column_name = 'nonce');
PREPARE step FROM @ddl;
EXECUTE step;
DEALLOCATE PREPARE step;

ALTER TABLE run_coupon
    MODIFY COLUMN status ENUM('SETTLED','HELD','BUSY','FAILED','FROZEN') NOT NULL DEFAULT 'SETTLED';

-- With this index the highest arrival that got a seat is the first entry.
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE settlement
    ADD KEY settlement_last (coupon_id, last_arrival)')
    FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'settlement' AND index_name = 'settlement_last');
PREPARE step FROM @ddl;
EXECUTE step;
DEALLOCATE PREPARE step;

-- Sums over the rows that settlements wrote: issued counts user_coupon rows with a run, concluded counts application_outcome
-- rows, settled_up_to is the highest arrival with either, last_issued the highest arrival that ever got a seat (µs since
-- 1970). Only settlements write them, under the coupon's lock.
CREATE TABLE IF NOT EXISTS settled (
    coupon_id     BIGINT UNSIGNED NOT NULL,
    issued        BIGINT UNSIGNED NOT NULL DEFAULT 0,
    concluded     BIGINT UNSIGNED NOT NULL DEFAULT 0,
    settled_up_to BIGINT UNSIGNED NOT NULL DEFAULT 0,
    last_issued   BIGINT UNSIGNED NOT NULL DEFAULT 0,
    PRIMARY KEY (coupon_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

INSERT INTO settled (coupon_id, issued, concluded, last_issued, settled_up_to)
SELECT s.coupon_id, s.issued, s.concluded, s.last_issued, GREATEST(s.last_issued, s.last_concluded)
FROM (SELECT c.id AS coupon_id,
             (SELECT COUNT(*) FROM user_coupon u WHERE u.coupon_id = c.id AND u.run_id IS NOT NULL) AS issued,
             (SELECT COUNT(*) FROM application_outcome o WHERE o.coupon_id = c.id) AS concluded,
             COALESCE((SELECT MAX(l.last_arrival) FROM settlement l WHERE l.coupon_id = c.id), 0) AS last_issued,
             COALESCE((SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', MAX(o.applied_at))
                       FROM application_outcome o WHERE o.coupon_id = c.id), 0) AS last_concluded
      FROM coupon c) s
WHERE s.issued + s.concluded > 0
  AND NOT EXISTS (SELECT 1 FROM settled d WHERE d.coupon_id = s.coupon_id);
