package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/output"
)

// chart is the curve of arrivals. Coordinates are pixels in the svg of the template.
type chart struct {
	Line           string // the points of the curve
	Levels, Ticks  []tick
	Left, Right    int
	Bottom, LabelY int
}

type tick struct {
	Value float64
	At    string
	Label string
}

// chart is nil when there are no applications.
func (e Edition) chart() *chart {
	const left, right, top, bottom = 20, 920, 10, 225
	var highest int64
	for _, n := range e.Timeline {
		highest = max(highest, n)
	}
	if highest == 0 {
		return nil
	}
	t := &chart{Levels: levelsUpTo(highest), Ticks: e.ticks(), Left: left, Right: right, Bottom: bottom, LabelY: bottom + 20}
	x := func(bucket float64) string {
		return fmt.Sprintf("%.1f", left+bucket/float64(len(e.Timeline))*(right-left))
	}
	y := func(n float64) string {
		return fmt.Sprintf("%.1f", bottom-n/t.Levels[len(t.Levels)-1].Value*(bottom-top))
	}
	var points []string
	for i, n := range e.Timeline {
		if i > 0 && i < len(e.Timeline)-1 && n == e.Timeline[i-1] && n == e.Timeline[i+1] {
			continue // the ends of a level line are enough
		}
		points = append(points, x(float64(i))+","+y(float64(n)))
	}
	t.Line = strings.Join(points, " ")
	for i := range t.Levels {
		t.Levels[i].At = y(t.Levels[i].Value)
	}
	for i := range t.Ticks {
		t.Ticks[i].At = x(t.Ticks[i].Value)
	}
	return t
}

// levelsUpTo are up to six whole numbers from 0, the last at least the highest.
func levelsUpTo(highest int64) (levels []tick) {
	step := int64(1)
	for i := 0; (highest+step-1)/step > 5; i++ {
		step = [...]int64{2, 5, 10}[i%3] * step / [...]int64{1, 2, 5}[i%3] // 1, 2, 5, 10, 20, 50 …
	}
	for level := int64(0); level < highest+step; level += step {
		levels = append(levels, tick{Value: float64(level), Label: output.Grouped(fmt.Sprint(level))})
	}
	return levels
}

// ticks are every three hours of a day, or every second day of a month, at the index of their bucket.
func (e Edition) ticks() (ticks []tick) {
	for i := 0; i <= len(e.Timeline); i++ {
		at := e.From.Add(time.Duration(i) * e.Bucket).In(e.Zone)
		label := at.Format("15:04")
		if e.Bucket == time.Hour {
			if label = at.Format("01-02"); at.Hour() != 0 || at.Day()%2 == 0 {
				continue
			}
		} else if at.Minute() != 0 || at.Hour()%3 != 0 {
			continue
		}
		ticks = append(ticks, tick{Value: float64(i), Label: label})
	}
	return ticks
}
