package main

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/text"
)

// Settings have bounds, so that a mistyped number does not switch a limit off.
const (
	minUserRate    = 0.001
	maxUserRate    = 1_000_000
	maxConnections = 1_000_000
)

type settings struct {
	MySQL      connect.MySQLSettings `embed:""`
	Redis      connect.RedisSettings `embed:""`
	Log        connect.LogSettings   `embed:""`
	Candidates candidates.Options    `embed:""`
	Issue      connect.IssueSettings `embed:""`

	Listen         string           `name:"apply-listen" env:"APPLY_LISTEN" default:":8080" placeholder:"HOST:PORT"`
	AdminListen    string           `name:"apply-admin-listen" env:"APPLY_ADMIN_LISTEN" default:":9090" placeholder:"HOST:PORT"`
	TimeZone       string           `name:"settle-time-zone" env:"SETTLE_TIME_ZONE" default:"Asia/Seoul"`
	UserRate       float64          `name:"user-rate" env:"USER_RATE" default:"5" placeholder:"N"`
	MaxInFlight    int              `name:"max-in-flight" env:"MAX_IN_FLIGHT" default:"4096" placeholder:"N"`
	MaxConnections int              `name:"max-connections" env:"MAX_CONNECTIONS" default:"16384" placeholder:"N"`
	ShutdownDelay  time.Duration    `name:"shutdown-delay" env:"SHUTDOWN_DELAY" default:"5s" placeholder:"DURATION"`
	ShutdownGrace  time.Duration    `name:"shutdown-grace" env:"SHUTDOWN_GRACE" default:"25s" placeholder:"DURATION"`
	Version        kong.VersionFlag `name:"version"`

	zone *time.Location `kong:"-"` // the location named TimeZone; set by Validate
}

func (s *settings) Validate() error {
	var err error
	s.zone, err = time.LoadLocation(s.TimeZone)
	problems := []error{connect.CheckListen("APPLY_LISTEN", s.Listen), connect.CheckListen("APPLY_ADMIN_LISTEN", s.AdminListen)}
	check := func(right bool, problem text.Message, args ...any) {
		if !right {
			problems = append(problems, text.UsageErrorf(problem, args...))
		}
	}
	check(err == nil && s.TimeZone != "" && s.TimeZone != "Local", text.WrongTimeZone, s.TimeZone)
	check(s.ShutdownGrace > 0, text.WrongGrace, s.ShutdownGrace)
	check(s.ShutdownDelay >= 0 && (s.ShutdownDelay < s.ShutdownGrace || s.ShutdownGrace <= 0),
		text.WrongDelay, s.ShutdownDelay, s.ShutdownGrace)
	check(s.UserRate == 0 || s.UserRate >= minUserRate && s.UserRate <= maxUserRate,
		text.WrongUserRate, s.UserRate, minUserRate, maxUserRate)
	check(s.MaxInFlight >= 1 && s.MaxInFlight <= maxConnections, text.WrongNumber, "MAX_IN_FLIGHT", s.MaxInFlight, maxConnections)
	check(s.MaxConnections >= 1 && s.MaxConnections <= maxConnections,
		text.WrongNumber, "MAX_CONNECTIONS", s.MaxConnections, maxConnections)
	return errors.Join(problems...)
}

const ownFiles = 128 // open files kept for the admin port, the listeners, the log and the Go runtime

func connectionsGiven(parsed *kong.Context) bool {
	_, set := os.LookupEnv("MAX_CONNECTIONS")
	return set || slices.ContainsFunc(parsed.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == "max-connections" })
}

// fitConnections makes MaxConnections fit the limit of open files: a process without free files cannot answer operators
// and cannot reconnect. A default that is too high is lowered; a setting that is too high is an error.
func (s *settings) fitConnections(given bool, logger *zap.Logger) (surplus int, err error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, text.Errorf(text.OpenFilesUnknown, err)
	}
	kept := ownFiles + s.Redis.Connections() + s.MySQL.Connections()
	left := int(min(limit.Cur, 10*maxConnections)) - kept // limit.Cur may be infinite
	limited, surplus := api.Fit(left, s.MaxConnections)
	switch {
	case limited < 1:
		return 0, text.UsageErrorf(text.TooFewOpenFiles, limit.Cur, kept, kept+2*surplus)
	case limited == s.MaxConnections:
	case given:
		return 0, text.UsageErrorf(text.TooManyConnections, s.MaxConnections, limit.Cur, kept, limited)
	default:
		logger.Warn("MAX_CONNECTIONS lowered to fit the limit of open files; raise the limit (ulimit -n, LimitNOFILE)",
			zap.Int("max_connections", limited), zap.Int("default", s.MaxConnections), zap.Uint64("open_files_limit", limit.Cur), zap.Int("kept", kept))
		s.MaxConnections = limited
	}
	return surplus, nil
}
