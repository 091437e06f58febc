// Package manifests tests the base, the overlays, the image and the compose file. It is a module of its own, so that
// the go.mod of the product does not need kustomize and Compose.
package manifests
