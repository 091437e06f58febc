// Command settle settles the applications for coupons, at midnight or by hand, and verifies the result.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/jajeong/jajeong/internal/cli"
	"github.com/jajeong/jajeong/internal/connect"
)

var version = "dev" // set by -ldflags "-X main.version=…"

// Garbage collection is rare until the heap nears the soft memory limit. GOGC and GOMEMLIMIT override these values.
const (
	gcPercent       = 400
	softMemoryLimit = 44 << 20 // bytes
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softMemoryLimit)
	}
	connect.LogRedis((&connect.LogSettings{LogLevel: "warn"}).Logger(os.Stderr))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
	os.Exit(cli.Run(ctx, cli.Process{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Version: version, Now: time.Now,
		Grace: cli.Grace,
	}))
}
