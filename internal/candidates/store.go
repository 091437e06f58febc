package candidates

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/text"
)

// MinTTL is how long a queue with applications lives at least: for two nightly settlements and six hours more. verify
// finds queues that end earlier.
const MinTTL = 54 * time.Hour

// ttlSeconds is how long a coupon's keys live after it has closed. Every run renews them: they end only if none
// has begun for a week, longer than a holiday with nobody on call. The memory is that of the applications, which
// are settled and removed long before.
const ttlSeconds = 7 * 24 * 60 * 60

// FinishedTTL is how long Redis keeps the state of a finalised coupon after its other keys were deleted.
const FinishedTTL = 10 * time.Minute

// HandOverTime is how long a restore waits after a server has become new to a coupon: two refreshes of the catalog, at
// each of which a process notices the change. Pods keep what they remember for as long after the journal has it.
const HandOverTime = 10 * time.Second

type Options struct {
	KeyPrefix string `name:"redis-key-prefix" env:"REDIS_KEY_PREFIX" placeholder:"PREFIX"`

	// HandOverTime is how long a restore waits after the Redis server has changed. Zero means HandOverTime. It is no
	// setting: only tests have less.
	HandOverTime time.Duration `kong:"-"`
}

// Validate returns an error for options with which applications could be lost.
func (o *Options) Validate() error {
	if strings.ContainsAny(o.KeyPrefix, "{}") {
		return text.UsageErrorf(text.PrefixWithBraces, o.KeyPrefix)
	}
	return nil
}

// Store reads and writes everything that one deployment has in Redis. It is safe for concurrent use.
type Store struct {
	// Recorder may be replaced before the Store is first used. The Recorder that NewStore sets remembers nothing.
	Recorder Recorder

	rdb          redis.UniversalClient
	names        namespace
	handOverTime time.Duration
	slots        atomic.Bool // a server has refused keys of several slots in one command: it is a Cluster
}

func NewStore(rdb redis.UniversalClient, o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.HandOverTime == 0 {
		o.HandOverTime = HandOverTime
	}
	return &Store{Recorder: noRecorder{}, rdb: rdb, names: namespace{o.KeyPrefix}, handOverTime: o.HandOverTime}, nil
}
