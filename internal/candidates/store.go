package candidates

import (
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/text"
)

// MinTTL is the shortest life of a queue after its coupon closed: the settlements of the next two nights must find it, with
// six hours to spare.
const MinTTL = 54 * time.Hour

// FinishedTTL is how long the state of a finalised coupon outlives its other keys.
const FinishedTTL = 10 * time.Minute

// defaultPutBackTime covers two refreshes of the catalog, each of which learns which server replies.
const defaultPutBackTime = 10 * time.Second

// Options are the settings of a Store in both programs.
type Options struct {
	KeyPrefix string        `name:"redis-key-prefix" env:"REDIS_KEY_PREFIX" placeholder:"PREFIX"`
	TTL       time.Duration `name:"candidate-ttl" env:"CANDIDATE_TTL" default:"168h" placeholder:"DURATION"`

	// PutBackTime is how long settlements wait after a change of the Redis server, so that processes put back what it lacks.
	// Zero is 10 s. Only tests change it.
	PutBackTime time.Duration `name:"put-back-time" env:"PUT_BACK_TIME" hidden:""`
}

// Validate refuses options that would lose candidates.
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

// Store is the store of all coupons of a deployment. It is safe for concurrent use.
type Store struct {
	// Recorder keeps what this process has seen and answered. It is set before the first use; by default nothing is kept.
	Recorder Recorder

	rdb         redis.UniversalClient
	names       namespace
	ttlSeconds  int64
	putBackTime time.Duration
}

// NewStore validates the options.
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
