package main

import (
	"flag"
	"fmt"
	"html"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
)

var update = flag.Bool("update", false, "draw docs/page.svg anew")

// moment is what a person sees of the page at one moment.
type moment struct{ Name, Discount, Figure, Button, Sentence string }

const readMoment = `(() => {
	const text = name => {
		const e = document.querySelector(name)
		return e.checkVisibility() ? e.innerText.trim() : ''
	}
	return { name: text('#name'), discount: text('#discount'), figure: text('jajeong-coupon p'),
		button: text('jajeong-coupon button'), sentence: text('jajeong-coupon output') }
})()`

// requirePicture demands that the picture in the README shows the page as it is. Times differ.
func requirePicture(t *testing.T, moments ...moment) {
	t.Helper()
	for i, m := range moments {
		m.Figure = regexp.MustCompile(`^\d\d:\d\d:\d\d$`).ReplaceAllString(m.Figure, "00:00:03")
		m.Sentence = regexp.MustCompile(`^.*에 신청이`).ReplaceAllString(m.Sentence, "2026. 11. 20. 오후 2:00:00에 신청이")
		moments[i] = m
	}
	const path = "../../docs/page.svg"
	picture := draw(moments)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(picture), 0o644))
	}
	committed := testenv.Content(t, path)
	require.Equal(t, string(committed), picture, "the page has changed: run `go test ./examples/page -update`")
}

const (
	width, height, gap = 276, 290, 24
	middle             = width / 2
	lineLength         = 19 // Korean characters
)

func draw(moments []moment) string {
	var b strings.Builder
	all := len(moments)*(width+gap) + gap
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" `+
			`font-family="'Apple SD Gothic Neo','NanumGothic','Noto Sans KR',sans-serif" text-anchor="middle">`+"\n",
		all, height+2*gap)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#eef1f5"/>`+"\n", all, height+2*gap)
	for i, m := range moments {
		fmt.Fprintf(&b,
			`<g transform="translate(%d,%d)"><rect width="%d" height="%d" rx="18" fill="#fff" stroke="#d8dee6"/>`+"\n",
			gap+i*(width+gap), gap, width, height)
		y := 46
		write := func(text string, size, weight int, colour string, after int) {
			for _, line := range wrap(text) {
				fmt.Fprintf(&b, `<text x="%d" y="%d" font-size="%d" font-weight="%d" fill="%s">%s</text>`+"\n", middle,
					y, size, weight, colour, html.EscapeString(line))
				y += size + 7
			}
			y += after
		}
		write(m.Name, 18, 700, "#17202b", 0)
		write(m.Discount, 12, 400, "#586474", 26)
		write(m.Figure, 26, 700, "#17202b", 0)
		if m.Button != "" {
			fill, ink := "#d8dee6", "#586474" // until the window opens
			fmt.Fprintf(&b, `<rect x="20" y="%d" width="%d" height="44" rx="11" fill="%s"/>`+"\n", y-18, width-40, fill)
			y += 10
			write(m.Button, 15, 700, ink, 14)
		}
		fmt.Fprintf(&b, `<line x1="20" x2="%d" y1="%d" y2="%d" stroke="#d8dee6"/>`+"\n", width-20, y, y)
		y += 30
		colour := "#17202b"
		if m.Figure == "" { // the outcome
			colour = "#0b7a4b"
		}
		write(m.Sentence, 13, 700, colour, 0)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// wrap breaks a text at spaces.
func wrap(text string) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len([]rune(line+" "+word)) > lineLength {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
