package candidates

import (
	"errors"

	"github.com/redis/go-redis/v9"
)

// setupCodes are what Redis answers first when repeating cannot help: the wrong password, a user without the rights,
// a key that something else has taken. The codes are part of its protocol.
var setupCodes = []string{"WRONGPASS", "NOAUTH", "NOPERM", "WRONGTYPE"}

// SetupError is an error of Redis that repeating cannot cure.
type SetupError struct{ err error }

func (e *SetupError) Error() string { return e.err.Error() }
func (e *SetupError) Unwrap() error { return e.err }

// Setup tells packages that do not know this one.
func (e *SetupError) Setup() bool { return true }

// classify marks the errors that repeating cannot cure.
func classify(err error) error {
	for _, code := range setupCodes {
		if redis.HasErrorPrefix(err, code) {
			return &SetupError{err}
		}
	}
	return err
}

// IsSetup says whether repeating cannot cure an error.
func IsSetup(err error) bool {
	var setup *SetupError
	return errors.As(err, &setup)
}
