package redissink

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/rediserr"
)

//go:embed lua/append.lua
var source string

var sha = func() string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}()

// The codes of the script.
const (
	looked   = "LOOKED"
	appended = "APPENDED"
	changed  = "CHANGED"
	full     = "FULL"
)

// answer is a reply of the script.
type answer struct {
	code, server       string
	used, max, removed int64
	last               string
	lacks              time.Duration
}

// onceCmd is a call of the script that the Redis client never repeats by itself.
type onceCmd struct{ *redis.Cmd }

// NoRetry is necessary because the Cluster client ignores MaxRetries.
func (onceCmd) NoRetry() bool { return true }

// run runs the script. A server that does not know the script executes nothing; run then sends the source.
func (s *Sink) run(ctx context.Context, at events.Place, page []events.Message) (answer, error) {
	reply, err := s.call(ctx, "evalsha", sha, at, page)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = s.call(ctx, "eval", source, at, page)
	}
	if err != nil {
		return answer{}, rediserr.Classify(err)
	}
	a, ok := read(reply)
	if !ok {
		return answer{}, fmt.Errorf("redis script append replied %v", reply)
	}
	return a, nil
}

func (s *Sink) call(ctx context.Context, verb, body string, at events.Place, page []events.Message) (any, error) {
	line := append(make([]any, 0, 9+len(page)), verb, body, 1, s.Stream, at.Server, at.Last, s.Retention.Milliseconds(),
		trimSize, fullPercent)
	for _, m := range page {
		line = append(line, m.Body)
	}
	cmd := onceCmd{redis.NewCmd(ctx, line...)}
	if err := s.rdb.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}

func read(reply any) (a answer, ok bool) {
	list, _ := reply.([]any)
	if len(list) != 7 {
		return answer{}, false
	}
	code, ok1 := list[0].(string)
	server, ok2 := list[1].(string)
	used, ok3 := list[2].(int64)
	limit, ok4 := list[3].(int64)
	removed, ok5 := list[4].(int64)
	last, ok6 := list[5].(string)
	lacks, ok7 := list[6].(int64)
	a = answer{code, server, used, limit, removed, last, time.Duration(lacks) * time.Millisecond}
	return a, ok1 && ok2 && server != "" && ok3 && ok4 && ok5 && ok6 && ok7
}
