// Command journal measures the journal and the restore from it: rows per second beside plain INSERTs and beside other ways to
// write the rows, what applying and a settlement lose while the journal is written, what looking at idle coupons costs, and how
// long it takes to put a whole line back. The results are ratios for a reader; no test depends on a time.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
)

// gcPercent is that of the product's programs.
const gcPercent = 400

func main() {
	debug.SetGCPercent(gcPercent)
	if len(os.Args) > 1 && os.Args[1] == applyVerb {
		exit(apply(os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-journal:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// options select the measurements.
type options struct {
	scenes  []string
	rounds  int
	backlog int           // applications of the long line
	settled int           // applications of the settlement
	rate    float64       // applications per second of the steady load
	length  time.Duration // of a load
	watched time.Duration // of idle coupons
	out     string
}

func parse() (o options, err error) {
	names := flag.String("scenes", strings.Join(sceneNames(), ","), "measurements, separated by commas")
	flag.IntVar(&o.rounds, "rounds", 3, "number of measurements; the median counts")
	flag.IntVar(&o.backlog, "backlog", 1_000_000, "applications of the long line")
	flag.IntVar(&o.settled, "settled", 200_000, "applications of the settlement")
	flag.Float64Var(&o.rate, "rate", 5000, "applications per second of the steady load")
	flag.DurationVar(&o.length, "length", 3*time.Second, "duration of each load without its warm-up")
	flag.DurationVar(&o.watched, "watched", 8*time.Second, "how long idle coupons are watched")
	flag.StringVar(&o.out, "out", "", "folder for the table; without it the table is printed only")
	flag.Parse()
	for name := range strings.FieldsFuncSeq(*names, func(r rune) bool { return r == ',' }) {
		if !slices.Contains(sceneNames(), name) {
			return o, fmt.Errorf("-scenes: unknown scene %q", name)
		}
		o.scenes = append(o.scenes, name)
	}
	const most = 1_000_000 // numbersSQL has no more
	if o.backlog < 1000 || o.backlog > most || o.settled < 1000 || o.settled > most {
		return o, fmt.Errorf("-backlog and -settled: want 1000 to %d", most)
	}
	if o.rounds < 1 || o.rounds > 100 || !(o.rate >= 1 && o.rate <= 100_000) {
		return o, fmt.Errorf("want 1 to 100 -rounds and a -rate of 1 to 100000")
	}
	for _, d := range []time.Duration{o.length, o.watched} {
		if d < time.Second || d > time.Minute {
			return o, fmt.Errorf("-length and -watched: want 1s to 1m")
		}
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
	if err := s.build(ctx); err != nil {
		return err
	}
	say("on %s", s.environment())
	text := fmt.Sprintf("%s. `make bench-journal`: what is compared takes turns, %d rounds: medians, and the spread.\n",
		s.environment(), o.rounds)
	began := time.Now()
	for _, scene := range scenes {
		if !slices.Contains(o.scenes, scene.name) {
			continue
		}
		found, err := scene.run(ctx, s)
		if err != nil {
			return fmt.Errorf("scene %s: %w", scene.name, err)
		}
		text += "\n" + found
		say("%s so far", time.Since(began).Round(time.Second))
	}
	fmt.Print(text)
	if o.out == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(o.out, "bench-journal.md"), []byte(text), 0o644)
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
