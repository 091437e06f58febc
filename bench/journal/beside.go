package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/bench/process"
	"github.com/jajeong/jajeong/internal/coupon"
)

// applied is what applicants and servers need with the journal or without it.
type applied struct {
	peak, steady heard
	behind       int64         // applications that the journal lacked at the end of the steady load
	redis        time.Duration // CPU time for an application of the steady load
	journal      time.Duration // likewise, of the journal and MySQL
}

const never = 100_000_000 // seats that are never sold out

// applyBeside measures applying at the peak and at a steady rate. A journal copies first what it lacks.
func (p *shop) applyBeside(ctx context.Context, address string, journal bool) (r applied, err error) {
	pid, ready := 0, func() error { return nil }
	if journal {
		var stop func()
		if pid, stop, err = p.startJournal(ctx); err != nil {
			return r, err
		}
		defer stop()
		ready = func() error { return p.caughtUp(ctx, 1) }
	}
	if err := ready(); err != nil {
		return r, err
	}
	if r.peak, err = p.load(ctx, address, 0, func() error { return wait(ctx, p.length) }); err != nil {
		return r, err
	}
	if err := ready(); err != nil {
		return r, err
	}
	used := func() (redis, journal time.Duration) {
		return process.CPUTime(p.redis.Pid()), process.CPUTime(pid) + process.CPUTime(p.Pid())
	}
	r.steady, err = p.load(ctx, address, p.rate, func() error {
		redis, written := used()
		err := wait(ctx, p.length)
		redis2, written2 := used()
		n := time.Duration(p.rate * p.length.Seconds())
		r.redis, r.journal = (redis2-redis)/n, (written2-written)/n
		if err == nil && journal {
			r.behind, err = p.behind(ctx, 1)
		}
		return err
	})
	if err == nil {
		err = errors.Join(r.peak.fault(), r.steady.fault(), ready())
	}
	return r, err
}

func (h heard) fault() error {
	if h.failed > 0 {
		return fmt.Errorf("%d applications are not accepted, the first: %s", h.failed, h.failure)
	}
	return nil
}

// behind is how many applications of a coupon the journal lacks.
func (p *shop) behind(ctx context.Context, id coupon.CouponID) (int64, error) {
	stored, err := p.number(ctx, "SELECT COUNT(*) FROM line_journal WHERE coupon_id = ?", id)
	if err != nil {
		return 0, err
	}
	waiting, err := p.rdb.ZCard(ctx, p.queue(id)).Result()
	return waiting - stored, err
}

// caughtUp waits until the journal has the whole line of a coupon.
func (p *shop) caughtUp(ctx context.Context, id coupon.CouponID) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		behind, err := p.behind(ctx, id)
		if err != nil || behind == 0 {
			return err
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("the journal lacks %d applications: %w", behind, err)
		}
	}
}

// longFor is how many times as long as the settled line the other line is: the journal is not done before the settlement.
const longFor = 3

// settled is a settlement with the journal or without it.
type settled struct {
	took time.Duration // the whole process
	rows int64         // that the journal has written meanwhile
}

// settleBeside measures `settle run` of one coupon while the journal copies the long line of another.
func (s *stage) settleBeside(ctx context.Context, journal bool) (r settled, err error) {
	p, err := s.openShop(ctx, 2, s.settled)
	if err != nil {
		return r, err
	}
	defer p.close()
	if err := p.addUsers(ctx, s.settled); err != nil {
		return r, err
	}
	if err := p.fill(ctx, s.settled, longFor*s.settled); err != nil {
		return r, err
	}
	if err := p.emptyJournal(ctx); err != nil {
		return r, err
	}
	if _, err := p.copyLines(ctx, copiers[0], []coupon.CouponID{1}); err != nil {
		return r, err
	}
	if journal {
		_, stop, err := p.startJournal(ctx)
		if err != nil {
			return r, err
		}
		defer stop()
		for began := int64(0); began == 0; {
			if began, err = p.number(ctx, "SELECT EXISTS (SELECT 1 FROM line_journal WHERE coupon_id = 2)"); err != nil {
				return r, err
			}
		}
	}
	copied := func() (int64, error) { return p.number(ctx, "SELECT COUNT(*) FROM line_journal WHERE coupon_id = 2") }
	before, err := copied()
	if err != nil {
		return r, err
	}
	cmd := p.command(ctx, p.settle, "run", "--coupon=1", "--cutoff=now", "--operator=bench", "--reason=bench", "--output=json")
	began := time.Now()
	out, err := cmd.Output()
	r.took = time.Since(began)
	if err != nil {
		return r, fmt.Errorf("settle run: %w: %s", err, out)
	}
	var report struct{ Total struct{ Issued int } }
	if err := json.Unmarshal(out, &report); err != nil {
		return r, fmt.Errorf("settle run: %w", err)
	}
	if report.Total.Issued != s.settled {
		return r, fmt.Errorf("settle run issued %d of %d", report.Total.Issued, s.settled)
	}
	after, err := copied()
	r.rows = after - before
	return r, err
}

// addUsers adds the users of a filled queue to the shop's table of users.
func (p *shop) addUsers(ctx context.Context, n int) error {
	_, err := p.db.ExecContext(ctx, "INSERT INTO `user` (id) SELECT ? + n FROM ("+numbersSQL+") AS numbers WHERE n < ?", firstUser, n)
	return err
}

// idled is what looking at empty lines costs, each in a second.
type idled struct {
	coupons               int
	commands              float64       // of Redis
	redis, journal, mysql time.Duration // CPU time
}

// idle measures the journal while nobody applies.
func (s *stage) idle(ctx context.Context, coupons int) (r idled, err error) {
	p, err := s.openShop(ctx, coupons, 1)
	if err != nil {
		return r, err
	}
	defer p.close()
	for id := range coupons {
		if err := p.publish(ctx, coupon.CouponID(id+1)); err != nil {
			return r, err
		}
	}
	pid, stop, err := p.startJournal(ctx)
	if err != nil {
		return r, err
	}
	defer stop()
	for begun := int64(0); begun < int64(coupons); {
		if begun, err = p.number(ctx, "SELECT COUNT(*) FROM journal"); err != nil {
			return r, err
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return r, err
		}
	}
	if err := wait(ctx, warmUp); err != nil {
		return r, err
	}
	look := func() (commands int64, redis, journal, mysql time.Duration, err error) {
		info, err := p.rdb.InfoMap(ctx, "stats").Result()
		if err == nil {
			_, err = fmt.Sscan(info["Stats"]["total_commands_processed"], &commands)
		}
		return commands, process.CPUTime(s.redis.Pid()), process.CPUTime(pid), process.CPUTime(s.Pid()), err
	}
	commands, redis, journal, mysql, err := look()
	if err != nil {
		return r, err
	}
	began := time.Now()
	if err := wait(ctx, s.watched); err != nil {
		return r, err
	}
	seconds := time.Since(began).Seconds()
	commands2, redis2, journal2, mysql2, err := look()
	each := func(d time.Duration) time.Duration { return time.Duration(float64(d) / seconds) }
	return idled{coupons, float64(commands2-commands) / seconds, each(redis2 - redis), each(journal2 - journal), each(mysql2 - mysql)}, err
}
