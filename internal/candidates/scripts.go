package candidates

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

// script is one Lua operation. Its file tells KEYS, ARGV and what it returns.
type script struct{ name, source, sha string }

var (
	applyScript           = load("apply", "epoch")
	publishScript         = load("publish", "epoch")
	stopApplyingScript    = load("stop_applying")
	fenceScript           = load("fence", "epoch")
	renewScript           = load("renew")
	countsScript          = load("counts", "epoch")
	pageScript            = load("page")
	removeRangeScript     = load("remove_range")
	removeScript          = load("remove")
	reviewScript          = load("review")
	releaseScript         = load("release")
	setSoldScript         = load("set_sold")
	sweepScript           = load("sweep")
	statusScript          = load("status")
	countByIntervalScript = load("count_by_interval")
	lookupUserScript      = load("lookup_user")
	missingScript         = load("missing", "epoch")
	restoreScript         = load("restore", "epoch")
	inspectScript         = load("inspect")
)

// load puts what a script shares with others before it, but behind a first line that tells Redis how to run it.
func load(name string, shared ...string) script {
	source := read(name)
	first := ""
	if strings.HasPrefix(source, "#!") {
		end := strings.Index(source, "\n") + 1
		first, source = source[:end], source[end:]
	}
	for _, part := range shared {
		source = read(part) + source
	}
	source = first + source
	sum := sha1.Sum([]byte(source))
	return script{name: name, source: source, sha: hex.EncodeToString(sum[:])}
}

func read(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the file is embedded: a missing one is a build that cannot work
	}
	return string(text)
}

// onceCmd is a script call that the client never sends twice by itself: a replay after a lost reply could accept an
// application that its caller has already been told is unknown.
type onceCmd struct{ *redis.Cmd }

// NoRetry tells the Cluster client, which retries whatever MaxRetries says.
func (onceCmd) NoRetry() bool { return true }

// run calls the script, loading it where the server does not know it. NOSCRIPT means nothing was executed, so that
// one repetition is safe.
func (s script) run(ctx context.Context, rdb redis.UniversalClient, keys []string, args ...any) ([]any, error) {
	reply, err := s.call(ctx, rdb, "evalsha", s.sha, keys, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = s.call(ctx, rdb, "eval", s.source, keys, args)
	}
	if err != nil {
		return nil, fmt.Errorf("%s script: %w", s.name, classify(err))
	}
	if list, ok := reply.([]any); ok {
		return list, nil
	}
	return []any{reply}, nil
}

func (s script) call(ctx context.Context, rdb redis.UniversalClient, verb, body string, keys []string, args []any) (any, error) {
	line := make([]any, 0, 3+len(keys)+len(args))
	line = append(line, verb, body, len(keys))
	for _, key := range keys {
		line = append(line, key)
	}
	line = append(line, args...)
	cmd := onceCmd{redis.NewCmd(ctx, line...)}
	if err := rdb.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}

// integers reads a reply that must be whole numbers, exactly want of them.
func (s script) integers(reply []any, want int) ([]int64, error) {
	if len(reply) != want {
		return nil, fmt.Errorf("%s script: %d values in the reply, want %d", s.name, len(reply), want)
	}
	numbers := make([]int64, want)
	for i, value := range reply {
		number, ok := value.(int64)
		if !ok {
			return nil, fmt.Errorf("%s script: value %d is %T, want a whole number", s.name, i, value)
		}
		numbers[i] = number
	}
	return numbers, nil
}

// count runs a script that answers one number.
func (s script) count(ctx context.Context, rdb redis.UniversalClient, keys []string, args ...any) (int64, error) {
	reply, err := s.run(ctx, rdb, keys, args...)
	if err != nil {
		return 0, err
	}
	numbers, err := s.integers(reply, 1)
	if err != nil {
		return 0, err
	}
	return numbers[0], nil
}

// texts reads a reply that must be text throughout, exactly want of them.
func (s script) texts(reply []any, want int) ([]string, error) {
	if len(reply) != want {
		return nil, fmt.Errorf("%s script: %d values in the reply, want %d", s.name, len(reply), want)
	}
	texts := make([]string, want)
	for i, value := range reply {
		text, ok := value.(string)
		if !ok {
			return nil, fmt.Errorf("%s script: value %d is %T, want text", s.name, i, value)
		}
		texts[i] = text
	}
	return texts, nil
}
