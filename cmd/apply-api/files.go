package main

import (
	"fmt"
	"os"
	"syscall"

	"github.com/alecthomas/kong"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/api"
)

// ownFiles are kept beside the connections of applicants and those to Redis and MySQL: for the admin port, which probes,
// scrapes and profiles ask, for the ports themselves, the log and what the runtime opens.
const ownFiles = 128

// connectionsFlag is MAX_CONNECTIONS on the command line.
const connectionsFlag = "max-connections"

// given says whether somebody chose MAX_CONNECTIONS.
func given(parsed *kong.Context) bool {
	for _, p := range parsed.Path {
		if p.Flag != nil && p.Flag.Name == connectionsFlag {
			return true
		}
	}
	_, set := os.LookupEnv("MAX_CONNECTIONS")
	return set
}

// fitConnections makes the connections of applicants fit below the limit of open files: without a file left, nobody would be
// answered on the admin port, and neither Redis nor MySQL be reached again. A number that somebody chose is not lowered, but
// refused.
func (s *settings) fitConnections(chosen bool, logger *zap.Logger) (more int, err error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("read the limit of open files: %w", err)
	}
	kept := ownFiles + s.Redis.Connections() + s.MySQL.Connections()
	left := int(min(limit.Cur, 10*mostConnections)) - kept // it may be infinite
	most, more := api.Fit(left, s.MaxConnections)
	switch {
	case most < 1:
		return 0, fmt.Errorf("this process may open %d files, and %d of them are kept for Redis, MySQL and the admin port: raise the limit (ulimit -n, LimitNOFILE) to %d or more", limit.Cur, kept, kept+2*more)
	case most == s.MaxConnections:
	case chosen:
		return 0, fmt.Errorf("MAX_CONNECTIONS is %d, but this process may open %d files, and %d of them are kept for Redis, MySQL and the admin port: want at most %d, or raise the limit (ulimit -n, LimitNOFILE)", s.MaxConnections, limit.Cur, kept, most)
	default:
		logger.Warn("MAX_CONNECTIONS is lowered to what the limit of open files leaves: raise the limit (ulimit -n, LimitNOFILE)",
			zap.Int("max_connections", most), zap.Int("default", s.MaxConnections), zap.Uint64("open_files_limit", limit.Cur), zap.Int("kept", kept))
		s.MaxConnections = most
	}
	return more, nil
}
