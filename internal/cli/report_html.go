package cli

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/report"
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
		Nothing:     r.say(words{"신청이 없습니다", "nobody applied"}),
		SharesTitle: r.say(words{"결과별 비율", "Outcomes"}), Shares: r.shares(),
		TimelineTitle: r.say(words{"분당 신청", "Applications by minute"}),
		DeedsTitle:    r.deedsTitle(), Deeds: r.deeds(), Missing: r.missing(), LeftOut: r.leftOut(),
	}
	if r.period.Bucket == time.Hour {
		page.TimelineTitle = r.say(words{"시간당 신청", "Applications by hour"})
	}
	for _, column := range deedColumns {
		page.DeedColumns = append(page.DeedColumns, column.in(r.language))
	}
	for _, column := range []words{{"쿠폰", "coupon"}, {"이름", "name"}} {
		page.Header = append(page.Header, htmlCell{Text: column.in(r.language)})
	}
	for _, f := range figures {
		page.Header = append(page.Header, htmlCell{Text: f.in(r.language), Number: true})
	}
	for _, column := range []words{{"정산 시각", "settled at"}, {"실행", "runs"}, {"시간", "time"}} {
		page.Header = append(page.Header, htmlCell{Text: column.in(r.language)})
	}
	for _, c := range r.Coupons {
		row := append([]htmlCell{{Text: fmt.Sprint(c.Coupon)}, {Text: printable(c.Name)}}, htmlFigures(c.Counts)...)
		at, by, long := r.settled(c)
		page.Rows = append(page.Rows, append(row, htmlCell{Text: at}, htmlCell{Text: by}, htmlCell{Text: long}))
	}
	page.Total = append([]htmlCell{{Text: r.say(words{"합계", "total"})}, {Text: r.say(words{"쿠폰 %d개", "%d coupons"}, len(r.Coupons))}},
		append(htmlFigures(r.Report.Total), htmlCell{}, htmlCell{}, htmlCell{})...)
	page.Timeline = r.timeline()
	return reportPage.Execute(w, page)
}

func htmlFigures(c report.Counts) (row []htmlCell) {
	for _, f := range figures {
		n := f.of(c)
		row = append(row, htmlCell{Text: grouped(n.String()), Number: true, Bad: f.key == "gap" && n.Sign() != 0})
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
			Name: f.in(r.language), Count: grouped(n.String()), Percent: fmt.Sprintf("%.1f %%", 100*part),
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
		levels = append(levels, tick{Value: float64(level), Label: grouped(fmt.Sprint(level))})
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
