package candidates

import "github.com/redis/go-redis/v9"

// setupCodes are what Redis answers first when repeating cannot help: the wrong password, a user without the rights,
// a key that something else has taken. The codes are part of its protocol.
var setupCodes = []string{"WRONGPASS", "NOAUTH", "NOPERM", "WRONGTYPE", notInScripts}

// notInScripts begins the answer to a script that calls what its user may not: Redis has no code for it but ERR.
const notInScripts = "The user executing the script can't"

// SetupError is an error of Redis that repeating cannot cure.
type SetupError struct{ err error }

func (e *SetupError) Error() string { return e.err.Error() }
func (e *SetupError) Unwrap() error { return e.err }

// Setup tells packages that do not know this one.
func (e *SetupError) Setup() bool { return true }

// RedisRefuses tells them whose fault it is.
func (e *SetupError) RedisRefuses() bool { return true }

// ServerError is an error of Redis or of the way there, which repeating may cure.
type ServerError struct{ err error }

func (e *ServerError) Error() string { return e.err.Error() }
func (e *ServerError) Unwrap() error { return e.err }

// Infrastructure tells packages that do not know this one.
func (e *ServerError) Infrastructure() bool { return true }

// classify tells the errors that repeating cannot cure from the others.
func classify(err error) error {
	if err == nil {
		return nil
	}
	for _, code := range setupCodes {
		if redis.HasErrorPrefix(err, code) {
			return &SetupError{err}
		}
	}
	return &ServerError{err}
}
