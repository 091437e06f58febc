package testenv

import "testing"

// NeedsServers leaves a test out of `make test-short`. The helpers that start or reach a server call it, and nothing
// else skips a test: a server that is missing is a failure.
func NeedsServers(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs servers: make test runs it")
	}
}
