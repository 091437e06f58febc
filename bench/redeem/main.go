// Command redeem compares ways to use an issued coupon at checkout: Jajeong's wallet, a Redis lock around SELECT and UPDATE,
// and SELECT … FOR UPDATE. The contenders run in turn on the same servers. The results are ratios for a reader; no test depends
// on a time.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench-redeem:", err)
		os.Exit(1)
	}
}

// options select the measurements.
type options struct {
	contenders []contender
	scenes     []string
	rounds     int
	coupons    int // of a round of the scene distinct
	clients    int // of the scene distinct
	crowd      int // clients of the scene hot
	waves      int // hot coupons of a round, one after another
	paused     int // coupons of the scene paused
	pause      time.Duration
	out        string
}

const (
	distinct = "distinct"
	hot      = "hot"
	paused   = "paused"
)

func parse() (o options, err error) {
	names := flag.String("contenders", "", "names separated by commas; empty: all")
	scenes := flag.String("scenes", distinct+","+hot+","+paused, "measurements, separated by commas")
	flag.IntVar(&o.rounds, "rounds", 5, "number of measurements of each contender; the median counts")
	flag.IntVar(&o.coupons, "coupons", 6000, "coupons of a round of the scene distinct")
	flag.IntVar(&o.clients, "clients", 32, "clients of the scene distinct")
	flag.IntVar(&o.crowd, "crowd", 256, "clients that want the same coupon in the scene hot")
	flag.IntVar(&o.waves, "waves", 10, "hot coupons of a round, one after another")
	flag.IntVar(&o.paused, "paused", 20, "coupons of the scene paused")
	flag.DurationVar(&o.pause, "pause", 11*time.Second, "how long the holder of the lock stops in the scene paused")
	flag.StringVar(&o.out, "out", "", "folder for the table and the chart; without it the table is printed only")
	flag.Parse()
	for name := range strings.FieldsFuncSeq(*names, func(r rune) bool { return r == ',' }) {
		i := slices.IndexFunc(contenders, func(c contender) bool { return c.name == name })
		if i < 0 {
			return o, fmt.Errorf("-contenders: unknown contender %q", name)
		}
		o.contenders = append(o.contenders, contenders[i])
	}
	if len(o.contenders) == 0 {
		o.contenders = contenders
	}
	for name := range strings.FieldsFuncSeq(*scenes, func(r rune) bool { return r == ',' }) {
		if !slices.Contains([]string{distinct, hot, paused}, name) {
			return o, fmt.Errorf("-scenes: unknown scene %q", name)
		}
		o.scenes = append(o.scenes, name)
	}
	for _, f := range []struct {
		name           string
		value, highest int
	}{{"rounds", o.rounds, 100}, {"coupons", o.coupons, 1_000_000}, {"clients", o.clients, 1000}, {"crowd", o.crowd, 10_000},
		{"waves", o.waves, 1000}, {"paused", o.paused, maxPaused}} {
		if f.value < 1 || f.value > f.highest {
			return o, fmt.Errorf("-%s is %d: want 1 to %d", f.name, f.value, f.highest)
		}
	}
	if o.pause < 0 || o.pause > time.Minute {
		return o, fmt.Errorf("-pause is %s: want up to 1m", o.pause)
	}
	return o, nil
}

func run(ctx context.Context) error {
	o, err := parse()
	if err != nil {
		return err
	}
	s, err := openStage(ctx, o)
	if err != nil {
		return err
	}
	defer s.close()
	say("on %s", s.environment())
	var all []measured
	for _, scene := range o.scenes {
		found, err := s.measure(ctx, scene)
		if err != nil {
			return fmt.Errorf("scene %s: %w", scene, err)
		}
		all = append(all, found...)
	}
	text := s.render(all)
	fmt.Print(text)
	if o.out == "" {
		return nil
	}
	if err := os.WriteFile(filepath.Join(o.out, "bench-redeem.md"), []byte(text), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, "bench-redeem.svg"), []byte(drawChart(all)), 0o644)
}

// measure runs the contenders in turn, so that other work of the machine affects all of them. Each round starts with another one.
func (s *stage) measure(ctx context.Context, scene string) ([]measured, error) {
	rounds := s.rounds
	if scene == paused {
		rounds = 1 // its length is that of the pause
	}
	n := len(s.contenders)
	results := make([][]result, n)
	for round := range rounds {
		for turn := range n {
			place := (round + turn) % n
			c := s.contenders[place]
			r, err := s.play(ctx, scene, c)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			results[place] = append(results[place], r)
			say("%d of %d  %-8s  %-12s %8.0f/s  p99 %s  errors %d  twice %d", round+1, rounds, scene, c.name, r.rate(), milli(r.quantile(0.99)),
				r.errors, r.twice)
		}
	}
	var all []measured
	for i, c := range s.contenders {
		all = append(all, summarise(scene, c.title, results[i]))
	}
	return all, nil
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
