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
	// maxShutdownDelay is longer than any load balancer needs to notice.
	maxShutdownDelay = 5 * time.Minute
)

// Settings are the settings that every program with a public port has.
type Settings struct {
	UserRate       float64       `name:"user-rate" env:"USER_RATE" default:"5" placeholder:"N"`
	CORSOrigins    []string      `name:"cors-origins" env:"CORS_ORIGINS" placeholder:"URL,…"`
	MaxConnections int           `name:"max-connections" env:"MAX_CONNECTIONS" default:"16384" placeholder:"N"`
	ShutdownDelay  time.Duration `name:"shutdown-delay" env:"SHUTDOWN_DELAY" default:"5s" placeholder:"DURATION"`
}

func (s *Settings) Validate() error {
	var problems []error
	check := func(right bool, problem text.Message, args ...any) {
		if !right {
			problems = append(problems, text.UsageErrorf(problem, args...))
		}
	}
	check(s.ShutdownDelay >= 0 && s.ShutdownDelay <= maxShutdownDelay, text.WrongDelay, s.ShutdownDelay,
		maxShutdownDelay)
	for _, origin := range s.CORSOrigins {
		check(isOrigin(origin), text.WrongOrigin, origin)
	}
	check(s.UserRate == 0 || s.UserRate >= minUserRate && s.UserRate <= maxUserRate,
		text.WrongUserRate, s.UserRate, minUserRate, maxUserRate)
	check(s.MaxConnections >= 1 && s.MaxConnections <= maxConnections,
		text.WrongNumber, "MAX_CONNECTIONS", s.MaxConnections, maxConnections)
	return errors.Join(problems...)
}

const ownFiles = 128 // open files kept for the admin port, the listeners, the log and the Go runtime

// FitOpenFiles makes MaxConnections fit the limit of open files: a process without free files cannot answer operators
// and cannot reconnect. A default that is too high is lowered; a setting that is too high is an error. toServers is how
// many connections the process has to MySQL and Redis; streams is MAX_STREAMS, or nil. It returns how many surplus
// connections get 503.
func (s *Settings) FitOpenFiles(parsed *kong.Context, toServers int, streams *int,
	logger *zap.Logger) (surplus int, err error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, text.Errorf(text.OpenFilesUnknown, err)
	}
	kept := ownFiles + toServers
	left := int(min(limit.Cur, 10*maxConnections)) - kept // limit.Cur may be infinite
	if streams != nil {
		most := s.mostStreams(parsed, left)
		switch {
		case *streams <= most:
		case most < 1:
			return 0, text.UsageErrorf(text.TooFewOpenFiles, limit.Cur, kept, kept+4*minSurplus)
		case given(parsed, "max-streams", "MAX_STREAMS"):
			return 0, text.UsageErrorf(text.TooManyStreams, *streams, limit.Cur, kept, most)
		default:
			logger.Warn("MAX_STREAMS lowered to fit the limit of open files; raise the limit (ulimit -n, LimitNOFILE)",
				zap.Int("max_streams", most), zap.Int("default", *streams), zap.Uint64("open_files_limit", limit.Cur),
				zap.Int("kept", kept))
			*streams = most
		}
		taken := *streams + SurplusStreams(*streams)
		kept, left = kept+taken, left-taken
	}
	limited, surplus := fit(left, s.MaxConnections)
	switch {
	case limited < 1:
		return 0, text.UsageErrorf(text.TooFewOpenFiles, limit.Cur, kept, kept+2*surplus)
	case limited == s.MaxConnections:
	case given(parsed, "max-connections", "MAX_CONNECTIONS"):
		return 0, text.UsageErrorf(text.TooManyConnections, s.MaxConnections, limit.Cur, kept, limited)
	default:
		logger.Warn("MAX_CONNECTIONS lowered to fit the limit of open files; raise the limit (ulimit -n, LimitNOFILE)",
			zap.Int("max_connections", limited), zap.Int("default", s.MaxConnections),
			zap.Uint64("open_files_limit", limit.Cur), zap.Int("kept", kept))
		s.MaxConnections = limited
	}
	return surplus, nil
}

// mostStreams returns how many of the open files that are left are for streams: half of them, or what a given
// MAX_CONNECTIONS leaves.
func (s *Settings) mostStreams(parsed *kong.Context, left int) int {
	files := (left - 1) / 2
	others := left - s.MaxConnections - minSurplus
	if given(parsed, "max-connections", "MAX_CONNECTIONS") && others > streamsPerSurplus {
		files = others
	}
	return files * streamsPerSurplus / (streamsPerSurplus + 1)
}

// streamsPerSurplus is how many streams allow one more connection, on which a client gets one state and comes back
// later.
const streamsPerSurplus = 16

// SurplusStreams returns how many connections the live port serves beyond its streams: at least one, so that clients
// for whom there is no room get the present state.
func SurplusStreams(streams int) int { return max(1, streams/streamsPerSurplus) }

func given(parsed *kong.Context, flag, env string) bool {
	_, set := os.LookupEnv(env)
	return set || slices.ContainsFunc(parsed.Path,
		func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == flag })
}
