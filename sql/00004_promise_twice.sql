-- Of the promises counted in `accepted`, how many were counted twice: a server of Redis took the first application of a user with
-- it, the user applied again, and both servers counted. counted_since is when the last server that counted began to (µs since
-- 1970, by its clock). Portable SQL knows no ADD COLUMN IF NOT EXISTS, so that the schema is asked first.

-- +goose Up

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE promise
    ADD COLUMN twice         BIGINT UNSIGNED NOT NULL DEFAULT 0,
    ADD COLUMN counted_since BIGINT UNSIGNED NOT NULL DEFAULT 0')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'promise' AND column_name = 'twice');
PREPARE step FROM @ddl;
EXECUTE step;
DEALLOCATE PREPARE step;
