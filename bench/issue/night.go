package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// compareWithNight issues the same line once by a nightly settlement and once immediately, in turn.
func compareWithNight(ctx context.Context, s *stage, o options, measured *[]outcome) (string, error) {
	seats, rounds := burst, 3
	if o.quick {
		seats, rounds = quickBurst/2, 1
	}
	if !slices.ContainsFunc(o.contenders, func(c contender) bool { return c.name == yardstick }) {
		return "", nil
	}
	var night, once []time.Duration
	for range rounds {
		for _, way := range []struct {
			to    *[]time.Duration
			issue func(v *stand, ctx context.Context) (time.Duration, error)
		}{{&night, (*stand).runNight}, {&once, (*stand).serveLine}} {
			took, err := s.issueLine(ctx, seats, way.issue)
			if err != nil {
				return "", err
			}
			*way.to = append(*way.to, took)
		}
		say("%d in line: %s by one settlement, %s immediately", seats, night[len(night)-1], once[len(once)-1])
	}
	return renderNight(seats, night, once, *measured), nil
}

// issueLine lets all users apply while nothing issues, and measures how long issuing takes.
func (s *stage) issueLine(ctx context.Context, seats int, issue func(v *stand, ctx context.Context) (time.Duration, error)) (time.Duration, error) {
	c := contenders[0]
	c.workers = 0
	v, err := s.openStand(ctx, c, setup{coupons: 1, seats: seats, users: seats, interval: interval})
	if err != nil {
		return 0, err
	}
	defer v.close()
	users := make(chan int, seats)
	for user := 1; user <= seats; user++ {
		users <- user
	}
	close(users)
	var senders sync.WaitGroup
	failures := make(chan error, pressers)
	for range pressers {
		senders.Go(func() {
			for user := range users {
				if a, _, err := v.press(ctx, 1, user); a != accepted {
					failures <- fmt.Errorf("user %d is not accepted: %w", user, err)
					return
				}
			}
		})
	}
	senders.Wait()
	select {
	case err := <-failures:
		return 0, err
	default:
	}
	took, err := issue(v, ctx)
	if err != nil {
		return 0, err
	}
	v.stopWorkers()
	return took, v.verify(ctx)
}

// runNight measures `settle run`, from its start to the last visible row. All rows are committed at once.
func (v *stand) runNight(ctx context.Context) (time.Duration, error) {
	if _, err := v.db.ExecContext(ctx, "UPDATE coupon SET cadence = 'NIGHTLY'"); err != nil {
		return 0, err
	}
	cmd := v.settleCommand(ctx, "run", "--cutoff=now", "--operator=bench", "--reason=bench", "--output=json")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	took, err := v.awaitIssued(ctx, began)
	if ended := cmd.Wait(); err == nil && ended != nil {
		err = fmt.Errorf("settle run: %w: %s", ended, out.String())
	}
	return took, err
}

// serveLine measures `settle serve`, from its start to the last visible row.
func (v *stand) serveLine(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	if err := v.addWorker(ctx); err != nil {
		return 0, err
	}
	return v.awaitIssued(ctx, began)
}

func (v *stand) awaitIssued(ctx context.Context, began time.Time) (time.Duration, error) {
	const within = time.Minute
	for time.Since(began) < within && ctx.Err() == nil {
		var count int
		if err := v.db.QueryRowContext(ctx, "SELECT issued_count FROM coupon WHERE id = 1").Scan(&count); err != nil {
			return 0, err
		}
		if count == v.seats {
			return time.Since(began), nil
		}
		time.Sleep(2 * time.Millisecond)
	}
	return 0, fmt.Errorf("not all seats are issued after %s", within)
}
