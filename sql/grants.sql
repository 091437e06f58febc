-- Who may do what: an account for each program and one for people, each with what its statements need and no more.
-- The tests run under these grants. MySQL 8.0 to 9.x and MariaDB 10.6 or later.
--
-- An administrator makes the database and the accounts, each with a password of its own, and the first tables:
--
--   CREATE USER jajeong_api IDENTIFIED BY '…'; CREATE USER jajeong_settle IDENTIFIED BY '…';
--   CREATE USER jajeong_operator IDENTIFIED BY '…'; CREATE USER jajeong_migrate IDENTIFIED BY '…';
--   settle migrate
--
-- and then runs this file with that database selected, as in `mysql -u root -p coupons < sql/grants.sql`: no line names
-- the database. Later versions are migrated by jajeong_migrate; run this file again after each, since it names new tables.
-- It only gives: what an older version gave and this one does not goes when the account is dropped and made anew.
-- For accounts of single people, repeat the lines of jajeong_operator under their names.
--
-- Where the users have another table or other columns, by USER_TABLE, USER_ID_COLUMN and USER_STATUS_COLUMN, change the
-- two lines that name `user` (id, status).
--
-- Where a statement is INSERT … ON DUPLICATE KEY UPDATE, MariaDB wants UPDATE of every column that it inserts.
--
-- Nobody here may change or delete an audit event, nor an issued coupon, but jajeong_migrate, who may do anything to
-- tables. That account belongs to a deployment and to nobody's day; `settle verify` and the printed heads of the audit
-- chains are what shows its misuse.

-- apply-api: the catalog, the promise row, and how an application came out.
GRANT SELECT ON coupon TO jajeong_api;
GRANT SELECT, INSERT (coupon_id, accepted, last_arrival, twice, counted_since, seen_at), UPDATE (coupon_id, accepted, last_arrival, twice, counted_since, seen_at) ON promise TO jajeong_api;
GRANT SELECT (coupon_id, user_id, applied_at) ON user_coupon TO jajeong_api;
GRANT SELECT (coupon_id, user_id, applied_at, outcome) ON application_outcome TO jajeong_api;

-- settle run, schedule, dlq, verify and everything that reads. UPDATE is also what locking a coupon needs.
GRANT SELECT, UPDATE (issued_count, finalised_at) ON coupon TO jajeong_settle;
GRANT SELECT (id, status) ON `user` TO jajeong_settle;
GRANT SELECT, INSERT ON user_coupon TO jajeong_settle;
GRANT SELECT, INSERT, UPDATE (outcome, reason, run_id, recorded_at), DELETE ON application_outcome TO jajeong_settle;
GRANT SELECT, INSERT, UPDATE (coupon_id, accepted, last_arrival, twice, counted_since, seen_at, written_off) ON promise TO jajeong_settle;
GRANT SELECT, INSERT, UPDATE (status, heartbeat_at, finished_at) ON settlement_run TO jajeong_settle;
GRANT SELECT, INSERT, UPDATE (run_id, coupon_id, read_count, rejected_count, already_issued_count, not_selected_count, settled_at, cleaned_at)
    ON settlement TO jajeong_settle;
GRANT SELECT, INSERT, DELETE ON run_coupon TO jajeong_settle;
GRANT SELECT, INSERT ON audit_event TO jajeong_settle;
GRANT SELECT, INSERT, UPDATE (coupon_id, seq, hash) ON audit_head TO jajeong_settle;

-- People: the same, and new and changed coupons.
GRANT SELECT, INSERT (name, total_quantity, apply_opens_at, apply_closes_at, campaign_id, validity_days, discount_won),
    UPDATE (total_quantity, issued_count, apply_closes_at, status, finalised_at, version) ON coupon TO jajeong_operator;
GRANT SELECT (id, status) ON `user` TO jajeong_operator;
GRANT SELECT, INSERT ON user_coupon TO jajeong_operator;
GRANT SELECT, INSERT, UPDATE (outcome, reason, run_id, recorded_at), DELETE ON application_outcome TO jajeong_operator;
GRANT SELECT, INSERT, UPDATE (coupon_id, accepted, last_arrival, twice, counted_since, seen_at, written_off) ON promise TO jajeong_operator;
GRANT SELECT, INSERT, UPDATE (status, heartbeat_at, finished_at) ON settlement_run TO jajeong_operator;
GRANT SELECT, INSERT, UPDATE (run_id, coupon_id, read_count, rejected_count, already_issued_count, not_selected_count, settled_at, cleaned_at)
    ON settlement TO jajeong_operator;
GRANT SELECT, INSERT, DELETE ON run_coupon TO jajeong_operator;
GRANT SELECT, INSERT ON audit_event TO jajeong_operator;
GRANT SELECT, INSERT, UPDATE (coupon_id, seq, hash) ON audit_head TO jajeong_operator;

-- settle migrate. Of every table in the selected database: tables to come cannot be named.
GRANT CREATE, ALTER, DROP, INDEX, REFERENCES, SELECT, INSERT, UPDATE, DELETE ON * TO jajeong_migrate;
