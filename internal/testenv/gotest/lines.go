package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

const (
	maxLines = 60    // of a test, of a panic, of a data race
	maxBytes = 1_000 // of a line: a comparison prints whole documents
	maxSeeds = 5     // of a test that prints many
)

// tail keeps the last lines, and before them those that name a seed.
type tail struct {
	lines []string
	seeds []string
	left  int // lines that are not kept
	part  bool
}

// seed matches what random tests print to be repeated.
var seed = regexp.MustCompile(`(?i)\bseed\b|_SEED\b`)

// add takes the output of one write, which may be a part of a line.
func (t *tail) add(output string) {
	line, whole := strings.CutSuffix(output, "\n")
	if t.part {
		line = t.lines[len(t.lines)-1] + line
		t.lines = t.lines[:len(t.lines)-1]
	}
	t.lines, t.part = append(t.lines, shorten(line)), !whole
	if len(t.lines) <= maxLines {
		return
	}
	if first := t.lines[0]; seed.MatchString(first) && len(t.seeds) < maxSeeds {
		t.seeds = append(t.seeds, first)
	} else {
		t.left++
	}
	t.lines = t.lines[1:]
}

func shorten(line string) string {
	if len(line) <= maxBytes {
		return line
	}
	return strings.ToValidUTF8(line[:maxBytes], "") + " …"
}

func (t *tail) empty() bool { return len(t.lines) == 0 }

func (t *tail) print(w io.Writer) {
	for _, line := range t.seeds {
		fmt.Fprintln(w, line)
	}
	if t.left > 0 {
		fmt.Fprintf(w, "    … %d lines before\n", t.left)
	}
	for _, line := range t.lines {
		fmt.Fprintln(w, line)
	}
}

// excerpt keeps the first lines of a report of the runtime: all of them, or its first paragraph and the goroutines in
// a test, one of those that stand at the same place.
type excerpt struct {
	all       bool
	lines     []string
	paragraph []string
	places    map[string]bool
	left      int // paragraphs that are not kept
}

func (x *excerpt) add(line string) {
	if line != "" {
		if len(x.paragraph) < maxLines {
			x.paragraph = append(x.paragraph, shorten(line))
		}
		return
	}
	x.close()
}

// close ends a paragraph.
func (x *excerpt) close() {
	if len(x.paragraph) == 0 {
		return
	}
	place := strings.Join(x.paragraph[1:], "\n")
	keep := x.all || x.places == nil || strings.Contains(place, "_test.go:") && !x.places[place]
	if keep && len(x.lines)+len(x.paragraph) <= maxLines {
		x.lines = append(append(x.lines, x.paragraph...), "")
	} else {
		x.left++
	}
	if x.places == nil {
		x.places = map[string]bool{}
	}
	x.places[place] = true
	x.paragraph = nil
}

func (x *excerpt) print(w io.Writer) {
	if x == nil {
		return
	}
	x.close()
	fmt.Fprintln(w)
	for _, line := range x.lines {
		fmt.Fprintln(w, line)
	}
	if x.left > 0 {
		fmt.Fprintf(w, "    … %d more paragraphs\n", x.left)
	}
}
