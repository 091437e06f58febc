package testenv

import "os"

// Rounds is how often a test repeats what chance or number makes better: quick in every run of the tests, soak where the
// environment says SOAK=1, which `make soak` does and which may take many minutes.
func Rounds(quick, soak int) int {
	if Soaking() {
		return soak
	}
	return quick
}

// Soaking is whether the environment says SOAK=1.
func Soaking() bool { return os.Getenv("SOAK") == "1" }
