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

// Limits are the limits of one process. A request above a limit is refused immediately.
type Limits struct {
	InFlight int     // maximum of applications that wait for one Redis shard
	UserRate float64 // requests per second of one user; 0: no limit
}

const (
	maxStandings = 32 // concurrent lookups in one Redis shard; the other connections are for applying
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

const (
	// userBurst is in seconds: a user may send this many seconds' worth of requests at once, as a loading page does.
	userBurst = 2
	// userShards, shardSets and setUsers are the size of the table of users: 2 MiB. A map of limiters instead would be
	// slow: a quarter of the time of each request would go to it. A full set forgets the user with the most requests
	// left.
	userShards, shardSets, setUsers = 64, 512, 4
)

// userRates limits the requests of each user by the generic cell rate algorithm: each request moves the user's due time
// forward by share. A request that would move it further than burst ahead of the clock is refused. Nil: no limit.
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
	due  time.Duration // measured from userRates.began
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
