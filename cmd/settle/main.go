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

// version is set when a release is built.
var version = "dev"

// Few garbage collections run below the soft memory limit. GOGC and GOMEMLIMIT in the environment take precedence.
const (
	gcPercent       = 400
	softMemoryLimit = 64 << 20
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
	}))
}
