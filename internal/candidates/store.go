package candidates

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/redis/go-redis/v9"
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
	KeyPrefix string        `name:"redis-key-prefix" env:"REDIS_KEY_PREFIX" placeholder:"PREFIX" help:"Stands before every key; no braces."`
	TTL       time.Duration `name:"candidate-ttl" env:"CANDIDATE_TTL" default:"168h" placeholder:"DURATION" help:"How long a coupon's keys live after it has closed; at least 54h. Default ${default}."`
}

// Check refuses what would lose candidates.
func (o *Options) Check() (problems []error) {
	if strings.ContainsAny(o.KeyPrefix, "{}") {
		problems = append(problems, fmt.Errorf("REDIS_KEY_PREFIX=%q must not contain braces: they decide the Cluster slot", o.KeyPrefix))
	}
	if o.TTL < MinTTL {
		problems = append(problems, fmt.Errorf("CANDIDATE_TTL is %s: want at least %s, so that a queue outlives its settlement", o.TTL, MinTTL))
	}
	return problems
}

// Store holds the candidates of every coupon. It is safe for concurrent use.
type Store struct {
	rdb        redis.UniversalClient
	names      namespace
	ttlSeconds int64
	seen       *lru.Cache[uint64, *floor] // by coupon
}

// NewStore refuses options that would lose candidates.
func NewStore(rdb redis.UniversalClient, o Options) (*Store, error) {
	if err := errors.Join(o.Check()...); err != nil {
		return nil, err
	}
	return &Store{
		rdb: rdb, names: namespace{o.KeyPrefix}, ttlSeconds: int64(o.TTL / time.Second), seen: remembering[*floor](),
	}, nil
}

// Now is the clock of one shard of the store.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	now, err := s.rdb.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("read redis clock: %w", classify(err))
	}
	return now.UTC(), nil
}

// floor is the highest arrival and promise count this process has seen of one coupon.
type floor struct {
	mu       sync.Mutex
	arrival  int64
	accepted int64
}

func (s *Store) floorOf(coupon uint64) *floor {
	return remembered(s.seen, coupon, func() *floor { return new(floor) })
}

// remembering is something for each coupon, in bounds.
func remembering[V any]() *lru.Cache[uint64, V] {
	cache, err := lru.New[uint64, V](MaxRemembered)
	if err != nil {
		panic(err) // of a size that is not positive alone
	}
	return cache
}

// remembered is what there is for a coupon, or begins now.
func remembered[V any](cache *lru.Cache[uint64, V], coupon uint64, begin func() V) V {
	if v, ok := cache.Get(coupon); ok {
		return v
	}
	v := begin()
	if first, found, _ := cache.PeekOrAdd(coupon, v); found {
		return first
	}
	return v
}

func (f *floor) read() (arrival, accepted int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.arrival, f.accepted
}

func (f *floor) raise(arrival, accepted int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.arrival = max(f.arrival, arrival)
	f.accepted = max(f.accepted, accepted)
}
