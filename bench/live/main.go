// Command live measures waiting for an outcome: 20,000 users hold a stream of one pod of apply-api, wait, and are told at
// the same time when `settle run` issues 1,000 coupons to them and records that the others are not selected.
//
// The pod, Redis, MySQL and settle share two cores. This program has the other cores. It is the users: it holds the
// streams, polls, and sends applications for another coupon. Two yardsticks have the same users in the same run: they poll
// GET …/me every five seconds, or they hold streams of a plain server with one goroutine and one channel of Redis for each
// user. The results are ratios for a reader; no test depends on a time.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jajeong/jajeong/internal/httpapi"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] { // roles of this program that the bench starts as processes
		case serveVerb:
			exit(serve(os.Args[2:], os.Stdin, os.Stderr))
		case applyVerb:
			exit(apply(os.Stdin, os.Stdout))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-live:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// options select the measurements.
type options struct {
	streams int
	winners int
	rounds  int
	scenes  []string      // keys
	rate    float64       // applications for another coupon per second
	idle    time.Duration // how long the cost of waiting is measured
	load    time.Duration // how long applying is measured while nothing is told
	out     string

	openFiles int // how many files a process may have open
}

const (
	wantedStreams = 20_000
	mostStreams   = 200_000
	fewestStreams = 5_000
	// spareFiles is more than the open files of a pod that are no connections of the live port.
	spareFiles = 700
)

// filesFor returns how many open files a pod with so many streams needs at most.
func filesFor(streams int) int { return streams + httpapi.SurplusStreams(streams) + spareFiles }

func parse() (o options, err error) {
	flag.IntVar(&o.streams, "streams", 0, fmt.Sprintf("users with a stream; 0: %d, or as many as the limit of open files allows", wantedStreams))
	flag.IntVar(&o.winners, "winners", 1000, "seats of the coupon")
	flag.IntVar(&o.rounds, "rounds", 3, "number of measurements; the median counts")
	keys := flag.String("scenes", "streams,nobody,polls,channels,subscriptions", "scenes, separated by commas")
	flag.Float64Var(&o.rate, "rate", 1000, "applications for another coupon per second")
	flag.DurationVar(&o.idle, "idle", 15*time.Second, "how long the cost of waiting is measured")
	flag.DurationVar(&o.load, "load", 6*time.Second, "how long applying is measured while nothing is told")
	flag.StringVar(&o.out, "out", "", "folder for the table and the chart; without it the table is printed only")
	flag.Parse()
	for key := range strings.FieldsFuncSeq(*keys, func(r rune) bool { return r == ',' }) {
		if !slices.ContainsFunc(scenes, func(sc scene) bool { return sc.key == key }) {
			return o, fmt.Errorf("-scenes: unknown scene %q", key)
		}
		o.scenes = append(o.scenes, key)
	}
	var limit syscall.Rlimit // os has raised the soft limit to the hard one
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return o, fmt.Errorf("read the limit of open files: %w", err)
	}
	o.openFiles = int(min(limit.Cur, 10*mostStreams)) // it may be infinite
	most := o.openFiles - spareFiles                  // the live port also takes some connections on which it says: later
	for most > 0 && filesFor(most) > o.openFiles {
		most--
	}
	switch {
	case o.streams == 0 && most < fewestStreams:
		return o, fmt.Errorf("a process may have %d open files: raise the hard limit (ulimit -Hn) to %d", o.openFiles, filesFor(wantedStreams))
	case o.streams == 0:
		o.streams = min(wantedStreams, most)
	case o.streams < 1 || o.streams > mostStreams:
		return o, fmt.Errorf("-streams is %d: want 1 to %d", o.streams, mostStreams)
	case o.streams > most:
		return o, fmt.Errorf("-streams is %d, but a process may have %d open files: raise the hard limit (ulimit -Hn) to %d", o.streams, o.openFiles, filesFor(o.streams))
	}
	switch {
	case o.winners < 1 || o.winners >= o.streams:
		return o, fmt.Errorf("-winners is %d: want 1 to %d", o.winners, o.streams-1)
	case o.rounds < 1 || o.rounds > 100:
		return o, fmt.Errorf("-rounds is %d: want 1 to 100", o.rounds)
	case !(o.rate >= 1 && o.rate <= 20_000):
		return o, fmt.Errorf("-rate is %v: want 1 to 20000", o.rate)
	case o.idle < time.Second || o.idle > 3*time.Minute || o.load < time.Second || o.load > time.Minute:
		return o, fmt.Errorf("-idle and -load: want 1s to 3m and to 1m") // a stream lives five minutes at least
	case o.out != "" && len(o.scenes) < len(scenes):
		return o, fmt.Errorf("-out: the table needs all scenes")
	case runtime.NumCPU() <= sharedCores:
		return o, fmt.Errorf("the bench needs more than %d cores", sharedCores)
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
	say("%s: %d streams", s.environment(), o.streams)
	others := s.watchOthers()
	all, err := s.measureAll(ctx)
	if err != nil {
		return err
	}
	text := s.render(all, others())
	fmt.Print(text)
	if o.out == "" {
		return nil
	}
	if err := os.WriteFile(filepath.Join(o.out, "bench-live.md"), []byte(text), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, "bench-live.svg"), []byte(drawChart(all)), 0o644)
}

// measureAll plays every scene in each round, so that other work of the machine affects all of them.
func (s *stage) measureAll(ctx context.Context) ([][]result, error) {
	all := make([][]result, len(scenes))
	for round := range s.rounds {
		for i, sc := range scenes {
			if !slices.Contains(s.scenes, sc.key) {
				continue
			}
			began := time.Now()
			r, err := s.play(ctx, sc)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", sc.name, err)
			}
			all[i] = append(all[i], r)
			say("%d of %d  %-13s %s  (%s)", round+1, s.rounds, sc.key, r, time.Since(began).Round(time.Second))
		}
	}
	return all, nil
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
