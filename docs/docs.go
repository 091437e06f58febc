// Package docs holds what programs hand out of the documentation.
package docs

import _ "embed"

// OpenAPI describes the public API. Tests hold every response against it.
//
//go:embed openapi.yaml
var OpenAPI []byte
