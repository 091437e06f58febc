-- The account of MySQL by which an event was written, beside the name that its operator has given. It is empty in events of earlier
-- versions, whose hash does not cover it. Portable SQL has no ADD COLUMN IF NOT EXISTS, so the step reads the schema first.

-- +goose Up

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE audit_event
    ADD COLUMN account VARCHAR(400) NOT NULL DEFAULT ''''')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'audit_event' AND column_name = 'account');
PREPARE step FROM @ddl;
EXECUTE step;
DEALLOCATE PREPARE step;
