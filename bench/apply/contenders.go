package main

import (
	"context"
	"database/sql"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/testenv"
)

// contender is one implementation of applying.
type contender struct {
	name, title string
	start       func(ctx context.Context, s *stage, c contender) (*server, error)
	again       int    // as in load
	tokens      string // algorithm of its tokens; empty: requests have X-User-ID
	base        string // contender with which it is compared instead of -base; empty: none
}

const (
	couponID  = 1
	yardstick = "nothing" // the cost of net/http itself
	plainest  = "plain"   // the simplest implementation with Redis

	otherBuild = "other"
	seats      = 100_000_000 // never sold out
)

var contenders = []contender{
	{name: yardstick, title: "an empty handler", start: startOwn},
	{name: "api", title: "Jajeong", start: startAPI},
	{name: "hs256", title: "Jajeong, a new HS256 token each", start: startTokens, tokens: hs256},
	{name: "rs256", title: "Jajeong, a new RS256 token each", start: startTokens, tokens: rs256},
	{name: "again", title: "Jajeong, users come again", start: startAPI, again: comeAgain},
	{name: "hs256-again", title: "Jajeong, users come again with HS256 tokens", start: startTokens, again: comeAgain, tokens: hs256, base: "again"},
	{name: "rs256-again", title: "Jajeong, users come again with RS256 tokens", start: startTokens, again: comeAgain, tokens: rs256, base: "again"},
	{name: "receipts", title: "Jajeong with receipts", start: startReceipts},
	{name: otherBuild, title: "another build of Jajeong", start: startOther},
	{name: plainest, title: "one EVALSHA per request", start: onRedis},
	{name: "row-lock", title: "a row lock per request", start: onDatabase},
	{name: "pipeliner", title: "go-redis's automatic pipeliner", start: onRedis},
}

// comeAgain is how many users of each connection come again and again.
const comeAgain = 100

func contenderNames() (names []string) {
	for _, c := range contenders {
		names = append(names, c.name)
	}
	return names
}

func startOwn(ctx context.Context, s *stage, c contender) (*server, error) {
	return new(server).started(s.own(ctx, c, wiring{}))
}

// onRedis starts the server with a new Redis.
func onRedis(ctx context.Context, s *stage, c contender) (*server, error) {
	v := new(server)
	if err := v.withRedis(ctx); err != nil {
		return nil, err
	}
	return v.started(s.own(ctx, c, wiring{Redis: v.redis.Addr()}))
}

func onDatabase(ctx context.Context, s *stage, c contender) (*server, error) {
	v := new(server)
	db, name, drop, err := s.Fresh(ctx, couponID, seats)
	if err != nil {
		return nil, err
	}
	v.ends = append(v.ends, drop)
	v.storePid = s.Pid()
	v.stored = func(ctx context.Context) (users map[uint64]bool, accepted int, err error) {
		return storedInMySQL(ctx, db)
	}
	return v.started(s.own(ctx, c, wiring{DSN: s.DSN(name)}))
}

// startAPI starts apply-api with its default settings, except for the addresses, and for the rate of users who come again.
func startAPI(ctx context.Context, s *stage, c contender) (*server, error) {
	return s.startBuild(ctx, s.apply, c.rate()...)
}

func (c contender) rate() []string {
	if c.again > 0 {
		return []string{"--user-rate=0"}
	}
	return nil
}

func startReceipts(ctx context.Context, s *stage, _ contender) (*server, error) {
	path := filepath.Join(s.dir, "receipt-keys")
	secret := base64.StdEncoding.EncodeToString(make([]byte, 32))
	if err := os.WriteFile(path, []byte("bench "+secret+"\n"), 0o600); err != nil {
		return nil, err
	}
	return s.startBuild(ctx, s.apply, "--receipt-keys-file="+path)
}

// startOther starts the apply-api of -build.
func startOther(ctx context.Context, s *stage, _ contender) (*server, error) {
	return s.startBuild(ctx, s.other)
}

// startTokens starts apply-api with keys of tokens.
func startTokens(ctx context.Context, s *stage, c contender) (*server, error) {
	m, keys, err := newMint(s.dir, c.tokens)
	if err != nil {
		return nil, err
	}
	first, err := m.sign(1)
	if err != nil {
		return nil, err
	}
	return s.startAs(ctx, &server{mint: m, first: first}, s.apply, append(append(keys, c.rate()...), "--identity=jwt", "--jwt-issuer="+tokenIssuer, "--jwt-audience="+tokenAudience, "--jwt-user-claim=sub")...)
}

func (s *stage) startBuild(ctx context.Context, apply string, args ...string) (*server, error) {
	return s.startAs(ctx, new(server), apply, args...)
}

func (s *stage) startAs(ctx context.Context, v *server, apply string, args ...string) (*server, error) {
	if err := v.withRedis(ctx); err != nil {
		return nil, err
	}
	_, name, drop, err := s.Fresh(ctx, couponID, seats)
	if err != nil {
		v.stop()
		return nil, err
	}
	v.ends = append(v.ends, drop)
	return v.started(s.program(ctx, apply, nil, append(args, "--mysql-dsn="+s.DSN(name), "--redis-addrs="+v.redis.Addr(),
		"--apply-listen=127.0.0.1:0", "--apply-admin-listen=127.0.0.1:0", "--live-listen=127.0.0.1:0", "--shutdown-delay=0s")...))
}

func (v *server) withRedis(ctx context.Context) (err error) {
	if v.redis, err = testenv.StartRedis(ctx, testenv.RedisOptions{AppendOnly: true}); err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: v.redis.Addr()})
	v.ends = append(v.ends, func() { _ = v.redis.Stop() }, func() { _ = rdb.Close() })
	v.storePid = v.redis.Pid()
	v.stored = func(ctx context.Context) (map[uint64]bool, int, error) { return storedInRedis(ctx, rdb) }
	return nil
}

// storedInRedis returns the users in the queue and the number of accepted applications.
func storedInRedis(ctx context.Context, rdb *redis.Client) (users map[uint64]bool, accepted int, err error) {
	if accepted, err = rdb.HGet(ctx, beside("state"), "accepted").Int(); err != nil {
		return nil, 0, fmt.Errorf("read accepted: %w", err)
	}
	users = make(map[uint64]bool, accepted)
	const page = 10_000
	for from := int64(0); ; from += page {
		var read []uint64
		if err := rdb.ZRange(ctx, queueKey, from, from+page-1).ScanSlice(&read); err != nil {
			return nil, 0, fmt.Errorf("read queue: %w", err)
		}
		for _, user := range read {
			users[user] = true
		}
		if len(read) < page {
			return users, accepted, nil
		}
	}
}

func storedInMySQL(ctx context.Context, db *sql.DB) (users map[uint64]bool, accepted int, err error) {
	if err := db.QueryRowContext(ctx, "SELECT issued_count FROM coupon WHERE id = ?", couponID).Scan(&accepted); err != nil {
		return nil, 0, fmt.Errorf("read issued_count: %w", err)
	}
	rows, err := db.QueryContext(ctx, "SELECT user_id FROM user_coupon WHERE coupon_id = ?", couponID)
	if err != nil {
		return nil, 0, fmt.Errorf("read user_coupon: %w", err)
	}
	defer rows.Close()
	users = make(map[uint64]bool, accepted)
	for rows.Next() {
		var user uint64
		if err := rows.Scan(&user); err != nil {
			return nil, 0, err
		}
		users[user] = true
	}
	return users, accepted, rows.Err()
}
