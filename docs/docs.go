// Package docs holds what programs hand out of the documentation, and what tests hold it against.
package docs

import _ "embed"

// OpenAPI describes the public API. Tests hold every response against it.
//
//go:embed openapi.yaml
var OpenAPI []byte

// RedisUsers is what each program may do in Redis, as an ACL file: for an administrator, once there are passwords in it. Tests
// run the programs under it.
//
//go:embed redis-users.acl
var RedisUsers string
