package testenv

import "os"

// Rounds is the number of repetitions of a test that profits from chance or volume: quick in every run, soak if the
// environment has SOAK=1, as in `make soak`, which may take many minutes.
func Rounds(quick, soak int) int {
	if Soaking() {
		return soak
	}
	return quick
}

// Soaking reports whether the environment has SOAK=1.
func Soaking() bool { return os.Getenv("SOAK") == "1" }
