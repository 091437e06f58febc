package candidates

import "github.com/redis/go-redis/v9"

// setupCodes begin errors of Redis that a repetition cannot cure: a wrong password, missing rights, or a key of another type.
// The last one has no code: a script used a command that its user may not use.
var setupCodes = []string{"WRONGPASS", "NOAUTH", "NOPERM", "WRONGTYPE", "The user executing the script can't"}

// SetupError is an error of Redis that a repetition cannot cure.
type SetupError struct{ err error }

func (e *SetupError) Error() string { return e.err.Error() }
func (e *SetupError) Unwrap() error { return e.err }

// Setup classifies the error for packages that do not import this one.
func (e *SetupError) Setup() bool { return true }

// RedisRefuses says that the error comes from Redis.
func (e *SetupError) RedisRefuses() bool { return true }

// ServerError is an error of Redis or of the network that a repetition may cure.
type ServerError struct{ err error }

func (e *ServerError) Error() string { return e.err.Error() }
func (e *ServerError) Unwrap() error { return e.err }

// Infrastructure classifies the error for packages that do not import this one.
func (e *ServerError) Infrastructure() bool { return true }

func classify(err error) error {
	for _, code := range setupCodes {
		if redis.HasErrorPrefix(err, code) {
			return &SetupError{err}
		}
	}
	return &ServerError{err}
}
