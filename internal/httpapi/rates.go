package httpapi

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

const (
	// userBurst is in seconds: a user may send this many seconds' worth of requests at once, as a loading page does.
	userBurst = 2
	// userShards, shardSets and setUsers are the size of the table of users: 2 MiB. A map of limiters instead would be
	// slow: a quarter of the time of each request would go to it. A full set forgets the user with the most requests
	// left.
	userShards, shardSets, setUsers = 64, 512, 4
)

// UserRates limits the requests of each user by the generic cell rate algorithm: each request moves the user's due time
// forward by share. A request that would move it further than burst ahead of the clock is refused. Nil: no limit.
type UserRates struct {
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
	due  time.Duration // measured from UserRates.began
}

// NewUserRates returns limits of so many requests per second for each user; nil if perSecond is not positive.
func NewUserRates(perSecond float64, now time.Time) *UserRates {
	if perSecond <= 0 {
		return nil
	}
	share := time.Duration(float64(time.Second) / perSecond)
	return &UserRates{began: now, seed: maphash.MakeSeed(), share: share, burst: max(share, userBurst*time.Second)}
}

// Wait counts a request, or returns after how long the user may send the next one. 0: the request is allowed.
func (u *UserRates) Wait(user coupon.UserID, at time.Time) time.Duration {
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
