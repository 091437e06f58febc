package api

import (
	"cmp"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Limits are the limits of one process. A request above a limit is refused immediately.
type Limits struct {
	InFlight int     // maximum of applications that wait for one Redis shard
	UserRate float64 // requests per second of one user; 0: no limit
}

const (
	maxQuestions = 32 // concurrent lookups in one Redis shard; the other connections are for applying
	maxHistories = 16 // concurrent lookups in MySQL; the other connections are for the catalog
)

// maxShards is the maximum of masters that Redis recommends for a Cluster.
const maxShards = 1000

type semaphore struct {
	taken atomic.Int64
	max   int64
}

func (s *semaphore) acquire() bool {
	if s.taken.Add(1) > s.max {
		s.taken.Add(-1)
		return false
	}
	return true
}

func (s *semaphore) release() { s.taken.Add(-1) }

// semaphores has one semaphore for each Redis shard, so that a shard that hangs blocks only its own requests.
type semaphores struct {
	max     int64
	byShard *lru.Cache[string, *semaphore]
}

func newSemaphores(max int64) semaphores {
	byShard, err := lru.New[string, *semaphore](maxShards)
	if err != nil {
		panic(err) // impossible: the size is positive
	}
	return semaphores{max, byShard}
}

func (s semaphores) of(shard string) *semaphore {
	if one, ok := s.byShard.Get(shard); ok {
		return one
	}
	one := &semaphore{max: s.max}
	first, _, _ := s.byShard.PeekOrAdd(shard, one)
	return cmp.Or(first, one)
}

func (s semaphores) fullest() (taken int64) {
	for _, one := range s.byShard.Values() {
		taken = max(taken, one.taken.Load())
	}
	return taken
}
