package issue

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

//go:embed gate.lua
var gateLua string

// gate checks duplicates and stock, and numbers the accepted presses of a coupon.
var gate = redis.NewScript(gateLua)

func gateKeys(coupon int) []string {
	tag := "{presses}:" + strconv.Itoa(coupon)
	return []string{tag + ":users", tag + ":taken"}
}

func pass(ctx context.Context, rdb redis.Scripter, keys []string, user, seats, coupon int) (answer, uint64, error) {
	n, err := gate.Run(ctx, rdb, keys, user, seats, coupon).Int64()
	switch {
	case err != nil:
		return failed, 0, err
	case n == 0:
		return duplicate, 0, nil
	case n < 0:
		return soldOut, 0, nil
	default:
		return accepted, uint64(n), nil
	}
}

const (
	streamKey   = "{presses}:stream"
	streamGroup = "issuers"
	streamRows  = 500 // rows of one transaction
	streamBlock = 5 * time.Second
	// streamIdle is how long a message stays with a consumer that does not acknowledge it. It is longer than any
	// insert.
	streamIdle  = 5 * time.Second
	streamAgain = 100 * time.Millisecond // pause after an error
)

func openStream(ctx context.Context, v *stand) (press, error) {
	if err := v.RDB.XGroupCreateMkStream(ctx, streamKey, streamGroup, "0").Err(); err != nil {
		return nil, err
	}
	if err := gate.Load(ctx, v.RDB).Err(); err != nil {
		return nil, err
	}
	return func(ctx context.Context, coupon, user int) (answer, uint64, error) {
		return pass(ctx, v.Servers.Redis, append(gateKeys(coupon), streamKey), user, v.seats, coupon)
	}, nil
}

// readStream inserts what it reads, up to 500 rows in one transaction, and acknowledges it after the commit. First
// come the messages that this consumer had read before it was killed.
func readStream(ctx context.Context, s *connect.Servers, w stage.Wiring) error {
	c := consumer{Servers: s, name: fmt.Sprint("consumer-", w.Place)}
	from, claimed := "0", time.Now()
	for ctx.Err() == nil {
		if time.Since(claimed) > streamIdle {
			c.claim(ctx)
			claimed = time.Now()
		}
		messages, err := c.read(ctx, from)
		if err == nil && len(messages) == 0 && from == "0" {
			from = ">" // nothing is left from before
			continue
		}
		if err == nil {
			err = c.issue(ctx, messages)
		}
		if err != nil && ctx.Err() == nil {
			from = "0" // what was read is read again
			time.Sleep(streamAgain)
		}
	}
	return nil
}

type consumer struct {
	*connect.Servers
	name string
}

func (c consumer) read(ctx context.Context, from string) ([]redis.XMessage, error) {
	args := redis.XReadGroupArgs{Group: streamGroup, Consumer: c.name, Streams: []string{streamKey, from},
		Count: streamRows, Block: streamBlock}
	streams, err := c.Redis.XReadGroup(ctx, &args).Result()
	if errors.Is(err, redis.Nil) || len(streams) == 0 {
		return nil, nil
	}
	return streams[0].Messages, err
}

// claim takes over what dead consumers had read.
func (c consumer) claim(ctx context.Context) {
	for next := "0-0"; ; {
		args := redis.XAutoClaimArgs{Stream: streamKey, Group: streamGroup, Consumer: c.name, MinIdle: streamIdle,
			Start: next, Count: streamRows}
		messages, start, err := c.Redis.XAutoClaim(ctx, &args).Result()
		if err != nil || c.issue(ctx, messages) != nil || start == "0-0" {
			return // what failed is claimed again
		}
		next = start
	}
}

// issue inserts one row for each message. The unique key ignores repetitions.
func (c consumer) issue(ctx context.Context, messages []redis.XMessage) error {
	if len(messages) == 0 {
		return nil
	}
	ids := make([]string, len(messages))
	args := make([]any, 0, 5*len(messages))
	now := time.Now().UTC()
	for i, m := range messages {
		ids[i] = m.ID
		millis, _, _ := strings.Cut(m.ID, "-")
		at, err := strconv.ParseInt(millis, 10, 64)
		if err != nil {
			return fmt.Errorf("stream id %q: %w", m.ID, err)
		}
		args = append(args, m.Values["c"], m.Values["u"], m.Values["n"], time.UnixMilli(at).UTC(), now.AddDate(0, 0,
			validDays))
	}
	_, err := c.MySQL.ExecContext(ctx, insertOnceSQL+mysqltx.List("(?, ?, ?, ?, ?)", len(messages))+keepSQL, args...)
	if err != nil {
		return err
	}
	_, err = c.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.XAck(ctx, streamKey, streamGroup, ids...)
		p.XDel(ctx, streamKey, ids...)
		return nil
	})
	return err
}

const (
	validDays     = 30
	insertOnceSQL = "INSERT INTO user_coupon (coupon_id, user_id, position, applied_at, expires_at) VALUES "
	keepSQL       = " ON DUPLICATE KEY UPDATE user_id = VALUES(user_id)"
)
