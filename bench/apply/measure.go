package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// warmUp is the time for heaps and pools to grow.
	warmUp = 2 * time.Second
	// overloadFactor multiplies the rate and the connections of the peak.
	overloadFactor = 10
	// quietShare is the share of the peak at which an idle server is measured.
	quietShare = 0.1
)

// steadyShares are the shares of its peak at which the latency of a server is measured. It should sustain each of them.
var steadyShares = []float64{0.25, 0.5, 0.8}

// measured has the samples of one contender, by round.
type measured struct {
	contender
	rounds []sample
}

// median returns the median of a figure over the rounds.
func median[T cmp.Ordered, R any](rounds []R, figure func(R) T) T {
	all := make([]T, len(rounds))
	for i, r := range rounds {
		all[i] = figure(r)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func goodput(r sample) float64 { return r.goodput() }

// once starts the contender, sends one load, and checks that no accepted application is lost.
func (s *stage) once(ctx context.Context, c contender, l load) (r sample, err error) {
	v, err := c.start(ctx, s, c)
	if err != nil {
		return r, fmt.Errorf("%s: %w", c.name, err)
	}
	defer v.stop()
	if r, err = v.take(ctx, l); err == nil {
		_, err = v.verify(ctx)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", c.name, err)
	}
	return r, nil
}

// peaks measures the peak rate: each connection sends its next request immediately after an answer. The contenders take
// turns, so that other work of the machine affects all of them.
func (s *stage) peaks(ctx context.Context, o options) ([]measured, error) {
	all := make([]measured, len(o.contenders))
	for round := range o.rounds {
		for i, c := range o.contenders {
			r, err := s.once(ctx, c, load{Connections: o.connections, Warmup: warmUp, Length: o.length, Again: c.again})
			if err != nil {
				return nil, err
			}
			all[i].contender = c
			all[i].rounds = append(all[i].rounds, r)
			say("%d of %d  peak      %-10s %7.0f/s  p50 %s  p99 %s  p99.9 %s  failed %d %s  CPU %s %s %s  others %.0f %%", round+1, o.rounds, c.name, r.goodput(),
				r.FromDue.P50, r.FromDue.P99, r.FromDue.P999, r.Failed, r.Failure, cpu(r.server), cpu(r.store), cpu(r.generator), 100*r.others)
		}
	}
	return all, nil
}

// paced has the samples of a contender at a share of its peak, and of the yardstick at the same rate.
type paced struct {
	measured
	share     float64
	rate      float64 // requests per second
	yardstick []sample
}

// steady measures the latency at shares of the peak. Requests are due at fixed times, independent of answers.
func (s *stage) steady(ctx context.Context, o options, peaks []measured) ([]paced, error) {
	var all []paced
	for _, share := range steadyShares {
		for _, m := range peaks {
			all = append(all, paced{measured: measured{contender: m.contender}, share: share, rate: share * median(m.rounds, goodput)})
		}
	}
	for round := range o.rounds {
		for i := range all {
			p := &all[i]
			l := load{Connections: o.connections, Rate: p.rate, Warmup: warmUp, Length: o.length, Again: p.again}
			r, err := s.once(ctx, p.contender, l)
			if err != nil {
				return nil, err
			}
			base := r
			if p.name != yardstick {
				if base, err = s.once(ctx, o.contenders[0], l); err != nil {
					return nil, err
				}
			}
			p.rounds, p.yardstick = append(p.rounds, r), append(p.yardstick, base)
			say("%d of %d  steady    %-10s %7.0f/s  p50 %s  p99 %s  p99.9 %s  unsent %d; %s p99 %s  others %.0f %%", round+1, o.rounds, p.name, p.rate,
				r.FromDue.P50, r.FromDue.P99, r.FromDue.P999, r.Unsent, yardstick, base.FromDue.P99, 100*r.others)
		}
	}
	return all, nil
}

// flood has the four samples of one server, in this order.
type flood struct {
	peak   sample
	before sample // at a low rate
	during sample // ten times the rate of this peak, with many more connections
	after  sample // at the low rate, directly afterwards
	// accepted is the number of accepted applications in all four. None of them is lost.
	accepted int
}

func (f flood) kept() float64 { return f.during.goodput() / f.peak.goodput() }

// flooded has the floods of one contender, by round.
type flooded struct {
	contender
	rounds []flood
}

// overload sends each contender ten times the load of its peak.
func (s *stage) overload(ctx context.Context, o options) ([]flooded, error) {
	all := make([]flooded, len(o.contenders))
	for round := range o.rounds {
		for i, c := range o.contenders {
			f, err := s.flood(ctx, o, c)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			all[i].contender = c
			all[i].rounds = append(all[i].rounds, f)
			say("%d of %d  overload  %-10s %7.0f/s of %.0f/s  refused %d  failed %d %s  p99 %s before, %s after  others %.0f %%", round+1, o.rounds, c.name,
				f.during.goodput(), f.peak.goodput(), f.during.Refused, f.during.Failed, f.during.Failure, f.before.FromDue.P99, f.after.FromDue.P99, 100*f.during.others)
		}
	}
	return all, nil
}

func (s *stage) flood(ctx context.Context, o options, c contender) (f flood, err error) {
	v, err := c.start(ctx, s, c)
	if err != nil {
		return f, err
	}
	defer v.stop()
	if f.peak, err = v.take(ctx, load{Connections: o.connections, Warmup: warmUp, Length: o.length}); err != nil {
		return f, fmt.Errorf("peak: %w", err)
	}
	quiet := load{Connections: o.connections, Rate: quietShare * f.peak.goodput(), Length: o.length / 2}
	if f.before, err = v.take(ctx, quiet); err != nil {
		return f, fmt.Errorf("before: %w", err)
	}
	f.during, err = v.take(ctx, load{
		Connections: o.flood, Rate: overloadFactor * f.peak.goodput(), Warmup: warmUp, Length: o.length,
	})
	if err != nil {
		return f, fmt.Errorf("overload: %w", err)
	}
	if f.after, err = v.take(ctx, quiet); err != nil {
		return f, fmt.Errorf("after: %w", err)
	}
	f.accepted, err = v.verify(ctx)
	return f, err
}
