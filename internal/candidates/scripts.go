package candidates

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var sources embed.FS

// script is one Lua operation. Its file states KEYS, ARGV and the reply.
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

// load prepends shared sources to a script, behind its shebang line.
func load(name string, shared ...string) script {
	source := read(name)
	shebang := ""
	if strings.HasPrefix(source, "#!") {
		end := strings.Index(source, "\n") + 1
		shebang, source = source[:end], source[end:]
	}
	for _, part := range shared {
		source = read(part) + source
	}
	source = shebang + source
	sum := sha1.Sum([]byte(source))
	return script{name: name, source: source, sha: hex.EncodeToString(sum[:])}
}

func read(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the file is not embedded: the build is broken
	}
	return string(text)
}

// onceCmd is a script call that the client never repeats by itself. A repetition after a lost reply could accept an
// application whose caller already got an error.
type onceCmd struct{ *redis.Cmd }

// NoRetry is for the Cluster client, which retries whatever MaxRetries says.
func (onceCmd) NoRetry() bool { return true }

// run calls the script, and loads it if the server does not know it. NOSCRIPT means that nothing was executed.
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
	for _, arg := range args {
		if arrival, ok := arg.(coupon.Arrival); ok {
			arg = int64(arrival) // the client takes no defined types
		}
		line = append(line, arg)
	}
	cmd := onceCmd{redis.NewCmd(ctx, line...)}
	if err := rdb.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}

// numbers runs a script that returns exactly want whole numbers.
func (s script) numbers(ctx context.Context, rdb redis.UniversalClient, want int, keys []string, args ...any) ([]int64, error) {
	reply, err := s.run(ctx, rdb, keys, args...)
	if err != nil {
		return nil, err
	}
	return s.integers(reply, want)
}

// count runs a script that returns one number.
func (s script) count(ctx context.Context, rdb redis.UniversalClient, keys []string, args ...any) (int64, error) {
	n, err := s.numbers(ctx, rdb, 1, keys, args...)
	if err != nil {
		return 0, err
	}
	return n[0], nil
}

// integers reads exactly want whole numbers from a reply.
func (s script) integers(reply []any, want int) ([]int64, error) {
	return values[int64](s, reply, want)
}

// texts reads exactly want texts from a reply.
func (s script) texts(reply []any, want int) ([]string, error) { return values[string](s, reply, want) }

// mixed reads whole numbers and, behind them, a list of texts.
func (s script) mixed(reply []any, numbers, texts int) ([]int64, []string, error) {
	var list []any
	if len(reply) == numbers+1 {
		list, _ = reply[numbers].([]any)
		reply = reply[:numbers]
	}
	n, err := s.integers(reply, numbers)
	if err != nil {
		return nil, nil, err
	}
	all, err := s.texts(list, texts)
	return n, all, err
}

func values[V any](s script, reply []any, want int) ([]V, error) {
	if len(reply) != want {
		return nil, fmt.Errorf("%s script: %d values in the reply, want %d", s.name, len(reply), want)
	}
	all := make([]V, want)
	for i, value := range reply {
		v, ok := value.(V)
		if !ok {
			return nil, fmt.Errorf("%s script: value %d is %T, want %T", s.name, i, value, all[i])
		}
		all[i] = v
	}
	return all, nil
}
