package apply

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jajeong/jajeong/bench/applicants"
	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/testenv"
)

// contender is one implementation of applying.
type contender struct {
	name, title string
	own         bool // a role of this program, instead of apply-api
	inMySQL     bool // it stores its applications in MySQL
	journal     bool // ACCEPT_AFTER=journal: it stores them in Redis and MySQL
	receipts    bool
	again       int    // as in applicants.Load
	tokens      string // algorithm; empty: requests have X-User-ID
	base        string // contender with which it is compared instead of -base; empty: none
}

const (
	couponID  = 1
	yardstick = "nothing" // the cost of net/http itself
	plainest  = "plain"   // the simplest implementation with Redis
	other     = "other"
	// comeAgain is how many users of each connection come again and again.
	comeAgain = 100
)

var contenders = []contender{
	{name: yardstick, title: "an empty handler", own: true},
	{name: "api", title: "Jajeong"},
	{name: "hs256", title: "Jajeong, a new HS256 token each", tokens: applicants.HS256},
	{name: "rs256", title: "Jajeong, a new RS256 token each", tokens: applicants.RS256},
	{name: "again", title: "Jajeong, users come again", again: comeAgain},
	{name: "hs256-again", title: "Jajeong, users come again with HS256 tokens", again: comeAgain,
		tokens: applicants.HS256, base: "again"},
	{name: "rs256-again", title: "Jajeong, users come again with RS256 tokens", again: comeAgain,
		tokens: applicants.RS256, base: "again"},
	{name: "journal", title: "Jajeong, ACCEPT_AFTER=journal", journal: true},
	{name: "receipts", title: "Jajeong with receipts", receipts: true},
	{name: other, title: "another build of Jajeong"},
	{name: plainest, title: "one EVALSHA per request", own: true},
	{name: "row-lock", title: "a row lock per request", own: true, inMySQL: true},
	{name: "pipeliner", title: "go-redis's automatic pipeliner", own: true},
}

// tokensPerSecond is how many a load needs at most. RS256 signs 1,500 in a second and core.
var tokensPerSecond = map[string]int{applicants.HS256: 120_000, applicants.RS256: 45_000}

// server is a running contender with its stores.
type server struct {
	contender
	*stage.Shop
	*testenv.Program
	mint     *applicants.Mint
	loads    int
	accepted []applicants.Span
}

// start starts a contender: with its default settings, except for the addresses, and the rate of users who come again.
func (m *measurement) start(ctx context.Context, c contender) (v *server, err error) {
	v = &server{contender: c}
	if v.Shop, err = m.OpenShop(ctx, 1, stage.Never); err != nil {
		return nil, err
	}
	if c.own {
		v.Program, err = v.StartServer(ctx, role+c.name)
	} else {
		v.Program, err = m.startPod(ctx, v)
	}
	if err == nil {
		v.AtEnd(func() { _ = v.Program.Stop() })
		first := applicants.Load{Address: v.Apply, Coupon: couponID, First: applicants.FirstUser, Tokens: v.mint}
		if err = first.AwaitOpen(ctx); err != nil {
			err = fmt.Errorf("%w; %s", err, v.LastWarning())
		}
	}
	if err != nil {
		v.Shop.Close()
	}
	return v, err
}

func (m *measurement) startPod(ctx context.Context, v *server) (*testenv.Program, error) {
	var build string
	var args []string
	if v.name == other {
		build = *m.other
	}
	if v.again > 0 {
		args = append(args, "--user-rate=0")
	}
	if v.journal {
		args = append(args, "--accept-after=journal")
	}
	if v.receipts {
		path := filepath.Join(m.Dir, "receipt-keys")
		secret := base64.StdEncoding.EncodeToString(make([]byte, 32))
		if err := os.WriteFile(path, []byte("bench "+secret+"\n"), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--receipt-keys-file="+path)
	}
	if v.tokens != "" {
		n := int(float64(tokensPerSecond[v.tokens]) * (*m.seconds + longestWarmUp).Seconds())
		mint, flags, err := applicants.NewMint(m.Dir, v.tokens, n)
		if err != nil {
			return nil, err
		}
		v.mint, args = mint, append(args, flags...)
	}
	return v.StartPod(ctx, build, args...)
}

// sample has the outcome of a load and its resources.
type sample struct {
	applicants.Outcome
	memory                   int64         // peak of the server since its start, in bytes
	server, store, generator time.Duration // CPU time per answer; store is Redis, MySQL or both
	unloaded                 time.Duration // p99 of the yardstick at the same rate
}

const usersPerLoad = 200_000_000

// take sends a load.
func (v *server) take(ctx context.Context, l applicants.Load, warmUp, length time.Duration) (r sample,
	err error) {
	v.loads++
	l.Address, l.Coupon, l.Again, l.Tokens = v.Apply, couponID, v.again, v.mint
	l.First = applicants.FirstUser + uint64(v.loads)*usersPerLoad
	used, err := v.Use(ctx, []int{v.Process.Pid}, func() (err error) {
		r.Outcome, err = l.During(ctx, v.Stage, warmUp, func() error { return stage.Wait(ctx, length) })
		return err
	})
	if err == nil && r.Served == 0 {
		err = fmt.Errorf("no application was accepted: %s", r.Failure)
	}
	if err != nil {
		return r, err
	}
	answers := time.Duration(r.Answered)
	r.server, r.store, r.generator = used.Own/answers, used.Redis/answers, r.CPU/answers
	switch {
	case v.inMySQL:
		r.store = used.MySQL / answers
	case v.journal:
		r.store += used.MySQL / answers
	}
	r.memory, _ = stage.PeakMemory(v.Process.Pid)
	v.accepted = append(v.accepted, r.Accepted...)
	return r, nil
}

// verify returns an error unless the store has every accepted user, and counts no other.
func (v *server) verify(ctx context.Context) (accepted int, err error) {
	for _, s := range v.accepted {
		accepted += int(s.N)
	}
	if v.name == yardstick {
		return accepted, nil
	}
	users, counted, err := v.stored(ctx)
	if err != nil {
		return accepted, err
	}
	for _, s := range v.accepted {
		for user := s.First; user < s.First+s.N; user++ {
			if !users[user] {
				return accepted, fmt.Errorf("user %d was accepted and is lost", user)
			}
		}
	}
	if len(users) != counted || accepted > counted {
		return accepted, fmt.Errorf("%d accepted, %d counted and %d stored", accepted, counted, len(users))
	}
	return accepted, nil
}

// stored returns the users in the store, and how many it counts. With ACCEPT_AFTER=journal, all whom Redis counts must
// be in the journal.
func (v *server) stored(ctx context.Context) (users map[uint64]bool, counted int, err error) {
	var all []uint64
	switch {
	case v.inMySQL:
		if counted, err = v.Number(ctx, "SELECT issued_count FROM coupon WHERE id = ?", couponID); err == nil {
			all, err = stage.Column[uint64](ctx, v.DB, "SELECT user_id FROM user_coupon WHERE coupon_id = ?", couponID)
		}
	case v.journal:
		if counted, err = v.RDB.HGet(ctx, stage.StateKey(couponID), "accepted").Int(); err == nil {
			all, err = stage.Column[uint64](ctx, v.DB, "SELECT user_id FROM line_journal WHERE coupon_id = ?", couponID)
		}
	default:
		counted, err = v.RDB.HGet(ctx, stage.StateKey(couponID), "accepted").Int()
		const page = 10_000
		for more := err == nil; more && err == nil; {
			var read []uint64
			from := int64(len(all))
			err = v.RDB.ZRange(ctx, stage.QueueKey(couponID), from, from+page-1).ScanSlice(&read)
			all, more = append(all, read...), len(read) == page
		}
	}
	users = make(map[uint64]bool, len(all))
	for _, user := range all {
		users[user] = true
	}
	return users, counted, err
}
