// Package migrations embeds the schema, as goose migrations that connect.Migrate applies.
package migrations

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
)

// Files are the migrations.
//
//go:embed 0*.sql
var Files embed.FS

// Grants is SQL that grants each account its rights. An administrator runs it after the first migration.
//
//go:embed grants.sql
var Grants string

// Fingerprint is the SHA-256 of the text of the first migration. Until the first release the text changes, and a
// database that another text has made cannot be migrated.
func Fingerprint() string {
	initial, err := Files.ReadFile("00001_initial.sql")
	if err != nil {
		panic(err) // it is embedded
	}
	sum := sha256.Sum256(initial)
	return hex.EncodeToString(sum[:])
}

// Tables are the tables of the schema but that of the users, which may belong to another team.
var Tables = []string{"coupon", "user_coupon", "coupon_order", "coupon_log", "application_outcome",
	"settlement_run", "settlement",
	"settled", "run_coupon", "line_journal", "journal", "audit_event", "audit_head", "event_relay", "policy",
	"deployment", "approval", "job", "idempotency", "seal", "user_application", "verify_progress", "purged_coupon"}

const (
	// VersionTable is where goose records what it has applied. A shop's own goose has another table.
	VersionTable = "jajeong_db_version"

	// CreateVersions makes that table. It says from its first moment by which text the database is made: its comment is
	// the fingerprint, in place of %s.
	CreateVersions = `
CREATE TABLE IF NOT EXISTS ` + VersionTable + ` (
    id         BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    version_id BIGINT          NOT NULL,
    is_applied BOOLEAN         NOT NULL,
    tstamp     DATETIME        NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (id)
) ENGINE=InnoDB COMMENT='%s'`

	// ReadFingerprint reads the comment of that table.
	ReadFingerprint = "SELECT table_comment FROM information_schema.tables WHERE table_schema = DATABASE() AND " +
		"table_name = '" +
		VersionTable + "'"

	// BeginPolicy and BeginDeployment insert the first rows of their tables. ? is the time zone of the nights of a new
	// database; that of another one is in its policy.
	BeginPolicy = `
INSERT IGNORE INTO policy (id, actions, shared_accounts, persons, zone, set_at, set_by, account, reason, approval_id,
    runs_after, events_after)
VALUES (1, '[]', '[]', '[]', ?, UTC_TIMESTAMP(6), 'settle', '', 'no action needs an approval', NULL, 0, 0)`
	BeginDeployment = "INSERT IGNORE INTO deployment (id, zone) SELECT 1, zone FROM policy ORDER BY id DESC LIMIT 1"

	// RecordVersion records a migration that is applied.
	RecordVersion = "INSERT INTO " + VersionTable + " (version_id, is_applied) VALUES (?, TRUE)"

	// BeginVersions inserts the row that goose expects in a table that it finds.
	BeginVersions = "INSERT INTO " + VersionTable +
		" (version_id, is_applied) SELECT 0, TRUE FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM " + VersionTable + ")"
)
