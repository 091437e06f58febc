// Package migrations embeds the schema, as goose migrations that connect.Migrate applies.
package migrations

import "embed"

//go:embed 0*.sql
var Files embed.FS

// Grants is SQL that grants each account its rights. An administrator runs it after the first migration.
//
//go:embed grants.sql
var Grants string
