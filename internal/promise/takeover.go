package promise

import (
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/text"
)

// ErrTakenOver ends work during which another Redis server took over, or the state of the coupon was lost. Nothing is
// lost by doing it again.
var ErrTakenOver = &coupon.Error{Class: coupon.Infrastructure, Err: text.Errorf(text.ServerReplaced)}
