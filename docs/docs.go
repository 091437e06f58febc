// Package docs embeds the documents that programs serve or tests compare with the programs.
package docs

import _ "embed"

// OpenAPI describes the public API of apply-api, which serves it. Tests validate every response against it.
//
//go:embed openapi.yaml
var OpenAPI []byte

// OpenAPIWallet describes the public API of wallet-api, which serves it. Tests validate every response against it.
//
//go:embed openapi-wallet.yaml
var OpenAPIWallet []byte

// OpenAPIAdmin describes the management API of settle console, which serves it. Tests validate every response against
// it.
//
//go:embed openapi-admin.yaml
var OpenAPIAdmin []byte

// AsyncAPI describes the events that `settle serve` publishes. Tests validate every event against it.
//
//go:embed asyncapi.yaml
var AsyncAPI []byte

// RedisUsers is an ACL file of Redis with the rights of each program and placeholders for the passwords. Tests run the
// programs with these rights.
//
//go:embed redis-users.acl
var RedisUsers string
