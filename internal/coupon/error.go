package coupon

// Error is an error of a known class. Its text is that of Err, which says what to do where that is not plain.
type Error struct {
	Class Class
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }
