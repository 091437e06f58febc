package candidates

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/rediserr"
)

//go:embed lua/*.lua
var sources embed.FS

// script is a Lua script. The comment in its file describes ARGV and the reply; lua/shared.lua describes KEYS.
type script struct{ name, source, sha string }

var (
	applyScript           = load("apply", "epoch")
	publishScript         = load("publish", "epoch")
	stopApplyingScript    = load("stop_applying")
	lookScript            = load("look", "epoch", "line")
	observeScript         = load("observe", "epoch", "line")
	watchScript           = load("watch", "epoch")
	pageScript            = load("page", "epoch")
	handOverScript        = load("hand_over", "epoch")
	enterScript           = load("enter", "epoch")
	takeReturnedScript    = load("take_returned")
	endRestoreScript      = load("end_restore", "epoch")
	excessScript          = load("excess", "epoch")
	removeRangeScript     = load("remove_range", "settled")
	removeScript          = load("remove", "settled")
	reviewScript          = load("review")
	releaseScript         = load("release")
	renewScript           = load("renew")
	setSoldScript         = load("set_sold")
	sweepScript           = load("sweep")
	countByIntervalScript = load("count_by_interval")
	inspectScript         = load("inspect")
	timeScript            = load("time")
)

// load reads a script, and inserts shared sources after its shebang line.
func load(name string, shared ...string) script {
	source := read(name)
	shebang, text := "", source
	if strings.HasPrefix(source, "#!") {
		end := strings.Index(source, "\n") + 1
		shebang, text = source[:end], source[end:]
	}
	source = shebang
	for _, part := range append([]string{"shared"}, shared...) {
		source += read(part)
	}
	source += text
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

// onceCmd is a call of a script that the Redis client never repeats by itself. If a reply is lost, the applicant gets
// an error; a repetition could still accept the application afterwards.
type onceCmd struct{ *redis.Cmd }

// NoRetry is necessary because the Cluster client ignores MaxRetries.
func (onceCmd) NoRetry() bool { return true }

// run runs a script for a coupon. A server that does not know the script executes nothing; run then sends the source.
func (s *Store) run(ctx context.Context, of script, couponID coupon.CouponID, args ...any) ([]any, error) {
	reply, err := s.call(ctx, couponID, "evalsha", of.sha, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = s.call(ctx, couponID, "eval", of.source, args)
	}
	if err != nil {
		return nil, of.failed(couponID, rediserr.Classify(err))
	}
	if list, ok := reply.([]any); ok {
		return list, nil
	}
	return []any{reply}, nil
}

func (s *Store) call(ctx context.Context, couponID coupon.CouponID, verb, body string, args []any) (any, error) {
	cmd := s.command(ctx, couponID, verb, body, args)
	if err := s.rdb.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}

func (s *Store) command(ctx context.Context, couponID coupon.CouponID, verb, body string, args []any) onceCmd {
	k := s.names.coupon(couponID)
	line := append(make([]any, 0, 10+len(args)), verb, body, 7, k.queue, k.state, k.issued, k.rejected, k.dlq, k.reason,
		k.returned)
	for _, arg := range args {
		if arrival, ok := arg.(coupon.Arrival); ok {
			arg = int64(arrival) // the client accepts no defined types
		}
		line = append(line, arg)
	}
	return onceCmd{redis.NewCmd(ctx, line...)}
}

func (s script) failed(couponID coupon.CouponID, err error) error {
	return fmt.Errorf("run redis script %s for coupon %d: %w", s.name, couponID, err)
}

// ask runs a script for a coupon, and converts the reply with read.
func ask[R any](ctx context.Context, s *Store, of script, couponID coupon.CouponID, read func(reply []any) (R, error),
	args ...any) (R, error) {
	reply, err := s.run(ctx, of, couponID, args...)
	if err != nil {
		var none R
		return none, err
	}
	r, err := read(reply)
	if err != nil {
		err = of.failed(couponID, err)
	}
	return r, err
}

// numbers runs a script that returns exactly want whole numbers.
func (s *Store) numbers(ctx context.Context, of script, couponID coupon.CouponID, want int,
	args ...any) ([]int64, error) {
	return ask(ctx, s, of, couponID, func(reply []any) ([]int64, error) { return values[int64](reply, want) }, args...)
}

func (s *Store) number(ctx context.Context, of script, couponID coupon.CouponID, args ...any) (int64, error) {
	n, err := s.numbers(ctx, of, couponID, 1, args...)
	if err != nil {
		return 0, err
	}
	return n[0], nil
}

// mixed reads a reply of whole numbers that ends with a list of texts, and checks how many there are of each.
func mixed(reply []any, numbers, texts int) ([]int64, []string, error) {
	var list []any
	if len(reply) == numbers+1 {
		list, _ = reply[numbers].([]any)
		reply = reply[:numbers]
	}
	n, err := values[int64](reply, numbers)
	if err != nil {
		return nil, nil, err
	}
	all, err := values[string](list, texts)
	return n, all, err
}

// values converts a reply that must consist of exactly want values of type V.
func values[V any](reply []any, want int) ([]V, error) {
	if len(reply) != want {
		return nil, fmt.Errorf("%d values in the reply, want %d", len(reply), want)
	}
	all := make([]V, want)
	for i, value := range reply {
		v, ok := value.(V)
		if !ok {
			return nil, fmt.Errorf("value %d is %T, want %T", i, value, all[i])
		}
		all[i] = v
	}
	return all, nil
}
