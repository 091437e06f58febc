package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// scene is a measurement. It returns its result in Markdown.
type scene struct {
	name string
	run  func(ctx context.Context, s *stage) (string, error)
}

var scenes = []scene{
	{"long", longLine},
	{"short", shortLines},
	{"applying", whileApplying},
	{"settlement", whileSettling},
	{"idle", whileIdle},
	{"restore", whileRestoring},
}

func sceneNames() (names []string) {
	for _, s := range scenes {
		names = append(names, s.name)
	}
	return names
}

const (
	// fewRows is the line of a copier that cannot copy more in a reasonable time.
	fewRows    = 20_000
	shortCount = 1000 // lines
	shortRows  = 100  // applications of each
)

func longLine(ctx context.Context, s *stage) (string, error) {
	all, err := s.copies(ctx, copiers, 1, s.backlog)
	if err != nil {
		return "", err
	}
	return "## One long line\n\nThe line of one coupon, over one connection: whoever copies a coupon holds the lock on its row.\n\n" +
		renderCopies(all), nil
}

func shortLines(ctx context.Context, s *stage) (string, error) {
	all, err := s.copies(ctx, shortCopiers, shortCount, shortRows)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("## %d short lines\n\n%d applications each. Connections: how many copy at the same time.\n\n", shortCount, shortRows) +
		renderCopies(all), nil
}

func renderCopies(all []copied) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| way | connections | rows | rows/s | spread | ratio to %s | ratio to %s |\n", plain500, plainest)
	fmt.Fprint(&b, "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	base := map[string][]float64{}
	for _, c := range all {
		base[c.name] = c.rates
	}
	for _, c := range all {
		fmt.Fprintf(&b, "| %s | %d | %d | %.0f | %s | %s | %s |\n", c.name, min(c.parallel, c.lines), c.applications,
			median(c.rates), spread(c.rates, "%.0f"), ratios(c.rates, base[plain500]), ratios(c.rates, base[plainest]))
	}
	return b.String()
}

// pair has the results without something and with it, by turn.
type pair[R any] struct{ without, with []R }

// turns is how often the journal is turned on and off in a round: these measurements are short, and vary.
const turns = 2

// inTurn measures both so many times, so that other work of the machine affects both.
func inTurn[R any](times int, measure func(with bool) (R, error), note func(n int, with bool, r R)) (p pair[R], err error) {
	for n := range times {
		for turn := range 2 {
			with := (n+turn)%2 == 1
			r, err := measure(with)
			if err != nil {
				return p, err
			}
			if with {
				p.with = append(p.with, r)
			} else {
				p.without = append(p.without, r)
			}
			note(n+1, with, r)
		}
	}
	return p, nil
}

const applyingText = `## Applying

One coupon, %d connections, %s each, %d turns. At the peak each connection applies after an answer. At the steady rate of %.0f/s
latency counts from the time a request was due. Redis, MySQL, ` + "`apply-api`, `settle serve --tasks journal`" + ` and the applicants share
the cores. Behind: applications that the journal lacked at the end of the steady load.

| | without the journal | with it | ratio by turn |
| --- | ---: | ---: | ---: |
`

func whileApplying(ctx context.Context, s *stage) (string, error) {
	p, err := s.openShop(ctx, 1, never)
	if err != nil {
		return "", err
	}
	defer p.close()
	pod, err := p.startPod(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = pod.Stop() }()
	if err := p.awaitOpen(ctx, pod.Apply); err != nil {
		return "", err
	}
	times := turns * s.rounds
	found, err := inTurn(times, func(journal bool) (applied, error) { return p.applyBeside(ctx, pod.Apply, journal) },
		func(n int, journal bool, r applied) {
			say("%d of %d  applying, journal %-5v  peak %.0f/s p99 %s  steady %.0f/s p99 %s  behind %d", n, times, journal,
				r.peak.rate, milli(r.peak.p99), r.steady.rate, milli(r.steady.p99), r.behind)
		})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(applyingText, connections, s.length, times, s.rate) + renderApplied(found), nil
}

func renderApplied(found pair[applied]) string {
	var b strings.Builder
	for _, line := range []struct {
		title  string
		figure func(applied) float64
		format func(float64) string
	}{
		{"peak, applications/s", func(r applied) float64 { return r.peak.rate }, whole},
		{"peak, p99", func(r applied) float64 { return float64(r.peak.p99) }, asMilli},
		{"steady, p50", func(r applied) float64 { return float64(r.steady.p50) }, asMilli},
		{"steady, p99", func(r applied) float64 { return float64(r.steady.p99) }, asMilli},
		{"steady, CPU of Redis for an application", func(r applied) float64 { return float64(r.redis) }, asMicro},
		{"steady, CPU of the journal and MySQL for an application", func(r applied) float64 { return float64(r.journal) }, asMicro},
	} {
		without, with := figures(found.without, line.figure), figures(found.with, line.figure)
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", line.title, line.format(median(without)), line.format(median(with)), ratios(with, without))
	}
	behind := figures(found.with, func(r applied) float64 { return float64(r.behind) })
	fmt.Fprintf(&b, "| steady, behind | – | %.0f | |\n", median(behind))
	return b.String()
}

const settlementText = `## A settlement

` + "`settle run`" + ` issues %d coupons while the journal copies a line of %d applications for another coupon, at its
` + "`JOURNAL_ROWS_PER_SECOND`" + `; %d turns.

| | without the journal | with it | ratio by turn | rows that the journal wrote meanwhile |
| --- | ---: | ---: | ---: | ---: |
| settle run | %.2f s | %.2f s | %s | %.0f |
`

func whileSettling(ctx context.Context, s *stage) (string, error) {
	times := turns * s.rounds
	p, err := inTurn(times, func(journal bool) (settled, error) { return s.settleBeside(ctx, journal) },
		func(n int, journal bool, r settled) {
			say("%d of %d  settlement, journal %-5v  %s, %d rows meanwhile", n, times, journal, r.took.Round(time.Millisecond), r.rows)
		})
	if err != nil {
		return "", err
	}
	seconds := func(r settled) float64 { return r.took.Seconds() }
	without, with := figures(p.without, seconds), figures(p.with, seconds)
	rows := figures(p.with, func(r settled) float64 { return float64(r.rows) })
	return fmt.Sprintf(settlementText, s.settled, longFor*s.settled, times,
		median(without), median(with), ratios(with, without), median(rows)), nil
}

const idleText = `## Idle coupons

` + "`settle serve --tasks journal`" + ` looks at all open coupons once a second, and nobody applies; %s each,
CPU time as a share of one core.

| open coupons | Redis commands/s | CPU of Redis | of settle serve | of MySQL |
| ---: | ---: | ---: | ---: | ---: |
`

func whileIdle(ctx context.Context, s *stage) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, idleText, s.watched)
	for _, coupons := range []int{10, 1000, 10_000} {
		r, err := s.idle(ctx, coupons)
		if err != nil {
			return "", err
		}
		say("%d idle coupons: %.0f commands/s, Redis %s", coupons, r.commands, percent(r.redis))
		fmt.Fprintf(&b, "| %d | %.0f | %s | %s | %s |\n", coupons, r.commands, percent(r.redis), percent(r.journal), percent(r.mysql))
	}
	return b.String(), nil
}

const restoreText = `## A restore

Redis loses queue and state of a coupon with %d journalled applications. ` + "`settle serve --tasks journal`" + ` notices it and puts
all back; the time counts from the loss. Applicants apply for the same coupon, %.0f a second; latency counts from the time a request
was due. Not accepted: applications before the window was published again. Behind: applications that the journal lacked at the end.

| applicants | time | spread | rows/s | CPU of Redis | apply p99 before | during | ratio by round | not accepted | behind |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
`

func whileRestoring(ctx context.Context, s *stage) (string, error) {
	found, err := inTurn(s.rounds, func(applying bool) (restored, error) { return s.restore(ctx, applying) },
		func(n int, applying bool, r restored) {
			say("%d of %d  restore, applicants %-5v  %s, p99 %s before, %s during, %d not accepted %s, behind %d", n, s.rounds, applying,
				r.took.Round(time.Millisecond), milli(r.quiet.p99), milli(r.during.p99), r.during.failed, r.during.failure, r.behind)
		})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, restoreText, s.backlog, s.rate)
	row := func(who string, all []restored) {
		took := figures(all, func(r restored) float64 { return r.took.Seconds() })
		redis := figures(all, func(r restored) float64 { return r.redis.Seconds() })
		fmt.Fprintf(&b, "| %s | %.1f s | %s s | %.0f | %.1f s |", who,
			median(took), spread(took, "%.1f"), float64(s.backlog)/median(took), median(redis))
	}
	row("none", found.without)
	fmt.Fprint(&b, " – | – | – | – | – |\n")
	row("yes", found.with)
	quiet := figures(found.with, func(r restored) float64 { return float64(r.quiet.p99) })
	during := figures(found.with, func(r restored) float64 { return float64(r.during.p99) })
	failed := figures(found.with, func(r restored) float64 { return float64(r.during.failed) })
	behind := figures(found.with, func(r restored) float64 { return float64(r.behind) })
	fmt.Fprintf(&b, " %s | %s | %s | %.0f | %.0f |\n", asMilli(median(quiet)), asMilli(median(during)), ratios(during, quiet),
		median(failed), median(behind))
	return b.String(), nil
}
