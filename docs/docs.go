// Package docs embeds the documents that programs serve or tests compare with the programs.
package docs

import _ "embed"

// OpenAPI describes the public API. apply-api serves it, and tests validate every response against it.
//
//go:embed openapi.yaml
var OpenAPI []byte

// RedisUsers is an ACL file of Redis with the rights of each program and placeholders for the passwords. Tests run the
// programs with these rights.
//
//go:embed redis-users.acl
var RedisUsers string
