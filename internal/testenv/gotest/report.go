package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// A reader of a log on a page of CI sees about three screens of each of a few tests; the rest is in the log files.
	maxTests = 20 // of all packages together
	maxRaces = 2  // of a package
)

// event is a line of `go test -json`, see `go doc test2json` and `go help buildjson`.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of a build
	Test        string // empty: of the package
	Elapsed     float64
	Output      string
	FailedBuild string // ImportPath of the build that this package lacks
}

// report is what is known of all packages.
type report struct {
	out  io.Writer
	logs string

	packages map[string]*pkg  // those that have not ended
	builds   map[string]*tail // what the compiler says, by ImportPath
	failures []*pkg           // by end

	tests, skipped, failed int
	shown                  int // tests with their lines
}

// pkg is a package whose tests run or have failed.
type pkg struct {
	name, seed, build string
	log               *os.File
	own               *tail // output of no test
	tests             map[string]*test
	failed            []*test
	crash             *excerpt   // the last panic
	races             []*excerpt // the first ones
	open              *excerpt   // a part of crash or races that has not ended
	ended             bool
}

type test struct {
	name    string
	output  *tail
	elapsed float64
	paused  bool
}

func (r *report) add(e event) error {
	switch {
	case e.Action == "build-output":
		if r.builds[e.ImportPath] == nil {
			r.builds[e.ImportPath] = &tail{}
		}
		r.builds[e.ImportPath].add(e.Output)
		return nil
	case e.Package == "":
		return nil
	}
	p, err := r.pkg(e.Package)
	if err != nil {
		return err
	}
	if e.Action == "output" {
		return r.output(p, e)
	}
	if e.Test != "" {
		r.step(p, e)
		return nil
	}
	switch e.Action {
	case "pass", "skip", "fail":
		delete(r.packages, p.name)
		p.ended, p.build = true, e.FailedBuild
		return r.end(p, e.Action == "fail")
	}
	return nil
}

func (r *report) pkg(name string) (*pkg, error) {
	if p := r.packages[name]; p != nil {
		return p, nil
	}
	if err := os.MkdirAll(r.logs, 0o755); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(r.logs, strings.ReplaceAll(name, "/", "_")+".log"))
	if err != nil {
		return nil, err
	}
	p := &pkg{name: name, log: log, own: &tail{}, tests: map[string]*test{}}
	r.packages[name] = p
	return p, nil
}

// step notes how far a test is.
func (r *report) step(p *pkg, e event) {
	t := p.tests[e.Test]
	if t == nil {
		t = &test{name: e.Test, output: &tail{}}
		p.tests[e.Test] = t
	}
	t.paused = e.Action == "pause"
	switch e.Action {
	case "pass", "skip", "fail":
		delete(p.tests, e.Test)
		r.tests++
	}
	switch e.Action {
	case "skip":
		r.skipped++
	case "fail":
		r.failed++
		t.elapsed = e.Elapsed
		p.failed = append(p.failed, t)
	}
}

func (r *report) output(p *pkg, e event) error {
	if _, err := p.log.WriteString(e.Output); err != nil {
		return err
	}
	line := strings.TrimSuffix(e.Output, "\n")
	seed, isSeed := strings.CutPrefix(line, "-test.shuffle ")
	switch {
	case e.Test == "" && (strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "FAIL\t")):
		fmt.Fprintln(r.out, line)
	case p.excerpted(line):
	case isFrame(line):
	case e.Test != "":
		if t := p.tests[e.Test]; t != nil {
			t.output.add(e.Output)
		}
	case isSeed:
		p.seed = seed
	case line != "PASS" && line != "FAIL" && !strings.HasSuffix(line, "[no test files]"):
		p.own.add(e.Output)
	}
	return nil
}

// isFrame reports whether testing prints the line around the output of a test.
func isFrame(line string) bool {
	line = strings.TrimLeft(line, " ")
	return line == raceFrame || slices.ContainsFunc([]string{"=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME ",
		"--- PASS: ", "--- FAIL: ", "--- SKIP: "}, func(frame string) bool { return strings.HasPrefix(line, frame) })
}

const raceFrame = "=================="

// excerpted takes the lines of a panic and of a data race, which the runtime prints amid the output of any test.
func (p *pkg) excerpted(line string) bool {
	switch {
	case line == raceFrame || strings.HasPrefix(line, "=== "):
		p.open = nil
	case line == "WARNING: DATA RACE":
		p.open = &excerpt{all: true}
		if len(p.races) < maxRaces {
			p.races = append(p.races, p.open)
		}
	case p.open == nil && slices.ContainsFunc([]string{"panic: ", "fatal error: ", "SIGQUIT: "},
		func(first string) bool { return strings.HasPrefix(line, first) }):
		p.crash = &excerpt{}
		p.open = p.crash
	}
	if p.open == nil {
		return false
	}
	p.open.add(line)
	return true
}

func (r *report) end(p *pkg, failed bool) error {
	if failed {
		r.failures = append(r.failures, p)
	}
	return p.log.Close()
}

// finish prints what failed.
func (r *report) finish(took time.Duration) {
	for _, name := range slices.Sorted(maps.Keys(r.packages)) { // the command was stopped
		_ = r.end(r.packages[name], true)
	}
	broken := 0
	for _, p := range r.failures {
		if len(p.failed) == 0 {
			broken++
		}
		r.print(p)
	}
	for i, p := range r.failures {
		if i == 0 {
			fmt.Fprintln(r.out)
		}
		for _, name := range p.names() {
			fmt.Fprintf(r.out, "failed: %s\n", strings.TrimSpace(p.name+" "+name))
		}
	}
	fmt.Fprintf(r.out, "\nDONE %s%s%s%s in %.3fs\n", count(r.tests, "test"), more(r.skipped, "skipped", ""),
		more(r.failed, "failure", "s"), more(broken, "error", "s"), took.Seconds())
}

// names are those of the tests that failed or did not end. A package that failed outside its tests has one empty name.
func (p *pkg) names() (names []string) {
	for _, t := range p.failed {
		if !p.toldByPart(t) {
			names = append(names, t.name)
		}
	}
	for _, t := range p.running() {
		names = append(names, t.name)
	}
	if len(names) == 0 {
		return []string{""}
	}
	return names
}

// toldByPart reports whether only a subtest says why the test failed.
func (p *pkg) toldByPart(t *test) bool {
	return t.output.empty() && slices.ContainsFunc(p.failed,
		func(u *test) bool { return strings.HasPrefix(u.name, t.name+"/") })
}

func (p *pkg) running() []*test {
	running := slices.DeleteFunc(slices.Collect(maps.Values(p.tests)), func(t *test) bool { return t.paused })
	slices.SortFunc(running, func(a, b *test) int { return cmp.Compare(a.name, b.name) })
	return running
}

func count(n int, what string) string { return strings.TrimPrefix(more(n, what, "s"), ", ") }

func more(n int, what, plural string) string {
	switch n {
	case 0:
		if what == "test" {
			return "0 tests"
		}
		return ""
	case 1:
		plural = ""
	}
	return fmt.Sprintf(", %d %s%s", n, what, plural)
}

func (r *report) print(p *pkg) {
	fmt.Fprintf(r.out, "\n=== FAIL %s\n", p.name)
	if p.build != "" {
		if said := r.builds[p.build]; said != nil {
			said.print(r.out)
			delete(r.builds, p.build) // other packages lack it, too
		}
		fmt.Fprintf(r.out, "    not built: %s\n", p.build)
		return
	}
	if p.seed != "" {
		fmt.Fprintf(r.out, "    -shuffle=%s repeats the order of its tests.\n", p.seed)
	}
	fmt.Fprintf(r.out, "    The whole output: %s\n", p.log.Name())
	if !p.ended {
		fmt.Fprintln(r.out, "    It was stopped.")
	}
	for _, part := range append(p.races, p.crash) {
		part.print(r.out)
	}
	p.own.print(r.out)
	r.printTests(p)
}

func (r *report) printTests(p *pkg) {
	for _, t := range p.failed {
		if p.toldByPart(t) {
			continue
		}
		r.printTest(fmt.Sprintf("--- FAIL %s (%.2fs)", t.name, t.elapsed), t)
	}
	for _, t := range p.running() {
		r.printTest("--- NOT ENDED "+t.name, t)
	}
}

func (r *report) printTest(title string, t *test) {
	fmt.Fprintf(r.out, "\n%s\n", title)
	switch r.shown++; {
	case r.shown <= maxTests:
		t.output.print(r.out)
	case r.shown == maxTests+1:
		fmt.Fprintln(r.out, "    What this test and the next ones said is in the whole output.")
	}
}
