package candidates

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/text"
)

// MinTTL is the shortest life of a queue after its coupon closed: a settlement that fails at midnight must find it
// the next two nights, with six hours to spare.
const MinTTL = 54 * time.Hour

// MaxRemembered coupons are remembered in a process: twice what the catalog holds, which touches each of its coupons at
// every refresh. What is forgotten left it long ago.
const MaxRemembered = 20_000

// FinishedTTL is how long the state of a finished coupon stays behind its swept keys.
const FinishedTTL = 10 * time.Minute

// Options say which deployment a Store belongs to. They are settings of both programs.
type Options struct {
	KeyPrefix string        `name:"redis-key-prefix" env:"REDIS_KEY_PREFIX" placeholder:"PREFIX"`
	TTL       time.Duration `name:"candidate-ttl" env:"CANDIDATE_TTL" default:"168h" placeholder:"DURATION"`
}

// Validate refuses what would lose candidates.
func (o *Options) Validate() error {
	var problems []error
	if strings.ContainsAny(o.KeyPrefix, "{}") {
		problems = append(problems, text.UsageErrorf(text.PrefixWithBraces, o.KeyPrefix))
	}
	if o.TTL < MinTTL {
		problems = append(problems, text.UsageErrorf(text.TTLTooShort, o.TTL, MinTTL))
	}
	return errors.Join(problems...)
}

// Store holds the candidates of every coupon. It is safe for concurrent use.
type Store struct {
	rdb        redis.UniversalClient
	names      namespace
	ttlSeconds int64
	memories   *lru.Cache[uint64, *memory] // by coupon

	remembers, forgotten, putBack, moved atomic.Int64 // of all coupons: told that are remembered, and, ever, that could not be, …

	// OnPutBack is told, from any goroutine, how it went whenever people were put back; nil: nobody is.
	OnPutBack func(PutBack)
}

// NewStore refuses options that would lose candidates.
func NewStore(rdb redis.UniversalClient, o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Store{rdb: rdb, names: namespace{o.KeyPrefix}, ttlSeconds: int64(o.TTL / time.Second)}
	s.memories = remembering(func(m *memory) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.drop(len(m.batches), &s.remembers)
	})
	return s, nil
}

func (s *Store) memoryOf(couponID coupon.CouponID) *memory {
	return remembered(s.memories, couponID, func() *memory { return new(memory) })
}

// remembering is something for each coupon, in bounds. forgotten is told what they push out.
func remembering[V any](forgotten func(V)) *lru.Cache[uint64, V] {
	cache, err := lru.NewWithEvict(MaxRemembered, func(_ uint64, v V) { forgotten(v) })
	if err != nil {
		panic(err) // of a size that is not positive alone
	}
	return cache
}

// remembered is what there is for a coupon, or begins now.
func remembered[V any](cache *lru.Cache[uint64, V], couponID coupon.CouponID, begin func() V) V {
	if v, ok := cache.Get(couponID); ok {
		return v
	}
	v := begin()
	if first, found, _ := cache.PeekOrAdd(couponID, v); found {
		return first
	}
	return v
}
