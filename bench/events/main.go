// Command events compares the relay of events with programs that only write the same bytes: a pipelined XADD, and a bare
// producer of Kafka. They take turns on the same servers. The results are ratios for a reader; no test depends on a time.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
)

// gcPercent is that of settle.
const gcPercent = 400

func main() {
	debug.SetGCPercent(gcPercent)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench-events:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	events := flag.Int("events", 200_000, "events of a measurement; a quarter of them in the scene of changes")
	rounds := flag.Int("rounds", 5, "number of measurements; the median counts")
	out := flag.String("out", "", "folder for the table and the chart; without it the table is printed only")
	flag.Parse()
	if *events < 1000 || *events > 5_000_000 || *rounds < 1 || *rounds > 100 {
		return fmt.Errorf("want 1,000 to 5,000,000 -events and 1 to 100 -rounds")
	}
	s, err := openStage(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	others := s.watchOthers()
	all, err := s.measureAll(ctx, *events, *rounds)
	if err != nil {
		return err
	}
	text := s.render(all, *rounds, others())
	fmt.Print(text)
	if *out == "" {
		return nil
	}
	if err := os.WriteFile(filepath.Join(*out, "bench-events.md"), []byte(text), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(*out, "bench-events.svg"), []byte(drawChart(all)), 0o644)
}

// measureAll measures every scene with every sink in each round, so that other work of the machine affects all of them.
func (s *stage) measureAll(ctx context.Context, events, rounds int) ([]measured, error) {
	all := make([][]result, len(scenes)*len(sinks))
	for round := range rounds {
		for i := range all {
			scene, sink := scenes[i/len(sinks)], sinks[i%len(sinks)]
			r, err := s.measure(ctx, scene, sink, events/scene.part)
			if err != nil {
				return nil, fmt.Errorf("%s to %s: %w", scene.name, sink, err)
			}
			all[i] = append(all[i], r)
			say("%d of %d  %-20s %-6s relay %8.0f/s  bare %8.0f/s  %s", round+1, rounds, scene.name, sink, r.rate(r.relay), r.rate(r.bare), r.fault)
		}
	}
	var found []measured
	for i, results := range all {
		found = append(found, summarise(scenes[i/len(sinks)].name, sinks[i%len(sinks)], results))
	}
	return found, nil
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
