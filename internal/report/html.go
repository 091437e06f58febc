package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

//go:embed report.html
var pageSource string

var pageTemplate = template.Must(template.New("report").Option("missingkey=error").Parse(pageSource))

// share is one part of the bar of outcomes. From and Width are units of the svg; the whole bar is 1000 units wide.
type share struct {
	Name, Count, Percent, From, Width string
	Colour                            template.CSS
}

// shareColours is the palette of Okabe and Ito. Colour-blind readers can tell its colours apart, also in print.
var shareColours = []template.CSS{"#009e73", "#999999", "#d55e00", "#56b4e9", "#e69f00", "#0072b2"}

// HTML writes the report as one page that loads no other file. The template escapes all text.
func (e Edition) HTML(w io.Writer) error {
	title := map[time.Duration]text.Message{time.Minute: text.ByMinute, time.Hour: text.ByHour,
		24 * time.Hour: text.ByDay}[e.Bucket]
	rows := [][]cell{}
	for _, c := range e.Coupons {
		rows = append(rows, e.row(c))
	}
	return pageTemplate.Execute(w, map[string]any{
		"Lang": e.Language, "Title": e.title(), "Generated": e.generated(), "Meaning": e.meaning(),
		"Chains": e.chains(), "None": e.Sprintf(text.ReportEmpty),
		"Nothing": e.Sprintf(text.NoApplications),
		"Header":  e.header(), "Rows": rows, "Total": e.total(), "Missing": e.missing(), "Frozen": e.frozen(),
		"LeftOut": append(e.erased(), e.leftOut()...), "Grids": e.grids(),
		"SharesTitle": e.Sprintf(text.ReportOutcomes), "Shares": e.shares(), "TimelineTitle": e.Sprintf(title),
		"Timeline": e.chart(), "ActionsTitle": e.Sprintf(text.ReportActions),
		"ActionColumns": e.Cells(actionColumns...), "Actions": e.actions(),
	})
}

func (e Edition) shares() (shares []share) {
	all, before := float64(e.Total.Applications), 0.0
	for i, n := range e.Total.values()[firstOutcome:outcomesEnd] {
		if n.Sign() == 0 {
			continue
		}
		part := float64(n.Int64()) / all
		shares = append(shares, share{
			Name: figures[firstOutcome+i].column.In(e.Language), Count: output.Grouped(n.String()),
			Percent: fmt.Sprintf("%.1f %%", 100*part),
			From:    fmt.Sprintf("%.2f", 1000*before), Width: fmt.Sprintf("%.2f", 1000*part), Colour: shareColours[i],
		})
		before += part
	}
	return shares
}

// chart is the curve of arrivals. Coordinates are pixels of the svg in the template.
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

// chart returns nil if there are no applications.
func (e Edition) chart() *chart {
	const left, right, top, bottom = 20, 920, 10, 225
	var highest int64
	for _, n := range e.Timeline {
		highest = max(highest, n)
	}
	if highest == 0 {
		return nil
	}
	t := &chart{Levels: levelsUpTo(highest), Ticks: e.ticks(), Left: left, Right: right, Bottom: bottom,
		LabelY: bottom + 20}
	x := func(bucket float64) string {
		return fmt.Sprintf("%.1f", left+bucket/float64(len(e.Timeline))*(right-left))
	}
	y := func(n float64) string {
		return fmt.Sprintf("%.1f", bottom-n/t.Levels[len(t.Levels)-1].Value*(bottom-top))
	}
	var points []string
	for i, n := range e.Timeline {
		if i > 0 && i < len(e.Timeline)-1 && n == e.Timeline[i-1] && n == e.Timeline[i+1] {
			continue // a horizontal line needs only its two ends
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

// levelsUpTo returns at most six labels in equal steps, from 0 to highest or just above it.
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

// ticks returns a label for every three hours of a day, every second day of a month, or at most 20 days of a longer
// period. Value is the bucket's index.
func (e Edition) ticks() (ticks []tick) {
	for i := 0; i <= len(e.Timeline); i++ {
		at := e.From.Add(time.Duration(i) * e.Bucket).In(e.Zone)
		label := at.Format("01-02")
		switch e.Bucket {
		case time.Minute:
			if label = at.Format("15:04"); at.Minute() != 0 || at.Hour()%3 != 0 {
				continue
			}
		case time.Hour:
			if at.Hour() != 0 || at.Day()%2 == 0 {
				continue
			}
		default: // a day
			if i%(len(e.Timeline)/20+1) != 0 {
				continue
			}
		}
		ticks = append(ticks, tick{Value: float64(i), Label: label})
	}
	return ticks
}
