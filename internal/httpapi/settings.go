package httpapi

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/text"
)

// Settings have bounds, so that a mistyped number does not switch a limit off.
const (
	minUserRate    = 0.001
	maxUserRate    = 1_000_000
	maxConnections = 1_000_000
)

// Settings are the settings that every program with a public port has.
type Settings struct {
	UserRate       float64       `name:"user-rate" env:"USER_RATE" default:"5" placeholder:"N"`
	MaxConnections int           `name:"max-connections" env:"MAX_CONNECTIONS" default:"16384" placeholder:"N"`
	ShutdownDelay  time.Duration `name:"shutdown-delay" env:"SHUTDOWN_DELAY" default:"5s" placeholder:"DURATION"`
	ShutdownGrace  time.Duration `name:"shutdown-grace" env:"SHUTDOWN_GRACE" default:"25s" placeholder:"DURATION"`
}

func (s *Settings) Validate() error {
	var problems []error
	check := func(right bool, problem text.Message, args ...any) {
		if !right {
			problems = append(problems, text.UsageErrorf(problem, args...))
		}
	}
	check(s.ShutdownGrace > 0, text.WrongGrace, s.ShutdownGrace)
	check(s.ShutdownDelay >= 0 && (s.ShutdownDelay < s.ShutdownGrace || s.ShutdownGrace <= 0),
		text.WrongDelay, s.ShutdownDelay, s.ShutdownGrace)
	check(s.UserRate == 0 || s.UserRate >= minUserRate && s.UserRate <= maxUserRate,
		text.WrongUserRate, s.UserRate, minUserRate, maxUserRate)
	check(s.MaxConnections >= 1 && s.MaxConnections <= maxConnections,
		text.WrongNumber, "MAX_CONNECTIONS", s.MaxConnections, maxConnections)
	return errors.Join(problems...)
}

const ownFiles = 128 // open files kept for the admin port, the listeners, the log and the Go runtime

// FitOpenFiles makes MaxConnections fit the limit of open files: a process without free files cannot answer operators and
// cannot reconnect. A default that is too high is lowered; a setting that is too high is an error. toServers is how many
// connections the process has to MySQL and Redis. It returns how many surplus connections get 503.
func (s *Settings) FitOpenFiles(parsed *kong.Context, toServers int, logger *zap.Logger) (surplus int, err error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, text.Errorf(text.OpenFilesUnknown, err)
	}
	kept := ownFiles + toServers
	left := int(min(limit.Cur, 10*maxConnections)) - kept // limit.Cur may be infinite
	limited, surplus := fit(left, s.MaxConnections)
	switch {
	case limited < 1:
		return 0, text.UsageErrorf(text.TooFewOpenFiles, limit.Cur, kept, kept+2*surplus)
	case limited == s.MaxConnections:
	case connectionsGiven(parsed):
		return 0, text.UsageErrorf(text.TooManyConnections, s.MaxConnections, limit.Cur, kept, limited)
	default:
		logger.Warn("MAX_CONNECTIONS lowered to fit the limit of open files; raise the limit (ulimit -n, LimitNOFILE)",
			zap.Int("max_connections", limited), zap.Int("default", s.MaxConnections), zap.Uint64("open_files_limit", limit.Cur), zap.Int("kept", kept))
		s.MaxConnections = limited
	}
	return surplus, nil
}

func connectionsGiven(parsed *kong.Context) bool {
	_, set := os.LookupEnv("MAX_CONNECTIONS")
	return set || slices.ContainsFunc(parsed.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == "max-connections" })
}
