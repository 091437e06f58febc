-- What happens to a coupon after it was issued: reserved for an order, used, given back, revoked, extended. Portable SQL has no
-- ADD COLUMN IF NOT EXISTS, so each step reads the schema first: a migration that was killed half way can be run again.

-- +goose Up

-- A coupon has either discount_won, or discount_percent and its limit discount_max_won. An order below minimum_won gets none.
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE coupon
    ADD COLUMN discount_percent TINYINT UNSIGNED NOT NULL DEFAULT 0,
    ADD COLUMN discount_max_won BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN minimum_won      BIGINT NOT NULL DEFAULT 0')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'coupon' AND column_name = 'discount_percent');
PREPARE step FROM @ddl;
EXECUTE step;
DEALLOCATE PREPARE step;

-- order_id is the order that has the coupon, reserved or used. seq is the number of its last row in coupon_log; 0: none.
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE user_coupon
    MODIFY COLUMN status ENUM(''ISSUED'',''USED'',''EXPIRED'',''REVOKED'',''RESERVED'') NOT NULL DEFAULT ''ISSUED'',
    ADD COLUMN order_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
    ADD COLUMN seq      INT UNSIGNED NOT NULL DEFAULT 0')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'user_coupon' AND column_name = 'order_id');
PREPARE step FROM @ddl;
EXECUTE step;
DEALLOCATE PREPARE step;

-- One row for each order that ever had a coupon. The order has a coupon while state is RESERVED or USED.
CREATE TABLE IF NOT EXISTS coupon_order (
    order_id       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    user_coupon_id BIGINT UNSIGNED NOT NULL,
    user_id        BIGINT UNSIGNED NOT NULL,
    amount_won     BIGINT          NOT NULL,
    discount_won   BIGINT          NOT NULL,
    state          ENUM('RESERVED','USED','RELEASED','REFUNDED') NOT NULL,
    reserved_until DATETIME(6)     NOT NULL,
    PRIMARY KEY (order_id),
    KEY coupon_order_coupon (user_coupon_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- Append-only: every change of an issued coupon, numbered from 1 by seq. amount_won and discount_won are those of the order;
-- expires_at is the new end of validity, with GRANTED and EXTENDED; seats is by how much total_quantity changed with it.
CREATE TABLE IF NOT EXISTS coupon_log (
    id             BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    user_coupon_id BIGINT UNSIGNED NOT NULL,
    seq            INT UNSIGNED    NOT NULL,
    kind           ENUM('RESERVED','USED','RELEASED','REFUNDED','GRANTED','REVOKED','REISSUED','EXTENDED') NOT NULL,
    order_id       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
    amount_won     BIGINT          NULL,
    discount_won   BIGINT          NULL,
    expires_at     DATETIME(6)     NULL,
    seats          TINYINT         NOT NULL DEFAULT 0,
    actor          VARCHAR(100)    NOT NULL,
    at             DATETIME(6)     NOT NULL,
    published_at   DATETIME(6)     NULL,
    PRIMARY KEY (id),
    UNIQUE KEY coupon_log_seq (user_coupon_id, seq)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- The number of outcomes that `settle user forget` has deleted. The account of the coupon adds it.
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE promise
    ADD COLUMN erased BIGINT UNSIGNED NOT NULL DEFAULT 0')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'promise' AND column_name = 'erased');
PREPARE step FROM @ddl;
EXECUTE step;
DEALLOCATE PREPARE step;

-- The hash of an event covers user_hash = SHA-256(user_salt, user id) instead of user_id, so that `settle user forget` can
-- empty user_id and user_salt. Events of earlier versions have no user_hash: their hash covers user_id.
SET @ddl = (SELECT IF(COUNT(*) > 0, 'DO 0', 'ALTER TABLE audit_event
    ADD COLUMN user_salt BINARY(16) NULL,
    ADD COLUMN user_hash BINARY(32) NULL')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'audit_event' AND column_name = 'user_hash');
PREPARE step FROM @ddl;
EXECUTE step;
DEALLOCATE PREPARE step;

-- What remains of a coupon that `settle purge` has deleted. rows_deleted_at is NULL while rows of the coupon may remain.
CREATE TABLE IF NOT EXISTS purged_coupon (
    coupon_id          BIGINT UNSIGNED NOT NULL,
    name               VARCHAR(200)    NOT NULL,
    campaign_id        BIGINT UNSIGNED NULL,
    apply_opens_at     DATETIME(6)     NOT NULL,
    apply_closes_at    DATETIME(6)     NOT NULL,
    finalised_at       DATETIME(6)     NOT NULL,
    total_quantity     INT UNSIGNED    NOT NULL,
    accepted           BIGINT UNSIGNED NOT NULL,
    issued_count       INT UNSIGNED    NOT NULL,
    used_count         INT UNSIGNED    NOT NULL,
    used_won           BIGINT          NOT NULL,
    revoked_count      INT UNSIGNED    NOT NULL,
    not_selected_count BIGINT UNSIGNED NOT NULL,
    rejected_count     BIGINT UNSIGNED NOT NULL,
    audit_seq          BIGINT UNSIGNED NOT NULL,
    audit_hash         VARCHAR(80)     NOT NULL,
    actor              VARCHAR(100)    NOT NULL,
    reason             VARCHAR(500)    NOT NULL,
    purged_at          DATETIME(6)     NOT NULL,
    rows_deleted_at    DATETIME(6)     NULL,
    PRIMARY KEY (coupon_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
