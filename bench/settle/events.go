package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/testenv"
)

const (
	eventSeats = 200_000
	// backlog is how many coupons of other settlements, of eventSeats each, have unpublished events: more than a relay
	// publishes during the run.
	backlog = 3
	// eventsOn is how long turning on the events may take.
	eventsOn = 30 * time.Second
)

// relaying is what the relay of events does during a run.
type relaying string

const (
	noRelay  relaying = "none"
	relays   relaying = "publishes"
	sinkHang relaying = "its sink hangs"
)

// besideRelay measures a run while the relay publishes the events of other settlements to a Redis of its own.
func besideRelay(ctx context.Context, s *stage, o options) (string, error) {
	sink, err := testenv.StartRedis(ctx, testenv.RedisOptions{AppendOnly: true})
	if err != nil {
		return "", err
	}
	defer func() { _ = sink.Stop() }()
	var yardsticks []time.Duration
	all := map[relaying][]relayed{}
	kinds := []relaying{noRelay, relays, sinkHang}
	for round := range o.rounds {
		took, _, err := loadData(ctx, s, eventSeats)
		if err != nil {
			return "", err
		}
		yardsticks = append(yardsticks, took)
		say("%d of %d  LOAD DATA %s", round+1, o.rounds, took.Round(time.Millisecond))
		for turn := range kinds {
			kind := kinds[(round+turn)%len(kinds)]
			r, err := s.settleBeside(ctx, sink, kind)
			if err != nil {
				return "", fmt.Errorf("relay %s: %w", kind, err)
			}
			all[kind] = append(all[kind], r)
			say("%d of %d  relay %s: %s, %d events meanwhile", round+1, o.rounds, kind, r.took.Round(time.Millisecond), r.published)
		}
	}
	slices.Sort(yardsticks)
	yardstick := yardsticks[len(yardsticks)/2]
	var b strings.Builder
	fmt.Fprintf(&b, "The settlement of %d seats while `settle serve --tasks events` has %d other events to publish to a Redis of its own, in turn,\n", eventSeats, backlog*eventSeats)
	fmt.Fprintf(&b, "medians of %d rounds. LOAD DATA, alone, took %s.\n\n", o.rounds, yardstick.Round(time.Millisecond))
	fmt.Fprint(&b, "| relay | settle run | fastest to slowest | ratio to LOAD DATA | events published meanwhile |\n| --- | ---: | ---: | ---: | ---: |\n")
	for _, kind := range kinds {
		found := all[kind]
		slices.SortFunc(found, func(a, b relayed) int { return int(a.took - b.took) })
		m := found[len(found)/2]
		fmt.Fprintf(&b, "| %s | %s | %s to %s | %.2f | %d |\n", kind, m.took.Round(time.Millisecond), found[0].took.Round(time.Millisecond),
			found[len(found)-1].took.Round(time.Millisecond), yardstick.Seconds()/m.took.Seconds(), m.published)
	}
	return b.String(), nil
}

// relayed is a run with the number of events that were published meanwhile.
type relayed struct {
	settled
	published int64
}

// settleBeside measures a run beside the relay.
func (s *stage) settleBeside(ctx context.Context, sink *testenv.Redis, kind relaying) (r relayed, err error) {
	var before int64
	stream := fmt.Sprint("events-", time.Now().UnixNano())
	length := func() (int64, error) {
		if kind != relays {
			return 0, nil
		}
		rdb := redis.NewClient(&redis.Options{Addr: sink.Addr()})
		defer rdb.Close()
		return rdb.XLen(ctx, stream).Result()
	}
	c := campaign{coupons: 1, seats: eventSeats, candidates: eventSeats}
	var published int64
	r.settled, err = s.settleWith(ctx, c, around{prepare: func(ctx context.Context, db *sql.DB, name string) (func(), error) {
		stop, err := s.relay(ctx, db, name, sink, stream, kind)
		if err == nil {
			err = issueOthers(ctx, db)
		}
		if err == nil {
			before, err = length()
		}
		return func() {
			if after, err := length(); err == nil {
				published = after - before
			}
			stop()
		}, err
	}})
	r.published = published
	return r, err
}

// relay starts the relay and waits until events are on.
func (s *stage) relay(ctx context.Context, db *sql.DB, name string, sink *testenv.Redis, stream string, kind relaying) (end func(), err error) {
	if kind == noRelay {
		return func() {}, nil
	}
	cmd := exec.CommandContext(ctx, s.bin, "serve", "--tasks=events", "--log-level=error", "--event-sink=redis", "--event-redis-addrs="+sink.Addr(),
		"--event-stream="+stream, "--mysql-dsn="+s.DSN(name), "--redis-addrs="+s.redis.Addr(), "--redis-key-prefix="+name+":")
	if err := cmd.Start(); err != nil {
		return func() {}, err
	}
	end = func() {
		_ = sink.Thaw()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		rdb := redis.NewClient(&redis.Options{Addr: sink.Addr()})
		defer rdb.Close()
		_ = rdb.Unlink(context.WithoutCancel(ctx), stream).Err()
	}
	ctx, cancel := context.WithTimeout(ctx, eventsOn)
	defer cancel()
	for on := false; !on; {
		err := db.QueryRowContext(ctx, "SELECT COUNT(from_at) > 0 FROM event_relay").Scan(&on)
		if err != nil {
			return end, fmt.Errorf("turn on events: %w", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if kind == sinkHang {
		err = sink.Freeze()
	}
	return end, err
}

// issueOthers writes settlements of other coupons, whose events are not published.
func issueOthers(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for other := range backlog {
		id := 1001 + other
		_, err := tx.ExecContext(ctx, `INSERT INTO coupon (id, name, total_quantity, issued_count, finalised_at, apply_opens_at, apply_closes_at)
			VALUES (?, 'settled', ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL 2 DAY, UTC_TIMESTAMP(6) - INTERVAL 1 DAY)`, id, eventSeats, eventSeats)
		var done sql.Result
		if err == nil {
			done, err = tx.ExecContext(ctx, `INSERT INTO user_coupon (coupon_id, user_id, position, applied_at, issued_at, expires_at, run_id)
				SELECT ?, id, id, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 30 DAY, ?
				FROM `+"`user`"+` ORDER BY id`, id, id)
		}
		if err != nil {
			return err
		}
		first, err := done.LastInsertId()
		rows, failed := done.RowsAffected()
		if err := errors.Join(err, failed); err != nil || rows != eventSeats {
			return fmt.Errorf("%d rows stored, want %d: %w", rows, eventSeats, err)
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO settlement (run_id, coupon_id, issued_count, first_arrival, last_arrival,
				settled_at, cleaned_at, first_user_coupon_id)
			VALUES (?, ?, ?, 1, 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), ?)`, id, id, eventSeats, first)
		if err != nil {
			return err
		}
	}
	return tx.Commit()
}
