package report

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// The picture and the area inside its axes, in pixels.
const (
	width, height            = 900, 480
	left, right, top, bottom = 90, 870, 90, 400
)

var colours = []string{"#0074d9", "#d96500", "#2a8c4a", "#8e44ad", "#555555"}

// Short is the name of a row of a table, and what a chart calls it.
type Short struct{ Name, Label string }

// Shorts are the names of all contenders.
func Shorts[T any](all []T, of func(T) Short) (labels []Short) {
	for _, one := range all {
		labels = append(labels, of(one))
	}
	return labels
}

// Lines draws a line for each contender of a table, over axes that are both logarithmic. Rows without a label are left
// out.
type Lines struct {
	Title     string
	Table     Printed
	Contender string // the columns
	X, Y      string
	Unit      string // of Y
	Where     map[string]string
	Labels    []Short
}

// drawn are the rows of a contender.
func (l Lines) drawn(contender string) (rows [][]string) {
	for _, row := range l.Table.rows {
		yes := l.Table.text(row, l.Contender) == contender && l.Table.number(row, l.Y) > 0
		for column, value := range l.Where {
			yes = yes && l.Table.text(row, column) == value
		}
		if yes {
			rows = append(rows, row)
		}
	}
	return rows
}

// Draw draws the lines.
func (l Lines) Draw() string {
	d := newDrawing(l.Title)
	var xs, ys []float64
	for _, of := range l.Labels {
		for _, row := range l.drawn(of.Name) {
			xs, ys = append(xs, l.Table.number(row, l.X)), append(ys, l.Table.number(row, l.Y))
		}
	}
	if len(xs) == 0 {
		return d.end()
	}
	x, y := powersOfTen(xs, left, right), powersOfTen(ys, bottom, top)
	for exponent := x.from; exponent <= x.to; exponent++ {
		value := math.Pow(10, exponent)
		d.line(x.at(value), top, x.at(value), bottom, "#ddd")
		d.text(x.at(value), bottom+22, "middle", fmt.Sprintf("%.0f", value))
	}
	for exponent := y.from; exponent <= y.to; exponent++ {
		value := math.Pow(10, exponent)
		d.line(left, y.at(value), right, y.at(value), "#ddd")
		d.text(left-8, y.at(value)+4, "end", fmt.Sprintf("%.0f", value))
	}
	d.text((left+right)/2, height-30, "middle", l.X)
	d.text(left, top-10, "end", l.Unit)
	for i, of := range l.Labels {
		colour := colours[i%len(colours)]
		var path []string
		for _, row := range l.drawn(of.Name) {
			atX, atY := x.at(l.Table.number(row, l.X)), y.at(l.Table.number(row, l.Y))
			path = append(path, fmt.Sprintf("%.1f,%.1f", atX, atY))
			d.add(`<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`, atX, atY, colour)
		}
		d.add(`<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`, strings.Join(path, " "), colour)
	}
	for _, of := range l.Labels {
		d.legend(of.Label)
	}
	return d.end()
}

// Bar is one bar of each group: what it is, and the table and column that have its height.
type Bar struct {
	Label  string
	Table  Printed
	Column string
}

// Bars draws a group of bars for each row of the tables. Rows without a label are left out.
type Bars struct {
	Title, Unit string
	Labels      []Short
	Bars        []Bar
}

// figures are the heights of the bars of a row; fewer than bars if a table lacks it.
func (b Bars) figures(name string) (all []float64) {
	for _, bar := range b.Bars {
		for _, row := range bar.Table.rows {
			if row[0] == name {
				all = append(all, math.Round(bar.Table.number(row, bar.Column)))
			}
		}
	}
	return all
}

// Draw draws the bars.
func (b Bars) Draw() string {
	labels := slices.DeleteFunc(b.Labels, func(of Short) bool { return len(b.figures(of.Name)) != len(b.Bars) })
	d, highest := newDrawing(b.Title), 0.0
	for _, of := range labels {
		highest = max(highest, slices.Max(b.figures(of.Name)))
	}
	step := roundStep(highest)
	y := func(value float64) float64 { return bottom - value/(step*math.Ceil(highest/step))*(bottom-top) }
	for value := 0.0; value <= highest+step && y(value) >= top; value += step {
		d.line(left, y(value), right, y(value), "#ddd")
		d.text(left-8, y(value)+4, "end", fmt.Sprintf("%.0f", value))
	}
	d.text(left, top-10, "end", b.Unit)
	for i, of := range labels {
		place := float64(right-left) / float64(len(labels))
		from, wide := left+place*(float64(i)+0.1), place*0.8/float64(len(b.Bars))
		d.text(from+place*0.4, bottom+22, "middle", of.Label)
		for n, figure := range b.figures(of.Name) {
			x := from + wide*float64(n)
			d.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`,
				x, y(figure), wide-4, bottom-y(figure), colours[n%len(colours)])
			d.text(x+wide/2-2, y(figure)-6, "middle", fmt.Sprintf("%.0f", figure))
		}
	}
	for _, bar := range b.Bars {
		d.legend(bar.Label)
	}
	return d.end()
}

// axis is a logarithmic one, from one power of ten to another.
type axis struct{ from, to, start, end float64 }

func powersOfTen(values []float64, start, end float64) axis {
	from, to := math.Floor(math.Log10(slices.Min(values))), math.Ceil(math.Log10(slices.Max(values)))
	return axis{from, max(to, from+1), start, end}
}

func (a axis) at(value float64) float64 {
	return a.start + (math.Log10(value)-a.from)/(a.to-a.from)*(a.end-a.start)
}

// roundStep is 1, 2 or 5 times a power of ten, with at most ten steps up to the highest figure.
func roundStep(highest float64) float64 {
	if highest <= 0 {
		return 1
	}
	step := math.Pow(10, math.Floor(math.Log10(highest/10)))
	for _, times := range []float64{1, 2, 5, 10} {
		if highest/(step*times) <= 10 {
			return step * times
		}
	}
	return step * 10
}

type drawing struct {
	svg     strings.Builder
	legends int
	next    float64 // place of the next legend
}

func newDrawing(title string) *drawing {
	d := &drawing{next: left + gap}
	d.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" `+
		`font-size="13" fill="#333">`,
		width, height)
	d.add(`<rect width="%d" height="%d" fill="#fff"/>`, width, height)
	d.add(`<text x="%d" y="34" text-anchor="middle" font-size="20">%s</text>`, width/2, html.EscapeString(title))
	return d
}

func (d *drawing) add(format string, args ...any) { fmt.Fprintf(&d.svg, format+"\n", args...) }

func (d *drawing) line(x1, y1, x2, y2 float64, colour string) {
	d.add(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`, x1, y1, x2, y2, colour)
}

func (d *drawing) text(x, y float64, anchor, text string) {
	d.add(`<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, html.EscapeString(text))
}

const letter, gap = 7.5, 40 // about as wide as one letter, and between two legends

func (d *drawing) legend(name string) {
	d.add(`<rect x="%.1f" y="54" width="12" height="12" fill="%s"/>`, d.next, colours[d.legends%len(colours)])
	d.text(d.next+18, 65, "start", name)
	d.next += 18 + letter*float64(len([]rune(name))) + gap
	d.legends++
}

func (d *drawing) end() string {
	d.add(`</svg>`)
	return d.svg.String()
}
