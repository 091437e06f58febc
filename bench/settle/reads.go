package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/jajeong/jajeong/bench/process"
)

// many is the campaign whose settled coupons are read.
var many = campaign{coupons: 5000, seats: 240, candidates: 300}

// countsSQL reads each row once, as the least that a report and a check must read.
const countsSQL = `
SELECT COUNT(*), SUM(n) FROM (
	SELECT coupon_id, run_id, COUNT(*) AS n, MIN(applied_at), MAX(applied_at) FROM user_coupon GROUP BY coupon_id, run_id
	UNION ALL SELECT coupon_id, run_id, COUNT(*), MIN(applied_at), MAX(applied_at) FROM application_outcome GROUP BY coupon_id, run_id) g`

// reads measures `settle verify` and `settle report` over many settled coupons.
func reads(ctx context.Context, s *stage, o options) (text string, err error) {
	_, err = s.settleWith(ctx, many, around{after: func(ctx context.Context, db *sql.DB, name string) error {
		text, err = s.readings(ctx, o, db, name)
		return err
	}})
	return text, err
}

// reading is what one program takes to read everything.
type reading struct {
	took time.Duration
	peak int64
}

func (s *stage) readings(ctx context.Context, o options, db *sql.DB, name string) (string, error) {
	month := time.Now().Add(-time.Hour).UTC().Add(9 * time.Hour).Format("2006-01")
	ways := []string{"the rows, counted by one statement"}
	programs := map[string][]string{}
	add := func(of, bin string) {
		for _, args := range [][]string{{"verify"}, {"report", "--month=" + month}} {
			way := "settle " + args[0] + of
			ways, programs[way] = append(ways, way), append([]string{bin}, append(args, "--output=json")...)
		}
	}
	add("", s.bin)
	if o.other != "" {
		add(", the other build", o.other)
	}
	took := map[string][]reading{}
	for round := range o.rounds {
		for turn := range ways {
			way := ways[(round+turn)%len(ways)]
			r, err := s.read(ctx, db, name, programs[way])
			if err != nil {
				return "", fmt.Errorf("%s: %w", way, err)
			}
			took[way] = append(took[way], r)
			say("%d of %d  %s: %s, %s", round+1, o.rounds, way, r.took.Round(time.Millisecond), process.MiB(r.peak))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Reading %d settled coupons with %d issued coupons and %d other outcomes, in turn, medians of %d rounds:\n\n", many.coupons, many.issued(),
		many.coupons*(many.candidates-many.seats), o.rounds)
	fmt.Fprint(&b, "| | time | fastest to slowest | peak memory |\n| --- | ---: | ---: | ---: |\n")
	for _, way := range ways {
		all := took[way]
		slices.SortFunc(all, func(a, b reading) int { return int(a.took - b.took) })
		m, peak := all[len(all)/2], slices.MaxFunc(all, func(a, b reading) int { return int(a.peak - b.peak) }).peak
		fmt.Fprintf(&b, "| %s | %s | %s to %s | %s |\n", way, m.took.Round(10*time.Millisecond), all[0].took.Round(10*time.Millisecond),
			all[len(all)-1].took.Round(10*time.Millisecond), process.MiB(peak))
	}
	return b.String(), nil
}

// read runs a program, or for none the yardstick.
func (s *stage) read(ctx context.Context, db *sql.DB, name string, program []string) (r reading, err error) {
	began := time.Now()
	if program == nil {
		var groups, rows int
		err = db.QueryRowContext(ctx, countsSQL).Scan(&groups, &rows)
		if err == nil && rows != many.coupons*many.candidates {
			err = fmt.Errorf("%d rows counted, want %d", rows, many.coupons*many.candidates)
		}
		return reading{took: time.Since(began)}, err
	}
	args := append(program[1:len(program):len(program)], "--mysql-dsn="+s.DSN(name), "--redis-addrs="+s.redis.Addr(), "--redis-key-prefix="+name+":")
	cmd := exec.CommandContext(ctx, program[0], args...)
	var out, log strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Start(); err != nil {
		return r, err
	}
	peak := watchMemory(cmd.Process.Pid)
	err = cmd.Wait()
	r = reading{time.Since(began), <-peak}
	if err != nil {
		return r, errors.Join(err, errors.New(log.String()), errors.New(out.String()[:min(out.Len(), 2000)]))
	}
	return r, nil
}
