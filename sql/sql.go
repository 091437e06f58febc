// Package migrations carries the schema as goose migrations, embedded, so that one binary can bring any database up
// to date. connect.Migrate applies them.
package migrations

import "embed"

//go:embed 0*.sql
var Files embed.FS

// Grants is what each account may do, for an administrator to run once the tables are there.
//
//go:embed grants.sql
var Grants string
