package api

import (
	"cmp"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jajeong/jajeong/internal/coupon"
)

// Limits of one process. Requests above a limit are refused immediately.
type Limits struct {
	InFlight int     // applications that wait for Redis, per shard of a Cluster
	UserRate float64 // requests per second and user, with a burst of two seconds and at least one request; 0: no limit
}

// Limits of standing requests, per shard of Redis and for MySQL, so that applying and the catalog keep connections.
const (
	maxStandings = 32
	maxHistories = 16
)

// maxShards is the recommended maximum of masters in a Redis Cluster.
const maxShards = 1000

// semaphore limits concurrent requests, and refuses further ones.
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

// semaphores are one per shard, so that a shard that hangs blocks its own requests only.
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

const (
	// userBurst is how many seconds' worth of requests a user may send in a row: a page that loads sends several.
	userBurst = 2
	// userShards, shardSets and setUsers bound the remembered users, in 2 MiB without pointers: a map of limiters took a
	// microsecond per request, a quarter of its cost. A full set forgets the user who may send the most.
	userShards, shardSets, setUsers = 64, 512, 4
)

// userRates limits users by the generic cell rate algorithm: a request moves the due time by one share, to at most one burst
// ahead of the clock. Nil is no limit.
type userRates struct {
	began  time.Time
	seed   maphash.Seed
	share  time.Duration
	burst  time.Duration
	shards [userShards]struct {
		sync.Mutex
		sets [shardSets][setUsers]userRate
	}
}

type userRate struct {
	user coupon.UserID
	due  time.Duration // since began
}

func newUserRates(perSecond float64, now time.Time) *userRates {
	if perSecond <= 0 {
		return nil
	}
	share := time.Duration(float64(time.Second) / perSecond)
	return &userRates{began: now, seed: maphash.MakeSeed(), share: share, burst: max(share, userBurst*time.Second)}
}

func (u *userRates) wait(user coupon.UserID, at time.Time) time.Duration {
	if u == nil {
		return 0
	}
	now, place := at.Sub(u.began), maphash.Comparable(u.seed, user)
	shard := &u.shards[place%userShards]
	set := &shard.sets[place/userShards%shardSets]
	shard.Lock()
	defer shard.Unlock()
	one := &set[0]
	for i := range set {
		if set[i].user == user {
			one = &set[i]
			break
		}
		if set[i].due < one.due {
			one = &set[i]
		}
	}
	if one.user != user {
		*one = userRate{user: user}
	}
	due := max(one.due, now) + u.share
	if due-now > u.burst {
		return due - now - u.burst
	}
	one.due = due
	return 0
}
