package candidates

import (
	"slices"

	"github.com/redis/go-redis/v9"
)

// setupCodes begin errors of Redis that a repetition cannot cure: a wrong password, missing rights, or a key of another type.
// The last one has no code: a script used a command that its user may not use.
var setupCodes = []string{"WRONGPASS", "NOAUTH", "NOPERM", "WRONGTYPE", "The user executing the script can't"}

// Error is an error of Redis or of the network. Its methods classify it for packages that do not import this one.
type Error struct {
	error
	setup bool
}

func (e *Error) Unwrap() error { return e.error }

// Setup reports that a repetition cannot cure the error; otherwise it may.
func (e *Error) Setup() bool          { return e.setup }
func (e *Error) Infrastructure() bool { return !e.setup }

// RedisRefuses reports that Redis refused the command.
func (e *Error) RedisRefuses() bool { return e.setup }

func classify(err error) error {
	return &Error{err, slices.ContainsFunc(setupCodes, func(code string) bool { return redis.HasErrorPrefix(err, code) })}
}
