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

const (
	// CreateVersions makes the table in which goose records what it has applied. The table says from its first moment
	// by which text the database is made: its comment is the fingerprint, in place of %s.
	CreateVersions = `
CREATE TABLE IF NOT EXISTS goose_db_version (
    id         BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    version_id BIGINT          NOT NULL,
    is_applied BOOLEAN         NOT NULL,
    tstamp     DATETIME        NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (id)
) ENGINE=InnoDB COMMENT='%s'`

	// ReadFingerprint reads the comment of that table.
	ReadFingerprint = "SELECT table_comment FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'goose_db_version'"

	// BeginVersions inserts the row that goose expects in a table that it finds.
	BeginVersions = "INSERT INTO goose_db_version (version_id, is_applied) SELECT 0, TRUE FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM goose_db_version)"
)
