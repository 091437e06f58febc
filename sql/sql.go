// Package migrations carries the schema as goose migrations, embedded, so that one binary can bring any database up
// to date. connect.Migrate applies them.
package migrations

import "embed"

//go:embed *.sql
var Files embed.FS
