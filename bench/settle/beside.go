package settle

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jajeong/jajeong/bench/report"
	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/load"
)

// noticed has the response times of other users.
type noticed = load.Waits

const (
	applying = "apply"
	blocking = "block a user"
	// callers have a connection each.
	callers = 32
)

func idleName(name string) string {
	what, _, _ := strings.Cut(name, ", ")
	return what + ", idle"
}

// every calls work at fixed times until ctx ends, independent of earlier calls.
func every(ctx context.Context, pause time.Duration, work func(n int) error) (all noticed, err error) {
	var mu sync.Mutex
	load.Run(ctx, load.Every(1/pause.Seconds()), callers, func(_ int, requests iter.Seq[load.Request]) {
		for r := range requests {
			failed := work(r.N)
			took := time.Since(r.Due)
			mu.Lock()
			all, err = append(all, took), errors.Join(err, failed)
			mu.Unlock()
		}
	})
	return all, err
}

// others applies for other coupons, from one id on, and blocks users of the line while do works.
func others(ctx context.Context, p *stage.Shop, first int, do func() error) (map[string]noticed, error) {
	const coupons = 8
	for id := first; id < first+coupons; id++ {
		if err := p.Publish(ctx, id); err != nil {
			return nil, err
		}
	}
	users, err := p.Number(ctx, "SELECT COUNT(*) FROM `user`")
	if err != nil {
		return nil, err
	}
	during, end := context.WithCancel(ctx)
	defer end()
	var applied, blocked noticed
	var failed [2]error
	var both sync.WaitGroup
	both.Go(func() {
		applied, failed[0] = every(during, applyPause, func(n int) error {
			receipt, err := p.Store.Apply(ctx, coupon.CouponID(first+n%coupons), coupon.UserID(1+n/coupons))
			if err == nil && receipt.Code != candidates.Accepted {
				err = fmt.Errorf("apply: %v", receipt.Code)
			}
			return err
		})
	})
	both.Go(func() {
		blocked, failed[1] = every(during, blockPause, func(int) error {
			return p.Exec(ctx, "UPDATE `user` SET status = 'BLOCKED' WHERE id = ?", 1+rand.IntN(users))
		})
	})
	err = do()
	end()
	both.Wait()
	return map[string]noticed{applying: applied, blocking: blocked}, errors.Join(err, failed[0], failed[1])
}

// backlog is how many coupons of other settlements have unpublished events: more than a relay publishes during the run.
const backlog = 3

// events measures a run while the relay publishes the events of other settlements to a Redis of its own.
func (m *measurement) events(ctx context.Context) (string, error) {
	seats := *m.big / 5
	builds, err := m.builds(ctx)
	if err != nil {
		return "", err
	}
	const alone = yardstick + ", alone"
	relay := func(name string, relays, hangs bool) report.Way[settled] {
		return report.Way[settled]{Name: name, Measure: func() (settled, error) {
			c := campaign{coupons: 1, seats: seats, candidates: seats}
			return m.besideRelay(ctx, c, builds[0].program, relays, hangs)
		}}
	}
	table, err := report.Measured("", *m.rounds, []report.Way[settled]{
		{Name: alone, Measure: func() (settled, error) { return m.insert(ctx, seats, loadData) }},
		relay("no relay", false, false), relay("the relay publishes", true, false),
		relay("the sink of the relay hangs", true, true),
	},
		report.Elapsed("time", took), report.Spread("fastest to slowest", report.Time, seconds),
		report.Ratio("ratio to "+yardstick, report.To(alone), rate),
		report.Count("events published meanwhile", func(r settled) int { return r.published }))
	return fmt.Sprintf(
		"The settlement of %d seats while `settle serve --tasks events` has %d other events to publish, "+
			"%d rounds:\n\n", seats, backlog*seats, *m.rounds) + table, err
}

func (m *measurement) besideRelay(ctx context.Context, c campaign, program string, relays, hangs bool) (r settled,
	err error) {
	const stream, eventsOn = "coupon:events", 30 * time.Second
	p, err := m.prepare(ctx, c)
	if err != nil {
		return r, err
	}
	defer p.Close()
	sink, err := m.StartRedis(ctx)
	if err != nil {
		return r, err
	}
	defer sink.Close()
	if relays {
		_, stop, err := p.Serve(ctx, "events", "--event-sink=redis", "--event-redis-addrs="+sink.Addr())
		if err != nil {
			return r, err
		}
		defer stop()
		err = stage.Until(ctx, "turn on events", eventsOn, func() (bool, error) {
			n, err := p.Number(ctx, "SELECT COUNT(from_at) FROM event_relay")
			return n > 0, err
		})
		if err != nil {
			return r, err
		}
	}
	if hangs {
		if err := sink.Freeze(); err != nil {
			return r, err
		}
		defer func() { _ = sink.Thaw() }()
	}
	if err := issueOthers(ctx, p, c.seats); err != nil {
		return r, err
	}
	length := func() int {
		if hangs {
			return 0
		}
		return int(sink.RDB.XLen(ctx, stream).Val())
	}
	before := length()
	r, err = m.settle(ctx, p, c, program, false)
	r.published = length() - before
	return r, err
}

// issueOthers settles other coupons by SQL. Their events are not published.
func issueOthers(ctx context.Context, p *stage.Shop, seats int) error {
	for id := 1001; id < 1001+backlog; id++ {
		err := p.Exec(ctx, `INSERT INTO coupon
			(id, name, total_quantity, issued_count, finalised_at, apply_opens_at, apply_closes_at)
			VALUES (?, 'settled', ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL 2 DAY,
				UTC_TIMESTAMP(6) - INTERVAL 1 DAY)`,
			id, seats, seats)
		if err == nil {
			err = p.Exec(ctx, `INSERT INTO user_coupon
				(coupon_id, user_id, position, applied_at, issued_at, expires_at, run_id)
				SELECT ?, id, id, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 30 DAY, ?
				FROM `+"`user` ORDER BY id", id, id)
		}
		if err == nil {
			err = p.Exec(ctx, `INSERT INTO settlement (run_id, coupon_id, issued_count, first_arrival, last_arrival,
				settled_at, cleaned_at, first_user_coupon_id)
				SELECT ?, ?, ?, 1, 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), MIN(id) FROM user_coupon WHERE coupon_id = ?`,
				id, id, seats, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
