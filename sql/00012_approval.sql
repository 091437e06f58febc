-- Approvals by a second person, and the policy that says which actions need one.

-- +goose Up

-- Each row is a version of the policy; the last one is in force. Row 1 names no action. Whoever makes a change that a policy may name
-- locks row 1 first, so that no change is under way while a version is added.
CREATE TABLE IF NOT EXISTS policy (
    id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    actions VARCHAR(200) NOT NULL,          -- that need an approval, with commas
    shared_accounts VARCHAR(2000) NOT NULL, -- accounts of MySQL that several persons use, with commas: they cannot approve
    set_at DATETIME(6) NOT NULL,            -- UTC
    set_by VARCHAR(100) NOT NULL,
    account VARCHAR(400) NOT NULL,          -- of MySQL, by which the version was written
    reason VARCHAR(500) NOT NULL,
    approval_id BIGINT UNSIGNED NULL,       -- NULL: none was needed
    runs_after BIGINT UNSIGNED NOT NULL,    -- the highest settlement_run.id when the version was added; later runs follow it
    events_after BIGINT UNSIGNED NOT NULL   -- likewise audit_event.id, for events without a run
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

INSERT IGNORE INTO policy (id, actions, shared_accounts, set_at, set_by, account, reason, approval_id, runs_after, events_after)
VALUES (1, '', '', UTC_TIMESTAMP(6), 'settle', '', 'no action needs an approval', NULL, 0, 0);

CREATE TABLE IF NOT EXISTS approval (
    id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    action VARCHAR(20) NOT NULL,
    coupon_id BIGINT UNSIGNED NOT NULL,     -- 0: the policy
    user_id BIGINT UNSIGNED NULL,           -- the person whom the plan is about; NULL: none, or forgotten
    plan MEDIUMTEXT NOT NULL,               -- JSON; empty after the person was forgotten
    digest CHAR(71) NOT NULL,
    reason VARCHAR(500) NOT NULL,
    maker VARCHAR(100) NOT NULL,
    maker_sign_in VARCHAR(400) NOT NULL,    -- who the sign-in of the console says the maker is; empty: the maker was at a terminal
    maker_account VARCHAR(400) NOT NULL,    -- of MySQL: the maker's own, or the console's
    created_at DATETIME(6) NOT NULL,        -- UTC, as all times
    expires_at DATETIME(6) NOT NULL,        -- it must be approved and used before
    checker VARCHAR(100) NULL,
    checker_sign_in VARCHAR(400) NULL,
    checker_account VARCHAR(400) NULL,
    policy_id BIGINT UNSIGNED NULL,         -- the version in force when it was decided
    decided_at DATETIME(6) NULL,
    approved BOOLEAN NULL,                  -- FALSE: refused
    remark VARCHAR(500) NULL,               -- of the checker
    voided_at DATETIME(6) NULL,
    void_plan MEDIUMTEXT NULL,              -- what the plan was when it was to be executed
    used_at DATETIME(6) NULL,
    run_id BIGINT UNSIGNED NULL,            -- the run that used it
    KEY coupon (coupon_id),
    KEY person (user_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
