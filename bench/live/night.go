package live

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jajeong/jajeong/bench/stage"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/load"
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
		if outcome == coupon.StandingIssued && c.issued >= n || outcome == coupon.StandingNotSelected &&
			c.concluded >= n {
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
func (m *measurement) settleCoupon(ctx context.Context, id int, onCommit func(commit)) (n night, err error) {
	ctx, cancel := context.WithTimeout(ctx, settledWithin)
	defer cancel()
	cmd, err := m.Settle(ctx, append(stage.ByHand, fmt.Sprint("--coupon=", id))...)
	if err != nil {
		return n, err
	}
	watching, stopped := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	var failed error
	watcher.Go(func() { n.commits, failed = m.watchCommits(watching, id, onCommit) })
	n.began = time.Now()
	_, err = stage.Output(cmd)
	n.ended = time.Now()
	stopped()
	watcher.Wait()
	if err != nil {
		return n, err
	}
	if failed != nil {
		return n, fmt.Errorf("watch the settlement: %w", failed)
	}
	n.winners, err = stage.Column[uint64](ctx, m.DB,
		"SELECT user_id FROM user_coupon WHERE coupon_id = ? ORDER BY position", id)
	if err != nil {
		return n, err
	}
	n.others, err = stage.Column[uint64](ctx, m.DB, `SELECT user_id FROM application_outcome
		WHERE coupon_id = ? AND outcome = 'NOT_SELECTED' ORDER BY applied_at`, id)
	if err == nil && len(n.winners) != *m.winners {
		err = fmt.Errorf("settle run issued %d coupons, want %d", len(n.winners), *m.winners)
	}
	return n, err
}

// watchCommits asks for the sums of the coupon until ctx ends, and once more.
func (m *measurement) watchCommits(ctx context.Context, id int, onCommit func(commit)) (all commits, err error) {
	var last commit
	for before := time.Now(); ; {
		ended := ctx.Err() != nil
		asked := time.Now()
		var now commit
		err := m.DB.QueryRowContext(context.WithoutCancel(ctx),
			"SELECT issued, concluded FROM settled WHERE coupon_id = "+
				"?", id).
			Scan(&now.issued, &now.concluded)
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

// toldAll is how the users were told what a night decided.
type toldAll struct {
	winners, others load.Waits // from the commit of each user's own outcome
	last            time.Time  // the last one
	missing, wrong  int
}

// judge compares what the users were told, by their number, with the tables.
func judge(n night, users []told) (t toldAll) {
	for _, decided := range []struct {
		outcome coupon.Standing
		users   []uint64
		waits   *load.Waits
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
