package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jajeong/jajeong/bench/process"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
)

// scene is a measurement of `settle run` alone. It returns its result in Markdown.
type scene struct {
	name string
	run  func(ctx context.Context, s *stage, o options) (string, error)
}

var scenes = []scene{
	{"small", smallCoupons},
	{"long", longQueue},
	{"beside", besideARun},
	{"events", besideRelay},
	{"reads", reads},
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// median runs a campaign several times and returns the run with the median time.
func (s *stage) median(ctx context.Context, c campaign, rounds int, key func(settled) time.Duration) (settled, error) {
	var all []settled
	for range rounds {
		r, err := s.settle(ctx, c, nil)
		if err != nil {
			return r, err
		}
		say("%d coupons of %d seats, %d candidates each: issued after %s, done after %s", c.coupons, c.seats, c.candidates,
			r.issued.Round(time.Millisecond), r.took.Round(time.Millisecond))
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b settled) int { return int(key(a) - key(b)) })
	return all[len(all)/2], nil
}

func issued(r settled) time.Duration { return r.issued }

// smallCoupons compares many small coupons with one coupon of as many seats, in turn. A run by hand records its operator for
// each coupon, and asks for the policy of approvals; a nightly run does not.
func smallCoupons(ctx context.Context, s *stage, o options) (string, error) {
	const coupons, seats = 1000, 100
	big := campaign{coupons: 1, seats: coupons * seats, candidates: coupons * seats}
	many := campaign{coupons: coupons, seats: seats, candidates: seats}
	nightly := many
	nightly.nightly = true
	builds := map[string]string{"": s.bin}
	if o.other != "" {
		builds[", the other build"] = o.other
	}
	type way struct {
		campaign
		build string
	}
	var ways []way
	for _, c := range []campaign{big, many, nightly} {
		for _, build := range slices.Sorted(maps.Keys(builds)) {
			ways = append(ways, way{c, build})
		}
	}
	all := map[way][]settled{}
	for round := range o.rounds {
		for turn := range ways {
			w := ways[(round+turn)%len(ways)]
			r, err := s.settleWith(ctx, w.campaign, around{bin: builds[w.build], alone: true})
			if err != nil {
				return "", err
			}
			say("%d of %d  %s: %s, CPU %s", round+1, o.rounds, w.String()+w.build, r.took.Round(time.Millisecond), r.cpu)
			all[w] = append(all[w], r)
		}
	}
	mid := func(w way) settled {
		slices.SortFunc(all[w], func(a, b settled) int { return int(a.took - b.took) })
		return all[w][len(all[w])/2]
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Many small coupons compared with a big one, the whole process, `--parallel` at its default, in turn, medians of %d rounds:\n\n", o.rounds)
	fmt.Fprintf(&b, "| | time | rows/s | ratio to the big one | CPU of the job | of the database | of Redis | peak memory |\n"+
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, w := range ways {
		r := mid(w)
		fmt.Fprintf(&b, "| %s | %s | %.0f | %.2f | %s | %s | %s | %s |\n", w.String()+w.build, r.took.Round(time.Millisecond), coupons*seats/r.took.Seconds(),
			mid(way{big, w.build}).took.Seconds()/r.took.Seconds(), r.cpu.job.Round(time.Millisecond), r.cpu.database.Round(time.Millisecond),
			r.cpu.redis.Round(time.Millisecond), process.MiB(r.peak))
	}
	return b.String(), nil
}

// longQueue measures few seats at the head of a long queue.
func longQueue(ctx context.Context, s *stage, o options) (string, error) {
	if o.other != "" {
		return longInTurn(ctx, s, o)
	}
	const seats = 1000
	var b strings.Builder
	fmt.Fprintf(&b, "%d seats at the head of a queue; `NOT_SELECTED` is recorded after the coupons are issued:\n\n", seats)
	fmt.Fprintf(&b, "| candidates | coupons issued after | whole run | candidates/s | peak memory |\n| ---: | ---: | ---: | ---: | ---: |\n")
	for _, candidates := range []int{seats, 100 * seats, o.candidates} {
		rounds := o.rounds
		if candidates > 1_000_000 {
			rounds = 1
		}
		r, err := s.median(ctx, campaign{coupons: 1, seats: seats, candidates: candidates}, rounds, issued)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %.0f | %s |\n", candidates, r.issued.Round(time.Millisecond), r.took.Round(time.Millisecond),
			float64(candidates)/r.took.Seconds(), process.MiB(r.peak))
	}
	return b.String(), nil
}

// longInTurn compares two builds with the longest queue. CPU times are those of the processes.
func longInTurn(ctx context.Context, s *stage, o options) (string, error) {
	const seats = 1000
	builds := []string{"this build", "the other build"}
	runs := map[string][]settled{}
	for round := range o.rounds {
		for turn := range builds {
			build := builds[(round+turn)%len(builds)]
			around := around{bin: map[string]string{"the other build": o.other}[build]}
			r, err := s.settleWith(ctx, campaign{coupons: 1, seats: seats, candidates: o.candidates}, around)
			if err != nil {
				return "", fmt.Errorf("%s: %w", build, err)
			}
			runs[build] = append(runs[build], r)
			say("%d of %d  %s: %s; CPU of the database %s, of Redis %s, of the job %s; %s", round+1, o.rounds, build, r.took.Round(time.Millisecond),
				r.cpu.database, r.cpu.redis, r.cpu.job.Round(time.Millisecond), process.MiB(r.peak))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d seats at the head of a queue of %d, builds in turn, medians of %d rounds:\n\n", seats, o.candidates, o.rounds)
	fmt.Fprint(&b, "| | whole run | fastest to slowest | candidates/s | CPU of the database | of Redis | of the job | peak memory |\n")
	fmt.Fprint(&b, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, build := range builds {
		all := runs[build]
		peak := slices.MaxFunc(all, func(a, b settled) int { return int(a.peak - b.peak) }).peak
		slices.SortFunc(all, func(a, b settled) int { return int(a.took - b.took) })
		m := all[len(all)/2]
		fmt.Fprintf(&b, "| %s | %s | %s to %s | %.0f | %s | %s | %s | %s |\n", build, m.took.Round(10*time.Millisecond), all[0].took.Round(10*time.Millisecond),
			all[len(all)-1].took.Round(10*time.Millisecond), float64(o.candidates)/m.took.Seconds(), m.cpu.database, m.cpu.redis,
			m.cpu.job.Round(10*time.Millisecond), process.MiB(peak))
	}
	return b.String(), nil
}

// waits are durations of calls.
type waits []time.Duration

func (w waits) quantile(q float64) time.Duration {
	if len(w) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(w))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Round(10 * time.Microsecond)
}

// every starts work at fixed times until ctx ends, independent of earlier calls. So a stall shows in each call that was due
// during it.
func every(ctx context.Context, pause time.Duration, work func(n int) error) (all waits, err error) {
	var mu sync.Mutex
	var calls sync.WaitGroup
	began := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		due := began.Add(time.Duration(n) * pause)
		time.Sleep(time.Until(due))
		calls.Go(func() {
			failed := work(n)
			mu.Lock()
			defer mu.Unlock()
			all, err = append(all, time.Since(due)), errors.Join(err, failed)
		})
	}
	calls.Wait()
	return all, err
}

const (
	applyPause = 2 * time.Millisecond
	blockPause = 20 * time.Millisecond
	quietFor   = 5 * time.Second
)

// besideARun measures other users of the same servers during the settlement of a big coupon.
func besideARun(ctx context.Context, s *stage, o options) (string, error) {
	if err := s.apart(); err != nil {
		return "", err
	}
	quiet, err := s.others(ctx, nil, "quiet:", 0)
	if err != nil {
		return "", err
	}
	var busy noticed
	r, err := s.settle(ctx, campaign{coupons: 1, seats: o.big, candidates: o.big}, func(ctx context.Context, db *sql.DB, prefix string) (err error) {
		busy, err = s.others(ctx, db, prefix, o.big)
		return err
	})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "During the settlement of %d seats (%s): an application for another coupon on the same Redis every %s, and a blocked user\n", o.big, r.took.Round(time.Millisecond), applyPause)
	fmt.Fprintf(&b, "of the queue in MySQL every %s, independent of earlier calls:\n\n", blockPause)
	fmt.Fprintf(&b, "| | idle | during it | ratio |\n| --- | ---: | ---: | ---: |\n")
	for _, q := range []float64{0.5, 0.99, 0.999} {
		fmt.Fprintf(&b, "| apply, p%v | %s | %s | %.1f |\n", 100*q, quiet.applied.quantile(q), busy.applied.quantile(q), float64(busy.applied.quantile(q))/float64(quiet.applied.quantile(q)))
	}
	fmt.Fprintf(&b, "| block a user, p99 | %s | %s | |\n", quiet.blocked.quantile(0.99), busy.blocked.quantile(0.99))
	fmt.Fprintf(&b, "| block a user, longest | %s | %s | |\n", quiet.blocked.quantile(1), busy.blocked.quantile(1))
	return b.String(), nil
}

// noticed has the response times of other users.
type noticed struct{ applied, blocked waits }

// others applies and blocks users until ctx ends. Without a database it uses an idle one for a fixed time.
func (s *stage) others(ctx context.Context, db *sql.DB, prefix string, users int) (n noticed, err error) {
	if db == nil {
		const few = 1000
		quiet, _, drop, err := s.Fresh(ctx, 1, few)
		if err != nil {
			return n, err
		}
		defer drop()
		defer s.clear(prefix)
		for user := 1; user <= few; user++ {
			if _, err := quiet.ExecContext(ctx, "INSERT INTO `user` (id) VALUES (?)", user); err != nil {
				return n, err
			}
		}
		limited, cancel := context.WithTimeout(ctx, quietFor)
		defer cancel()
		ctx, db, users = limited, quiet, few
	}
	apply, err := s.applicants(prefix)
	if err != nil {
		return n, err
	}
	var failed [2]error
	var both sync.WaitGroup
	both.Go(func() { n.applied, failed[0] = every(ctx, applyPause, apply) })
	both.Go(func() {
		n.blocked, failed[1] = every(ctx, blockPause, func(int) error {
			_, err := db.Exec("UPDATE `user` SET status = 'BLOCKED' WHERE id = ?", 1+rand.IntN(users))
			return err
		})
	})
	both.Wait()
	return n, errors.Join(failed[:]...)
}

// applicants returns a function that applies for other coupons on the same Redis, once per user.
func (s *stage) applicants(prefix string) (func(n int) error, error) {
	const coupons = 8
	store, err := candidates.NewStore(s.rdb, candidates.Options{KeyPrefix: prefix, TTL: 168 * time.Hour})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	for i := range coupon.CouponID(coupons) {
		now := time.Now()
		w := coupon.Window{Coupon: 1001 + i, Version: 1, Opens: now.Add(-time.Hour), Closes: now.Add(time.Hour)}
		if _, _, err := store.Publish(ctx, w, coupon.Promise{}); err != nil {
			return nil, err
		}
	}
	return func(n int) error {
		receipt, err := store.Apply(ctx, 1001+coupon.CouponID(n%coupons), coupon.UserID(1+n/coupons))
		if err == nil && receipt.Code != candidates.Accepted {
			err = fmt.Errorf("apply: %v", receipt.Code)
		}
		return err
	}, nil
}
