package main

import (
	"fmt"
	"slices"
	"time"
)

func figures[R any](rounds []R, figure func(R) float64) []float64 {
	all := make([]float64, len(rounds))
	for i, r := range rounds {
		all[i] = figure(r)
	}
	return all
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// spread formats the lowest and the highest figure.
func spread(all []float64, format string) string {
	return fmt.Sprintf(format+" to "+format, slices.Min(all), slices.Max(all))
}

// ratios formats the median, the lowest and the highest ratio. Both figures of a ratio are from the same round.
func ratios(all, base []float64) string {
	if len(base) != len(all) {
		return "–"
	}
	found := make([]float64, len(all))
	for i := range all {
		if base[i] == 0 {
			return "–"
		}
		found[i] = all[i] / base[i]
	}
	return fmt.Sprintf("%.2f (%s)", median(found), spread(found, "%.2f"))
}

func whole(f float64) string { return fmt.Sprintf("%.0f", f) }

func milli(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

func asMilli(nanoseconds float64) string { return milli(time.Duration(nanoseconds)) }

func asMicro(nanoseconds float64) string {
	return fmt.Sprintf("%.1f µs", nanoseconds/float64(time.Microsecond))
}

func percent(ofASecond time.Duration) string { return fmt.Sprintf("%.1f %%", 100*ofASecond.Seconds()) }
