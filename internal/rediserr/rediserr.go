// Package rediserr says what an error of Redis means: whether repeating can help, or somebody must change something
// first.
package rediserr

import (
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"
)

// setupCodes are the beginnings of Redis errors that a repetition cannot cure. The last one is a text, because Redis
// sends no code if a script uses a command that its user may not use.
var setupCodes = []string{"WRONGPASS", "NOAUTH", "NOPERM", "WRONGTYPE", "The user executing the script can't"}

// Error is an error of Redis or of the network. Packages that do not import this one classify it through its methods.
type Error struct {
	error
	refused bool // Redis refuses the user or the command
}

func (e *Error) Unwrap() error { return e.error }

// Setup reports whether somebody must change settings, rights or keys before a repetition can succeed.
func (e *Error) Setup() bool {
	var wrong interface{ Setup() bool } // an error of package connect
	return e.refused || errors.As(e.error, &wrong) && wrong.Setup()
}

// Infrastructure reports the opposite of Setup.
func (e *Error) Infrastructure() bool { return !e.Setup() }

// RedisRefuses reports whether the user of Redis is wrong, lacks a right, or finds a foreign key. By this name package
// mysqltx recognises errors of Redis.
func (e *Error) RedisRefuses() bool { return e.refused }

// Classify wraps an error of a Redis client.
func Classify(err error) error {
	return &Error{err, slices.ContainsFunc(setupCodes,
		func(code string) bool { return redis.HasErrorPrefix(err, code) })}
}
