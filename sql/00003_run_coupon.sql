-- How one run came out for one coupon: how long it took, and why it did not settle it. A row only where something was
-- changed or went wrong, written as the run ends; a run that was killed has none. What was changed is in settlement, which
-- has a row though the run was killed, and none where a coupon was held.

-- +goose Up

CREATE TABLE IF NOT EXISTS run_coupon (
    run_id      BIGINT UNSIGNED NOT NULL,
    coupon_id   BIGINT UNSIGNED NOT NULL,
    status      ENUM('SETTLED','HELD','BUSY','FAILED') NOT NULL DEFAULT 'SETTLED',
    gap         BIGINT          NOT NULL DEFAULT 0,
    duration_ms BIGINT UNSIGNED NOT NULL DEFAULT 0,
    error       VARCHAR(2000)   NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, coupon_id),
    KEY run_coupon_coupon (coupon_id, run_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
