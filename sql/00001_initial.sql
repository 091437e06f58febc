-- The whole schema. Every DATETIME is UTC with microseconds; an arrival is µs since 1970 by the clock of Redis.
-- IF NOT EXISTS: DDL commits by itself, so a migration that was killed half way is run again. A table `user` that is
-- already there stays as it is.

-- +goose Up

-- A coupon is one round of a campaign. Name, total_quantity and window have no default.
CREATE TABLE IF NOT EXISTS coupon (
    id               BIGINT UNSIGNED  NOT NULL AUTO_INCREMENT,
    client_key       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL, -- name by whoever created it: a second one is not created
    name             VARCHAR(200)     NOT NULL,
    total_quantity   INT UNSIGNED     NOT NULL,
    issued_count     INT UNSIGNED     NOT NULL DEFAULT 0, -- number of its user_coupon rows
    apply_opens_at   DATETIME(6)      NOT NULL,
    apply_closes_at  DATETIME(6)      NOT NULL,
    cadence          ENUM('NIGHTLY','IMMEDIATE') NOT NULL DEFAULT 'NIGHTLY',
    status           ENUM('OPEN','PAUSED') NOT NULL DEFAULT 'OPEN',
    campaign_id      BIGINT UNSIGNED  NULL,
    validity_days    INT UNSIGNED     NOT NULL DEFAULT 30,
    discount_won     BIGINT           NOT NULL DEFAULT 0,
    discount_percent TINYINT UNSIGNED NOT NULL DEFAULT 0, -- instead of discount_won
    discount_max_won BIGINT           NOT NULL DEFAULT 0, -- limit of discount_percent
    minimum_won      BIGINT           NOT NULL DEFAULT 0, -- a smaller order gets no discount
    finalised_at     DATETIME(6)      NULL,
    version          BIGINT UNSIGNED  NOT NULL DEFAULT 1, -- raised under the row's lock by each change of window or status
    line_limit       INT UNSIGNED     NULL,               -- NULL: none
    frozen           BOOLEAN          NOT NULL DEFAULT FALSE,
    -- The binary digits of the window's length in days: a window of class n is shorter than 2^n days.
    window_class     TINYINT UNSIGNED GENERATED ALWAYS AS
        (CHAR_LENGTH(BIN(TIMESTAMPDIFF(DAY, apply_opens_at, apply_closes_at)))) STORED,
    PRIMARY KEY (id),
    UNIQUE KEY coupon_client_key (client_key),
    KEY coupon_due (finalised_at, apply_opens_at),
    KEY coupon_window (window_class, apply_opens_at),
    KEY coupon_closing (apply_closes_at),
    KEY coupon_campaign (campaign_id),
    CONSTRAINT coupon_never_oversold CHECK (issued_count <= total_quantity),
    CONSTRAINT coupon_valid_for_a_century_at_most CHECK (validity_days <= 36500),
    CONSTRAINT coupon_opens_after_1970 CHECK (apply_opens_at > '1970-01-01'), -- an arrival counts µs since then
    CONSTRAINT coupon_opens_before_it_closes CHECK (apply_opens_at < apply_closes_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- The users belong to another team. No foreign key refers to them: it would lock every winner's row until commit.
CREATE TABLE IF NOT EXISTS `user` (
    id     BIGINT UNSIGNED NOT NULL,
    status ENUM('ACTIVE','BLOCKED','WITHDRAWN') NOT NULL DEFAULT 'ACTIVE',
    PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- An issued coupon belongs to one user.
CREATE TABLE IF NOT EXISTS user_coupon (
    id         BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    coupon_id  BIGINT UNSIGNED NOT NULL,
    user_id    BIGINT UNSIGNED NOT NULL,
    position   INT UNSIGNED    NOT NULL DEFAULT 0, -- the seat, 1 to total_quantity
    applied_at DATETIME(6)     NULL,
    issued_at  DATETIME(6)     NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    expires_at DATETIME(6)     NOT NULL,
    run_id     BIGINT UNSIGNED NULL,               -- NULL: given by hand
    status     ENUM('ISSUED','RESERVED','USED','REVOKED') NOT NULL DEFAULT 'ISSUED',
    order_id   VARCHAR(64) COLLATE utf8mb4_bin NULL, -- the order that has it, reserved or used
    seq        INT UNSIGNED    NOT NULL DEFAULT 0, -- of its last row in coupon_log; 0: none
    PRIMARY KEY (id),
    UNIQUE KEY user_coupon_once (coupon_id, user_id),
    KEY user_coupon_user (user_id),
    CONSTRAINT user_coupon_coupon FOREIGN KEY (coupon_id) REFERENCES coupon (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- An order has a row if it ever had a coupon. It has one while state is RESERVED or USED.
CREATE TABLE IF NOT EXISTS coupon_order (
    order_id       VARCHAR(64) COLLATE utf8mb4_bin NOT NULL,
    user_coupon_id BIGINT UNSIGNED NOT NULL,
    user_id        BIGINT UNSIGNED NOT NULL,
    amount_won     BIGINT          NOT NULL,
    discount_won   BIGINT          NOT NULL,
    state          ENUM('RESERVED','USED','RELEASED','REFUNDED') NOT NULL,
    reserved_until DATETIME(6)     NOT NULL,
    PRIMARY KEY (order_id),
    KEY coupon_order_coupon (user_coupon_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- The log has every change of an issued coupon, numbered from 1 by seq. It is append-only.
CREATE TABLE IF NOT EXISTS coupon_log (
    id             BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    user_coupon_id BIGINT UNSIGNED NOT NULL,
    seq            INT UNSIGNED    NOT NULL,
    kind           ENUM('RESERVED','USED','RELEASED','REFUNDED','GRANTED','REVOKED','REISSUED','EXTENDED') NOT NULL,
    order_id       VARCHAR(64) COLLATE utf8mb4_bin NULL,
    amount_won     BIGINT          NULL,               -- of the order, as discount_won
    discount_won   BIGINT          NULL,
    expires_at     DATETIME(6)     NULL,               -- the new end of validity, with GRANTED and EXTENDED
    seats          TINYINT         NOT NULL DEFAULT 0, -- by how much total_quantity changed with it
    actor          VARCHAR(100)    NOT NULL,
    at             DATETIME(6)     NOT NULL,
    published_at   DATETIME(6)     NULL,               -- NULL: its event is not published
    PRIMARY KEY (id),
    UNIQUE KEY coupon_log_seq (user_coupon_id, seq),
    KEY coupon_log_published (published_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- An outcome is an application that was settled without a coupon. A member that is no user id has user_id 0, and stands in member.
CREATE TABLE IF NOT EXISTS application_outcome (
    coupon_id   BIGINT UNSIGNED NOT NULL,
    user_id     BIGINT UNSIGNED NOT NULL,
    applied_at  DATETIME(6)     NOT NULL,
    outcome     ENUM('NOT_SELECTED','REJECTED','ALREADY_ISSUED') NOT NULL,
    cause       ENUM('UNKNOWN_USER','INACTIVE_USER','MALFORMED_USER_ID','PASSED_OVER','BAD_ROW','DATABASE_AWAY') NULL, -- why a run rejected it; NULL: an operator did, or it was not rejected
    note        VARCHAR(500)    NOT NULL DEFAULT '', -- the operator's words; with cause, MySQL's error or the user's status
    member      VARCHAR(400)    NULL,                -- NULL: user_id says who it is
    run_id      BIGINT UNSIGNED NOT NULL,
    recorded_at DATETIME(6)     NOT NULL,
    PRIMARY KEY (coupon_id, user_id, applied_at),
    KEY application_outcome_line (coupon_id, outcome, applied_at, user_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- A run is one execution of the job over all due coupons. An immediate run inserts its row with its first change.
CREATE TABLE IF NOT EXISTS settlement_run (
    id           BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    trigger_kind ENUM('CRON','MANUAL','DLQ_RETRY','IMMEDIATE') NOT NULL DEFAULT 'CRON',
    operator     VARCHAR(100)    NOT NULL DEFAULT '',
    reason       VARCHAR(500)    NOT NULL DEFAULT '',
    cutoff       DATETIME(6)     NOT NULL,
    coupons      INT UNSIGNED    NOT NULL DEFAULT 0, -- that it is to settle: due when it began, or named by the operator
    started_at   DATETIME(6)     NOT NULL,
    heartbeat_at DATETIME(6)     NOT NULL,
    finished_at  DATETIME(6)     NULL,
    status       ENUM('RUNNING','SUCCEEDED','HELD','FAILED','ABANDONED') NOT NULL DEFAULT 'RUNNING',
    nonce        BINARY(16)      NOT NULL, -- made by the process, which finds its run by it: after a crash, MySQL may give an id twice
    PRIMARY KEY (id),
    UNIQUE KEY settlement_run_nonce (nonce),
    KEY settlement_run_cutoff (cutoff),
    KEY settlement_run_status (status, heartbeat_at),
    KEY settlement_run_trigger (trigger_kind, cutoff),
    KEY settlement_run_newest (trigger_kind, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- A settlement is what one run did to one coupon. It has a row only if something changed. A count is written in the transaction that
-- makes it true, so that it holds after a crash.
CREATE TABLE IF NOT EXISTS settlement (
    run_id               BIGINT UNSIGNED NOT NULL,
    coupon_id            BIGINT UNSIGNED NOT NULL,
    issued_count         INT UNSIGNED    NOT NULL DEFAULT 0,
    under_review_count   BIGINT UNSIGNED NOT NULL DEFAULT 0, -- it decided to move to the DLQ or, once cleaned_at is set, has moved there
    ended_count          BIGINT UNSIGNED NOT NULL DEFAULT 0, -- ended as REJECTED
    already_issued_count BIGINT UNSIGNED NOT NULL DEFAULT 0,
    not_selected_count   BIGINT UNSIGNED NOT NULL DEFAULT 0,
    rejected_count       BIGINT UNSIGNED GENERATED ALWAYS AS (under_review_count + ended_count) VIRTUAL, -- did not get a seat for a cause of their own
    read_count           BIGINT UNSIGNED GENERATED ALWAYS AS
        (issued_count + under_review_count + ended_count + already_issued_count + not_selected_count) VIRTUAL, -- all that it decided
    first_arrival        BIGINT UNSIGNED NULL, -- of those that it issued, as last_arrival; NULL: it issued nothing
    last_arrival         BIGINT UNSIGNED NULL,
    winners_digest       VARCHAR(80)     NULL,
    settled_at           DATETIME(6)     NOT NULL,
    cleaned_at           DATETIME(6)     NULL, -- NULL: Redis may have something of what it settled
    first_user_coupon_id BIGINT UNSIGNED NULL, -- the relay reads its user_coupon rows from this id on; NULL: it has no events to publish
    published_at         DATETIME(6)     NULL, -- when the relay had published its events; NULL: not yet, or it has none
    PRIMARY KEY (run_id, coupon_id),
    KEY settlement_newest (coupon_id, run_id),
    KEY settlement_coupon (coupon_id, cleaned_at),
    KEY settlement_last (coupon_id, last_arrival),
    KEY settlement_published (published_at, first_user_coupon_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- The sums of a coupon save a run from counting rows. They are written under the coupon's lock.
CREATE TABLE IF NOT EXISTS settled (
    coupon_id     BIGINT UNSIGNED NOT NULL,
    issued        BIGINT UNSIGNED NOT NULL DEFAULT 0, -- user_coupon rows with a run
    concluded     BIGINT UNSIGNED NOT NULL DEFAULT 0, -- application_outcome rows
    settled_up_to BIGINT UNSIGNED NOT NULL DEFAULT 0, -- the highest arrival with either
    last_issued   BIGINT UNSIGNED NOT NULL DEFAULT 0, -- the highest arrival that ever got a seat
    written_off   BIGINT UNSIGNED NOT NULL DEFAULT 0, -- lost promises that an operator has accepted
    erased        BIGINT UNSIGNED NOT NULL DEFAULT 0, -- outcomes that `settle user forget` has deleted
    erased_rejected BIGINT UNSIGNED NOT NULL DEFAULT 0, -- the part of erased that was REJECTED
    PRIMARY KEY (coupon_id),
    -- A larger number would stop the programs that read and add the sums. An arrival ends here, too.
    CONSTRAINT settled_has_sums CHECK (issued <= 9007199254740991 AND concluded <= 9007199254740991 AND
        settled_up_to <= 9007199254740991 AND last_issued <= 9007199254740991 AND written_off <= 9007199254740991 AND
        erased <= 9007199254740991 AND erased_rejected <= 9007199254740991)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- How one run came out for one coupon. The row is written as the run ends, if something changed or went wrong; a run that was
-- killed has none.
CREATE TABLE IF NOT EXISTS run_coupon (
    run_id      BIGINT UNSIGNED NOT NULL,
    coupon_id   BIGINT UNSIGNED NOT NULL,
    status      ENUM('SETTLED','HELD','BUSY','FAILED','FROZEN') NOT NULL DEFAULT 'SETTLED',
    gap         BIGINT          NOT NULL DEFAULT 0,
    duration_ms BIGINT UNSIGNED NOT NULL DEFAULT 0,
    error       VARCHAR(2000)   NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, coupon_id),
    KEY run_coupon_coupon (coupon_id, run_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- The journal has everybody who was accepted, at every arrival at which they were told to stand. Whoever is in the journal and
-- accounted for nowhere is entered in Redis again. Rows of finalised and of missing coupons are deleted.
CREATE TABLE IF NOT EXISTS line_journal (
    coupon_id BIGINT UNSIGNED NOT NULL,
    arrival   BIGINT UNSIGNED NOT NULL,
    user_id   BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (coupon_id, arrival, user_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- How far the journal of a coupon came. The process that copies holds the lock of the row.
CREATE TABLE IF NOT EXISTS journal (
    coupon_id  BIGINT UNSIGNED NOT NULL,
    epoch      VARCHAR(64)     NOT NULL DEFAULT '', -- "<run_id>:<since>" of the Redis server that was copied
    up_to      BIGINT UNSIGNED NOT NULL DEFAULT 0, -- who stood there at this arrival or before it is in line_journal, or was settled
    accepted   BIGINT UNSIGNED NOT NULL DEFAULT 0, -- the highest count of a restored server; a restore that finds fewer lowers it
    unfound    BIGINT UNSIGNED NOT NULL DEFAULT 0, -- how many promises are unknown: restores of new servers found so many fewer than accepted
    asked      BIGINT UNSIGNED NOT NULL DEFAULT 0, -- how often a restore was asked for, since the last one
    written_at DATETIME(6)     NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    PRIMARY KEY (coupon_id),
    CONSTRAINT journal_has_sums CHECK (up_to <= 9007199254740991 AND accepted <= 9007199254740991 AND
        unfound <= 9007199254740991 AND asked <= 9007199254740991) -- as those of settled
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- An audit event says who did what to which coupon or user, why and when. It is append-only. The events of a coupon are a chain.
CREATE TABLE IF NOT EXISTS audit_event (
    id        BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    at        DATETIME(6)     NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    actor     VARCHAR(100)    NOT NULL,
    action    VARCHAR(50)     NOT NULL,
    coupon_id BIGINT UNSIGNED NULL,
    user_id   BIGINT UNSIGNED NULL,
    run_id    BIGINT UNSIGNED NULL,
    reason    VARCHAR(500)    NOT NULL DEFAULT '',
    detail    VARCHAR(2000)   NOT NULL DEFAULT '', -- canonical JSON: the payload of the action
    seats     BIGINT          NOT NULL DEFAULT 0,  -- by how much the change moved total_quantity; in a coupon's first event, all its seats
    seq       BIGINT UNSIGNED NULL,                -- within the coupon, from 1; NULL: the program did not write the row
    hash      VARCHAR(80)     NULL,                -- SHA-256 of the hash before and the columns of this row
    user_salt BINARY(16)      NULL,                -- with user_id NULL: the person was forgotten
    user_hash BINARY(32)      NULL,                -- SHA-256 of user_salt and user id, which hash covers instead of them
    account   VARCHAR(400)    NOT NULL,            -- of MySQL, by which the event was written
    sign_in   VARCHAR(400)    NOT NULL DEFAULT '', -- who the actor is by the sign-in of the console; empty: nobody was signed in
    PRIMARY KEY (id),
    UNIQUE KEY audit_event_chain (coupon_id, seq),
    KEY audit_event_coupon (coupon_id, id),
    KEY audit_event_user (user_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- The head is the last event of a coupon's chain, so that events missing at the end are noticed.
CREATE TABLE IF NOT EXISTS audit_head (
    coupon_id BIGINT UNSIGNED NOT NULL,
    seq       BIGINT UNSIGNED NOT NULL,
    hash      VARCHAR(80)     NOT NULL,
    PRIMARY KEY (coupon_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- How far the relay of events came, by sink. The relay that works holds the lock of the row.
CREATE TABLE IF NOT EXISTS event_relay (
    sink        VARCHAR(20)     NOT NULL,
    from_at     DATETIME(6)     NULL,               -- when the events were turned on; NULL: that is under way
    run_id      BIGINT UNSIGNED NULL,               -- with coupon_id: the settlement that is published in part
    coupon_id   BIGINT UNSIGNED NULL,
    position    INT UNSIGNED    NOT NULL DEFAULT 0, -- its last seat that is published
    unpublished INT UNSIGNED    NOT NULL DEFAULT 0, -- number of its events that are not
    row_id      BIGINT UNSIGNED NOT NULL DEFAULT 0, -- not above the id of any of their user_coupon rows
    log_id      BIGINT UNSIGNED NOT NULL DEFAULT 0, -- the last row of coupon_log before the events were turned on
    server      VARCHAR(130)    NOT NULL DEFAULT '', -- of the sink, that has the last event; with the stream
    last_event  VARCHAR(41)     NOT NULL DEFAULT '', -- the last one that the sink acknowledged, as the sink names it; empty: not known, or old
    may_lack_from DATETIME(6)   NULL,               -- the sink may lack events from here on: a replay has to run; NULL: nothing is known to be missing
    may_lack_to DATETIME(6)     NULL,               -- exclusive
    claimed_at  DATETIME(6)     NULL,               -- when a process last began to publish to it; the latest sink is that of the deployment
    PRIMARY KEY (sink)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- The policy says which actions need an approval. Each row is a version of it; the last one is in force. Whoever makes a change that
-- a policy may name locks row 1 first, so that no change is under way while a version is added. `settle migrate` inserts row 1.
CREATE TABLE IF NOT EXISTS policy (
    id              BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    actions         VARCHAR(2000)   NOT NULL, -- that need an approval, "create:1000000" above so many won: a JSON array, as the next two
    shared_accounts VARCHAR(2000)   NOT NULL, -- accounts of MySQL that several persons use: they cannot approve
    persons         VARCHAR(2000)   NOT NULL, -- {"name", "account"}: who signs in at the console, and the person's account of MySQL
    zone            VARCHAR(64)     NOT NULL, -- time zone of the nights
    set_at          DATETIME(6)     NOT NULL,
    set_by          VARCHAR(100)    NOT NULL,
    account         VARCHAR(400)    NOT NULL, -- of MySQL, by which the version was written
    reason          VARCHAR(500)    NOT NULL,
    approval_id     BIGINT UNSIGNED NULL,     -- NULL: none was needed
    runs_after      BIGINT UNSIGNED NOT NULL, -- the highest settlement_run.id when the version was added; later runs follow it
    events_after    BIGINT UNSIGNED NOT NULL, -- likewise audit_event.id, for events without a run
    PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What all programs of the deployment must agree on. There is one row.
CREATE TABLE IF NOT EXISTS deployment (
    id   TINYINT UNSIGNED NOT NULL DEFAULT 1,
    zone VARCHAR(64)      NOT NULL, -- time zone of the nights: that of the policy in force
    PRIMARY KEY (id),
    CONSTRAINT deployment_is_one CHECK (id = 1)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- An approval is one person's request, and another person's decision about it.
CREATE TABLE IF NOT EXISTS approval (
    id              BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    action          VARCHAR(20)     NOT NULL,
    coupon_id       BIGINT UNSIGNED NOT NULL, -- 0: the policy, or a coupon that was not created yet
    user_id         BIGINT UNSIGNED NULL,     -- the person whom the plan is about; NULL: none, or forgotten
    plan            MEDIUMTEXT      NOT NULL, -- JSON; empty after the person was forgotten
    digest          CHAR(71)        NOT NULL,
    reason          VARCHAR(500)    NOT NULL,
    maker           VARCHAR(100)    NOT NULL,
    maker_sign_in   VARCHAR(400)    NOT NULL, -- who the maker is by the sign-in of the console; empty: the maker was at a terminal
    maker_account   VARCHAR(400)    NOT NULL, -- of MySQL: the maker's own, or the console's
    created_at      DATETIME(6)     NOT NULL,
    expires_at      DATETIME(6)     NOT NULL, -- it must be approved and used before
    checker         VARCHAR(100)    NULL,
    checker_sign_in VARCHAR(400)    NULL,
    checker_account VARCHAR(400)    NULL,
    policy_id       BIGINT UNSIGNED NULL,     -- the version in force when it was decided
    decided_at      DATETIME(6)     NULL,
    approved        BOOLEAN         NULL,     -- FALSE: refused
    remark          VARCHAR(500)    NULL,     -- of the checker
    voided_at       DATETIME(6)     NULL,
    void_plan       MEDIUMTEXT      NULL,     -- what the plan was when it was to be executed
    used_at         DATETIME(6)     NULL,
    run_id          BIGINT UNSIGNED NULL,     -- the run that used it
    PRIMARY KEY (id),
    KEY coupon (coupon_id),
    KEY person (user_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Changes that the console and the management API make. Rows are deleted a day after the last sign of life.
CREATE TABLE IF NOT EXISTS job (
    id       VARCHAR(40)     NOT NULL,
    caller   VARCHAR(100)    NOT NULL,            -- key:<name>, or the name of a person at the console
    verb     VARCHAR(40)     NOT NULL,            -- such as coupon close
    digest   VARCHAR(71)     NOT NULL,            -- of the preview that is carried out; empty: an approval is asked for, or has it
    done     BIGINT UNSIGNED NOT NULL DEFAULT 0,  -- what the verb has worked on, such as applications
    `of`     BIGINT UNSIGNED NOT NULL DEFAULT 0,  -- how many there are; 0: not known
    state    VARCHAR(11)     NOT NULL,            -- RUNNING, DONE, REFUSED or FAILED; RUNNING without a sign of life is INTERRUPTED
    began_at DATETIME(6)     NOT NULL,
    at       DATETIME(6)     NOT NULL,            -- last sign of life, every second while it runs
    status   SMALLINT        NOT NULL DEFAULT 0,  -- HTTP status of the answer; 0: it runs
    answer   MEDIUMTEXT      NULL,                -- JSON: the result, or the problem; NULL: it runs
    PRIMARY KEY (id),
    KEY job_at (at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Which job a caller's Idempotency-Key belongs to. The row comes first, together with that of the job.
CREATE TABLE IF NOT EXISTS idempotency (
    caller  VARCHAR(100) NOT NULL,
    `key`   VARCHAR(64)  NOT NULL, -- the Idempotency-Key
    request CHAR(64)     NOT NULL, -- SHA-256 of method, path and body
    job_id  CHAR(26)     NOT NULL, -- the last one; a job that was interrupted or failed is followed by another
    at      DATETIME(6)  NOT NULL, -- when that one began
    PRIMARY KEY (caller, `key`),
    KEY idempotency_at (at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What `settle verify` has found right about a coupon that was finalised.
CREATE TABLE IF NOT EXISTS seal (
    coupon_id  BIGINT UNSIGNED NOT NULL,
    digest     VARCHAR(140)    NOT NULL DEFAULT '', -- sum of the SHA-512 of the coupon's rows; empty: it was never found right
    records    BIGINT UNSIGNED NOT NULL DEFAULT 0,  -- rows of the coupon in settlement; a further one ends the seal
    audit_seq  BIGINT UNSIGNED NOT NULL DEFAULT 0,  -- the last audit event that the digest covers
    sealed_at  DATETIME(6)     NOT NULL,            -- when the check began that found it right
    checked_at DATETIME(6)     NOT NULL,            -- when the last check began
    wrong      BOOLEAN         NOT NULL,            -- the last check found something, or could not check the coupon
    broken     BOOLEAN         NOT NULL DEFAULT FALSE, -- it found other rows than were sealed
    PRIMARY KEY (coupon_id),
    KEY seal_checked (wrong, checked_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- The coupons in which a user has rows of application_outcome, where no index begins with the user: such an index would
-- slow settlements down. `settle verify` adds the rows of finalised coupons.
CREATE TABLE IF NOT EXISTS user_application (
    user_id   BIGINT UNSIGNED NOT NULL,
    coupon_id BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (user_id, coupon_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- How far `settle verify` has come. The next check of all coupons begins there.
CREATE TABLE IF NOT EXISTS verify_progress (
    name  VARCHAR(40)     NOT NULL, -- of a table, or of the turn through one
    value BIGINT UNSIGNED NOT NULL, -- an id; of `finalised`, µs since 1970
    PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

-- What remains of a coupon that `settle purge` has deleted.
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
    rows_deleted_at    DATETIME(6)     NULL, -- NULL: rows of the coupon may remain
    PRIMARY KEY (coupon_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
