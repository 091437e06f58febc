-- Outcomes that `settle user forget` has deleted, apart by outcome, so that the summary of a purged coupon can tell them. Portable
-- SQL has no ADD COLUMN IF NOT EXISTS, so the step reads the schema first: a migration that was killed half way can be run again.

-- +goose Up

-- erased_rejected is the part of erased that was REJECTED; the rest was NOT_SELECTED. Outcomes that an earlier version has
-- deleted all count as NOT_SELECTED.
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE promise
    ADD COLUMN erased_rejected BIGINT UNSIGNED NOT NULL DEFAULT 0')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'promise' AND column_name = 'erased_rejected');
PREPARE step FROM @ddl;
EXECUTE step;
DEALLOCATE PREPARE step;
