package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

//go:embed report.html
var pageSource string

var pageTemplate = template.Must(template.New("report").Option("missingkey=error").Parse(pageSource))

// share is a part of the bar of outcomes, which is 1000 wide.
type share struct {
	Name, Count, Percent, From, Width string
	Colour                            template.CSS
}

// shareColours can be told apart by people who see no red or green, and in print (Okabe and Ito).
var shareColours = []template.CSS{"#009e73", "#999999", "#d55e00", "#56b4e9", "#e69f00", "#0072b2"}

// HTML writes the report as a page that loads nothing else. The template escapes all text.
func (e Edition) HTML(w io.Writer) error {
	title := text.ByMinute
	if e.Bucket == time.Hour {
		title = text.ByHour
	}
	rows := [][]cell{}
	for _, c := range e.Coupons {
		rows = append(rows, e.row(c))
	}
	return pageTemplate.Execute(w, map[string]any{
		"Lang": e.Language, "Title": e.title(), "Generated": e.generated(), "Meaning": e.meaning(), "Chains": e.chains(),
		"None": e.Sprintf(text.ReportEmpty), "Nothing": e.Sprintf(text.NoApplications),
		"Header": e.header(), "Rows": rows, "Total": e.total(), "Missing": e.missing(), "LeftOut": e.leftOut(),
		"SharesTitle": e.Sprintf(text.ReportOutcomes), "Shares": e.shares(), "TimelineTitle": e.Sprintf(title), "Timeline": e.chart(),
		"DeedsTitle": e.Sprintf(text.ReportActions), "DeedColumns": e.Cells(actionColumns...), "Deeds": e.actions(),
	})
}

// shares is empty when nobody applied.
func (e Edition) shares() (shares []share) {
	all, before := float64(e.Total.Applications), 0.0
	for i, n := range e.Total.values()[firstOutcome:outcomesEnd] {
		if n.Sign() == 0 {
			continue
		}
		part := float64(n.Int64()) / all
		shares = append(shares, share{
			Name: figures[firstOutcome+i].column.In(e.Language), Count: output.Grouped(n.String()), Percent: fmt.Sprintf("%.1f %%", 100*part),
			From: fmt.Sprintf("%.2f", 1000*before), Width: fmt.Sprintf("%.2f", 1000*part), Colour: shareColours[i],
		})
		before += part
	}
	return shares
}
