// Command apply compares the API with an empty handler, a simple handler that calls Redis once per request, and a handler
// that locks a row in MySQL. It measures the peak rate of each, the latency at shares of the peak, and the goodput under
// ten times the load. The contenders run in turn with the same load generator. Each server, the generator, Redis and
// MySQL are processes that share the cores. The results are ratios for a reader; no test depends on a time.
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
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] { // roles of this program that the bench starts as processes
		case generateVerb:
			exit(generate(os.Stdin, os.Stdout))
		case serveVerb:
			exit(serve(os.Args[2:], os.Stdin, os.Stderr))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-apply:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// options select the measurements.
type options struct {
	contenders  []contender
	scenes      []string
	connections int
	flood       int // connections during the overload
	rounds      int
	length      time.Duration
	out         string
	base        contender // the fourth column of the peaks compares with it
	build       string    // path of the apply-api of the contender "other"
}

const (
	steadyScene   = "steady"
	overloadScene = "overload"
)

func parse() (o options, err error) {
	names := flag.String("contenders", "nothing,api,plain,pipeliner,row-lock", "contenders, separated by commas: "+strings.Join(contenderNames(), ", "))
	scenes := flag.String("scenes", steadyScene+","+overloadScene, "measurements in addition to the peak, separated by commas")
	seconds := flag.Float64("seconds", 8, "duration of each measurement without its warm-up")
	flag.IntVar(&o.connections, "connections", 128, "connections at the peak")
	flag.IntVar(&o.flood, "overload-connections", 0, "connections during the overload; 0: ten times as many as at the peak")
	flag.IntVar(&o.rounds, "rounds", 3, "number of measurements of each contender; the median counts")
	flag.StringVar(&o.out, "out", "", "folder for the tables and the chart; without it the tables are printed only")
	flag.StringVar(&o.build, "build", "", "path of another apply-api, for the contender "+otherBuild)
	base := flag.String("base", plainest, "contender whose peak the others are compared with, beside "+yardstick)
	flag.Parse()
	for name := range strings.SplitSeq(*names, ",") {
		i := slices.IndexFunc(contenders, named(name))
		if i < 0 {
			return o, fmt.Errorf("-contenders: unknown contender %q", name)
		}
		o.contenders = append(o.contenders, contenders[i])
	}
	if o.contenders[0].name != yardstick {
		return o, fmt.Errorf("-contenders: the first must be %q, because the others are compared with it", yardstick)
	}
	i := slices.IndexFunc(contenders, named(*base))
	if i < 0 {
		return o, fmt.Errorf("-base: unknown contender %q", *base)
	}
	if o.base = contenders[i]; o.build == "" && slices.ContainsFunc(o.contenders, named(otherBuild)) {
		return o, fmt.Errorf("-build is missing: the contender %s is another apply-api", otherBuild)
	}
	for name := range strings.FieldsFuncSeq(*scenes, func(r rune) bool { return r == ',' }) {
		if name != steadyScene && name != overloadScene {
			return o, fmt.Errorf("-scenes: unknown scene %q", name)
		}
		o.scenes = append(o.scenes, name)
	}
	if !(*seconds >= 1 && *seconds <= 300) {
		return o, fmt.Errorf("-seconds is %v: want 1 to 300", *seconds)
	}
	o.length = time.Duration(*seconds * float64(time.Second))
	if o.connections < 1 || o.connections > maxConnections/overloadFactor {
		return o, fmt.Errorf("-connections is %d: want 1 to %d", o.connections, maxConnections/overloadFactor)
	}
	if o.flood == 0 {
		o.flood = overloadFactor * o.connections
	}
	if o.flood < 1 || o.flood > maxConnections {
		return o, fmt.Errorf("-overload-connections is %d: want up to %d", o.flood, maxConnections)
	}
	if o.rounds < 1 || o.rounds > 100 {
		return o, fmt.Errorf("-rounds is %d: want 1 to 100", o.rounds)
	}
	if o.out == "" {
		return o, nil
	}
	if !slices.Contains(o.scenes, overloadScene) {
		return o, fmt.Errorf("-out: the chart needs the scene %s", overloadScene)
	}
	folder, err := os.Stat(o.out)
	if err == nil && !folder.IsDir() {
		err = errors.New("not a folder")
	}
	if err != nil {
		return o, fmt.Errorf("-out: %w", err)
	}
	return o, nil
}

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
	s.other = o.build
	say("on %s, Redis %s", s.Version, s.redisVersion)

	var all []sample
	peaks, err := s.peaks(ctx, o)
	if err != nil {
		return fmt.Errorf("peak: %w", err)
	}
	for _, m := range peaks {
		all = append(all, m.rounds...)
	}
	text := s.facts() + renderPeaks(o, peaks)
	if slices.Contains(o.scenes, steadyScene) {
		steady, err := s.steady(ctx, o, peaks)
		if err != nil {
			return fmt.Errorf("scene %s: %w", steadyScene, err)
		}
		for _, p := range steady {
			all = append(append(all, p.rounds...), p.yardstick...)
		}
		text += "\n" + renderSteady(o, steady)
	}
	var floods []flooded
	if slices.Contains(o.scenes, overloadScene) {
		if floods, err = s.overload(ctx, o); err != nil {
			return fmt.Errorf("scene %s: %w", overloadScene, err)
		}
		for _, m := range floods {
			for _, f := range m.rounds {
				all = append(all, f.peak, f.before, f.during, f.after)
			}
		}
		text += "\n" + renderOverload(o, floods)
	}
	text += "\n" + renderOthers(all)
	fmt.Print(text)
	if o.out == "" {
		return nil
	}
	name := filepath.Join(o.out, "bench-apply")
	if err := os.WriteFile(name+".md", []byte(text), 0o644); err != nil {
		return err
	}
	return os.WriteFile(name+".svg", []byte(drawChart(peaks, floods)), 0o644)
}

func named(name string) func(contender) bool {
	return func(c contender) bool { return c.name == name }
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
