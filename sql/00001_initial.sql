-- The whole schema. Every DATETIME is UTC with microseconds. IF NOT EXISTS lets a migration that was
-- killed half way (DDL commits by itself) be run again, and leaves a `user` table that is already there alone.

-- +goose Up

-- One campaign round. A row needs name, total_quantity and the window.
CREATE TABLE IF NOT EXISTS coupon (
    id              BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    name            VARCHAR(200)    NOT NULL,
    total_quantity  INT UNSIGNED    NOT NULL,
    issued_count    INT UNSIGNED    NOT NULL DEFAULT 0,
    apply_opens_at  DATETIME(6)     NOT NULL,
    apply_closes_at DATETIME(6)     NOT NULL,
    status          ENUM('OPEN','PAUSED') NOT NULL DEFAULT 'OPEN',
    campaign_id     BIGINT UNSIGNED NULL,
    validity_days   INT UNSIGNED    NOT NULL DEFAULT 30,
    discount_won    BIGINT          NOT NULL DEFAULT 0,
    finalised_at    DATETIME(6)     NULL,
    -- The version that orders changes of this row for the door in Redis, so that a slow pod cannot put an older
    -- window back. TIMESTAMP, not DATETIME: its value does not depend on the time zone of whoever edits the row. It ends
    -- in 2038 on servers that have not widened it; only the order matters, so another column can take over before.
    updated_at      TIMESTAMP(6)    NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
    PRIMARY KEY (id),
    KEY coupon_due (finalised_at, apply_opens_at),
    KEY coupon_closing (apply_closes_at),
    KEY coupon_campaign (campaign_id),
    CONSTRAINT coupon_never_oversold CHECK (issued_count <= total_quantity),
    CONSTRAINT coupon_valid_for_a_century_at_most CHECK (validity_days <= 36500),
    CONSTRAINT coupon_opens_before_it_closes CHECK (apply_opens_at < apply_closes_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- Owned by another team. Nothing refers to it by foreign key: that would lock every winner's row until commit.
CREATE TABLE IF NOT EXISTS `user` (
    id     BIGINT UNSIGNED NOT NULL,
    status ENUM('ACTIVE','BLOCKED','WITHDRAWN') NOT NULL DEFAULT 'ACTIVE',
    PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- Who holds a coupon. run_id is NULL for a coupon given by hand; position is the seat, 1 to total_quantity.
CREATE TABLE IF NOT EXISTS user_coupon (
    id         BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    coupon_id  BIGINT UNSIGNED NOT NULL,
    user_id    BIGINT UNSIGNED NOT NULL,
    position   INT UNSIGNED    NOT NULL DEFAULT 0,
    applied_at DATETIME(6)     NULL,
    issued_at  DATETIME(6)     NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    expires_at DATETIME(6)     NULL,
    run_id     BIGINT UNSIGNED NULL,
    status     ENUM('ISSUED','USED','EXPIRED','REVOKED') NOT NULL DEFAULT 'ISSUED',
    PRIMARY KEY (id),
    UNIQUE KEY user_coupon_once (coupon_id, user_id),
    KEY user_coupon_user (user_id),
    CONSTRAINT user_coupon_coupon FOREIGN KEY (coupon_id) REFERENCES coupon (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- Applications that were settled without a coupon. A member that is no user id is kept as user_id 0, the member in reason.
CREATE TABLE IF NOT EXISTS application_outcome (
    coupon_id   BIGINT UNSIGNED NOT NULL,
    user_id     BIGINT UNSIGNED NOT NULL,
    applied_at  DATETIME(6)     NOT NULL,
    outcome     ENUM('NOT_SELECTED','REJECTED','ALREADY_ISSUED') NOT NULL,
    reason      VARCHAR(500)    NOT NULL DEFAULT '',
    run_id      BIGINT UNSIGNED NULL,
    recorded_at DATETIME(6)     NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    PRIMARY KEY (coupon_id, user_id, applied_at),
    KEY application_outcome_line (coupon_id, outcome, applied_at, user_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- The highest promise counter and arrival ever seen per coupon (arrival in µs since 1970), so that a Redis that
-- lost data can neither rewind the line nor hide the loss. written_off: lost promises an operator has accepted.
CREATE TABLE IF NOT EXISTS promise (
    coupon_id    BIGINT UNSIGNED NOT NULL,
    accepted     BIGINT UNSIGNED NOT NULL DEFAULT 0,
    last_arrival BIGINT UNSIGNED NOT NULL DEFAULT 0,
    seen_at      DATETIME(6)     NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    written_off  BIGINT UNSIGNED NOT NULL DEFAULT 0,
    PRIMARY KEY (coupon_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- One execution of the job over all due coupons.
CREATE TABLE IF NOT EXISTS settlement_run (
    id           BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    trigger_kind ENUM('CRON','MANUAL','DLQ_RETRY') NOT NULL DEFAULT 'CRON',
    operator     VARCHAR(100)    NOT NULL DEFAULT '',
    reason       VARCHAR(500)    NOT NULL DEFAULT '',
    cutoff       DATETIME(6)     NOT NULL,
    started_at   DATETIME(6)     NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    heartbeat_at DATETIME(6)     NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    finished_at  DATETIME(6)     NULL,
    status       ENUM('RUNNING','SUCCEEDED','HELD','FAILED','ABANDONED') NOT NULL DEFAULT 'RUNNING',
    PRIMARY KEY (id),
    KEY settlement_run_cutoff (cutoff),
    KEY settlement_run_status (status, heartbeat_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- What one run did to one coupon; a row only where something changed. Arrivals in µs since 1970, NULL when nothing
-- was issued. cleaned_at stays NULL until Redis holds nothing of what this run settled.
CREATE TABLE IF NOT EXISTS settlement (
    run_id               BIGINT UNSIGNED NOT NULL,
    coupon_id            BIGINT UNSIGNED NOT NULL,
    read_count           BIGINT UNSIGNED NOT NULL DEFAULT 0,
    issued_count         INT UNSIGNED    NOT NULL DEFAULT 0,
    rejected_count       BIGINT UNSIGNED NOT NULL DEFAULT 0,
    already_issued_count BIGINT UNSIGNED NOT NULL DEFAULT 0,
    not_selected_count   BIGINT UNSIGNED NOT NULL DEFAULT 0,
    first_arrival        BIGINT UNSIGNED NULL,
    last_arrival         BIGINT UNSIGNED NULL,
    winners_digest       VARCHAR(80)     NULL,
    settled_at           DATETIME(6)     NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    cleaned_at           DATETIME(6)     NULL,
    PRIMARY KEY (run_id, coupon_id),
    KEY settlement_coupon (coupon_id, cleaned_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- Append-only: who did what to which coupon or user, why, when.
CREATE TABLE IF NOT EXISTS audit_event (
    id        BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    at        DATETIME(6)     NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    actor     VARCHAR(100)    NOT NULL,
    action    VARCHAR(50)     NOT NULL,
    coupon_id BIGINT UNSIGNED NULL,
    user_id   BIGINT UNSIGNED NULL,
    run_id    BIGINT UNSIGNED NULL,
    reason    VARCHAR(500)    NOT NULL DEFAULT '',
    detail    VARCHAR(2000)   NOT NULL DEFAULT '',
    PRIMARY KEY (id),
    KEY audit_event_coupon (coupon_id, id),
    KEY audit_event_user (user_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
