-- The events of a coupon become a chain: each has a number and a SHA-256 over the event before and all that it says.
-- The last number and hash stand in audit_head too, so that taking away the last events shows. Portable SQL knows no ADD
-- COLUMN IF NOT EXISTS, so that the schema is asked first: a migration that was killed half way can be run again.

-- +goose Up

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE audit_event
    ADD COLUMN seq  BIGINT UNSIGNED NULL,
    ADD COLUMN hash VARCHAR(80)     NULL,
    ADD UNIQUE KEY audit_event_chain (coupon_id, seq)')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'audit_event' AND column_name = 'seq');
PREPARE step FROM @ddl;
EXECUTE step;
DEALLOCATE PREPARE step;

-- The end of each coupon's chain, written with the event under the coupon's lock.
CREATE TABLE IF NOT EXISTS audit_head (
    coupon_id BIGINT UNSIGNED NOT NULL,
    seq       BIGINT UNSIGNED NOT NULL,
    hash      VARCHAR(80)     NOT NULL,
    PRIMARY KEY (coupon_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- Events that are there already are chained as if they had been from the beginning, so that there is one rule for all.
-- The hash is that of ledger.AuditEvent: every field with its length before it, - for NULL. Assignments are done from
-- left to right, rows in order.
SET @coupon = NULL, @seq = 0, @hash = '';
UPDATE audit_event
SET seq = (@seq := IF(coupon_id = @coupon, @seq + 1, 1)),
    hash = (@hash := CONCAT('sha256:', SHA2(CONCAT(
        IF(coupon_id = @coupon, CONCAT(LENGTH(@hash), ':', @hash), '0:'),
        LENGTH(@seq), ':', @seq,
        LENGTH(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', at)), ':', TIMESTAMPDIFF(MICROSECOND, '1970-01-01', at),
        LENGTH(actor), ':', actor,
        LENGTH(action), ':', action,
        LENGTH(coupon_id), ':', coupon_id,
        COALESCE(CONCAT(LENGTH(user_id), ':', user_id), '-'),
        COALESCE(CONCAT(LENGTH(run_id), ':', run_id), '-'),
        LENGTH(reason), ':', reason,
        LENGTH(detail), ':', detail), 256))),
    coupon_id = (@coupon := coupon_id)
WHERE coupon_id IS NOT NULL AND seq IS NULL
ORDER BY coupon_id, id;

INSERT INTO audit_head (coupon_id, seq, hash)
SELECT e.coupon_id, e.seq, e.hash FROM audit_event e
WHERE e.seq = (SELECT MAX(l.seq) FROM audit_event l WHERE l.coupon_id = e.coupon_id)
  AND NOT EXISTS (SELECT 1 FROM audit_head h WHERE h.coupon_id = e.coupon_id);
