-- The journal: a copy, in MySQL, of the applications that wait in Redis or are under review there. If Redis loses them, they are
-- put back from here. `settle serve` writes it, at most a second behind.

-- +goose Up

-- One row for each application, and for each arrival at which it ever stood (µs since 1970). Rows of finalised coupons are deleted.
CREATE TABLE IF NOT EXISTS line_journal (
    coupon_id BIGINT UNSIGNED NOT NULL,
    arrival   BIGINT UNSIGNED NOT NULL,
    user_id   BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (coupon_id, arrival, user_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- How far the journal of a coupon came: line_journal has everybody who stood at up_to or before it. The process that writes the
-- coupon's journal holds the lock on its row.
CREATE TABLE IF NOT EXISTS journal (
    coupon_id  BIGINT UNSIGNED NOT NULL,
    up_to      BIGINT UNSIGNED NOT NULL DEFAULT 0,
    written_at DATETIME(6)     NOT NULL,
    PRIMARY KEY (coupon_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
