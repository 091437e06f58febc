package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
)

const (
	// watchPause is the resolution of the times of commits.
	watchPause    = 2 * time.Millisecond
	settledWithin = time.Minute
	toldWithin    = 30 * time.Second
)

// commit is a state of the sums of a coupon that another connection could read. The commit came after since: it was not
// there when the question before was sent. So times from since are some milliseconds too long, never too short.
type commit struct {
	since             time.Time
	issued, concluded int
}

// commits are in the order of time.
type commits []commit

// of returns since when the n-th coupon was issued, or the n-th other outcome was recorded.
func (all commits) of(outcome coupon.Standing, n int) time.Time {
	for _, c := range all {
		if outcome == coupon.StandingIssued && c.issued >= n || outcome == coupon.StandingNotSelected && c.concluded >= n {
			return c.since
		}
	}
	return time.Time{}
}

// night is one `settle run` of a coupon.
type night struct {
	began, ended time.Time // of the process
	commits      commits
	winners      []uint64 // user ids by position
	others       []uint64 // user ids of NOT_SELECTED outcomes by arrival
}

// settleCoupon runs settle and watches its commits. onCommit is called at each, if it is not nil.
func (s *stage) settleCoupon(ctx context.Context, id int, onCommit func(commit)) (n night, err error) {
	ctx, cancel := context.WithTimeout(ctx, settledWithin)
	defer cancel()
	cmd := s.command(ctx, nil, s.settle, "run", "--cutoff=now", fmt.Sprint("--coupon=", id), "--operator=bench", "--reason=bench", "--output=json",
		"--mysql-dsn="+s.mysql.DSN(s.name), "--redis-addrs="+s.redis.Addr())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	watching, stopped := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	var failed error
	watcher.Go(func() { n.commits, failed = s.watchCommits(watching, id, onCommit) })
	n.began = time.Now()
	err = cmd.Run()
	n.ended = time.Now()
	stopped()
	watcher.Wait()
	if err != nil {
		return n, fmt.Errorf("settle run: %w: %s", err, out.String())
	}
	if failed != nil {
		return n, fmt.Errorf("watch the settlement: %w", failed)
	}
	if n.winners, err = s.users(ctx, "SELECT user_id FROM user_coupon WHERE coupon_id = ? ORDER BY position", id); err != nil {
		return n, err
	}
	if n.others, err = s.users(ctx, "SELECT user_id FROM application_outcome WHERE coupon_id = ? AND outcome = 'NOT_SELECTED' ORDER BY applied_at", id); err != nil {
		return n, err
	}
	if len(n.winners) != s.winners {
		return n, fmt.Errorf("settle run issued %d coupons, want %d: %s", len(n.winners), s.winners, out.String())
	}
	return n, nil
}

// watchCommits asks for the sums of the coupon until ctx ends, and once more.
func (s *stage) watchCommits(ctx context.Context, id int, onCommit func(commit)) (all commits, err error) {
	var last commit
	for before := time.Now(); ; {
		ended := ctx.Err() != nil
		asked := time.Now()
		var now commit
		err := s.db.QueryRowContext(context.WithoutCancel(ctx), "SELECT issued, concluded FROM settled WHERE coupon_id = ?", id).Scan(&now.issued, &now.concluded)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return all, err
		}
		if now.issued != last.issued || now.concluded != last.concluded {
			now.since, last = before, now
			all = append(all, now)
			if onCommit != nil {
				onCommit(now)
			}
		}
		if ended {
			return all, nil
		}
		before = asked
		time.Sleep(watchPause)
	}
}

func (s *stage) users(ctx context.Context, query string, args ...any) (all []uint64, err error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var user uint64
		if err := rows.Scan(&user); err != nil {
			return nil, err
		}
		all = append(all, user)
	}
	return all, rows.Err()
}

// telling is how the users were told what a night decided.
type telling struct {
	winners, others waits     // from the commit of each user's own outcome
	last            time.Time // the last one
	missing, wrong  int
}

// judge compares what the users were told, by their number, with the tables.
func judge(n night, users []told) (t telling) {
	for _, decided := range []struct {
		outcome coupon.Standing
		users   []uint64
		waits   *waits
	}{{coupon.StandingIssued, n.winners, &t.winners}, {coupon.StandingNotSelected, n.others, &t.others}} {
		for i, user := range decided.users {
			if user < firstUser || user >= firstUser+uint64(len(users)) {
				continue // no stream was opened
			}
			was := users[user-firstUser]
			switch {
			case was.at.IsZero():
				t.missing++
				continue
			case was.outcome != decided.outcome:
				t.wrong++
				continue
			}
			*decided.waits = append(*decided.waits, was.at.Sub(n.commits.of(decided.outcome, i+1)))
			if was.at.After(t.last) {
				t.last = was.at
			}
		}
	}
	return t
}
