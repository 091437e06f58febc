package candidates

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/text"
)

// MinTTL is the shortest TTL of a queue after its coupon closed: enough for two nightly settlements and six hours more.
const MinTTL = 54 * time.Hour

// FinishedTTL is how long Redis keeps the state of a finalised coupon after its other keys were deleted.
const FinishedTTL = 10 * time.Minute

// defaultPutBackTime lasts two catalog refreshes. At each of them a process notices whether the server has changed.
const defaultPutBackTime = 10 * time.Second

type Options struct {
	KeyPrefix string        `name:"redis-key-prefix" env:"REDIS_KEY_PREFIX" placeholder:"PREFIX"`
	TTL       time.Duration `name:"candidate-ttl" env:"CANDIDATE_TTL" default:"168h" placeholder:"DURATION"`

	// PutBackTime is how long settlements wait after the Redis server changed, while processes put back what it lacks.
	// Zero means 10 s. It is no setting: only tests have less.
	PutBackTime time.Duration `kong:"-"`
}

// Validate returns an error for options with which applications could be lost.
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

// Store reads and writes everything that one deployment has in Redis. It is safe for concurrent use.
type Store struct {
	// Recorder may be replaced before the Store is first used. The Recorder that NewStore sets remembers nothing.
	Recorder Recorder

	rdb         redis.UniversalClient
	names       namespace
	ttlSeconds  int64
	putBackTime time.Duration
	slots       atomic.Bool // a server has refused keys of several slots in one command: it is a Cluster
}

func NewStore(rdb redis.UniversalClient, o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.PutBackTime == 0 {
		o.PutBackTime = defaultPutBackTime
	}
	return &Store{
		Recorder: noRecorder{}, rdb: rdb, names: namespace{o.KeyPrefix},
		ttlSeconds: int64(o.TTL / time.Second), putBackTime: o.PutBackTime,
	}, nil
}
