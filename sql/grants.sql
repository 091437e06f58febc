-- These grants give each account only the rights that its statements need. There is one account for each program, one
-- for operators, one for the deletion of personal data and one for migrations. The tests run with these grants. MySQL
-- 8.0 to 9.x and MariaDB 10.6 or later.
--
-- First, an administrator creates the database, the accounts (each with its own password) and the tables:
--
--   CREATE USER jajeong_api IDENTIFIED BY '…'; CREATE USER jajeong_settle IDENTIFIED BY '…';
--   CREATE USER jajeong_operator IDENTIFIED BY '…'; CREATE USER jajeong_migrate IDENTIFIED BY '…';
--   CREATE USER jajeong_wallet IDENTIFIED BY '…'; CREATE USER jajeong_privacy IDENTIFIED BY '…';
--   settle migrate
--
-- Then the administrator runs this file in the database: `mysql -u root -p coupons < sql/grants.sql`. jajeong_migrate
-- migrates later versions. After each migration, run this file again, because there may be new tables. It never revokes
-- rights: to remove one, drop the account and create it again. If each operator has an account, repeat the statements of
-- jajeong_operator for each of them.
--
-- If USER_TABLE, USER_ID_COLUMN or USER_STATUS_COLUMN is set, change the two lines that name `user` (id, status). For
-- INSERT … ON DUPLICATE KEY UPDATE, MariaDB requires the right to UPDATE every inserted column. Only jajeong_privacy and
-- jajeong_migrate can delete audit events and issued coupons. Use jajeong_migrate for deployments and jajeong_privacy for
-- `settle user forget` and `settle purge` only: `settle verify` and printed heads of the audit chains reveal their misuse.

-- apply-api reads the catalog, outcomes and sums. It adds to the journal what Redis cannot take.
GRANT SELECT ON coupon TO jajeong_api;
GRANT SELECT (coupon_id, user_id, applied_at) ON user_coupon TO jajeong_api;
GRANT SELECT (coupon_id, user_id, applied_at, outcome) ON application_outcome TO jajeong_api;
GRANT SELECT (coupon_id, issued, concluded, settled_up_to, written_off, erased) ON settled TO jajeong_api;
GRANT INSERT ON line_journal TO jajeong_api;
GRANT SELECT, UPDATE (accepted, asked) ON journal TO jajeong_api;
GRANT SELECT ON deployment TO jajeong_api;

-- Optional: `GRANT PROCESS ON *.* TO jajeong_settle, jajeong_operator`. `settle` then says in its log which session keeps a coupon
-- locked. The right shows the statements of all accounts of the server.

-- settle run, serve, dlq, restore, verify and all commands that only read. Locking a coupon or the policy also requires UPDATE. Only
-- the nightly check of all coupons writes seals and the list of each user's applications.
GRANT SELECT, UPDATE (issued_count, finalised_at) ON coupon TO jajeong_settle;
GRANT SELECT (id, status) ON `user` TO jajeong_settle;
GRANT SELECT, INSERT ON user_coupon TO jajeong_settle;
GRANT SELECT ON coupon_order TO jajeong_settle;
GRANT SELECT, UPDATE (published_at) ON coupon_log TO jajeong_settle;
GRANT SELECT, INSERT, UPDATE (outcome, cause, note, run_id, recorded_at), DELETE ON application_outcome TO jajeong_settle;
GRANT SELECT, INSERT, UPDATE (status, heartbeat_at, finished_at) ON settlement_run TO jajeong_settle;
GRANT SELECT, INSERT, UPDATE (run_id, coupon_id, under_review_count, ended_count, already_issued_count, not_selected_count,
    settled_at, cleaned_at, first_user_coupon_id, published_at) ON settlement TO jajeong_settle;
GRANT SELECT, INSERT, UPDATE ON settled TO jajeong_settle;
GRANT SELECT, INSERT, DELETE ON run_coupon TO jajeong_settle;
GRANT SELECT, INSERT, UPDATE, DELETE ON line_journal TO jajeong_settle;
GRANT SELECT, INSERT, UPDATE, DELETE ON journal TO jajeong_settle;
GRANT SELECT, INSERT ON audit_event TO jajeong_settle;
GRANT SELECT, INSERT, UPDATE (coupon_id, seq, hash) ON audit_head TO jajeong_settle;
GRANT SELECT, INSERT, UPDATE ON event_relay TO jajeong_settle;
GRANT SELECT, UPDATE (id) ON policy TO jajeong_settle;
GRANT SELECT ON deployment TO jajeong_settle;
GRANT SELECT, INSERT, UPDATE (checker, checker_sign_in, checker_account, policy_id, decided_at, approved, remark, voided_at,
    void_plan, used_at, run_id, coupon_id) ON approval TO jajeong_settle;
GRANT SELECT ON job TO jajeong_settle;
GRANT SELECT ON idempotency TO jajeong_settle;
GRANT SELECT ON purged_coupon TO jajeong_settle;
GRANT SELECT, INSERT, UPDATE ON seal TO jajeong_settle;
GRANT SELECT, INSERT, UPDATE ON verify_progress TO jajeong_settle;
GRANT SELECT, INSERT ON user_application TO jajeong_settle;

-- Operators also create and change coupons, change the issued coupons of users, and set the policy with the zone of the nights. A restore, a receipt
-- and a new coupon write the journal. Of the relay they only note that a replay has run.
GRANT SELECT, INSERT (client_key, name, total_quantity, apply_opens_at, apply_closes_at, campaign_id, validity_days, discount_won,
    discount_percent, discount_max_won, minimum_won, cadence, line_limit),
    UPDATE (name, total_quantity, issued_count, apply_opens_at, apply_closes_at, status, finalised_at, version, campaign_id,
    validity_days, discount_won, discount_percent, discount_max_won, minimum_won, cadence, frozen) ON coupon TO jajeong_operator;
GRANT SELECT (id, status) ON `user` TO jajeong_operator;
GRANT SELECT, INSERT, UPDATE (status, order_id, seq, expires_at) ON user_coupon TO jajeong_operator;
GRANT SELECT, UPDATE (user_coupon_id, amount_won, discount_won, state, reserved_until) ON coupon_order TO jajeong_operator;
GRANT SELECT, INSERT ON coupon_log TO jajeong_operator;
GRANT SELECT, INSERT, UPDATE (outcome, cause, note, run_id, recorded_at), DELETE ON application_outcome TO jajeong_operator;
GRANT SELECT, INSERT, UPDATE (status, heartbeat_at, finished_at) ON settlement_run TO jajeong_operator;
GRANT SELECT, INSERT, UPDATE (run_id, coupon_id, under_review_count, ended_count, already_issued_count, not_selected_count,
    settled_at, cleaned_at) ON settlement TO jajeong_operator;
GRANT SELECT, INSERT, UPDATE ON settled TO jajeong_operator;
GRANT SELECT, INSERT, DELETE ON run_coupon TO jajeong_operator;
GRANT SELECT, INSERT, UPDATE (user_id) ON line_journal TO jajeong_operator;
GRANT SELECT, INSERT, UPDATE ON journal TO jajeong_operator;
GRANT SELECT, INSERT ON audit_event TO jajeong_operator;
GRANT SELECT, INSERT, UPDATE (coupon_id, seq, hash) ON audit_head TO jajeong_operator;
GRANT SELECT, UPDATE (may_lack_from, may_lack_to) ON event_relay TO jajeong_operator;
GRANT SELECT, UPDATE (id), INSERT (actions, shared_accounts, persons, zone, set_at, set_by, account, reason, approval_id, runs_after,
    events_after) ON policy TO jajeong_operator;
GRANT SELECT, UPDATE (zone) ON deployment TO jajeong_operator;
GRANT SELECT, INSERT, UPDATE (checker, checker_sign_in, checker_account, policy_id, decided_at, approved, remark, voided_at,
    void_plan, used_at, run_id, coupon_id) ON approval TO jajeong_operator;
GRANT SELECT, INSERT, UPDATE (done, `of`, state, at, status, answer), DELETE ON job TO jajeong_operator;
GRANT SELECT, INSERT, UPDATE (job_id, at), DELETE ON idempotency TO jajeong_operator;
GRANT SELECT ON purged_coupon TO jajeong_operator;
GRANT SELECT ON seal TO jajeong_operator;
GRANT SELECT ON verify_progress TO jajeong_operator;
GRANT SELECT ON user_application TO jajeong_operator;

-- wallet-api reads coupons, and moves issued ones between orders. It can issue nothing.
GRANT SELECT ON coupon TO jajeong_wallet;
GRANT SELECT, UPDATE (status, order_id, seq) ON user_coupon TO jajeong_wallet;
GRANT SELECT, INSERT, UPDATE (user_coupon_id, amount_won, discount_won, state, reserved_until) ON coupon_order TO jajeong_wallet;
GRANT SELECT, INSERT ON coupon_log TO jajeong_wallet;
GRANT SELECT ON deployment TO jajeong_wallet;

-- settle user forget deletes outcomes, and takes a person out of audit events. settle purge deletes finalised coupons with all
-- their rows, and leaves one row each in purged_coupon. Locking a coupon also requires UPDATE.
GRANT SELECT, UPDATE (version), DELETE ON coupon TO jajeong_privacy;
GRANT SELECT, DELETE ON user_coupon TO jajeong_privacy;
GRANT SELECT, DELETE ON coupon_order TO jajeong_privacy;
GRANT SELECT, DELETE ON coupon_log TO jajeong_privacy;
GRANT SELECT, DELETE ON application_outcome TO jajeong_privacy;
GRANT SELECT, UPDATE (heartbeat_at), DELETE ON settlement_run TO jajeong_privacy;
GRANT SELECT, DELETE ON settlement TO jajeong_privacy;
GRANT SELECT, UPDATE (concluded, erased, erased_rejected), DELETE ON settled TO jajeong_privacy;
GRANT SELECT, DELETE ON run_coupon TO jajeong_privacy;
GRANT SELECT, DELETE ON line_journal TO jajeong_privacy;
GRANT SELECT, DELETE ON journal TO jajeong_privacy;
GRANT SELECT, INSERT, UPDATE (user_id, user_salt), DELETE ON audit_event TO jajeong_privacy;
GRANT SELECT, INSERT, UPDATE (coupon_id, seq, hash), DELETE ON audit_head TO jajeong_privacy;
GRANT SELECT, UPDATE (digest, audit_seq), DELETE ON seal TO jajeong_privacy;
GRANT SELECT ON verify_progress TO jajeong_privacy;
GRANT SELECT, DELETE ON user_application TO jajeong_privacy;
GRANT SELECT ON policy TO jajeong_privacy;
GRANT SELECT ON deployment TO jajeong_privacy;
GRANT SELECT, UPDATE (user_id, plan, void_plan), DELETE ON approval TO jajeong_privacy;
GRANT SELECT, INSERT, UPDATE (rows_deleted_at) ON purged_coupon TO jajeong_privacy;

-- settle migrate has these rights on every table of the selected database, because future tables have no names yet.
GRANT CREATE, ALTER, DROP, INDEX, REFERENCES, SELECT, INSERT, UPDATE, DELETE ON * TO jajeong_migrate;
