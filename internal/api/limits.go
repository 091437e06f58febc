package api

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// Limits bound what one process takes at once. What is above is refused at once, before anything is done for it.
type Limits struct {
	InFlight int     // requests that are being answered
	UserRate float64 // requests of one user in a second, twice as many at once; 0: any number
}

// inFlight counts the requests that are being answered.
type inFlight struct {
	now  atomic.Int64
	most int64
}

// enter is false when there are too many already; leave is to be called all the same.
func (f *inFlight) enter() bool { return f.now.Add(1) <= f.most }
func (f *inFlight) leave()      { f.now.Add(-1) }

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

func (u *userRates) allow(user uint64, at time.Time) bool {
	if u == nil {
		return true
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
		return false
	}
	one.due = due
	return true
}
