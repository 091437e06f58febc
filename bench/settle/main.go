// Command settle compares a whole `settle run` with the fastest ways to write the same rows: LOAD DATA LOCAL INFILE,
// multi-row INSERTs, and one INSERT per user. The contenders run in turn on the same servers, with one transaction each and
// in order of arrival. The results are ratios for a reader; no test depends on a time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench-settle:", err)
		os.Exit(1)
	}
}

// options select the measurements.
type options struct {
	sizes      []int
	rounds     int
	scenes     []string
	contenders []contender
	candidates int
	big        int
	other      string
	out        string
}

func parse() (o options, err error) {
	sizes := flag.String("seats", "1000,10000,100000,200000,1000000", "numbers of seats, separated by commas; none: no contender runs")
	only := flag.String("contenders", "", "names of contenders, separated by commas; without it all take part")
	names := flag.String("scenes", "small,long,beside", "further measurements, separated by commas; there are also: events, reads")
	flag.IntVar(&o.candidates, "candidates", 10_000_000, "the longest queue of the scene long")
	flag.IntVar(&o.big, "big", 1_000_000, "seats of the scene beside")
	flag.StringVar(&o.other, "other", "", "path of another build of settle, which takes turns with this one at every size and in the scenes small, long and reads")
	flag.IntVar(&o.rounds, "rounds", 3, "number of measurements of each contender; the median counts")
	flag.StringVar(&o.out, "out", "", "folder for the table and the chart; without it the table is printed only")
	flag.Parse()
	for text := range strings.FieldsFuncSeq(*sizes, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 10_000_000 {
			return o, fmt.Errorf("-seats: %q is not a number from 1 to 10000000", text)
		}
		o.sizes = append(o.sizes, n)
	}
	if o.other != "" {
		o.contenders = append(o.contenders, otherBuild(o.other))
	}
	for _, c := range contenders {
		if *only == "" || slices.Contains(strings.Split(*only, ","), c.name) {
			o.contenders = append(o.contenders, c)
		}
	}
	for name := range strings.FieldsFuncSeq(*names, func(r rune) bool { return r == ',' }) {
		if !slices.ContainsFunc(scenes, func(s scene) bool { return s.name == name }) {
			return o, fmt.Errorf("-scenes: unknown scene %q", name)
		}
		o.scenes = append(o.scenes, name)
	}
	if o.candidates < 1000 || o.candidates > 20_000_000 || o.big < 1000 || o.big > 10_000_000 {
		return o, fmt.Errorf("-candidates and -big: want 1000 to 20000000 and to 10000000")
	}
	if o.rounds < 1 || o.rounds > 100 {
		return o, fmt.Errorf("-rounds is %d: want 1 to 100", o.rounds)
	}
	return o, nil
}

// contender is one way to issue a coupon to n users. It returns its duration, and the peak memory if it is a process of its
// own.
type contender struct {
	name  string
	limit int // the most seats that it can issue in a reasonable time
	run   func(ctx context.Context, s *stage, n int) (took time.Duration, peakBytes int64, err error)
}

var contenders = []contender{
	{"settle run", 10_000_000, settleRun},
	{"LOAD DATA", 10_000_000, loadData},
	{"INSERT of 1,000 rows", 1_000_000, multiRow},
	{"INSERT of 1 row", 100_000, singleRow},
}

// measured has the medians of a contender at one size.
type measured struct {
	contender string
	seats     int
	took      time.Duration
	peak      int64
}

func (m measured) rowsPerSecond() float64 { return float64(m.seats) / m.took.Seconds() }

func run(ctx context.Context) error {
	o, err := parse()
	if err != nil {
		return err
	}
	s, err := openStage(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	say("on %s, Redis %s", s.Version, s.redisVersion)

	var all []measured
	for _, n := range o.sizes {
		found, err := measure(ctx, s, n, o)
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	text := renderTable(s, all)
	for _, scene := range scenes {
		if !slices.Contains(o.scenes, scene.name) {
			continue
		}
		answer, err := scene.run(ctx, s, o)
		if err != nil {
			return fmt.Errorf("scene %s: %w", scene.name, err)
		}
		text += "\n" + answer
	}
	fmt.Print(text)
	if o.out == "" {
		return nil
	}
	if len(all) == 0 {
		return errors.New("-out: the table and the chart need -seats")
	}
	name := filepath.Join(o.out, "bench-settle-"+s.Family)
	if err := os.WriteFile(name+".md", []byte(text), 0o644); err != nil {
		return err
	}
	return os.WriteFile(name+".svg", []byte(drawChart(s.Version, all)), 0o644)
}

// measure runs the contenders in turn, so that other work of the machine affects all of them. Each round begins with another one.
func measure(ctx context.Context, s *stage, n int, o options) ([]measured, error) {
	took := map[string][]time.Duration{}
	peak := map[string]int64{}
	var able []contender
	for _, c := range o.contenders {
		if n <= c.limit {
			able = append(able, c)
		}
	}
	for round := range o.rounds {
		for turn := range able {
			c := able[(round+turn)%len(able)]
			d, p, err := c.run(ctx, s, n)
			if err != nil {
				return nil, fmt.Errorf("%s with %d seats: %w", c.name, n, err)
			}
			took[c.name] = append(took[c.name], d)
			peak[c.name] = max(peak[c.name], p)
			say("%d of %d  %9d seats  %-26s %10s  %9.0f rows/s", round+1, o.rounds, n, c.name, d.Round(time.Millisecond), float64(n)/d.Seconds())
		}
	}
	var found []measured
	for _, c := range able {
		if all := took[c.name]; all != nil {
			slices.Sort(all)
			found = append(found, measured{c.name, n, all[len(all)/2], peak[c.name]})
		}
	}
	return found, nil
}
