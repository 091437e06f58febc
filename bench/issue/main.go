// Command issue compares the immediate issuing of Jajeong with three ways to build it: a Redis Stream with consumers, seat
// rows with SKIP LOCKED inside the request, and asynq. All contenders are pressed in this process by the same open loop, and
// issue into the same table. Workers are processes. Latency counts from the time at which a press was due to the
// time at which another connection can read its row. The results are figures and ratios for a reader; no test depends on a time.
package main

import (
	"context"
	"errors"
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

	"github.com/go-sql-driver/mysql"
)

// gcPercent is that of apply-api.
const gcPercent = 400

func main() {
	debug.SetGCPercent(gcPercent)
	_ = mysql.SetLogger(&mysql.NopLogger{}) // broken connections are expected while MySQL is away
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 3 && os.Args[1] == workVerb {
		exit(work(ctx, os.Args[2], os.Stdin))
	}
	exit(run(ctx))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-issue:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// options select the measurements.
type options struct {
	contenders []contender
	scenes     []string
	length     time.Duration // of a load
	short      time.Duration // of the loads beside
	quick      bool
	out        string
}

func parse() (o options, err error) {
	var names, sceneList []string
	for _, c := range contenders {
		names = append(names, c.name)
	}
	for _, s := range scenes {
		sceneList = append(sceneList, s.name)
	}
	chosen := flag.String("contenders", strings.Join(names, ","), "contenders, separated by commas")
	chosenScenes := flag.String("scenes", strings.Join(sceneList, ","), "measurements, separated by commas")
	seconds := flag.Int("seconds", 60, "duration of the loads on one coupon at 100 ms; the others take a sixth")
	flag.BoolVar(&o.quick, "quick", false, "all measurements within two minutes, to see that they work")
	flag.StringVar(&o.out, "out", "", "folder for the table and the chart; without it the table is printed only")
	flag.Parse()
	for name := range strings.FieldsFuncSeq(*chosen, func(r rune) bool { return r == ',' }) {
		i := slices.Index(names, name)
		if i < 0 {
			return o, fmt.Errorf("-contenders: unknown contender %q", name)
		}
		o.contenders = append(o.contenders, contenders[i])
	}
	if len(o.contenders) == 0 {
		return o, errors.New("-contenders is empty")
	}
	for name := range strings.FieldsFuncSeq(*chosenScenes, func(r rune) bool { return r == ',' }) {
		if !slices.Contains(sceneList, name) {
			return o, fmt.Errorf("-scenes: unknown scene %q", name)
		}
		o.scenes = append(o.scenes, name)
	}
	if *seconds < 2 || *seconds > 600 {
		return o, fmt.Errorf("-seconds is %d: want 2 to 600", *seconds)
	}
	o.length = time.Duration(*seconds) * time.Second
	if o.quick {
		o.length = 2 * time.Second
	}
	o.short = max(2*time.Second, o.length/6)
	if o.out == "" {
		return o, nil
	}
	folder, err := os.Stat(o.out)
	if err == nil && !folder.IsDir() {
		err = errors.New("not a folder")
	}
	if err == nil && !slices.Contains(o.scenes, loadsScene) {
		err = fmt.Errorf("the chart needs the scene %s", loadsScene)
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
	say("on %s, Redis %s", s.Version, s.redisVersion)
	text := s.facts() + method()
	var measured []outcome
	for _, scene := range scenes {
		if !slices.Contains(o.scenes, scene.name) {
			continue
		}
		answer, err := scene.run(ctx, s, o, &measured)
		if err != nil {
			return fmt.Errorf("scene %s: %w", scene.name, err)
		}
		text += "\n" + answer
	}
	fmt.Print(text)
	if o.out == "" {
		return nil
	}
	name := filepath.Join(o.out, "bench-issue")
	if err := os.WriteFile(name+".md", []byte(text), 0o644); err != nil {
		return err
	}
	return os.WriteFile(name+".svg", []byte(drawChart(measured)), 0o644)
}
