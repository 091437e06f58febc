package testenv

import (
	cryptorand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
)

// seedVariable repeats the choices of random tests, but not how goroutines and processes interleave.
const seedVariable = "JAJEONG_SEED"

// Seed returns the seed in JAJEONG_SEED, or another one each time. The output of a failed test names it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	var drawn [8]byte
	_, _ = cryptorand.Read(drawn[:]) // never fails
	seed := binary.BigEndian.Uint64(drawn[:])
	if given := os.Getenv(seedVariable); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("testenv: %s: %v", seedVariable, err)
		}
	}
	t.Logf("%s=%d", seedVariable, seed)
	return seed
}

// Random returns random numbers by Seed. Goroutines may share them.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(&lockedSource{source: rand.NewPCG(Seed(t), 0)})
}

type lockedSource struct {
	mu     sync.Mutex
	source *rand.PCG
}

func (s *lockedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.source.Uint64()
}
