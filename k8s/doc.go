// Package k8s holds what brings Jajeong to a cluster: base and overlays for kustomize, monitoring, and the scripts that deploy
// and rerun. There is no Go in it but tests, in a module of their own: what renders manifests and reads compose files is no
// business of the product's go.mod.
package k8s
