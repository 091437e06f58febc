// Command gotest runs a `go test` command and ends with what failed:
//
//	gotest [-logs FOLDER] go test -race -shuffle=on ./...
//
// It prints the line of each package when the package has ended. After the last one it prints, for each failed
// package, the seed of its order (-shuffle), the last lines of each failed test, panics without the goroutines that
// are in no test, data races and errors of the compiler. The whole output of each package stays in FOLDER. The
// last lines name each failed test and count the tests in the words of gotestsum. The exit code is that of the command.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("gotest", flag.ContinueOnError)
	flags.SetOutput(stderr)
	logs := flags.String("logs", "bin/tests", "folder for the whole output of each package")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	words := slices.Clone(flags.Args())
	at := slices.Index(words, "test")
	if at < 1 {
		fmt.Fprintln(stderr, "gotest: want a command: go test …")
		return 2
	}
	r := &report{out: stdout, logs: *logs, packages: map[string]*pkg{}, builds: map[string]*tail{}}
	began := time.Now()
	err := r.follow(exec.Command(words[0], slices.Insert(words[1:], at, "-json")...), stderr)
	r.finish(time.Since(began))
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed):
		return max(failed.ExitCode(), 1) // -1 after a signal
	case err != nil:
		fmt.Fprintln(stderr, "gotest:", err)
		return 1
	case len(r.failures) > 0:
		return 1
	}
	return 0
}

// follow runs the command and reads its events. A signal goes on to the command, so that the report says what was
// running.
func (r *report) follow(command *exec.Cmd, stderr io.Writer) error {
	command.Stderr = stderr
	events, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := command.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case s := <-signals:
				_ = command.Process.Signal(s)
			case <-done:
				return
			}
		}
	}()
	readErr := r.read(events)
	return errors.Join(command.Wait(), readErr)
}

// read reads all events, also after an error: the command would wait for a reader. It returns the first error.
func (r *report) read(events io.Reader) (failed error) {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				fmt.Fprintf(r.out, "%s", line) // of go itself
			} else {
				failed = cmp.Or(failed, r.add(e))
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return failed
		case err != nil:
			return cmp.Or(failed, err)
		}
	}
}
