package api

import (
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

const (
	// userBurst is how many seconds' worth of requests a user may send at once: a page that loads asks several times.
	userBurst = 2
	// rememberedUsers bounds the memory of their rates, some 25 MB. Of more, those are forgotten who have been quiet
	// longest, and begin anew.
	rememberedUsers = 100_000
)

// Limits bound what one process takes at once. What is above is refused at once, before anything is done for it.
type Limits struct {
	InFlight int     // requests that are being answered
	UserRate float64 // requests of one user in a second; 0: any number
}

// inFlight counts the requests that are being answered.
type inFlight struct {
	now  atomic.Int64
	most int64
}

// enter is false when there are too many already; leave is to be called all the same.
func (f *inFlight) enter() bool { return f.now.Add(1) <= f.most }
func (f *inFlight) leave()      { f.now.Add(-1) }

// userRates limits how often each user may ask. Nil lets everybody.
type userRates struct {
	limit rate.Limit
	burst int
	users *lru.Cache[uint64, *rate.Limiter]
}

func newUserRates(perSecond float64) *userRates {
	if perSecond <= 0 {
		return nil
	}
	users, err := lru.New[uint64, *rate.Limiter](rememberedUsers)
	if err != nil {
		panic(err) // of a size below one
	}
	return &userRates{limit: rate.Limit(perSecond), burst: max(1, int(userBurst*perSecond)), users: users}
}

func (u *userRates) allow(user uint64, now time.Time) bool {
	if u == nil {
		return true
	}
	limiter, known := u.users.Get(user)
	if !known {
		limiter = rate.NewLimiter(u.limit, u.burst)
		if other, found, _ := u.users.PeekOrAdd(user, limiter); found {
			limiter = other
		}
	}
	return limiter.AllowN(now, 1)
}
