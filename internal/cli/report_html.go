package cli

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/report"
	"github.com/jajeong/jajeong/internal/text"
)

//go:embed report.html
var reportSource string

var reportPage = template.Must(template.New("report").Parse(reportSource))

// htmlReport is what the page is made of. All of it is text, which the template makes harmless.
type htmlReport struct {
	Lang, Title, Generated, None, Nothing string
	Meaning, Chains                       []string
	Header                                []htmlCell
	Rows                                  [][]htmlCell
	Total                                 []htmlCell
	SharesTitle                           string
	Shares                                []share
	TimelineTitle                         string
	Timeline                              *timeline
	DeedsTitle                            string
	DeedColumns                           []string
	Deeds                                 [][]string
	Missing, LeftOut                      []string
}

type htmlCell struct {
	Text   string
	Number bool
	Bad    bool // something is wrong
}

// share is a part of the bar of outcomes, which is 1000 wide.
type share struct {
	Name, Count, Percent, From, Width string
	Colour                            template.CSS
}

// shareColours can be told apart by people who see no red or green, and in print (Okabe and Ito).
var shareColours = []template.CSS{"#009e73", "#999999", "#d55e00", "#56b4e9", "#e69f00", "#0072b2"}

func (r *periodReport) printHTML(w io.Writer) error {
	page := htmlReport{
		Lang: string(r.language), Title: r.title(), Generated: r.generated(), Meaning: r.meaning(), Chains: r.chains(), None: r.none(),
		Nothing:     r.sprintf(text.NoApplications),
		SharesTitle: r.sprintf(text.ReportOutcomes), Shares: r.shares(),
		TimelineTitle: r.sprintf(text.ByMinute),
		DeedsTitle:    r.actionsTitle(), Deeds: r.deeds(), Missing: r.missing(), LeftOut: r.leftOut(),
	}
	if r.period.Bucket == time.Hour {
		page.TimelineTitle = r.sprintf(text.ByHour)
	}
	for _, column := range actionColumns {
		page.DeedColumns = append(page.DeedColumns, column.In(r.language))
	}
	for _, column := range []text.Message{text.ColumnCoupon, text.ColumnName} {
		page.Header = append(page.Header, htmlCell{Text: column.In(r.language)})
	}
	for _, f := range figures {
		page.Header = append(page.Header, htmlCell{Text: f.column.In(r.language), Number: true})
	}
	for _, column := range []text.Message{text.ColumnSettledAt, text.ColumnRuns, text.ColumnTime} {
		page.Header = append(page.Header, htmlCell{Text: column.In(r.language)})
	}
	for _, c := range r.Coupons {
		row := append([]htmlCell{{Text: fmt.Sprint(c.Coupon)}, {Text: output.Printable(c.Name)}}, htmlFigures(c.Counts)...)
		at, by, long := r.settled(c)
		page.Rows = append(page.Rows, append(row, htmlCell{Text: at}, htmlCell{Text: by}, htmlCell{Text: long}))
	}
	page.Total = append([]htmlCell{{Text: r.sprintf(text.Total)}, {Text: r.sprintf(text.CouponCount, len(r.Coupons))}},
		append(htmlFigures(r.Report.Total), htmlCell{}, htmlCell{}, htmlCell{})...)
	page.Timeline = r.timeline()
	return reportPage.Execute(w, page)
}

func htmlFigures(c report.Counts) (row []htmlCell) {
	for _, f := range figures {
		n := f.of(c)
		row = append(row, htmlCell{Text: output.Grouped(n.String()), Number: true, Bad: f.column == text.ColumnGap && n.Sign() != 0})
	}
	return row
}

// shares is empty when nobody applied.
func (r *periodReport) shares() (shares []share) {
	all, before := float64(r.Report.Total.Applications), 0.0
	for i, f := range figures[firstOutcome:outcomesEnd] {
		n := f.of(r.Report.Total)
		if n.Sign() == 0 {
			continue
		}
		part := float64(n.Int64()) / all
		shares = append(shares, share{
			Name: f.column.In(r.language), Count: output.Grouped(n.String()), Percent: fmt.Sprintf("%.1f %%", 100*part),
			From: fmt.Sprintf("%.2f", 1000*before), Width: fmt.Sprintf("%.2f", 1000*part), Colour: shareColours[i],
		})
		before += part
	}
	return shares
}

// timeline is a chart of when the applications arrived. Coordinates are pixels in the svg of the template.
type timeline struct {
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

// timeline is nil when there are no applications.
func (r *periodReport) timeline() *timeline {
	const left, right, top, bottom = 20, 920, 10, 225
	var most int64
	for _, n := range r.Timeline {
		most = max(most, n)
	}
	if most == 0 {
		return nil
	}
	t := &timeline{Levels: levelsUpTo(most), Ticks: r.ticks(), Left: left, Right: right, Bottom: bottom, LabelY: bottom + 20}
	x := func(bucket float64) string {
		return fmt.Sprintf("%.1f", left+bucket/float64(len(r.Timeline))*(right-left))
	}
	y := func(n float64) string {
		return fmt.Sprintf("%.1f", bottom-n/t.Levels[len(t.Levels)-1].Value*(bottom-top))
	}
	var points []string
	for i, n := range r.Timeline {
		if i > 0 && i < len(r.Timeline)-1 && n == r.Timeline[i-1] && n == r.Timeline[i+1] {
			continue // on a level line, which its ends draw
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

// levelsUpTo are up to six whole numbers from 0, the last at least most.
func levelsUpTo(most int64) (levels []tick) {
	step := int64(1)
	for i := 0; (most+step-1)/step > 5; i++ {
		step = [...]int64{2, 5, 10}[i%3] * step / [...]int64{1, 2, 5}[i%3] // 1, 2, 5, 10, 20, 50 …
	}
	for level := int64(0); level < most+step; level += step {
		levels = append(levels, tick{Value: float64(level), Label: output.Grouped(fmt.Sprint(level))})
	}
	return levels
}

// ticks are every three hours of a day, or every second day of a month, at the place where its bucket stands.
func (r *periodReport) ticks() (ticks []tick) {
	for i := 0; i <= len(r.Timeline); i++ {
		at := r.period.From.Add(time.Duration(i) * r.period.Bucket).In(r.zone)
		label := at.Format("15:04")
		if r.period.Bucket == time.Hour {
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
