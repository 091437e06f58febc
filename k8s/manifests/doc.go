// Package manifests holds base and overlays, the image and the compose file against what they promise. There is no Go in it
// but tests, in a module of their own: what renders manifests and reads compose files is no business of the product's go.mod.
package manifests
