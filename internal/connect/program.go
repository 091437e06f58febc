package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/alecthomas/kong"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/text"
)

// Exit codes of the programs with a public port.
const (
	ExitEnded    = 0 // by a signal
	ExitFailed   = 1 // a port failed, or requests were left unanswered
	ExitSettings = 2 // wrong settings
)

// Server is a program with a public port.
type Server struct {
	Name, Version  string
	Settings       any          // for Parse
	Log            *LogSettings // is part of Settings
	Stdout, Stderr io.Writer
}

// Run reads the settings, calls serve and returns the exit code. An error of serve means that a setting is wrong.
func (s Server) Run(args []string, serve func(*kong.Context, *zap.Logger) (failed bool, err error)) int {
	language := text.LanguageOf(nil, os.Getenv)
	program := Program{Name: s.Name, Language: language}
	parsed, err := Parse(s.Settings, program, args, s.Stdout, s.Stderr, kong.Vars{"version": s.Version})
	failed := false
	if err == nil {
		logger := s.Log.Logger(s.Stderr)
		defer func() { _ = logger.Sync() }()
		failed, err = serve(parsed, logger)
	}
	switch {
	case errors.Is(err, ErrHelp):
	case err != nil:
		for line := range strings.Lines(text.In(language, err)) { // each wrong setting has a line of its own
			fmt.Fprintln(s.Stderr, s.Name+":", strings.TrimSpace(line))
		}
		return ExitSettings
	case failed:
		return ExitFailed
	}
	return ExitEnded
}

// Beside calls serve, and works until it has returned, even if ctx ends before: the last requests need the works.
func Beside(ctx context.Context, serve func(context.Context) error, works ...func(context.Context)) error {
	var working sync.WaitGroup
	defer working.Wait()
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	for _, one := range works {
		working.Go(func() { one(work) })
	}
	return serve(ctx)
}
