-- version orders the changes of a coupon's window and status for its door in Redis, so that a slow process cannot put an
-- older window back. Whoever changes them under the row's lock raises it by one; a settlement does not. It takes the place of
-- updated_at, which a settlement moved and a clock could set back. It begins above every instant in µs, the versions that
-- doors have kept until now, and below 9·10^15, up to which Redis scripts count in whole numbers.

-- +goose Up

SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE coupon
    ADD COLUMN version BIGINT UNSIGNED NOT NULL DEFAULT 5000000000000000')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'coupon' AND column_name = 'version');
PREPARE step FROM @ddl;
EXECUTE step;
DEALLOCATE PREPARE step;
