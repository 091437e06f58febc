package api

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Limits bound what one process takes at once. What is above is refused at once.
type Limits struct {
	InFlight int     // applications that wait for Redis, in a Cluster for each shard
	UserRate float64 // requests of one user in a second, twice as many at once and at least one; 0: any number
}

// What asks where an application stands is bounded more narrowly, whatever is asked: it must leave connections to Redis to
// those who apply, and to MySQL to the catalog, also when a server is slow. Each shard of a Cluster has connections of its
// own, and so many who ask it.
const (
	mostStandings = 32
	mostHistories = 16
)

// mostShards is how many masters a Cluster has at most, by its makers' advice.
const mostShards = 1000

// room has places for so many.
type room struct {
	taken atomic.Int64
	most  int64
}

func (r *room) enter() bool {
	if r.taken.Add(1) > r.most {
		r.taken.Add(-1)
		return false
	}
	return true
}

func (r *room) leave() { r.taken.Add(-1) }

// rooms are one for each shard of Redis: a shard that hangs fills its own, and takes no place from the others.
type rooms struct {
	most    int64
	byShard *lru.Cache[string, *room]
}

func newRooms(most int64) rooms {
	byShard, err := lru.New[string, *room](mostShards)
	if err != nil {
		panic(err) // of a size that is not positive alone
	}
	return rooms{most, byShard}
}

func (r rooms) of(shard string) *room {
	if one, ok := r.byShard.Get(shard); ok {
		return one
	}
	one := &room{most: r.most}
	if first, found, _ := r.byShard.PeekOrAdd(shard, one); found {
		return first
	}
	return one
}

// fullest is how many places are taken where most are.
func (r rooms) fullest() (taken int64) {
	for _, one := range r.byShard.Values() {
		taken = max(taken, one.taken.Load())
	}
	return taken
}

const (
	// userBurst is how many seconds' worth of requests a user may send at once: a page that loads asks several times.
	userBurst = 2
	// Of so many users at most it is remembered how often they ask, in 2 MiB without a pointer: a map of limiters took a
	// microsecond for each request, a quarter of what an application costs here. Of more, those are forgotten who may ask
	// most, and begin anew.
	userShards, shardSets, setUsers = 64, 512, 4
)

// userRates limits how often each user may ask, by the generic cell rate algorithm: each request takes its share of a
// second, and a user may be so much ahead of the clock. Nil lets everybody.
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
	user uint64
	due  time.Duration // until when its requests have taken their shares, since began
}

func newUserRates(perSecond float64, now time.Time) *userRates {
	if perSecond <= 0 {
		return nil
	}
	share := time.Duration(float64(time.Second) / perSecond)
	return &userRates{began: now, seed: maphash.MakeSeed(), share: share, burst: max(share, userBurst*time.Second)}
}

// wait is how long the user has to; 0 lets the request in.
func (u *userRates) wait(user uint64, at time.Time) time.Duration {
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
